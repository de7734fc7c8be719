"""The Checkpoint coordinator: writes the snapshot file slice by slice and drives an attempt through its steps.

What it gets was captured at one op and may be encoded at leisure. A large catalogue takes long to encode and the
interpreter has one lock, so each slice is short in bytes and in time, ends its handler, and the next one is told after a
pause in which the coordinator's thread sleeps: without it, whoever waits for the lock waits a whole switch interval for
each hop of a commit. The order of the steps is the core's; the layout of the file is `levrier.persistence.snapshot`'s.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from loguru import logger
from xxhash import xxh3_64

from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.checkpoint.core import (
    AbandonWriting,
    CheckpointCore,
    DrainLog,
    Drop,
    Effect,
    NameSnapshot,
    ReceivedEffect,
    ReportDone,
    ReportFailed,
    ReportNotPlaced,
    ReportPlaced,
    RetryFinish,
    Settled,
    WriteReceived,
    WriteSnapshot,
)
from levrier.actors.consensus import messages as consensus
from levrier.actors.journal import messages as journal
from levrier.actors.runtime import Handlers, NodeActor, Recipient, Runtime
from levrier.actors.state_transfer import messages as state_transfer
from levrier.actors.superblock import messages as superblock
from levrier.persistence.errors import SnapshotDamaged, SnapshotNotWritten, StorageError
from levrier.persistence.snapshot import SnapshotFields, SnapshotInfo, SnapshotWriter
from levrier.wire.protocol_version import CURRENT

SLICE_SIZE_MAX: Final = 64 * 1024
"""Encoded bytes after which a slice ends; the last chunk may exceed it by its own length."""
SLICE_NANOS_MAX: Final = 1_000_000
"""Time after which a slice ends with the chunk it is in."""
PAUSE_MILLISECONDS: Final = 1
"""Sleep between two slices: the encoding takes about half of an otherwise idle interpreter."""
FINISH_RETRY_MILLISECONDS: Final = 1000
"""Pause before naming or draining behind a received snapshot is tried again."""


class _Nobody:
    """What a group of one has in the place of StateTransfer."""

    def tell(self, message: object, /) -> None:
        raise AssertionError(f"nothing is received here, {type(message).__name__} goes nowhere")


class CheckpointActor(NodeActor):
    """Owns the snapshot file through `writer`, which makes a fresh writer for each attempt.

    `last` is the durable snapshot that boot found. `state_transfer` only where there are peers. With `pause_milliseconds` 0 the next slice is told at once.
    """

    def __init__(
        self,
        *,
        name: str,
        runtime: Runtime,
        writer: Callable[[], SnapshotWriter],
        superblock: Recipient[superblock.Command],
        journal: Recipient[journal.Command],
        consensus: Recipient[consensus.Command],
        last: SnapshotInfo | None,
        birth_id: int = 0,
        pause_milliseconds: int = PAUSE_MILLISECONDS,
        state_transfer: Recipient[state_transfer.CheckpointAnswer] | None = None,
    ) -> None:
        super().__init__(name=name, runtime=runtime)
        self._log = logger.bind(actor=name)
        self._core = CheckpointCore(last=last)
        self._new_writer = writer
        self._superblock = superblock
        self._journal = journal
        self._consensus = consensus
        self._birth_id = birth_id
        self._pause_milliseconds = pause_milliseconds
        self._state_transfer = state_transfer if state_transfer is not None else _Nobody()
        self._writer: SnapshotWriter | None = None
        self._chunks: Iterator[bytes] = iter(())
        self._received: checkpoint.PlaceReceived | None = None
        self._received_hash = xxh3_64()
        self._handlers = _handlers(self)

    def receive(self, message: object) -> None:
        """Handle one command."""
        self._handlers.dispatch(message)

    def on_stop(self) -> None:
        """Leave no half-written file behind."""
        self._abandon_writing()

    def _on_captured(self, message: checkpoint.Captured) -> None:
        assert message.metadata.op == message.op
        effect = self._core.on_captured(message.op)
        if isinstance(effect, WriteSnapshot):
            self._begin(effect, message)
        else:
            self._run(effect)

    def _begin(self, effect: WriteSnapshot, message: checkpoint.Captured) -> None:
        metadata = message.metadata
        writer = self._new_writer()
        try:
            writer.begin(
                SnapshotFields(
                    sequence=message.op,
                    created_at=metadata.timestamp,
                    writer_release=CURRENT,
                    consensus_group_high_water=metadata.consensus_group_high,
                    next_user_id=metadata.next_user_id,
                    acknowledgement_frontier=metadata.frontier,
                    acknowledgement_high_water=metadata.high_water,
                    table_frontier=max(message.op, message.table_frontier),
                    birth_id=self._birth_id,
                )
            )
        except StorageError as error:
            self._write_failed(error)
            return
        self._writer = writer
        self._chunks = chain(metadata.users(), metadata.streams(), message.clients.chunks())
        self._tell_continue(effect.attempt)

    def _on_birth_known(self, message: checkpoint.BirthKnown) -> None:
        self._birth_id = message.birth_id

    def _on_place_received(self, message: checkpoint.PlaceReceived) -> None:
        for effect in self._core.on_received(message.attempt, message.op, message.checksum):
            if isinstance(effect, WriteReceived):
                self._begin_received(effect, message)
            else:
                self._run(effect)

    def _begin_received(self, effect: WriteReceived, message: checkpoint.PlaceReceived) -> None:
        writer = self._new_writer()
        try:
            writer.begin_received(message.op)
        except StorageError as error:
            self._write_failed(error)
            return
        self._writer = writer
        self._received = message
        self._received_hash = xxh3_64()
        self._chunks = message.payload.chunks()
        self._tell_continue(effect.attempt)

    def _on_finish_received(self, message: checkpoint.FinishReceived) -> None:
        self._run(self._core.on_finish(message.op))

    def _on_continue(self, message: checkpoint.Continue) -> None:
        if not self._core.is_writing(message.attempt):
            self._log.debug("dropped: Continue of attempt {}", message.attempt)
            return
        writer = self._writer
        assert writer is not None
        try:
            if self._write_slice(writer):
                self._tell_continue(message.attempt)
                return
            self._verify_received(writer)
            info = writer.finish(self._core.may_replace)
        except StorageError as error:
            self._write_failed(error)
            return
        self._writer = None
        self._received = None
        self._run(self._core.on_written(info))

    def _write_slice(self, writer: SnapshotWriter) -> bool:
        """Encode and write one slice. False when there was nothing left."""
        now = self.runtime.clock.monotonic_nanos
        end_nanos = now() + SLICE_NANOS_MAX
        size = 0
        for chunk in self._chunks:
            writer.write(chunk)
            if self._received is not None:
                self._received_hash.update(chunk)
            size += len(chunk)
            if size >= SLICE_SIZE_MAX or now() >= end_nanos:
                return True
        return size > 0

    def _verify_received(self, writer: SnapshotWriter) -> None:
        """What was read back must be what was judged: the trailer would vouch for anything. Raises `SnapshotDamaged`."""
        received = self._received
        if received is None:
            return
        found = self._received_hash.intdigest()
        if (writer.size, found) != (received.size, received.checksum):
            raise SnapshotDamaged(file="received snapshot", reason=f"{writer.size} bytes with checksum {found:#x}")

    def _abandon_writing(self) -> None:
        if self._writer is not None:
            self._writer.abort()
            self._writer = None
        self._chunks = iter(())
        self._received = None

    def _write_failed(self, error: StorageError) -> None:
        """Also when it was reading that failed: the temporary file goes."""
        self._abandon_writing()
        renamed = isinstance(error, SnapshotNotWritten) and error.stage == "sync-directory"
        self._run(self._core.on_write_failed(str(error), renamed=renamed))

    def _tell_continue(self, attempt: int) -> None:
        message = checkpoint.Continue(attempt=attempt)
        if self._pause_milliseconds:
            self.runtime.after(self._pause_milliseconds, self.address, message)
        else:
            self.address.tell(message)

    def _on_recorded(self, message: checkpoint.CheckpointRecorded) -> None:
        self._run(self._core.on_recorded(message.op))

    def _on_record_failed(self, message: checkpoint.RecordFailed) -> None:
        self._run(self._core.on_record_failed(message.op, message.reason))

    def _on_drained(self, message: checkpoint.Drained) -> None:
        self._run(self._core.on_drained(message.up_to, message.log_size))

    def _on_drain_failed(self, message: checkpoint.DrainFailed) -> None:
        self._run(self._core.on_drain_failed(message.up_to, message.reason))

    def _run(self, effect: Effect | ReceivedEffect) -> None:
        match effect:
            case NameSnapshot(op=op, checksum=checksum):
                self._superblock.tell(superblock.RecordCheckpoint(op=op, checksum=checksum))
            case DrainLog(up_to=up_to):
                self._journal.tell(journal.Drain(up_to=up_to))
            case ReportDone(op=op, snapshot_size=snapshot_size, log_size=log_size):
                self._log.info("checkpoint at op {}: {} bytes, the log is down to {}", op, snapshot_size, log_size)
                self._consensus.tell(consensus.CheckpointDone(op=op, snapshot_size=snapshot_size, log_size=log_size))
            case ReportFailed(op=op, reason=reason):
                self._log.warning("checkpoint at op {} failed: {}", op, reason)
                self._consensus.tell(consensus.CheckpointFailed(op=op, reason=reason))
            case Drop(what=what):
                self._log.debug("dropped: {}", what)
            case WriteSnapshot() | WriteReceived():
                raise AssertionError("a snapshot is begun only with what was captured or received")
            case _:
                self._run_received(effect)

    def _run_received(self, effect: AbandonWriting | ReportPlaced | ReportNotPlaced | Settled | RetryFinish) -> None:
        match effect:
            case AbandonWriting():
                self._abandon_writing()
            case ReportPlaced(transfer=transfer):
                self._state_transfer.tell(state_transfer.ReceivedPlaced(attempt=transfer))
            case ReportNotPlaced(transfer=transfer, reason=reason):
                self._log.warning("the received snapshot of attempt {} is not in place: {}", transfer, reason)
                self._state_transfer.tell(state_transfer.ReceivedNotPlaced(attempt=transfer, reason=reason))
            case Settled(op=op, log_size=log_size):
                self._log.info("the received snapshot of op {} is named, the log is down to {}", op, log_size)
            case RetryFinish(op=op, reason=reason):
                self._log.warning("the received snapshot of op {} is not named or the log not drained: {}", op, reason)
                self.runtime.after(FINISH_RETRY_MILLISECONDS, self.address, checkpoint.FinishReceived(op=op))


def _handlers(actor: CheckpointActor) -> Handlers:
    handlers = Handlers(checkpoint.Command)
    handlers.on(checkpoint.BirthKnown, actor._on_birth_known)
    handlers.on(checkpoint.Captured, actor._on_captured)
    handlers.on(checkpoint.Continue, actor._on_continue)
    handlers.on(checkpoint.CheckpointRecorded, actor._on_recorded)
    handlers.on(checkpoint.RecordFailed, actor._on_record_failed)
    handlers.on(checkpoint.Drained, actor._on_drained)
    handlers.on(checkpoint.DrainFailed, actor._on_drain_failed)
    handlers.on(checkpoint.PlaceReceived, actor._on_place_received)
    handlers.on(checkpoint.FinishReceived, actor._on_finish_received)
    handlers.seal()
    return handlers
