"""What Consensus tells others of itself: who leads (to the Bus), and how far this replica is (to the member-state actor).

Who leads is published when it has changed, looked at once a tick; nobody asks for it, so nobody waits for an answer.
"""

from levrier.actors.birth.messages import Standing
from levrier.actors.bus.messages import Leadership
from levrier.actors.consensus.effects import Publish, TellBirth
from levrier.actors.consensus.messages import StandingWanted
from levrier.actors.consensus.start_view import durable_head
from levrier.actors.consensus.state import ReplicaState, Status


def publish(state: ReplicaState) -> None:
    """Say who leads if that has changed."""
    view = state.view
    leader: int | None = None
    serves = False
    if state.status is Status.NORMAL:
        primary = view % state.config.replica_count
        if primary != state.config.replica:
            leader, serves = primary, True
        elif state.is_acting_primary:
            leader, serves = primary, state.commit_min >= state.admission_barrier
    if (view, leader, serves) != state.published:
        state.published = (view, leader, serves)
        state.effects.append(Publish(Leadership(view=view, leader=leader, serves=serves)))


def answer(state: ReplicaState, wanted: StandingWanted) -> None:
    """How far this replica is, and whether it durably holds an entry that somebody named."""
    gate = state.gate
    head = durable_head(state)
    header = state.mirror.header(head)
    is_settled = (
        state.status is Status.NORMAL
        and gate.view_durable == state.view
        and gate.log_view_durable == state.log_view == state.view
    )
    state.effects.append(
        TellBirth(
            Standing(
                token=wanted.token,
                view=state.view,
                is_settled=is_settled,
                is_primary=state.is_acting_primary,
                op=head,
                checksum=header.checksum if header is not None else 0,
                holds=_holds(state, wanted.op, wanted.checksum),
            )
        )
    )


def _holds(state: ReplicaState, op: int, checksum: int) -> bool:
    """Applied ops are committed, so an entry that a primary's log had there is the one that was applied."""
    if op <= state.commit_min:
        return True
    return op not in state.unverified and state.mirror.holds(op, checksum)
