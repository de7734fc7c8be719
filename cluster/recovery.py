"""Replaying the log at boot: from a snapshot and a journal to the state that a replica starts with (persistence 6).

Pure but for the reads of the journal that it is given. It applies what is committed, in order, through the very functions
of the live path, and never guesses: a hole or a broken chain refuses the boot of a single node (D-06). A member of a
cluster stops there instead and keeps its suffix, which repair will fill.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from levrier.actors.client_table.commits import record
from levrier.actors.client_table.snapshot import restore as restore_clients
from levrier.actors.client_table.table import ClientTable
from levrier.actors.metadata.machine import LogCorrupted, MetadataMachine
from levrier.actors.metadata.restore import SnapshotInvalid
from levrier.persistence.errors import RESTORE, SnapshotDamaged, StorageError
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.snapshot import Snapshot
from levrier.wire.errors import WireError
from levrier.wire.headers import PrepareHeader
from levrier.wire.replies import committed_reply


class LogBroken(StorageError):
    """The log cannot be replayed to its head: an op is missing, unreadable, or does not follow from its parent."""

    def __init__(self, *, file: Path | str, op: int, reason: str) -> None:
        super().__init__(
            file=file,
            what=f"{reason} at op {op}",
            next_step=RESTORE,
        )
        self.op = op


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What replay made. `applied` is the last op that state and table reflect; `head` the last op that chains to it.

    `headers` are the log's, from the snapshot's own op (if the log still holds it) to `head`. `timestamp` is that of the
    newest of them, or of the snapshot. `replayed` counts the ops that were applied on top of the snapshot. `kept` are the
    entries above a hole or a broken chain, of a member of a cluster: repair fills the hole (D-06).
    """

    machine: MetadataMachine
    table: ClientTable
    applied: int
    head: int
    headers: tuple[PrepareHeader, ...]
    timestamp: int
    replayed: int
    kept: tuple[PrepareHeader, ...] = ()


def chain_break(headers: Sequence[PrepareHeader], floor: int) -> tuple[int, str] | None:
    """The first op above `floor` that does not follow from the one before it, and why; None when all do.

    `headers` are ascending, from `floor` or `floor + 1`; the first op above the floor must be `floor + 1` (D-06).
    """
    expected, parent = floor + 1, 0
    for header in headers:
        if header.op == floor:
            parent = header.checksum
            continue
        if header.op != expected:
            return expected, f"op {expected} is missing before op {header.op}"
        if parent and header.checksum and header.parent != parent:
            return header.op, f"parent {header.parent:#x} is not the checksum {parent:#x} of op {header.op - 1}"
        expected, parent = header.op + 1, header.checksum
    return None


def commit_watermark(headers: Sequence[PrepareHeader], snapshot_op: int, replica_count: int) -> int:
    """The highest op known committed from this disk alone.

    A single replica commits what it made durable: its head. A member of a cluster knows the greatest commit point that
    any of the given prepares carries, wherever it stands (BR-06); `recover` gives those below the first hole (D-16).
    """
    if replica_count == 1:
        return max(snapshot_op, headers[-1].op if headers else 0)
    return max(snapshot_op, max((header.commit for header in headers), default=0))


def recover(
    *, journal: PrepareJournal, snapshot: Snapshot | None, replica_count: int, sessions_min: int, files: Path
) -> Recovered:
    """Rebuild state machine and client table. `sessions_min` is the configured size of the table.

    Raises `StorageError` for whatever cannot be trusted: a broken log on a single node, a section that is no state, an
    entry that cannot be read or does not decode.
    """
    floor = snapshot.op if snapshot is not None else 0
    machine, table = _restore(snapshot, sessions_min, files)
    headers = journal.headers_from(max(floor, 1))
    broken = chain_break(headers, floor)
    kept: tuple[PrepareHeader, ...] = ()
    if broken is not None:
        op, reason = broken
        if replica_count == 1:
            raise LogBroken(file=files / "journal.wal", op=op, reason=reason)
        logger.warning("the log breaks at op {}: {}; what lies above is kept for repair", op, reason)
        kept = tuple(header for header in headers if header.op >= op)
        headers = [header for header in headers if header.op < op]
    applied = min(commit_watermark(headers, floor, replica_count), max(floor, headers[-1].op if headers else 0))
    replayed = 0
    for header in headers:
        if floor < header.op <= applied:
            _apply(machine, table, journal, header, files)
            replayed += 1
    table.verify()
    return Recovered(
        machine=machine,
        table=table,
        applied=applied,
        head=max(floor, headers[-1].op if headers else 0),
        headers=tuple(headers),
        timestamp=headers[-1].timestamp if headers else (snapshot.fields.created_at if snapshot is not None else 0),
        replayed=replayed,
        kept=kept,
    )


def _restore(snapshot: Snapshot | None, sessions_min: int, files: Path) -> tuple[MetadataMachine, ClientTable]:
    if snapshot is None:
        return MetadataMachine(), ClientTable(sessions_min)
    try:
        machine = MetadataMachine.restore(
            users=snapshot.users,
            streams=snapshot.streams,
            consensus_group_high=snapshot.fields.consensus_group_high_water,
            next_user_id=snapshot.fields.next_user_id,
            frontier=snapshot.fields.acknowledgement_frontier,
            high_water=snapshot.fields.acknowledgement_high_water,
        )
        table = restore_clients(snapshot.client_table, sessions_min)
        if snapshot.fields.table_frontier > snapshot.op:
            # It came ahead of its snapshot in a state transfer: the ops between have no effect on it any more.
            table.install(restore_clients(snapshot.client_table, sessions_min), snapshot.fields.table_frontier)
    except (SnapshotInvalid, WireError) as error:
        raise SnapshotDamaged(file=files / "snapshot.bin", reason=str(error)) from error
    return machine, table


def _apply(
    machine: MetadataMachine, table: ClientTable, journal: PrepareJournal, header: PrepareHeader, files: Path
) -> None:
    prepare = journal.entry_at(header)
    if prepare is None:
        raise LogBroken(file=files / "journal.wal", op=header.op, reason="the entry cannot be read")
    try:
        applied = machine.apply(header, prepare.body)
    except LogCorrupted as error:
        raise LogBroken(file=files / "journal.wal", op=header.op, reason=str(error)) from error
    record(table, header, committed_reply(header, applied.body), applied.dropped_users)
