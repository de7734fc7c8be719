"""Acknowledgements that nobody waits for. A deviation from 5.6, which has every replica acknowledge every entry.

Where the members before this one in the chain are a quorum already (5.5), the primary commits without this one's word, and
reading it is a tenth of what a write costs three nodes. So the word is kept back through a whole tick, and given only for
what is not known to be committed by then. That may mean that the quorum did not form without it, and then it acknowledges at
once for a while, each time for twice as long: where the chain is broken for good, a write is late once in many seconds. Under
load the next prepare names what is committed; when there is no load, nothing is lost by acknowledging at once.

An entry that the primary sent itself is acknowledged at once: whoever is sent to directly was missed.
"""

from typing import Final

from levrier.actors.consensus.acks import send_prepare_ok
from levrier.actors.consensus.state import ReplicaState
from levrier.actors.consensus.timeouts import PREPARE_TICKS
from levrier.wire.headers import PrepareHeader

KEPT_TICKS_MAX: Final = 2
"""A word is kept back through the rest of one tick and the whole of the next."""

PROMPT_TICKS_MIN: Final = 100
PROMPT_TICKS_MAX: Final = 3_200
"""How long everything is acknowledged at once after a word had to be given: from one second to half a minute."""

assert KEPT_TICKS_MAX < PREPARE_TICKS, "what is kept back must not be taken for lost"


def members_before(state: ReplicaState) -> int:
    """How many members whose word counts a prepare has passed before it is here, the primary included."""
    count = state.config.replica_count
    primary = state.primary
    before = [(primary + step) % count for step in range((state.config.replica - primary) % count)]
    return sum(not state.abstaining >> replica & 1 for replica in before)


def note_feed(state: ReplicaState, op: int, sender: int | None) -> None:
    """An entry that will be appended came from `sender`; None where nobody knows."""
    if sender is None or sender == state.primary:
        state.spare_acks.direct.add(op)


def acknowledge(state: ReplicaState, header: PrepareHeader, *, before: int) -> None:
    """An entry is durable here, and was at so many `members_before`: acknowledge it, now or when it turns out to be needed."""
    spare = state.spare_acks
    is_direct = header.op in spare.direct
    spare.direct.discard(header.op)
    if is_direct or state.ticks < spare.prompt_until or before < state.quorums.replication:
        send_prepare_ok(state, header)
    elif header.op > state.commit_max:
        spare.recent.append(header)


def forget(state: ReplicaState) -> None:
    """The view is over: its entries are acknowledged again, or not, in the next one."""
    spare = state.spare_acks
    spare.recent.clear()
    spare.earlier.clear()
    spare.direct.clear()


def pass_tick(state: ReplicaState) -> None:
    """Give the word for what was kept back since before the last tick, unless all of that is committed."""
    spare = state.spare_acks
    if not spare.recent and not spare.earlier:
        return
    needed = [header for header in spare.earlier if header.op > state.commit_max]
    if not needed:
        if spare.earlier:
            spare.prompt_ticks = 0
        spare.earlier, spare.recent = spare.recent, []
        return
    for header in (*needed, *spare.recent):
        send_prepare_ok(state, header)
    spare.earlier, spare.recent = [], []
    spare.prompt_ticks = min(2 * spare.prompt_ticks, PROMPT_TICKS_MAX) or PROMPT_TICKS_MIN
    spare.prompt_until = state.ticks + spare.prompt_ticks
