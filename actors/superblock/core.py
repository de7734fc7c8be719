"""What the next superblock record says, and when it may be tried (persistence 3.5, 3.6).

One record carries the view pair and the checkpoint pairing, asked for by two actors that know nothing of each other. So the
record is merged at the moment it is written, from the latest of both, and no field of it ever goes back: a view change
keeps the pairing, a checkpoint keeps the view. Refuses to know files; the clock is handed in.
"""

from dataclasses import replace
from typing import Final

from levrier.persistence.superblock import Phase, VsrState

BACKOFF_BASE_NANOS: Final = 10_000_000
BACKOFF_SHIFT_MAX: Final = 8
BACKOFF_NANOS_MAX: Final = 1_000_000_000

assert BACKOFF_BASE_NANOS << BACKOFF_SHIFT_MAX >= BACKOFF_NANOS_MAX


class SuperblockCore:
    """The record that is wanted, the one that is durable, and the failures in between."""

    __slots__ = ("_durable", "_failures", "_first", "_is_full", "_record", "_retry_nanos")

    def __init__(self, *, state: VsrState, durable: bool) -> None:
        """`state` is what boot recovered or made up; `durable` says whether it lies on the disk already."""
        self._record = state
        self._first = state
        self._durable = state if durable else None
        self._failures = 0
        self._is_full = False
        self._retry_nanos = 0
        self._assert_invariants()

    @property
    def record(self) -> VsrState:
        """What a write writes now."""
        return self._record

    @property
    def is_durable(self) -> bool:
        """Whether a write would change nothing."""
        return self._record == self._durable

    @property
    def failures(self) -> int:
        """Failed writes since the last that succeeded, a checkpoint's included; since the disk was last full if it was."""
        return self._failures

    @property
    def is_full(self) -> bool:
        """Whether the last of them failed for want of space only."""
        return self._is_full

    @property
    def is_failure_worth_a_line(self) -> bool:
        """A disk that stays broken is reported at its first, second, fourth, eighth ... failure."""
        return self._failures & (self._failures - 1) == 0

    def merge_view(self, *, view: int, log_view: int, commit_max: int, settles_cut: bool = False) -> None:
        """Have the record say at least this. `settles_cut` takes the mark of a cut log away; only a boot sets it."""
        assert log_view <= view, (log_view, view)
        record = self._record
        log_cut = record.log_cut and not settles_cut
        is_news = view > record.view or log_view > record.log_view or commit_max > record.commit_max
        if not is_news and log_cut == record.log_cut:
            return
        self._record = replace(
            record,
            view=max(record.view, view),
            log_view=max(record.log_view, log_view),
            commit_max=max(record.commit_max, commit_max),
            log_cut=log_cut,
        )
        self._assert_invariants()

    def merge_checkpoint(self, *, op: int, checksum: int) -> bool:
        """Have the record name this snapshot; False if it names a newer one. What a snapshot covers was committed."""
        record = self._record
        if op < record.checkpoint_op:
            return False
        self._record = replace(
            record, checkpoint_op=op, checkpoint_checksum=checksum, commit_max=max(record.commit_max, op)
        )
        self._assert_invariants()
        return True

    def merge_birth(self, *, birth_id: int, phase: Phase, voter: bool) -> None:
        """Have the record say how far the birth is. What could not be written was told to nobody, and may be replaced."""
        durable = self._durable
        assert birth_id
        if durable is not None:
            assert durable.birth_id in (0, birth_id), "a member is born once"
            assert phase >= durable.phase
            assert voter or not durable.voter, "a voter stays one"
        self._record = replace(self._record, birth_id=birth_id, phase=phase, voter=voter)
        self._assert_invariants()

    def withdraw_birth(self) -> None:
        """Want no step of the birth beyond what is durable: the one that was asked for was not written, and its asker knows.

        Nobody was told of that step, and its asker decides anew by what it hears meanwhile: a first member mints another
        id, a blank one may find another birth. Kept, it would become durable with the next view or checkpoint, behind the
        back of an asker that believes it did not. A write that failed and is on the disk all the same is superseded by
        the next one, or found by a boot, which is as if the node had crashed right after that step.
        """
        kept = self._durable or self._first
        self._record = replace(self._record, birth_id=kept.birth_id, phase=kept.phase, voter=kept.voter)
        self._assert_invariants()

    def gate_wait_nanos(self, now_nanos: int) -> int:
        """How long the view gate still withholds after a failure, 0 if it does not. A checkpoint never asks."""
        return max(0, self._retry_nanos - now_nanos)

    def on_written(self, record: VsrState) -> None:
        """The record is durable, as it was written."""
        assert record.view <= self._record.view
        self._durable = record
        self._failures = 0
        self._is_full = False
        self._retry_nanos = 0
        self._assert_invariants()

    def on_failed(self, now_nanos: int, *, is_full: bool) -> None:
        """The write failed; the record stays wanted. A full disk and a broken one are counted apart."""
        if is_full != self._is_full:
            self._is_full = is_full
            self._failures = 0
        self._failures += 1
        wait = BACKOFF_BASE_NANOS << min(self._failures, BACKOFF_SHIFT_MAX)
        self._retry_nanos = now_nanos + min(wait, BACKOFF_NANOS_MAX)
        self._assert_invariants()

    def _assert_invariants(self) -> None:
        record, durable = self._record, self._durable
        assert record.log_view <= record.view
        assert record.view >= self._first.view
        if durable is not None:
            assert record.view >= durable.view
            assert record.log_view >= durable.log_view
            assert record.commit_max >= durable.commit_max
            assert record.checkpoint_op >= durable.checkpoint_op
        if not self._failures:
            assert not self._is_full
            assert self._retry_nanos == 0
