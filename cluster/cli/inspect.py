"""`levrier inspect ...`: look into the files of a node that does not run, verify them, change nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from levrier.cluster.cli.output import CommandFailed, Exit, print_record, print_rows, say
from levrier.cluster.config import METADATA_GROUP
from levrier.persistence.data_dir import DataDirectory, GroupPaths
from levrier.persistence.journal_scan import ScanResult, scan
from levrier.persistence.snapshot import Snapshot, read_snapshot
from levrier.persistence.storage import DiskStorage
from levrier.persistence.superblock import Absent, Corrupt, Valid, VsrState, classify
from levrier.wire.codes import Operation

inspect = typer.Typer(
    help="Look into the files of a stopped node: journal, superblock, snapshot.", no_args_is_help=True
)

_OPERATION_NAMES = {int(operation): operation.name.lower() for operation in Operation}

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The data directory, as given to serve --data.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@inspect.command("journal")
def journal(
    directory: Directory,
    first: Annotated[int, typer.Option("--from", min=0, metavar="OP", help="The first op to show.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many entries to show; 0 shows all.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Verify the log and list its entries.

    Damage that a later record proves to be inside the log is an error (status 1). A torn tail is only said: the next
    start cuts it off.

    Example: `levrier inspect journal levrier-data --from 1000 --limit 20`
    """
    with _files(directory) as paths:
        path = _existing(paths.journal)
        file = DiskStorage().open(path, create=False)
        try:
            result = scan(file, path=path, group=METADATA_GROUP)
        finally:
            file.close()
    entries = [(header, offset) for header, offset in result.entries if header.op >= first]
    shown = entries[:limit] if limit else entries
    rows = [
        {
            "op": header.op,
            "operation": _OPERATION_NAMES.get(header.operation, str(header.operation)),
            "client": f"{header.client:032x}",
            "request": header.request,
            "user": header.user_id,
            "view": header.view,
            "timestamp": header.timestamp,
            "size": header.size,
            "offset": offset,
            "checksum": f"{header.checksum:016x}",
        }
        for header, offset in shown
    ]
    if not as_json:
        say(_summary(result))
    print_rows(rows, as_json=as_json, empty="no entries")
    if not as_json and len(shown) < len(entries):
        say(f"{len(entries) - len(shown)} more; --limit 0 shows all")


@inspect.command("superblock")
def superblock(directory: Directory, as_json: AsJson = False) -> None:
    """Show both copies of the superblock and which one counts."""
    storage = DiskStorage()
    with _files(directory) as paths:
        copies = {
            path.name: classify(storage.read_all(path) if storage.exists(path) else None)
            for path in (paths.superblock_a, paths.superblock_b)
        }
    newest = max((copy.sequence for copy in copies.values() if isinstance(copy, Valid)), default=None)
    print_rows([_copy_row(name, copy, newest) for name, copy in copies.items()], as_json=as_json, empty="")
    damaged = [name for name, copy in copies.items() if isinstance(copy, Corrupt)]
    if damaged:
        raise CommandFailed(f"{' and '.join(damaged)} cannot be read: a node will not start from this directory")
    if newest is None:
        raise CommandFailed(f"no superblock in {directory}")


@inspect.command("snapshot")
def snapshot(directory: Directory, as_json: AsJson = False) -> None:
    """Verify the snapshot and say what it holds."""
    with _files(directory) as paths:
        path = _existing(paths.snapshot)
        found = read_snapshot(DiskStorage(), path)
    assert found is not None
    print_record(_snapshot_record(found), as_json=as_json)


@contextmanager
def _files(directory: Path) -> Iterator[GroupPaths]:
    """The metadata files of a directory, held so that no node starts meanwhile. Raises `DirectoryInUse`."""
    lock_path = DataDirectory.lock_path(directory)
    if not lock_path.exists():
        raise CommandFailed(
            f"{directory} is no data directory of a node: it has no {lock_path.name}", Exit.COULD_NOT_ASK
        )
    lock = DiskStorage().lock(lock_path)
    try:
        yield GroupPaths(directory / "metadata")
    finally:
        lock.close()


def _existing(path: Path) -> Path:
    if not path.exists():
        raise CommandFailed(f"{path} does not exist")
    return path


def _summary(result: ScanResult) -> str:
    count = len(result.entries)
    span = f", ops {result.entries[0][0].op} to {result.entries[-1][0].op}" if count else ""
    tail = f"; a torn tail of {result.cut_bytes} bytes: {result.reason}" if result.cut_bytes else ""
    return f"{count} entries{span}, {result.end} bytes, epoch {result.epoch:016x}{tail}"


def _copy_row(name: str, copy: Absent | Corrupt | Valid, newest: int | None) -> dict[str, object]:
    row: dict[str, object] = {"copy": name, "state": "absent", "sequence": None}
    state = None
    match copy:
        case Absent():
            pass
        case Corrupt():
            row["state"] = f"damaged: {copy.reason}"
        case Valid():
            row["state"] = "current" if copy.sequence == newest else "older"
            row["sequence"] = copy.sequence
            state = VsrState.decode(copy.payload, file=name)
    fields = ("replica_id", "replica_count", "view", "log_view", "commit_max", "checkpoint_op", "voter")
    row.update({field: getattr(state, field) if state is not None else None for field in fields})
    row["cluster"] = f"{state.cluster:032x}" if state is not None else None
    row["birth_id"] = f"{state.birth_id:032x}" if state is not None else None
    return row


def _snapshot_record(found: Snapshot) -> dict[str, object]:
    return {
        "op": found.op,
        "created_at": found.fields.created_at,
        "bytes": found.size,
        "checksum": f"{found.checksum:016x}",
        "users": _count(found.users),
        "streams": _count(found.streams),
        "sessions": _count(found.client_table),
        "next_user_id": found.fields.next_user_id,
        "consensus_group_high_water": found.fields.consensus_group_high_water,
        "birth_id": f"{found.fields.birth_id:032x}",
    }


def _count(section: object) -> int | None:
    """Every section begins with the list of its things."""
    if isinstance(section, tuple | list) and section and isinstance(section[0], tuple | list):
        return len(section[0])
    return None
