"""The Journal actor: one write-ahead log, its batches, and what a failed append means for those behind it.

Appends gather until the mailbox has run empty (group commit, design section 4): one write and one sync for the batch,
then one Appended. Whatever else arrives first flushes the batch, so a drain, a truncation or a read sees the log as its
sender left it. A drain goes on in short steps behind the batches, with a pause after each: it neither holds up an append
for longer than a step nor keeps the interpreter from the other threads. A truncation aborts it, and it begins again. After a failed batch nothing is accepted until the truncation that Consensus owes for it (design section 3,
rule 8): an op above a hole must not slip in. A poisoned log answers every command with its reason (persistence 2.4).

Refuses to know views, quorums and what an entry means; a slot collision is a failure like any other.
"""

from collections import deque
from typing import ClassVar, Final

from loguru import logger

from levrier.actors.acknowledgements.messages import ArchiveChanged
from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.consensus import messages as consensus
from levrier.actors.journal import messages as journal
from levrier.actors.journal.archiving import Archiving, Kept
from levrier.actors.runtime import ExitStatus, FatalReason, Handlers, NodeActor, Recipient, Runtime
from levrier.persistence.archive import Archive
from levrier.persistence.errors import JournalDamaged, StorageError
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.journal_drain import DrainSession
from levrier.wire.prepare import Prepare

BATCH_SIZE_MAX: Final = 1024 * 1024
"""Bytes after which a batch is written without waiting for more: a sync costs little more than its data from here on."""
READ_SIZE_MAX: Final = 256 * 1024
"""An answer to Read ends before it would grow beyond this many bytes, but has one entry at least: few milliseconds' worth, since
whoever shares the thread waits meanwhile. Who wants more reads again."""

PAUSE_MILLISECONDS: Final = 1
"""Sleep between two steps of a drain."""

_Batch = list[journal.Append]


