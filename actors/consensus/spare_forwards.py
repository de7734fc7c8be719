"""Prepares that nobody waits for yet. A deviation from 5.5, which has every replica forward every entry at once.

Where this member completes a quorum, the primary commits as soon as it has acknowledged, and those further down the chain
only have to follow. What goes on to them is therefore kept back here, and forwarded together: at the next tick, or when so much
has gathered that more would not make it cheaper. One read, one sync and one turn for many entries save a quarter of what a
write with nothing beside it costs three nodes. Those behind are late by a tick, all of them by the same one. What was applied
here meanwhile is forwarded as well, where 5.5 has nothing more to forward.

Where a tick finds nothing committed of what was kept, and soon another one does, the quorum may form only further down,
because this member's word does not reach the primary. Then everything is forwarded at once for a while. So is what comes after
a pause, for the reason that `spare_acks` gives.

What is kept back and lost with this member is missed by those behind like any frame that a network lost, and repaired the
same way: when an entry behind it comes, or when it is committed and has not come for a while.
"""

from typing import Final

from levrier.actors.consensus.effects import Note, Send, Severity
from levrier.actors.consensus.gate import may_send
from levrier.actors.consensus.projection import following_member
from levrier.actors.consensus.spare_acks import KEPT_TICKS
from levrier.actors.consensus.state import ReplicaState, Status
from levrier.wire.prepare import Prepare

GATHERED_MAX: Final = 32
"""Entries that are forwarded without waiting for the tick."""

LATE_AGAIN_TICKS: Final = 5
"""Two ticks at which nothing was committed are taken together when they are no further apart: a word that is kept back
(`spare_acks`) lies between them.
"""

PROMPT_TICKS: Final = 100
"""How long everything is forwarded at once after two such ticks: one second."""

assert 2 * KEPT_TICKS < LATE_AGAIN_TICKS


def keep_back(state: ReplicaState, prepare: Prepare) -> None:
    """A durable prepare whose quorum is complete with this member. Only a live one goes on; the last of a chain keeps nothing."""
    header = prepare.header
    if header.view != state.view or following_member(state, header) is None:
        return
    spare = state.spare_forwards
    spare.kept.append(prepare)
    if header.op in state.unhurried or state.ticks < spare.prompt_until or len(spare.kept) >= GATHERED_MAX:
        _forward_kept(state)


def pass_tick(state: ReplicaState) -> None:
    """Forward what has gathered."""
    spare = state.spare_forwards
    if not spare.kept:
        return
    if spare.kept[0].header.op > state.commit_max:
        if state.ticks - spare.late_tick <= LATE_AGAIN_TICKS:
            spare.prompt_until = state.ticks + PROMPT_TICKS
        spare.late_tick = state.ticks
    _forward_kept(state)


def _is_held(state: ReplicaState, prepare: Prepare) -> bool:
    """Whether this node still has it: an entry may be cut in its own view, when one below it cannot be appended (D-06)."""
    header = prepare.header
    return header.op <= state.commit_min or state.mirror.holds(header.op, header.checksum)


def forget(state: ReplicaState) -> None:
    """The view is over, and its entries go another way."""
    state.spare_forwards.kept.clear()


def _forward_kept(state: ReplicaState) -> None:
    kept = state.spare_forwards.kept
    assert state.status is Status.NORMAL
    assert kept[0].header.view == state.view, "what is kept is forgotten with its view"
    target = following_member(state, kept[0].header)
    assert target is not None
    if may_send(state):
        state.effects.extend([Send(target, prepare.frame) for prepare in kept if _is_held(state, prepare)])
    else:
        state.effects.append(Note(Severity.DEBUG, f"{len(kept)} prepares are not forwarded: the view is not durable"))
    kept.clear()
