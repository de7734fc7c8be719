"""Acknowledgements that nobody waits for (section 5.5).

Where the replicas before this one in the chain are a quorum already, the primary commits without this one's word, and a frame
for each entry would cost it a sixth of its time. So the word is kept back until two ticks have passed: what is
known to be committed by then needs none. If anything was not, the quorum did not form without this replica, and it
acknowledges at once for a while; so it does when the primary sends it prepares itself, which says that the chain is broken.
"""

from typing import Final

from levrier.actors.consensus.acks import send_prepare_ok
from levrier.actors.consensus.state import ReplicaState, Status
from levrier.wire.headers import PrepareHeader

PROMPT_TICKS: Final = 100
"""How long everything is acknowledged at once after a spare word turned out to be needed."""


def place_in_chain(state: ReplicaState) -> int:
    """How many replicas a prepare has passed before it is here, the primary included."""
    return (state.config.replica - state.primary) % state.config.replica_count


def note_feed(state: ReplicaState, sender: int | None) -> None:
    """A live prepare came from `sender`; None where nobody knows."""
    state.spare_acks.is_chained = sender is not None and sender != state.primary


def acknowledge(state: ReplicaState, header: PrepareHeader) -> None:
    """An entry is durable here: acknowledge it, now or when it is needed."""
    spare = state.spare_acks
    if spare.is_chained and state.ticks >= spare.prompt_until and place_in_chain(state) >= state.quorums.replication:
        spare.recent.append(header)
    else:
        send_prepare_ok(state, header)


def pass_tick(state: ReplicaState) -> None:
    """Give the word for what should have been committed without it."""
    spare = state.spare_acks
    if not spare.recent and not spare.earlier:
        return
    recent, spare.recent = spare.recent, []
    earlier, spare.earlier = spare.earlier, []
    if state.status is not Status.NORMAL:
        return
    if all(header.op <= state.commit_max for header in earlier):
        spare.earlier = recent
        return
    spare.prompt_until = state.ticks + PROMPT_TICKS
    for header in (*earlier, *recent):
        if header.op > state.commit_max:
            send_prepare_ok(state, header)
