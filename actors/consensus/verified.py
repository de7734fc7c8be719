"""Which entries of the log are known to belong to the view (D-16, BR-03): an op number alone never makes one committed.

The log of this replica is one hash chain, because nothing is appended that does not follow from what lies below it. So
proving one entry proves everything below it. An entry is proven when the view names it (a StartView, a heartbeat), when it
was appended in this view, when it is the parent of a proven one, or when an entry that chains to it says that it is
committed. What is not proven stays on the disk, is not applied, not acknowledged, and is passed over in silence in a vote.

At boot, entries stamped with the durable view's number were appended in it. So were, or were reconciled with it, those at
and above the commit point that the superblock named: it is only written with a view once the log was reconciled with it.
"""

from levrier.actors.consensus.state import RecoveredState, ReplicaState
from levrier.actors.consensus.unpromised import unpromised_at_boot
from levrier.wire.headers import PrepareHeader


def distrust(state: ReplicaState) -> None:
    """A new view: nothing above what is applied is proven until that view says so, but what the log itself proves committed.

    That stays proven in every view. A member that is so far behind that its log has no room for the entry that would prove
    the others could never apply them otherwise, and so never make room.
    """
    state.unverified = {op for op in state.mirror.ops() if op > state.apply_sent}
    for op in sorted(state.unverified, reverse=True):
        header = state.mirror.header(op)
        assert header is not None
        heed_commit_field(state, header)


def verify(state: ReplicaState, op: int) -> None:
    """The entry that the log holds at `op` belongs to the view; so does everything it chains to."""
    unverified = state.unverified
    mirror = state.mirror
    header = mirror.header(op)
    while header is not None and op in unverified:
        unverified.discard(op)
        op -= 1
        lower = mirror.header(op)
        if lower is None or not chains(lower, header):
            return
        header = lower


def chains(lower: PrepareHeader, upper: PrepareHeader) -> bool:
    """Whether the upper entry names the lower one as its parent; an unsealed one cannot say, and passes."""
    return lower.checksum == 0 or upper.checksum == 0 or upper.parent == lower.checksum


def heed_commit_field(state: ReplicaState, header: PrepareHeader) -> None:
    """An entry says which op was committed when it was made; if it chains down to that op, that one is proven."""
    if not state.unverified:
        return
    target = min(header.commit, header.op - 1)
    mirror = state.mirror
    if target not in state.unverified:
        return
    while header.op > target:
        lower = mirror.header(header.op - 1)
        if lower is None or not chains(lower, header):
            return
        header = lower
    verify(state, target)


def judge_recovered(state: ReplicaState, recovered: RecoveredState) -> None:
    """What of the log found at boot is proven by the disk alone."""
    if state.is_alone:
        return
    distrust(state)
    known = recovered.commit_known
    state.unpromised = unpromised_at_boot(recovered)
    for header in reversed(recovered.headers):
        is_of_view = header.view == state.log_view
        was_reconciled = known is not None and known <= header.op and header.view <= state.log_view
        if is_of_view or was_reconciled:
            verify(state, header.op)


def first_unmet(state: ReplicaState, from_op: int, to_op: int) -> int | None:
    """The lowest op of a range that the log does not hold proven; None when there is none."""
    mirror = state.mirror
    unverified = state.unverified
    for op in range(from_op, to_op + 1):
        if op in unverified or mirror.header(op) is None:
            return op
    return None
