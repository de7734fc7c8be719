"""`levrier serve`: one node in this process, until a signal or its own failure ends it."""

import gc
import os
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from loguru import logger

from levrier.actors.runtime import FatalReason
from levrier.cluster.address import Address
from levrier.cluster.cli.output import CommandFailed, Exit
from levrier.cluster.config import NodeConfig, RootUser
from levrier.cluster.config_file import FileConfig, load, plugin_setups, with_flags
from levrier.cluster.figures import RecentLog
from levrier.cluster.node import Node

LOG_FORMAT = "{time:YYYY-MM-DDTHH:mm:ss.SSS!UTC}Z {level: <7} {name}: {message}"
ENDING_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT})
SWITCH_INTERVAL_SECONDS = 0.001
"""How long one thread may keep the interpreter while another wants it. The default of 5 ms is longer than a whole write."""
YOUNG_OBJECTS_MAX = 1_000
"""Objects made and kept after which the youngest are looked through for cycles: below a millisecond."""
YOUNG_COLLECTIONS_MAX = 4
"""Such collections after which the survivors of all of them are looked through once more."""
FULL_COLLECTION_AFTER = 10_000
"""Such second looks after which everything since the start is looked through: some 60 million objects made and kept."""


DataOption = Annotated[
    Path | None, typer.Option("--data", "-d", metavar="DIR", help="Where its files lie.", show_default="levrier-data")
]
ListenOption = Annotated[
    str | None,
    typer.Option(
        "--listen",
        "-l",
        metavar="HOST:PORT",
        help="Where clients connect; port 0 takes a free one.",
        show_default="127.0.0.1:8090",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-f", metavar="FILE", help="The configuration of the node, or of its whole cluster."),
]
ReplicaOption = Annotated[
    int | None, typer.Option("--replica-id", "-r", metavar="N", min=0, help="Which of the nodes in FILE this one is.")
]
CertificateOption = Annotated[
    Path | None,
    typer.Option("--tls-certificate", metavar="FILE", help="Serve clients over TLS: the chain, leaf first, PEM."),
]
KeyOption = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of that certificate, PEM, not encrypted.")
]
LevelOption = Annotated[str, typer.Option("--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")]


def serve(
    *,
    data: DataOption = None,
    listen: ListenOption = None,
    config_file: ConfigOption = None,
    replica_id: ReplicaOption = None,
    log_level: LevelOption = "INFO",
    tls_certificate: CertificateOption = None,
    tls_key: KeyOption = None,
) -> None:
    """Serve one node, alone or as a member of the cluster that a configuration file describes.

    When it serves, one line on stdout says so: `ready tcp=HOST:PORT http=- data=DIR pid=N`. Logs go to stderr. SIGTERM or
    Ctrl-C ends it with status 0; what it had acknowledged is kept.

    The first user is taken from IGGY_ROOT_USERNAME and IGGY_ROOT_PASSWORD (or IGGY_ROOT_PASSWORD_FILE) at the first
    start. Without them it is iggy / iggy, and only a loopback address may be listened on.

    Examples:

    `levrier serve`

    `levrier serve --data /var/lib/levrier --listen 0.0.0.0:8090`

    `levrier serve --tls-certificate node.pem --tls-key node.key`

    `levrier serve --config cluster.toml --replica-id 0`
    """
    recent_log = _log_to_stderr(log_level)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    found = _configured(config_file, replica_id)
    found = with_flags(found, data=data, listen=Address.parse(listen) if listen is not None else None)
    config = replace(found.node, root=root_user(os.environ))
    if tls_certificate is None and tls_key is None:
        tls_certificate, tls_key = found.client_certificate, found.client_key
    warn_of_open_links(config)
    _open_as_many_files_as_allowed()
    with noted(ENDING_SIGNALS) as arrived:
        node = Node(
            config,
            on_failure=_die,
            use_uvloop=True,
            recent_log=recent_log.lines,
            client_tls=client_tls(tls_certificate, tls_key),
        )
        tame_collector()
        sys.stdout.write(f"ready tcp={node.address} http=- data={config.data.absolute()} pid={os.getpid()}\n")
        sys.stdout.flush()
        arrived.recv(1)
        logger.info("asked to end")
        node.stop()
        logger.info("ended")
        _leave()


