"""The order of one checkpoint attempt: snapshot file, superblock, drain (persistence 5; D-26, D-27).

A step begins only when the step before it is durable, and any failure ends the attempt with the log undrained. Two orders
would lose data and cannot be expressed here: draining before the superblock names the snapshot, and naming a snapshot that
is not durable. One attempt at a time; every answer is checked against it and a stale one is dropped.

An attempt at the op of the snapshot that lies there already (its drain had failed) does not write it again: the same state
from another release has other bytes, and a crash before the superblock knew them would leave a pair that boot refuses.

A received snapshot is an attempt in two parts: the file before it is installed, superblock and drain after. It ends whatever
attempt of our own is under way, which is older by nature: nothing newer than what is applied here is ever received to be
placed. Consensus hears of neither part, since it did not ask for a checkpoint.
"""

from dataclasses import dataclass
from enum import Enum

from levrier.persistence.snapshot import SnapshotInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSnapshot:
    """Begin the snapshot file and write it in slices, as attempt `attempt`."""

    attempt: int
    op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NameSnapshot:
    """Have the superblock name the durable snapshot."""

    op: int
    checksum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainLog:
    """Have the log forget what the snapshot covers: the entry at the snapshot's op itself is kept."""

    up_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDone:
    """The attempt is over and good. Sizes in bytes."""

    op: int
    snapshot_size: int
    log_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFailed:
    """The attempt is over; the log keeps what it had."""

    op: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """An answer to nothing that is under way."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReceived:
    """Begin the file of a received snapshot and write it in slices, as attempt `attempt`."""

    attempt: int
    op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonWriting:
    """Give up the file that is being written; what lies there stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPlaced:
    """Tell StateTransfer that the snapshot of its attempt is durable."""

    transfer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportNotPlaced:
    """Tell StateTransfer that it is not."""

    transfer: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The received snapshot is named and the log drained behind it."""

    op: int
    log_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryFinish:
    """Naming or draining behind a received snapshot failed: try again after a pause."""

    op: int
    reason: str


Effect = WriteSnapshot | NameSnapshot | DrainLog | ReportDone | ReportFailed | Drop
"""Of an attempt of our own."""

ReceivedEffect = WriteReceived | AbandonWriting | ReportPlaced | ReportNotPlaced | Settled | RetryFinish
"""Of a received snapshot."""


class Phase(Enum):
    """What the attempt waits for."""

    WRITING = "writing"
    NAMING = "naming"
    DRAINING = "draining"


@dataclass(slots=True, eq=False)
class _Attempt:
    number: int
    op: int
    phase: Phase
    snapshot_size: int = 0
    is_received: bool = False
    transfer: int = 0
    """The attempt of StateTransfer that waits for the file."""


class CheckpointCore:
    """At most one attempt, and what the snapshot file holds."""

    __slots__ = ("_attempt", "_attempts", "_file_op", "_last")

    def __init__(self, *, last: SnapshotInfo | None) -> None:
        """`last` is the snapshot that boot found durable, None without one."""
        self._last = last
        self._file_op = 0 if last is None else last.op
        self._attempt: _Attempt | None = None
        self._attempts = 0
        self._assert_invariants()

    @property
    def last(self) -> SnapshotInfo | None:
        """The newest durable snapshot."""
        return self._last

    def is_writing(self, attempt: int) -> bool:
        """Whether the next slice of this attempt is due."""
        return self._attempt is not None and self._attempt.number == attempt and self._attempt.phase is Phase.WRITING

    def may_replace(self) -> bool:
        """Whether the snapshot of the attempt may take the place of the file: its op never decreases (D-26)."""
        return self._attempt is not None and self._attempt.op >= self._file_op

    def on_captured(self, op: int) -> Effect:
        """Begin an attempt."""
        if self._attempt is not None and self._attempt.is_received:
            return ReportFailed(op=op, reason=f"the received snapshot of op {self._attempt.op} is being put in place")
        assert self._attempt is None, f"a capture of op {op} arrived during the attempt at op {self._attempt.op}"
        if op == 0:
            # The superblock says 0 for "no snapshot": a file that holds op 0 could never be paired with it.
            return ReportFailed(op=op, reason="nothing was applied yet")
        if op < self._file_op:
            return ReportFailed(op=op, reason=f"the snapshot file holds op {self._file_op}, which is newer")
        self._attempts += 1
        self._attempt = _Attempt(number=self._attempts, op=op, phase=Phase.WRITING)
        if self._last is not None and self._last.op == op:
            return self._name(self._last)
        self._assert_invariants()
        return WriteSnapshot(attempt=self._attempts, op=op)

    def on_received(self, transfer: int, op: int, checksum: int) -> list[Effect | ReceivedEffect]:
        """A received snapshot is to become the file, for the attempt `transfer` of StateTransfer."""
        if op < self._file_op:
            reason = f"the snapshot file holds op {self._file_op}, which is newer than {op}"
            return [ReportNotPlaced(transfer=transfer, reason=reason)]
        effects = self._give_up(f"the received snapshot of op {op} takes its place")
        if self._last is not None and (self._last.op, self._last.checksum) == (op, checksum):
            return [*effects, ReportPlaced(transfer=transfer)]
        self._attempts += 1
        self._attempt = _Attempt(number=self._attempts, op=op, phase=Phase.WRITING, is_received=True, transfer=transfer)
        self._assert_invariants()
        return [*effects, WriteReceived(attempt=self._attempts, op=op)]

    def on_finish(self, op: int) -> Effect:
        """The received snapshot of `op` is installed."""
        if self._attempt is not None or self._last is None or self._last.op != op:
            return Drop(what=f"FinishReceived of op {op}")
        self._attempts += 1
        self._attempt = _Attempt(number=self._attempts, op=op, phase=Phase.NAMING, is_received=True)
        return self._name(self._last)

    def on_written(self, info: SnapshotInfo) -> Effect | ReceivedEffect:
        """The snapshot file is durable."""
        assert self._attempt is not None
        assert self._attempt.phase is Phase.WRITING
        assert self._attempt.op == info.op >= self._file_op
        self._last = info
        self._file_op = info.op
        if self._attempt.is_received:
            transfer = self._attempt.transfer
            self._attempt = None
            self._assert_invariants()
            return ReportPlaced(transfer=transfer)
        return self._name(info)

    def on_write_failed(self, reason: str, *, renamed: bool) -> Effect | ReceivedEffect:
        """The snapshot was not written. `renamed`: a process that reads the file sees it, a crash may undo it."""
        assert self._attempt is not None
        assert self._attempt.phase is Phase.WRITING
        if renamed:
            self._file_op = self._attempt.op
        return self._fail(reason)

    def on_recorded(self, op: int) -> Effect:
        """The superblock names the snapshot."""
        attempt = self._waiting(Phase.NAMING, op)
        if attempt is None:
            return Drop(what=f"CheckpointRecorded for op {op}")
        attempt.phase = Phase.DRAINING
        self._assert_invariants()
        return DrainLog(up_to=op - 1)

    def on_record_failed(self, op: int, reason: str) -> Effect | ReceivedEffect:
        """The superblock may or may not name it; nobody relies on it."""
        if self._waiting(Phase.NAMING, op) is None:
            return Drop(what=f"RecordFailed for op {op}")
        return self._fail(reason)

    def on_drained(self, up_to: int, log_size: int) -> Effect | ReceivedEffect:
        """The log is short again: the end of the attempt."""
        attempt = self._waiting(Phase.DRAINING, up_to + 1)
        if attempt is None:
            return Drop(what=f"Drained up to op {up_to}")
        self._attempt = None
        self._assert_invariants()
        if attempt.is_received:
            return Settled(op=attempt.op, log_size=log_size)
        return ReportDone(op=attempt.op, snapshot_size=attempt.snapshot_size, log_size=log_size)

    def on_drain_failed(self, up_to: int, reason: str) -> Effect | ReceivedEffect:
        """The snapshot stands, the log is as long as before."""
        if self._waiting(Phase.DRAINING, up_to + 1) is None:
            return Drop(what=f"DrainFailed up to op {up_to}")
        return self._fail(reason)

    def _waiting(self, phase: Phase, op: int) -> _Attempt | None:
        attempt = self._attempt
        return attempt if attempt is not None and attempt.phase is phase and attempt.op == op else None

    def _name(self, info: SnapshotInfo) -> Effect:
        assert self._attempt is not None
        self._attempt.phase = Phase.NAMING
        self._attempt.snapshot_size = info.size
        self._assert_invariants()
        return NameSnapshot(op=info.op, checksum=info.checksum)

    def _give_up(self, reason: str) -> list[Effect | ReceivedEffect]:
        """End the attempt under way, whatever it waits for: the answer that comes later is stale then."""
        attempt = self._attempt
        if attempt is None:
            return []
        effects: list[Effect | ReceivedEffect] = [AbandonWriting()] if attempt.phase is Phase.WRITING else []
        if attempt.is_received and attempt.phase is not Phase.WRITING:
            self._attempt = None  # Its naming is overtaken by that of the newer one.
            return effects
        return [*effects, self._fail(reason)]

    def _fail(self, reason: str) -> Effect | ReceivedEffect:
        assert self._attempt is not None
        attempt, self._attempt = self._attempt, None
        self._assert_invariants()
        if not attempt.is_received:
            return ReportFailed(op=attempt.op, reason=reason)
        if attempt.phase is Phase.WRITING:
            return ReportNotPlaced(transfer=attempt.transfer, reason=reason)
        return RetryFinish(op=attempt.op, reason=reason)

    def _assert_invariants(self) -> None:
        attempt, last = self._attempt, self._last
        if last is not None:
            assert last.op <= self._file_op
        if attempt is None:
            return
        assert attempt.number == self._attempts, "the attempt under way is the latest"
        if not attempt.is_received:
            assert attempt.transfer == 0
        if attempt.phase is Phase.WRITING:
            assert attempt.op >= self._file_op
        else:
            assert last is not None, "only what is durable is named"
            assert attempt.op == last.op
            assert attempt.snapshot_size == last.size
