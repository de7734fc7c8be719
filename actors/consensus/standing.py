"""What Consensus tells others of itself: who leads (to the Bus), what it is (to the plugins), how far it is (to Birth).

Who leads is published when it has changed, looked at once a tick; nobody asks for it, so nobody waits for an answer.
"""

from levrier.actors.birth.messages import Standing
from levrier.actors.bus.messages import Leadership
from levrier.actors.consensus.effects import Publish, TellBirth, TellPlugins
from levrier.actors.consensus.gate import is_disk_silent, is_unheeded
from levrier.actors.consensus.messages import StandingWanted
from levrier.actors.consensus.start_view import durable_head
from levrier.actors.consensus.state import ReplicaState, Status
from levrier.actors.plugins.messages import RoleChanged


def publish(state: ReplicaState) -> None:
    """Say who leads if that has changed. One whose state is wrong knows of nobody: it is not ready for a client (D-17).

    A primary serves while it can commit; to a backup it does once everything that its view began with is committed.
    """
    view = state.view
    leader: int | None = None
    serves = False
    if state.status is Status.NORMAL and not state.is_corrupt:
        primary = view % state.config.replica_count
        if primary != state.config.replica:
            leader, serves = primary, state.commit_max >= state.view_head
        elif state.is_acting_primary:
            leader = primary
            serves = (
                state.commit_min >= state.admission_barrier and not is_unheeded(state) and not is_disk_silent(state)
            )
    unheard = _unheard(state)
    if (view, leader, serves, unheard) != state.published:
        state.published = (view, leader, serves, unheard)
        state.effects.append(Publish(Leadership(view=view, leader=leader, serves=serves, unheard=_members(unheard))))


def _unheard(state: ReplicaState) -> int:
    """Bit r: this replica waits for replica r, connected or not."""
    if state.status is Status.VIEW_CHANGE:
        return state.silent
    pipeline = state.pipeline
    if not state.is_acting_primary or not is_unheeded(state) or not pipeline.prepares:
        return 0
    oldest = pipeline.prepares[0]
    return state.everybody & ~oldest.acknowledged if oldest.durable else 0


def _members(bits: int) -> tuple[int, ...]:
    return tuple([replica for replica in range(bits.bit_length()) if bits >> replica & 1])


def tell_role(state: ReplicaState) -> None:
    """Tell the plugins what this replica is, if that has changed.

    Settled is a replica whose state reflects what its own log held and what its view was announced with: what plugins
    delete on a disk, they delete by such a state only (maintenance 2).
    """
    is_leader = state.is_acting_primary and state.is_past_barrier
    inherited = max(state.recovery_barrier, state.view_commit, state.admission_barrier if state.is_primary else 0)
    is_settled = (
        state.born
        and state.voter
        and state.status is Status.NORMAL
        and not state.is_transferring
        and state.commit_min >= inherited
        and (is_leader or not state.is_primary)
    )
    told = state.role_told
    if told is None or (told.is_leader, told.is_settled, told.view) != (is_leader, is_settled, state.view):
        state.role_told = RoleChanged(is_leader=is_leader, is_settled=is_settled, view=state.view)
        state.effects.append(TellPlugins(state.role_told))


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
