"""Cutting the log: forget a tail here and have the journal remove it, behind every append that was told (rule 8)."""

from levrier.actors.consensus.effects import Truncate
from levrier.actors.consensus.gate import await_disk
from levrier.actors.consensus.state import ReplicaState, TruncationState


def cut(state: ReplicaState, from_op: int, *, settles: bool = True) -> None:
    """Remove everything from an op on. Until the journal has done it no Append is told; a failure is tried again.

    `settles` says that what is cut can never be committed any more.
    """
    if state.truncation is not None and state.truncation.from_op <= from_op:
        return
    assert from_op > state.apply_sent, "nothing applied is ever taken back"
    state.mirror.truncate_from(from_op)
    if state.unverified:
        state.unverified = {op for op in state.unverified if op < from_op}
    for op in [op for op in state.bodies if op >= from_op]:
        del state.bodies[op]
    if state.pending is not None:
        state.pending.next_op = min(state.pending.next_op, from_op)
    state.truncation = TruncationState(from_op=from_op, settles=settles)
    await_disk(state)
    state.effects.append(Truncate(from_op))
