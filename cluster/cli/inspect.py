"""`levrier inspect ...`: look into the files of a node that does not run, verify them, change nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from levrier.cluster.cli.output import (
    CommandFailed,
    Exit,
    Instant,
    Size,
    cell,
    print_json,
    print_record,
    print_rows,
    say,
)
from levrier.cluster.config import METADATA_GROUP
from levrier.persistence.acknowledgement_store import AcknowledgementStore
from levrier.persistence.archive import read_segments
from levrier.persistence.archive_format import Segment
from levrier.persistence.data_dir import DataDirectory, GroupPaths
from levrier.persistence.journal_scan import ScanResult, scan
from levrier.persistence.snapshot import Snapshot, read_snapshot
from levrier.persistence.storage import DiskStorage
from levrier.persistence.superblock import Absent, Copy, Corrupt, Valid, VsrState, classify
from levrier.wire.acknowledgement import Acknowledgement
from levrier.wire.codes import Operation
from levrier.wire.headers import PrepareHeader

inspect = typer.Typer(
    help="Look into the files of a stopped node: journal, superblock, snapshot, history.", no_args_is_help=True
)

_CLIENT_DIGITS = 8
_OPERATION_NAMES = {int(operation): operation.name.lower() for operation in Operation}

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The data directory, as given to serve --data.")]
AsJson = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON.")]


@inspect.command("journal")
def journal(
    directory: Directory,
    first: Annotated[int, typer.Option("--from", min=0, metavar="OP", help="The first op to show.")] = 0,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, help="How many entries to show; 0 shows all.")
    ] = 50,
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
    entries = [entry for entry in result.entries if entry[0].op >= first]
    shown = entries[:limit] if limit else entries
    if as_json:
        print_json({**_log_record(path, result), "entries": [_entry_record(*entry) for entry in shown]})
        return
    say(_summary(result))
    print_rows([_entry_row(*entry) for entry in shown], as_json=False, empty="no entries")
    if len(shown) < len(entries):
        say(f"{len(entries) - len(shown)} more; --from OP goes on, --limit 0 shows all")


@inspect.command("superblock")
def superblock(directory: Directory, as_json: AsJson = False) -> None:
    """Show both copies of the superblock and which one counts.

    They are written in turn, so an older or absent copy beside the current one is as it should be. A damaged copy is an
    error (status 1): it may have been the newer one, and no node starts from such a directory.

    Example: `levrier inspect superblock levrier-data`
    """
    storage = DiskStorage()
    with _files(directory) as paths:
        copies = {
            path: classify(storage.read_all(path) if storage.exists(path) else None)
            for path in (paths.superblock_a, paths.superblock_b)
        }
    newest = max((copy.sequence for copy in copies.values() if isinstance(copy, Valid)), default=None)
    records = [_copy_record(path, copy, newest) for path, copy in copies.items()]
    if as_json:
        print_json(records)
    else:
        print_rows(_side_by_side(records), as_json=False, empty="")
    damaged = [f"{path}: {copy.reason}" for path, copy in copies.items() if isinstance(copy, Corrupt)]
    if damaged:
        raise CommandFailed(f"{'; '.join(damaged)}; a node will not start from this directory")
    if newest is None:
        raise CommandFailed(f"{directory} has no superblock: no node was born in it", Exit.COULD_NOT_ASK)


@inspect.command("snapshot")
def snapshot(directory: Directory, as_json: AsJson = False) -> None:
    """Verify the snapshot and say what it holds.

    A node writes it at its first checkpoint. A snapshot that is not what its checksum says is an error (status 1).

    Example: `levrier inspect snapshot levrier-data --json`
    """
    with _files(directory) as paths:
        path = _existing(paths.snapshot)
        found = read_snapshot(DiskStorage(), path)
    assert found is not None
    print_record(_snapshot_record(found), as_json=as_json)


@inspect.command("history")
def history(directory: Directory, as_json: AsJson = False) -> None:
    """Show what each member last said that it has durably applied, and what left the log and is kept.

    Damaged acknowledgements, or a damaged segment of the archive, are an error (status 1).

    Example: `levrier inspect history levrier-data`
    """
    storage = DiskStorage()
    with _files(directory) as paths:
        known = AcknowledgementStore.open(storage, paths.acknowledgements).all()
        found: tuple[list[Segment], list[str]] = ([], [])
        if storage.exists(paths.archive):
            found = read_segments(storage, paths.archive, group=METADATA_GROUP)
    segments, damaged = found
    statements = [_statement_record(said) for said in known]
    kept = [_segment_record(segment) for segment in segments]
    if as_json:
        print_json({"acknowledgements": statements, "segments": kept})
    else:
        print_rows(statements, as_json=False, empty="nobody has said what it has applied")
        print_rows(kept, as_json=False, empty="no history is kept beside the log")
    if damaged:
        raise CommandFailed("; ".join(damaged))


@contextmanager
def _files(directory: Path) -> Iterator[GroupPaths]:
    """The metadata files of a directory, held so that no node starts meanwhile. Raises `DirectoryInUse`."""
    lock_path = DataDirectory.lock_path(directory)
    if not lock_path.exists():
        what = f"has no {lock_path.name}: it is no data directory of a node" if directory.exists() else "does not exist"
        raise CommandFailed(f"{directory} {what}", Exit.COULD_NOT_ASK)
    lock = DiskStorage().lock(lock_path)
    try:
        yield GroupPaths(directory / "metadata")
    finally:
        lock.close()


def _existing(path: Path) -> Path:
    if not path.exists():
        raise CommandFailed(
            f"{path} does not exist: the node has not written one yet, or it was lost", Exit.COULD_NOT_ASK
        )
    return path


def _log_record(path: Path, result: ScanResult) -> dict[str, object]:
    ops = [header.op for header, _ in result.entries]
    return {
        "file": str(path),
        "count": len(ops),
        "first_op": ops[0] if ops else None,
        "last_op": ops[-1] if ops else None,
        "bytes": result.end,
        "epoch": f"{result.epoch:016x}",
        "torn_bytes": result.cut_bytes,
        "torn_reason": result.reason if result.cut_bytes else None,
    }


def _summary(result: ScanResult) -> str:
    count = len(result.entries)
    span = f", ops {result.entries[0][0].op} to {result.entries[-1][0].op}" if count else ""
    tail = f"; then a torn tail of {result.cut_bytes} bytes: {result.reason}" if result.cut_bytes else ""
    return f"{count} entries{span}, {result.end} bytes, epoch {result.epoch:016x}{tail}"


def _entry_record(header: PrepareHeader, offset: int) -> dict[str, object]:
    return {
        "op": header.op,
        "operation": _OPERATION_NAMES.get(header.operation, str(header.operation)),
        "client": f"{header.client:032x}",
        "request": header.request,
        "user": header.user_id,
        "view": header.view,
        "timestamp": Instant(header.timestamp),
        "size": header.size,
        "offset": offset,
        "checksum": f"{header.checksum:016x}",
    }


def _entry_row(header: PrepareHeader, offset: int) -> dict[str, object]:
    """What fits on a terminal: the client by its first digits; the checksums were verified."""
    record = _entry_record(header, offset)
    del record["checksum"]
    return {**record, "client": f"{header.client:032x}"[:_CLIENT_DIGITS]}


def _copy_record(path: Path, copy: Copy, newest: int | None) -> dict[str, object]:
    state = VsrState.decode(copy.payload, file=path) if isinstance(copy, Valid) else None
    record: dict[str, object] = {
        "copy": path.name,
        "state": _state_of(copy, newest),
        "sequence": copy.sequence if isinstance(copy, Valid) else None,
    }
    fields = ("replica_id", "replica_count", "view", "log_view", "commit_max", "checkpoint_op", "voter", "log_cut")
    record.update({field: getattr(state, field) if state is not None else None for field in fields})
    record["cluster"] = f"{state.cluster:032x}" if state is not None else None
    record["birth_id"] = f"{state.birth_id:032x}" if state is not None else None
    return record


def _state_of(copy: Copy, newest: int | None) -> str:
    match copy:
        case Absent():
            return "absent"
        case Corrupt():
            return f"damaged: {copy.reason}"
        case Valid():
            return "current" if copy.sequence == newest else "older"


def _side_by_side(records: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """A line for each field, a column for each copy."""
    fields = [field for field in records[0] if field != "copy"]
    return [
        {"field": field.replace("_", " "), **{str(record["copy"]): cell(record[field]) for record in records}}
        for field in fields
    ]


def _snapshot_record(found: Snapshot) -> dict[str, object]:
    return {
        "op": found.op,
        "created_at": Instant(found.fields.created_at),
        "bytes": Size(found.size),
        "checksum": f"{found.checksum:016x}",
        "users": _count(found.users),
        "streams": _count(found.streams),
        "sessions": _count(found.client_table),
        "next_user_id": found.fields.next_user_id,
        "consensus_group_high_water": found.fields.consensus_group_high_water,
        "birth_id": f"{found.fields.birth_id:032x}",
    }


def _statement_record(said: Acknowledgement) -> dict[str, object]:
    return {
        "replica": said.replica_id,
        "node": said.node_id,
        "applied": said.applied_frontier.highest,
        "said_at": Instant(said.produced_at_ms * 1_000),
        "members": len(said.membership_view),
    }


def _segment_record(segment: Segment) -> dict[str, object]:
    return {
        "file": segment.path.name,
        "first_op": segment.first_op,
        "last_op": segment.last_op,
        "bytes": Size(segment.size),
    }


def _count(section: object) -> int | None:
    """Every section begins with the list of its things."""
    if isinstance(section, tuple | list) and section and isinstance(section[0], tuple | list):
        return len(section[0])
    return None
