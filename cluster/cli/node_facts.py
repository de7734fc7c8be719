"""What a node tells about itself: `levrier stats`, `options`, `snapshot-file` and `cluster metadata`."""

import os
from dataclasses import asdict, fields
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from levrier.cluster.cli.asking import Asking, asks
from levrier.cluster.cli.option_values import shown_value
from levrier.cluster.cli.output import (
    CommandFailed,
    Exit,
    Instant,
    Quantity,
    Size,
    print_done,
    print_json,
    print_record,
    print_rows,
    say,
)
from levrier.cluster.cli.secrets_given import reason
from levrier.wire.codes import OptionScope
from levrier.wire.options import KIND_BOOL, KIND_RAW, KIND_STRING, KIND_UINT8, KIND_UINT32, KIND_UINT64, OptionEntry
from levrier.wire.responses.system import Stats

cluster = typer.Typer(help="The cluster: metadata.", no_args_is_help=True)

_KEPT: Final = "--force replaces it, --output names another file"
ARCHIVE: Final = Path("levrier-snapshot.zip")

_KINDS: Final = {
    KIND_RAW: "bytes",
    KIND_STRING: "string",
    KIND_BOOL: "bool",
    KIND_UINT8: "uint8",
    KIND_UINT32: "uint32",
    KIND_UINT64: "uint64",
}
_ROLES: Final = {0: "leader", 1: "follower"}
_STATUSES: Final = {0: "healthy", 1: "starting", 2: "stopping", 3: "unreachable", 4: "maintenance"}
_SIZES: Final = frozenset(
    {
        "memory_usage",
        "total_memory",
        "available_memory",
        "read_bytes",
        "written_bytes",
        "messages_size_bytes",
        "free_disk_space",
        "total_disk_space",
    }
)

assert {field.name for field in fields(Stats)} >= _SIZES


class Scope(StrEnum):
    """What has options."""

    TOPIC = "topic"
    STREAM = "stream"
    USER = "user"


class Compression(StrEnum):
    """How a diagnostics archive is compressed; Zstandard and XZ are known to the protocol and not served."""

    STORED = "stored"
    DEFLATED = "deflated"
    BZIP2 = "bzip2"
    LZMA = "lzma"


_SCOPES: Final = {Scope.TOPIC: OptionScope.TOPIC, Scope.STREAM: OptionScope.STREAM, Scope.USER: OptionScope.USER}
_COMPRESSIONS: Final = {
    Compression.STORED: 1,
    Compression.DEFLATED: 2,
    Compression.BZIP2: 3,
    Compression.LZMA: 5,
}


class RoughSize(Size):
    """Bytes that were measured: shown rounded to a unit."""

    def shown(self) -> str:
        for name, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if self >= size:
                return f"{self / size:.1f}{name}"
        return str(int(self))


class RunTime(Quantity):
    """Microseconds that were measured: shown to the second."""

    def shown(self) -> str:
        return str(timedelta(seconds=self // 1_000_000))


def stats(asking: Asking) -> None:
    """Show the figures of the node: process, memory, disk, catalogue.

    Example: `levrier stats --json`
    """
    found = asking.run(lambda client: client.get_stats())
    shown = {name: _figure(name, value, as_json=asking.as_json) for name, value in asdict(found).items()}
    if not asking.as_json and not found.cache_metrics:
        del shown["cache_metrics"]
    print_record(shown, as_json=asking.as_json)


def _figure(name: str, value: object, *, as_json: bool) -> object:
    if isinstance(value, float):
        return round(value, 2) if as_json else f"{value:.1f} %"
    if not isinstance(value, int):
        return value
    if name in _SIZES:
        return RoughSize(value)
    return Instant(value) if name == "start_time" else RunTime(value) if name == "run_time" else value


def describe_options(
    asking: Asking,
    scope: Annotated[Scope, typer.Argument(metavar="SCOPE", help="topic, stream or user.")] = Scope.TOPIC,
) -> None:
    """List the options of topics, streams or users, and their defaults.

    Example: `levrier options topic`
    """
    found = asking.run(lambda client: client.describe_options(_SCOPES[scope]))
    rows = [
        {
            "key": option.key,
            "kind": _KINDS.get(option.kind, f"kind {option.kind}"),
            "default": shown_value(OptionEntry(option.key, option.kind, option.default)),
            "description": option.description,
        }
        for option in found
    ]
    print_rows(rows, as_json=asking.as_json, empty=f"a {scope} has no options")


def snapshot_file(
    asking: Asking,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write it.")] = ARCHIVE,
    compression: Annotated[
        Compression, typer.Option("--compression", help="How to compress it.")
    ] = Compression.DEFLATED,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace a file that is there.")] = False,
) -> None:
    """Write the diagnostics archive of the node, a ZIP file.

    It is made to be sent along with a question: no secret is in it.

    Example: `levrier snapshot-file --output node-0.zip`
    """
    _check(output, force=force)
    archive = asking.run(lambda client: client.snapshot_file(compression=_COMPRESSIONS[compression]))
    _write(output, archive, force=force)
    print_done(
        f"wrote {output}, {len(archive)} bytes", {"file": str(output), "bytes": len(archive)}, as_json=asking.as_json
    )


def _check(output: Path, *, force: bool) -> None:
    """Raise `CommandFailed` before anybody is asked for what could not be written."""
    try:
        if not force and output.exists():
            raise CommandFailed(f"{output} exists; {_KEPT}", Exit.COULD_NOT_ASK)
        if not output.absolute().parent.is_dir():
            raise CommandFailed(f"{output.absolute().parent} is no directory; create it first", Exit.COULD_NOT_ASK)
    except OSError as error:
        raise CommandFailed(f"{output}: {reason(error)}", Exit.COULD_NOT_ASK) from error


def _write(output: Path, archive: bytes, *, force: bool) -> None:
    """The whole file or none of it."""
    part = output.with_name(f"{output.name}.part-{os.getpid()}")
    try:
        try:
            part.write_bytes(archive)
            if force:
                part.replace(output)
            else:
                os.link(part, output)
        finally:
            part.unlink(missing_ok=True)
    except FileExistsError as error:
        raise CommandFailed(f"{output} exists; {_KEPT}") from error
    except OSError as error:
        raise CommandFailed(f"{output}: {reason(error)}", Exit.COULD_NOT_ASK) from error


@asks(cluster, "metadata")
def cluster_metadata(asking: Asking) -> None:
    """List the nodes of the cluster as clients see them: addresses, who leads, and how each stands.

    Example: `levrier cluster metadata`
    """
    found = asking.run(lambda client: client.cluster_metadata())
    rows = [
        {
            "name": node.name,
            "ip": node.ip,
            "tcp": node.tcp,
            "quic": node.quic,
            "http": node.http,
            "websocket": node.websocket,
            "role": _ROLES[node.role],
            "status": _STATUSES[node.status],
        }
        for node in found.nodes
    ]
    if asking.as_json:
        print_json({"name": found.name, "nodes": rows})
        return
    say(f"cluster {found.name}")
    print_rows(rows, as_json=False, empty="no nodes")
