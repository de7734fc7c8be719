"""From submitted to durable: what a completion of the journal sets going, on a primary and on a backup (sections 5.4, 5.5).

A completion is judged against the state of the moment by (op, checksum), never by its op alone (rule 8). Forwarding and
acknowledging both come after it: nothing leaves this node that its own disk does not hold.
"""

from collections.abc import Sequence
from typing import Final

from levrier.actors.consensus import spare_forwards
from levrier.actors.consensus.acks import acknowledge_durable
from levrier.actors.consensus.admission import promote
from levrier.actors.consensus.commits import stream_commits
from levrier.actors.consensus.effects import Broadcast, Flush, Note, Send, Severity
from levrier.actors.consensus.gate import may_send, note_disk_progress
from levrier.actors.consensus.messages import LogPosition
from levrier.actors.consensus.projection import chain_target
from levrier.actors.consensus.spare_acks import acknowledge, members_before
from levrier.actors.consensus.state import Owed, ReplicaState, Status
from levrier.wire.prepare import Prepare

APPLIED_TOGETHER: Final = 16
"""Committed entries that a backup applies without waiting for the tick."""


def note_appended(state: ReplicaState, positions: Sequence[LogPosition]) -> None:
    """A batch is durable: forward and acknowledge what of it still counts, and commit what that completes."""
    mirror = state.mirror
    pipeline = state.pipeline
    alone = state.is_alone
    for position in positions:
        if not mirror.mark_durable(position.op, position.checksum):
            state.effects.append(Note(Severity.DEBUG, f"op {position.op} is durable but was given up before"))
            continue
        entry = pipeline.prepare_at(position.op)
        if entry is not None:
            if entry.prepare.header.checksum == position.checksum:
                entry.durable = True
                if not alone:
                    forward(state, entry.prepare)
        else:
            _note_durable(state, position.op)
    note_disk_progress(state)
    acknowledge_durable(state)
    if not alone and not state.is_primary:
        _apply_gathered(state)


def _apply_gathered(state: ReplicaState) -> None:
    """A backup applies at a tick, or when so much has gathered: nobody waits for it, and the primary may wait for what was just
    sent.
    """
    if state.commit_max - state.apply_sent < APPLIED_TOGETHER:
        return
    if state.effects:
        state.effects.append(Flush())
    stream_commits(state)


def _note_durable(state: ReplicaState, op: int) -> None:
    """A backup's log has grown: its head follows, and the entry goes on down the chain and back to the primary.

    To the next replica first where somebody behind is needed for the quorum; else it may follow later.
    """
    header = state.mirror.header(op)
    assert header is not None
    if op > state.sequencer:
        state.sequencer = op
        state.last_prepare_checksum = header.checksum
    elif op == state.sequencer:
        state.last_prepare_checksum = header.checksum
    if state.status is not Status.NORMAL or state.is_primary or op <= state.commit_min:
        return
    before = members_before(state)
    others_wait = before + state.voter < state.quorums.replication
    prepare = state.bodies.get(op)
    if prepare is not None and others_wait:
        forward(state, prepare)
    acknowledge(state, header, before=before)
    if prepare is not None and not others_wait:
        spare_forwards.keep_back(state, prepare)


def forward(state: ReplicaState, prepare: Prepare) -> None:
    """Hand a durable live prepare on. A primary that cannot rely on the chain sends it to everybody itself."""
    header = prepare.header
    if state.status is not Status.NORMAL or header.view != state.view or header.op <= state.commit_min:
        return
    if not may_send(state):
        state.owed |= Owed.FORWARDS
        return
    if state.suspects and state.is_primary:
        state.effects.append(Broadcast(prepare.frame))
        return
    target = chain_target(state, header)
    if target is not None:
        state.effects.append(Send(target, prepare.frame))


def forward_owed(state: ReplicaState) -> None:
    """The view is durable: a primary's prepares that waited for it may go (D-11). What a backup owes is retransmitted."""
    for entry in state.pipeline.prepares:
        if entry.durable and not entry.quorum_reached:
            forward(state, entry.prepare)


def drive(state: ReplicaState) -> None:
    """The backstops of a tick: an acknowledgement, a commit or a promotion that a lost message left behind (5.10)."""
    if state.status is not Status.NORMAL:
        return
    if not state.is_acting_primary:
        spare_forwards.pass_tick(state)
        stream_commits(state)
        return
    if state.commit_max < state.sequencer or state.apply_sent < state.commit_max:
        acknowledge_durable(state)
    promote(state)
