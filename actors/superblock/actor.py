"""The Superblock actor: the one writer of the two-copy record (persistence 3.6, consensus section 9).

What waits in the mailbox shares one write, which happens at the batch end and says what is known then. Each command gets
its own answer. After a failure the view gate is answered from memory until its back-off is over; a checkpoint is always
tried. Ending a node whose superblock is wedged is left to Consensus, which is told the number of failures.
"""

from loguru import logger

from levrier.actors.birth import messages as birth
from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.consensus import messages as consensus
from levrier.actors.runtime import Handlers, NodeActor, Recipient, Runtime
from levrier.actors.superblock import messages as superblock
from levrier.actors.superblock.core import SuperblockCore
from levrier.persistence.errors import StorageError, is_for_want_of_space
from levrier.persistence.superblock import Phase, SuperblockStore, VsrState


class SuperblockActor(NodeActor):
    """Writes `store`. `initial` is the recovered record, or the one to begin with when nothing was ever written."""

    def __init__(
        self,
        *,
        name: str,
        runtime: Runtime,
        store: SuperblockStore,
        initial: VsrState,
        consensus: Recipient[consensus.Command],
        checkpoint: Recipient[checkpoint.Command],
        birth: Recipient[birth.SuperblockAnswer] | None = None,
    ) -> None:
        super().__init__(name=name, runtime=runtime)
        self._log = logger.bind(actor=name)
        self._store = store
        self._core = SuperblockCore(state=initial, durable=store.sequence > 0)
        self._consensus = consensus
        self._checkpoint = checkpoint
        self._birth = birth
        self._is_birth_waiting = False
        self._views_waiting = 0
        self._checkpoints_waiting: list[int] = []
        self._last_reason = ""
        self._handlers = Handlers(superblock.Command)
        self._handlers.on(superblock.PersistView, self._on_persist_view)
        self._handlers.on(superblock.RecordCheckpoint, self._on_record_checkpoint)
        self._handlers.on(superblock.PersistBirth, self._on_persist_birth)
        self._handlers.seal()

    def receive(self, message: object) -> None:
        """Handle one command."""
        self._handlers.dispatch(message)

    def on_batch_end(self) -> None:
        """Write once for everything that was asked, and answer all of it."""
        views, self._views_waiting = self._views_waiting, 0
        checkpoints, self._checkpoints_waiting = self._checkpoints_waiting, []
        is_birth, self._is_birth_waiting = self._is_birth_waiting, False
        wait_nanos = 0 if checkpoints else self._core.gate_wait_nanos(self.runtime.clock.monotonic_nanos())
        if not views and not checkpoints and not is_birth:
            return
        failure = ""
        if wait_nanos:
            failure = f"not tried for another {wait_nanos // 1_000_000} ms"
        elif not self._write():
            failure = self._last_reason
        if failure:
            self._answer_failed(views, checkpoints, failure)
        else:
            self._answer_written(views, checkpoints)
        if is_birth:
            self._answer_birth(failure)

    def _on_persist_view(self, message: superblock.PersistView) -> None:
        self._core.merge_view(
            view=message.view,
            log_view=message.log_view,
            commit_max=message.commit_max,
            settles_cut=message.settles_cut,
        )
        self._views_waiting += 1

    def _on_record_checkpoint(self, message: superblock.RecordCheckpoint) -> None:
        if self._core.merge_checkpoint(op=message.op, checksum=message.checksum):
            self._checkpoints_waiting.append(message.op)
            return
        newer = self._core.record.checkpoint_op
        self._checkpoint.tell(checkpoint.RecordFailed(op=message.op, reason=f"the record names op {newer} already"))

    def _on_persist_birth(self, message: superblock.PersistBirth) -> None:
        self._core.merge_birth(birth_id=message.birth_id, phase=message.phase, voter=message.voter)
        self._is_birth_waiting = True

    def _write(self) -> bool:
        """Make the record durable. True without a write if it is already."""
        if self._core.is_durable:
            return True
        record = self._core.record
        try:
            self._store.write(record)
        except StorageError as error:
            self._core.on_failed(self.runtime.clock.monotonic_nanos(), is_full=is_for_want_of_space(error))
            self._last_reason = str(error)
            if self._core.is_failure_worth_a_line:
                self._log.error("superblock write failed, {} in a row: {}", self._core.failures, error)
            return False
        self._core.on_written(record)
        return True

    def _answer_written(self, views: int, checkpoints: list[int]) -> None:
        record = self._core.record
        for _ in range(views):
            self._consensus.tell(consensus.ViewPersisted(view=record.view, log_view=record.log_view))
        for op in checkpoints:
            self._checkpoint.tell(checkpoint.CheckpointRecorded(op=op))

    def _answer_birth(self, failure: str) -> None:
        assert self._birth is not None, "only a member of several has a birth to record"
        record = self._core.record
        if failure:
            self._core.withdraw_birth()
            self._birth.tell(birth.BirthPersistFailed(reason=failure))
        else:
            self._birth.tell(
                birth.BirthPersisted(birth_id=record.birth_id, is_born=record.phase is Phase.BORN, voter=record.voter)
            )

    def _view_failed(self, reason: str) -> consensus.ViewPersistFailed:
        core = self._core
        return consensus.ViewPersistFailed(failures=core.failures, is_full=core.is_full, reason=reason)

    def _answer_failed(self, views: int, checkpoints: list[int], reason: str) -> None:
        for _ in range(views):
            self._consensus.tell(self._view_failed(reason))
        for op in checkpoints:
            self._checkpoint.tell(checkpoint.RecordFailed(op=op, reason=reason))
