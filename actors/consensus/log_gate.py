"""The one gate to the log of a replica that gets its entries from others: live prepares and repaired ones.

The log stays one hash chain: an op is appended only behind its predecessor and only if it names that one as its parent, in
any view (D-16). A hole that the disk of a restarted replica has is filled the same way. While the log is being cut, what
comes waits here.
"""

from typing import Final

from levrier.actors.consensus.assignments import observe_assignments
from levrier.actors.consensus.cutting import cut
from levrier.actors.consensus.effects import Append, Note, Severity
from levrier.actors.consensus.gate import await_disk
from levrier.actors.consensus.pipeline import PREPARE_QUEUE_CEILING
from levrier.actors.consensus.projection import RECORD_OVERHEAD, observe_timestamp
from levrier.actors.consensus.state import ReplicaState, Status
from levrier.actors.consensus.unpromised import note_unpromised
from levrier.actors.consensus.verified import chains, heed_commit_field, verify
from levrier.wire.errors import WireError
from levrier.wire.prepare import Prepare

BODIES_MAX: Final = 1024
"""Entries kept in memory until they are applied; what is above is read from the journal again."""


def make_way(state: ReplicaState, op: int) -> bool:
    """Cut an unproven entry that turned out to be another. False when it is proven."""
    if op not in state.unverified:
        return False
    cut(state, op)
    return True


def follows(state: ReplicaState, prepare: Prepare) -> bool:
    """Whether an entry belongs right behind what the log holds, and there is room for it (rule 10).

    An unproven predecessor that it contradicts is given up, when the entry itself is one that this view vouches for.
    """
    header = prepare.header
    op = header.op
    mirror = state.mirror
    if op - state.checkpoint.snapshot_op >= state.config.journal_slots:
        return False
    above = mirror.header(op + 1)
    if op != mirror.last_op + 1 and (above is None or not chains(header, above)):
        return False
    below = mirror.header(op - 1)
    if below is None:
        return op - 1 <= max(state.commit_min, mirror.snapshot_op)
    if chains(below, header):
        return True
    if op - 1 in state.unverified and is_vouched_for(state, prepare):
        cut(state, op - 1)
    return False


def is_vouched_for(state: ReplicaState, prepare: Prepare) -> bool:
    """Whether the present view says that this entry is its own: it was made in it, or the view names it."""
    header = prepare.header
    if state.status is Status.NORMAL and header.view == state.view:
        return True
    names = state.pending.named if state.pending is not None else state.adopted
    named = names.get(header.op)
    return named is not None and not named.is_blank and named.checksum == header.checksum


def submit(state: ReplicaState, prepare: Prepare, *, is_proven: bool) -> None:
    """Append an entry that follows. Its body stays in memory until it is applied. One that names no assignments where its
    operation has them was made by no primary, and is dropped.
    """
    assert state.truncation is None
    header = prepare.header
    op = header.op
    try:
        observe_assignments(state, header.operation, prepare.body)
    except WireError as error:
        state.effects.append(Note(Severity.ERROR, f"op {op} is dropped, replica {header.replica} made it: {error}"))
        return
    note_unpromised(state, op)
    state.mirror.submit(header)
    if len(state.bodies) < BODIES_MAX:
        state.bodies[op] = prepare
    state.checkpoint.log_size += header.size + RECORD_OVERHEAD
    await_disk(state)
    observe_timestamp(state, header.timestamp)
    state.unverified.add(op)
    if is_proven or (
        (above := state.mirror.header(op + 1)) is not None and op + 1 not in state.unverified and chains(header, above)
    ):
        verify(state, op)
    heed_commit_field(state, header)
    state.effects.append(Append(prepare, state.view))


def park(state: ReplicaState, prepare: Prepare, *, is_repair: bool) -> None:
    """Keep what came while the log is being cut; what does not fit is retransmitted or asked for again."""
    if len(state.parked) < PREPARE_QUEUE_CEILING:
        state.parked.append((prepare, is_repair))
