"""What of an unproven log was never acknowledged from here, so that a vote may deny it; and what a disk may have lost, which
a vote must not deny (8.3, D-16, D-24).

An entry that is held and not proven is passed over in silence, for it may have been acknowledged in an earlier view. But of two
votes one that is silent and one that denies decide nothing, so two good members would wait for the third for ever. Two
kinds of entries were acknowledged by nobody here, and are denied:

* What a primary-elect has fetched: between two views nothing is acknowledged. Had it held the entry before and acknowledged it,
  it would hold it still, but for what a view left out or a state replaced, which needed no word from here to be committed.
* What a boot finds with the stamp of a view above the durable log_view: an acknowledgement in that view or a later one
  waits for a log_view at least as high (D-11).

Neither holds where a boot has cut the log: then the entry may be here for the second time.
"""

from levrier.actors.consensus.state import RecoveredState, ReplicaState, Status


def note_unpromised(state: ReplicaState, op: int) -> None:
    """An entry is about to be appended."""
    may_be_back = state.log_cut or state.gate.cut_durable or op <= state.mirror.last_op
    if state.status is Status.VIEW_CHANGE and not may_be_back:
        state.unpromised.add(op)
    else:
        state.unpromised.discard(op)


def unpromised_at_boot(recovered: RecoveredState) -> set[int]:
    """Of the log that a boot has found."""
    if recovered.log_cut:
        return set()
    return {header.op for header in recovered.headers if header.view > recovered.log_view}


def denied(state: ReplicaState) -> set[int]:
    """Ops that are held, not proven, and not to be kept for anybody's sake."""
    return state.unverified & state.unpromised


def lost(state: ReplicaState, *, commit: int) -> set[int]:
    """Ops that are not held and that this replica may have acknowledged: what a view named to a disk that was cut (D-24), and
    what is missing below what is held (D-06).
    """
    mirror = state.mirror
    missing = {op for op in range(commit + 1, mirror.last_op) if mirror.header(op) is None}
    if state.gate.cut_durable:
        missing.update(op for op in state.adopted if op > commit and mirror.header(op) is None)
    return missing
