"""Acknowledgements that nobody waits for. A deviation from 5.6, which has every replica acknowledge every entry.

Where the members before this one in the chain are a quorum already (5.5), the primary commits without this one's word, and
reading it is a tenth of what a write costs three nodes. So the word is kept back while the next entries may come, which are
forwarded by the tick (`spare_forwards`), and given only for what they do not name as committed. Mostly that is the last entry
before a pause. Where more entries follow soon, the quorum may have waited for the word; then this replica acknowledges at once
for a while, each time for twice as long: where the chain is broken for good, a write is late once in many seconds.

An entry that the primary sent itself is acknowledged at once: whoever is sent to directly was missed. So is one that comes
after a pause: few writes cost little, and who writes now and then would never find out that his writes wait.
"""

from typing import Final

from levrier.actors.consensus.acks import send_prepare_ok
from levrier.actors.consensus.spare import NEVER
from levrier.actors.consensus.state import ReplicaState
from levrier.actors.consensus.timeouts import PREPARE_TICKS
from levrier.wire.headers import PrepareHeader

KEPT_TICKS: Final = 2
"""At every so many ticks what was there the time before is looked at: the oldest word is kept for so long at least, and less
than twice as long. When it is given, the younger ones are too.
"""

FOLLOWS_TICKS: Final = 2
"""An entry that comes so soon after a word was given may have waited for it."""

PAUSE_TICKS: Final = 2
"""An entry that comes later than so many ticks after the last one is kept from nobody."""

PROMPT_TICKS_MIN: Final = 100
PROMPT_TICKS_MAX: Final = 3_200
"""How long everything is acknowledged at once after a word had to be given: from one second to half a minute."""

assert 2 * KEPT_TICKS < PREPARE_TICKS, "what is kept back must not be taken for lost"
assert KEPT_TICKS > 1, "an entry comes a tick after the one that it names as committed"


def members_before(state: ReplicaState) -> int:
    """How many members whose word counts a prepare has passed before it is here, the primary included."""
    count = state.config.replica_count
    primary = state.primary
    before = [(primary + step) % count for step in range((state.config.replica - primary) % count)]
    return sum(not state.abstaining >> replica & 1 for replica in before)


def note_feed(state: ReplicaState, op: int, sender: int | None) -> None:
    """A live entry that will be appended came from `sender`; None where nobody knows."""
    if sender is None or sender == state.primary:
        state.spare_acks.direct.add(op)
    if state.ticks - max(state.fed_tick, 0) > PAUSE_TICKS:
        state.unhurried.add(op)
    state.fed_tick = state.ticks


def acknowledge(state: ReplicaState, header: PrepareHeader, *, before: int) -> None:
    """An entry is durable here, and was at so many `members_before`: acknowledge it, now or when it turns out to be needed."""
    spare = state.spare_acks
    is_direct = header.op in spare.direct
    spare.direct.discard(header.op)
    if state.ticks - spare.given_tick <= FOLLOWS_TICKS:
        _be_prompt(state)
    is_prompt = is_direct or header.op in state.unhurried or state.ticks < spare.prompt_until
    if is_prompt or before < state.quorums.replication:
        send_prepare_ok(state, header)
    elif header.op > state.commit_max:
        spare.recent.append(header)


def forget_op(state: ReplicaState, op: int) -> None:
    """Nothing will be said of this one: it is applied already, or no view is normal."""
    state.spare_acks.direct.discard(op)
    state.unhurried.discard(op)


def forget(state: ReplicaState) -> None:
    """The view is over: its entries are acknowledged again, or not, in the next one."""
    spare = state.spare_acks
    spare.recent.clear()
    spare.earlier.clear()
    spare.direct.clear()
    state.unhurried.clear()


def pass_tick(state: ReplicaState) -> None:
    """At every second tick: give the word for what was kept back since before the last one, unless all of it is committed."""
    spare = state.spare_acks
    if state.ticks % KEPT_TICKS or not (spare.recent or spare.earlier):
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
    spare.given_tick = state.ticks


def _be_prompt(state: ReplicaState) -> None:
    """A word that was kept back was given, and at once there is more."""
    spare = state.spare_acks
    spare.given_tick = NEVER
    spare.prompt_ticks = min(2 * spare.prompt_ticks, PROMPT_TICKS_MAX) or PROMPT_TICKS_MIN
    spare.prompt_until = state.ticks + spare.prompt_ticks