class JournalActor(NodeActor):
    """Owns an open `journal`, which it closes at its end.

    With `pause_milliseconds` 0 the next step of a drain is told at once. With an `archive`, what a drain removes is kept there
    first, and is still read; `acknowledgements` is told how much that is. `replica` is for the log: which member of
    a cluster this is.
    """

    batch_end_waits: ClassVar[bool] = True

    def __init__(
        self,
        *,
        name: str,
        runtime: Runtime,
        journal: PrepareJournal,
        consensus: Recipient[consensus.Command],
        checkpoint: Recipient[checkpoint.Command],
        pause_milliseconds: int = PAUSE_MILLISECONDS,
        archive: Archive | None = None,
        acknowledgements: Recipient[ArchiveChanged] | None = None,
        replica: int | None = None,
    ) -> None:
        super().__init__(name=name, runtime=runtime)
        self._log = logger.bind(actor=name) if replica is None else logger.bind(actor=name, replica=replica)
        self._journal = journal
        self._consensus = consensus
        self._checkpoint = checkpoint
        self._pause_milliseconds = pause_milliseconds
        self._archiving = None if archive is None else Archiving(archive, journal, log=self._log)
        self._acknowledgements = acknowledgements
        self._kept: Kept | None = None
        self._drains: deque[int] = deque()
        self._session: DrainSession | None = None
        self._attempt = 0
        self._step_due = False
        self._release_due = False
        self._batch: _Batch = []
        self._batch_size = 0
        self._refused_from: int | None = None
        self._refusal = ""
        self._idle = False
        self._mark_failing = False
        self._handlers = _handlers(self)

    def receive(self, message: object) -> None:
        """Handle one command."""
        self._handlers.dispatch(message)

    def on_start(self) -> None:
        """Say what is kept, and go on with the drain that a crash has left undone: what it removes is kept first."""
        if self._archiving is None:
            return
        self._tell_kept()
        if self._archiving.owed:
            self._on_drain(journal.Drain(up_to=self._archiving.owed))

    def on_batch_end(self) -> None:
        """Write what has gathered, then do the step of a drain that is due."""
        self._flush()
        if self._step_due:
            self._step_due = False
            self._step_drain()

    def on_stop(self) -> None:
        """Abort a drain: the log is complete without it, and the next checkpoint drains again. Leave the log marked as durable, so that the next boot takes no damage in it for a torn tail (D-24)."""
        self._abort_drain()
        if self._archiving is not None:
            self._archiving.close()
        self._write_mark()
        self._journal.close()

    def _on_append(self, message: journal.Append) -> None:
        self._batch.append(message)
        self._batch_size += len(message.prepare.frame)
        if self._batch_size >= BATCH_SIZE_MAX:
            self._flush()

    def _on_read(self, message: journal.Read) -> None:
        self._flush()
        prepares: list[Prepare] = []
        size = 0
        for op in range(message.from_op, message.to_op + 1):
            prepare = self._entry(op)
            if prepare is None or (prepares and size + len(prepare.frame) > READ_SIZE_MAX):
                break
            prepares.append(prepare)
            size += len(prepare.frame)
        message.reply_to.tell(journal.Entries(from_op=message.from_op, prepares=tuple(prepares)))

    def _on_drain(self, message: journal.Drain) -> None:
        """Drains are handled one behind the other; the coordinator has one attempt, so hardly ever does one wait."""
        self._flush()
        self._drains.append(message.up_to)
        if len(self._drains) == 1 and not self._release_due:
            self._step_drain()

    def _on_continue_drain(self, message: journal.ContinueDrain) -> None:
        """The step itself waits for the end of the batch, which it must not split."""
        if message.attempt != self._attempt or not (self._drains or self._release_due):
            self._log.debug("dropped: ContinueDrain of attempt {}", message.attempt)
            return
        self._step_due = True

    def _step_drain(self) -> None:
        """Release a piece of the file that a drain replaced, or begin the first drain that waits, go on with it, or finish it."""
        if self._release_due:
            self._release_due = self._journal.release()
            if self._release_due or self._drains:
                self._tell_continue()
            return
        up_to = self._drains[0]
        session = self._session
        try:
            if session is None:
                if self._has_kept(up_to):
                    self._session = self._journal.begin_drain(up_to)
            elif session.ready:
                self._tell_drained(session.finish(), up_to)
            else:
                session.step()
        except StorageError as error:
            self._log.error("the log was not drained up to op {}: {}", up_to, error)
            self._end_drain(checkpoint.DrainFailed(up_to=up_to, reason=str(error)))
        if self._drains or self._release_due:
            self._tell_continue()

    def _has_kept(self, up_to: int) -> bool:
        """Whether what the drain will remove is kept; if not, a piece of it is by now."""
        if self._archiving is None:
            return True
        if not self._archiving.step(up_to):
            return False
        self._tell_kept()
        return True

    def _tell_kept(self) -> None:
        """Tell those who care what the archive holds, if that has changed."""
        assert self._archiving is not None
        kept, before = self._archiving.kept(), self._kept
        if kept == before:
            return
        self._kept = kept
        if before is None or kept.first_op != before.first_op:
            self._consensus.tell(consensus.ArchiveReaches(first_op=kept.first_op))
        if self._acknowledgements is not None:
            self._acknowledgements.tell(kept.archive)

    def _on_reclaim(self, message: journal.Reclaim) -> None:
        assert self._archiving is not None, "without an archive there is nothing to reclaim"
        if self._archiving.reclaim(message.frontier):
            self._tell_kept()

    def _tell_drained(self, removed: int, up_to: int) -> None:
        log_size = self._journal.size
        self._log.debug("{} entries up to op {} left the log, {} bytes are in use", removed, up_to, log_size)
        self._release_due = True
        if self._archiving is not None:
            self._tell_kept()
        self._end_drain(checkpoint.Drained(up_to=up_to, log_size=log_size))

    def _end_drain(self, answer: checkpoint.Drained | checkpoint.DrainFailed) -> None:
        self._session = None
        self._drains.popleft()
        self._checkpoint.tell(answer)

    def _abort_drain(self) -> bool:
        """Whether there was one to abort. It is still owed; what the actor has told itself for it is stale."""
        if self._session is None:
            return False
        self._session.abort()
        self._session = None
        self._attempt += 1
        self._step_due = False
        return True

    def _tell_continue(self) -> None:
        message = journal.ContinueDrain(attempt=self._attempt)
        if self._pause_milliseconds:
            self.runtime.after(self._pause_milliseconds, self.address, message)
        else:
            self.address.tell(message)

    def _on_truncate(self, message: journal.Truncate) -> None:
        self._flush()
        aborted = self._abort_drain()
        self._truncate(message.from_op)
        if aborted:
            self._step_drain()

    def _truncate(self, from_op: int) -> None:
        try:
            removed = self._journal.truncate_from(from_op)
        except JournalDamaged as error:
            # What the log keeps cannot be copied, however often it is tried, and nothing is appended before: a boot has to judge.
            reason = f"the log cannot be cut at op {from_op}: {error}"
            self.runtime.fail(FatalReason(status=ExitStatus.LOG_UNRECONCILABLE, reason=reason, actor=self.name))
            return
        except StorageError as error:
            self._log.error("the log was not truncated from op {}: {}", from_op, error)
            self._consensus.tell(consensus.TruncateFailed(from_op=from_op, reason=str(error)))
            return
        if removed:
            self._log.info("{} entries from op {} on left the log", removed, from_op)
        if self._refused_from is not None and from_op <= self._refused_from:
            self._refused_from = None
        self._consensus.tell(consensus.Truncated(from_op=from_op))

    def _on_tick(self, _message: journal.Tick) -> None:
        """A mark costs a sync, so only a log that was idle for a whole tick gets one.

        A poisoned log takes nothing more until it is opened anew: the node ends, so that its supervisor does that.
        """
        if self._journal.poisoned is not None:
            reason = f"the log takes nothing more until a restart opens it anew: {self._journal.poisoned}"
            self.runtime.fail(FatalReason(status=ExitStatus.LOG_UNRECONCILABLE, reason=reason, actor=self.name))
            return
        if self._batch:
            return
        if self._idle:
            self._write_mark()
        self._idle = True

    def _flush(self) -> None:
        batch = self._batch
        if not batch:
            return
        self._batch = []
        self._batch_size = 0
        self._idle = False
        if self._refused_from is not None:
            self._tell_failed(batch, f"refused until a truncation from op {self._refused_from}: {self._refusal}")
            return
        try:
            self._journal.append([message.prepare for message in batch])
        except StorageError as error:
            self._refuse_behind(batch, str(error))
            return
        self._consensus.tell(consensus.Appended(positions=_positions(batch)))
        self._fill_ahead()

    def _fill_ahead(self) -> None:
        """Nobody waits for it, so a failure is only told: the append that needs the space meets it again, if it lasts."""
        try:
            self._journal.fill_ahead()
        except StorageError as error:
            self._log.warning("the log was not extended ahead of its end: {}", error)

    def _refuse_behind(self, batch: _Batch, reason: str) -> None:
        """Until a truncation from the first op of the batch, which is what Consensus owes for it."""
        self._refused_from = batch[0].prepare.header.op
        self._refusal = reason
        self._log.error("{} appends from op {} on failed: {}", len(batch), self._refused_from, reason)
        self._tell_failed(batch, reason)

    def _tell_failed(self, batch: _Batch, reason: str) -> None:
        self._consensus.tell(consensus.AppendFailed(positions=_positions(batch), reason=reason))

    def _entry(self, op: int) -> Prepare | None:
        """The entry of an op; None, with a line in the log, when it cannot be read."""
        header = self._journal.header(op)
        if header is None:
            return self._kept_entry(op)
        try:
            return self._journal.entry_at(header)
        except StorageError as error:
            self._log.warning("op {} cannot be read from the log: {}", op, error)
            return None

    def _kept_entry(self, op: int) -> Prepare | None:
        """The entry of an op that has left the log, as long as everything from it on is kept."""
        kept = self._kept
        if self._archiving is None or kept is None or not kept.first_op or op < kept.first_op:
            return None
        prepare = self._archiving.entry(op)
        if prepare is None:
            self._tell_kept()  # It may be damaged, and the archive reaches less far now.
        return prepare

    def _write_mark(self) -> None:
        """A mark that is not written costs nothing but the exactness of the next scan, so it fails nobody."""
        try:
            self._journal.write_durable_mark()
        except StorageError as error:
            if not self._mark_failing:
                self._log.warning("the log was not marked as durable: {}", error)
            self._mark_failing = True
        else:
            self._mark_failing = False


def _handlers(actor: JournalActor) -> Handlers:
    handlers = Handlers(journal.Command)
    handlers.on(journal.Append, actor._on_append)
    handlers.on(journal.Read, actor._on_read)
    handlers.on(journal.Drain, actor._on_drain)
    handlers.on(journal.ContinueDrain, actor._on_continue_drain)
    handlers.on(journal.Truncate, actor._on_truncate)
    handlers.on(journal.Reclaim, actor._on_reclaim)
    handlers.on(journal.Tick, actor._on_tick)
    handlers.seal()
    return handlers


def _positions(batch: _Batch) -> tuple[consensus.LogPosition, ...]:
    return tuple(
        [
            consensus.LogPosition(
                op=message.prepare.header.op, checksum=message.prepare.header.checksum, view=message.view
            )
            for message in batch
        ]
    )
