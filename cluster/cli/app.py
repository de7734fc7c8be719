"""The command line: its commands, and how errors become a sentence and an exit status (D-36).

A command's module is imported when the first word of the command line is its name: most need a small part of levrier, and
whoever asks a node should not wait for the simulator to load. Any other first word but `--version` loads them all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import typer

from levrier.cluster.cli.asking import asks
from levrier.cluster.cli.complaints import complaint
from levrier.cluster.cli.output import CommandFailed, Exit, say
from levrier.cluster.client import ClientError, Disconnected
from levrier.cluster.refused import Refused
from levrier.cluster.version import VERSION
from levrier.persistence.errors import DirectoryInUse, DirectoryUnusable, NotADirectory, StorageError
from levrier.wire.errors import WireError


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"levrier {VERSION}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(
        False, "--version", metavar="", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """A metadata node that speaks the Apache Iggy protocol: serve it, ask it, look into its files."""


Register = Callable[[typer.Typer, str, Any, bool], None]
"""Adds what a module has for a name, listed or hidden."""


def _plain(app: typer.Typer, name: str, command: Any, hidden: bool) -> None:
    app.command(name, hidden=hidden)(command)


def _group(app: typer.Typer, name: str, commands: Any, hidden: bool) -> None:
    app.add_typer(commands, name=name, hidden=hidden)


def _asking(app: typer.Typer, name: str, command: Any, hidden: bool) -> None:
    asks(app, name, hidden=hidden)(command)


def _asking_with_password(app: typer.Typer, name: str, command: Any, hidden: bool) -> None:
    asks(app, name, hidden=hidden, with_token=False)(command)


@dataclass(frozen=True, slots=True)
class _Command:
    """A command or a group of them: what `module` of this package calls `attribute`."""

    name: str
    module: str
    attribute: str
    register: Register
    alias: str | None = None
    """Its name in Iggy's own tool, which works too and is not listed."""


_COMMANDS: Final = (
    _Command("serve", "serve", "serve", _plain),
    _Command("status", "status", "status", _asking),
    _Command("history", "history", "history", _asking),
    _Command("streams", "catalogue", "streams", _group, "stream"),
    _Command("topics", "catalogue", "topics", _group, "topic"),
    _Command("partitions", "partitions", "partitions", _group, "partition"),
    _Command("segments", "partitions", "segments", _group, "segment"),
    _Command("groups", "groups", "groups", _group, "consumer-group"),
    _Command("users", "users", "users", _group, "user"),
    _Command("permissions", "permissions", "permissions", _group),
    _Command("tokens", "tokens", "tokens", _group, "pat"),
    _Command("clients", "clients", "clients", _group, "client"),
    _Command("cluster", "node_facts", "cluster", _group),
    _Command("me", "clients", "me", _asking),
    _Command("plugins", "plugins", "plugins", _asking),
    _Command("stats", "node_facts", "stats", _asking),
    _Command("options", "node_facts", "describe_options", _asking),
    _Command("snapshot-file", "node_facts", "snapshot_file", _asking, "snapshot"),
    _Command("inspect", "inspect", "inspect", _group),
    _Command("recover", "recover", "recover", _plain),
    _Command("bench", "bench", "bench", _asking_with_password),
    _Command("dev", "dev", "dev", _plain),
    _Command("demo", "demo", "demo", _plain),
    _Command("simulate", "simulate", "simulate", _plain),
)


def command_line(wanted: str = "") -> typer.Typer:
    """The command line that knows the command `wanted`, or all commands if there is none of that name; none for the version."""
    app = typer.Typer(
        name="levrier",
        help="A metadata node that speaks the Apache Iggy protocol: serve it, ask it, look into its files.",
        epilog="First steps: `levrier serve`, and in another terminal `levrier streams create orders`. The names of Iggy's own "
        "tool work too: stream, topic, partition, segment, consumer-group, user, pat, client, snapshot.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    chosen = [each for each in _COMMANDS if wanted and wanted in {each.name, each.alias}]
    for each in () if wanted == "--version" else chosen or _COMMANDS:
        command = getattr(import_module(f"levrier.cluster.cli.{each.module}"), each.attribute)
        each.register(app, each.name, command, False)
        if each.alias is not None:
            each.register(app, each.alias, command, True)
    return app


_STATUSES: Final[tuple[tuple[type[Exception], Exit], ...]] = (
    (DirectoryInUse, Exit.COULD_NOT_ASK),
    (DirectoryUnusable, Exit.COULD_NOT_ASK),
    (NotADirectory, Exit.COULD_NOT_ASK),
    (Disconnected, Exit.COULD_NOT_ASK),
    (WireError, Exit.COULD_NOT_ASK),
    (ClientError, Exit.BAD),
    (StorageError, Exit.BAD),
)
"""The status of each kind of error that a user can cause and that has none of its own; the first that fits counts."""


def run(arguments: list[str]) -> int:
    """Run one command line; its exit status. Nothing a user can cause ends in a traceback."""
    try:
        command_line(arguments[0] if arguments else "")(arguments, prog_name="levrier")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(Exit.GOOD)
    except (CommandFailed, Refused) as error:
        say(f"levrier: {error}")
        return int(error.status)
    except tuple(kind for kind, _ in _STATUSES) as error:
        say(f"levrier: {complaint(error) if isinstance(error, ClientError) else error}")
        return int(next(status for kind, status in _STATUSES if isinstance(error, kind)))
    return int(Exit.GOOD)
