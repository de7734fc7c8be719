"""When a checkpoint is due, and what becomes of it (design, the path of a checkpoint; D-27).

The marker goes into the commit stream at `apply_sent`, so what it finds is consistent by order alone. One at a time. Due
when half of the slots above the last checkpoint are used, or when the log has grown to the larger of a floor and twice the
last snapshot, so that the cost stays in proportion to what was written. A failed one is tried again on ticks, in every
status: freeing the disk is enough.
"""

from typing import Final

from levrier.actors.consensus.effects import Capture, Note, Severity
from levrier.actors.consensus.state import ReplicaState

RETRY_TICKS: Final = 10
"""Wait before the first retry; doubled for each further failure."""

RETRY_SHIFT_MAX: Final = 7

SNAPSHOTS_PER_LOG: Final = 2
"""The log may grow to this many times the last snapshot."""


def capture_if_due(state: ReplicaState) -> None:
    """Send the marker behind the last Apply, if a checkpoint is due and none is under way."""
    checkpoint = state.checkpoint
    if (
        checkpoint.in_flight is not None
        or not is_due(state)
        or state.apply_sent <= checkpoint.snapshot_op
        or state.ticks < checkpoint.retry_tick
        or state.is_transferring
        or state.is_corrupt
    ):
        return
    checkpoint.in_flight = state.apply_sent
    state.effects.append(Capture(state.apply_sent))


def is_due(state: ReplicaState) -> bool:
    """Whether the log has grown enough since the last checkpoint, in ops or in bytes."""
    checkpoint = state.checkpoint
    config = state.config
    return 2 * (state.sequencer - checkpoint.snapshot_op) >= config.journal_slots or (
        checkpoint.log_size >= config.checkpoint_log_growth_min
        and checkpoint.log_size >= SNAPSHOTS_PER_LOG * checkpoint.snapshot_size
    )


def note_done(state: ReplicaState, *, op: int, snapshot_size: int, log_size: int) -> None:
    """The snapshot of `op` is durable and named, and the log below it is gone: there is room again."""
    checkpoint = state.checkpoint
    assert checkpoint.in_flight == op
    checkpoint.in_flight = None
    if op <= checkpoint.snapshot_op:
        return  # A received snapshot overtook it (D-26).
    checkpoint.snapshot_op = op
    checkpoint.snapshot_size = snapshot_size
    checkpoint.log_size = log_size
    checkpoint.failures = 0
    checkpoint.retry_tick = 0
    checkpoint.completed += 1
    state.mirror.drain(op)


def note_failed(state: ReplicaState, *, op: int, reason: str) -> None:
    """The attempt ended without effect: another one follows after a back-off, at the op of that moment."""
    checkpoint = state.checkpoint
    assert checkpoint.in_flight == op
    checkpoint.in_flight = None
    checkpoint.failures += 1
    checkpoint.retry_tick = state.ticks + (RETRY_TICKS << min(checkpoint.failures - 1, RETRY_SHIFT_MAX))
    state.effects.append(
        Note(Severity.WARNING, f"the checkpoint at op {op} failed {checkpoint.failures} times in a row: {reason}")
    )