@contextmanager
def noted(signals: Collection[signal.Signals]) -> Iterator[socket.socket]:
    """Note each of these signals as a byte, its number, in the socket: none is missed, whoever waits or does not wait for it.

    A handler that sets an event could run in the moment in which the wait for that event begins, and nobody would wake it.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before = {number: signal.signal(number, lambda _number, _frame: None) for number in signals}
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        reader.close()
        writer.close()


def _configured(file: Path | None, replica: int | None) -> FileConfig:
    """What the file and the environment say; without a file, one node with the defaults."""
    if file is not None:
        return load(file, environment=os.environ, replica=replica)
    if replica is not None:
        raise CommandFailed("--replica-id names a node of a configuration: give --config too", Exit.COULD_NOT_ASK)
    running, others = plugin_setups({})
    return FileConfig(node=NodeConfig(plugins=running, other_plugins=others), client_certificate=None, client_key=None)


def warn_of_open_links(config: NodeConfig) -> None:
    """Whoever reaches a replica port without a secret can speak as a member."""
    if config.replica_count == 1 or config.security.secret is not None or config.security.certificate is not None:
        return
    address = config.roster[config.replica].replica_address
    if not address.is_loopback:
        logger.warning(
            "the replica port {} has no shared secret and no TLS: whoever reaches it counts as a member and can change "
            "everything; end all members, set cluster.shared_secret_file on each, and start them again",
            address,
        )


def root_user(environment: Mapping[str, str]) -> RootUser | None:
    """The configured first user, None when nobody configured one. Raises `CommandFailed` for half a configuration."""
    username = environment.get("IGGY_ROOT_USERNAME")
    password = environment.get("IGGY_ROOT_PASSWORD")
    file = environment.get("IGGY_ROOT_PASSWORD_FILE")
    if password is not None and file is not None:
        raise CommandFailed(
            "IGGY_ROOT_PASSWORD and IGGY_ROOT_PASSWORD_FILE are both set: unset one", Exit.COULD_NOT_ASK
        )
    if file is not None:
        try:
            password = Path(file).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandFailed(f"IGGY_ROOT_PASSWORD_FILE: {error}", Exit.COULD_NOT_ASK) from error
    if password is None:
        if username is not None:
            raise CommandFailed("IGGY_ROOT_USERNAME is set without IGGY_ROOT_PASSWORD: set both", Exit.COULD_NOT_ASK)
        return None
    return RootUser(username=username if username is not None else "iggy", password=password)


def client_tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """How clients are served; None for plain TCP. Raises `CommandFailed` for half a pair and for files that do not do."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise CommandFailed("--tls-certificate and --tls-key belong together: give both", Exit.COULD_NOT_ASK)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_passphrase)
    except OSError as error:  # An SSLError is one; its text helps nobody.
        unfit = isinstance(error, ssl.SSLError)
        reason = "no PEM certificate with its unencrypted PEM key" if unfit else error.strerror
        message = f"--tls-certificate {certificate}, --tls-key {key}: {reason}"
        raise CommandFailed(message, Exit.COULD_NOT_ASK) from error
    return context


def _no_passphrase() -> str:
    """Nobody is asked on a terminal: an encrypted key is refused."""
    return ""


def _log_to_stderr(level: str) -> RecentLog:
    recent = RecentLog()
    logger.remove()
    try:
        for sink in (sys.stderr, recent.keep):
            logger.add(sink, level=level.upper(), format=LOG_FORMAT, backtrace=False, diagnose=False)
    except ValueError as error:
        message = f"log level {level!r}: DEBUG, INFO, WARNING or ERROR is expected"
        raise CommandFailed(message, Exit.COULD_NOT_ASK) from error
    return recent


def _open_as_many_files_as_allowed() -> None:
    """Each connection is an open file; the usual soft limit of 1024 is there for programs of another kind."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def tame_collector() -> None:
    """What boot built stays for the life of the process, and messages die by reference count: look for cycles in small bites.

    A collection holds every thread, and each object that it walks costs it about a microsecond. What a growing catalogue or
    a filling log keeps is young in the end, so the thresholds bound what one collection of the young walks. A full one walks
    all that came since; it stays as rare as it may be with the standard event loop, whose transports are cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, YOUNG_COLLECTIONS_MAX, FULL_COLLECTION_AFTER)


def _leave() -> None:
    """Everything is on disk and every thread has ended. Giving a large catalogue back object by object takes many seconds."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _die(reason: FatalReason) -> None:
    """The node knows that it is wrong: end at once, before anything more can leave it. The reason is logged already."""
    sys.stderr.flush()
    os._exit(reason.status)
