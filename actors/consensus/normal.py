"""From submitted to durable: what a completion of the journal sets going, on a primary and on a backup (sections 5.4, 5.5).

A completion is judged against the state of the moment by (op, checksum), never by its op alone (rule 8). Forwarding and
acknowledging both come after it: nothing leaves this node that its own disk does not hold.

A deviation from 5.4, step 15, which has a backup apply what is committed with every prepare: it does so at the tick, or when much
has gathered. Nobody waits for it, and the primary may wait for what this node has just sent.
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
from levrier.actors.consensus.spare_acks import acknowledge, forget_op, members_before
from levrier.actors.consensus.state import Owed, ReplicaState, Status
from levrier.wire.prepare import Prepare

UNAPPLIED_MAX: Final = 16
"""Committed entries at which a backup applies them without waiting for the tick."""


def note_appended(state: ReplicaState, positions: Sequence[LogPosition]) -> None:
    """A batch is durable: forward and acknowledge what of it still counts, and commit what that completes."""
    mirror = state.mirror
    pipeline = state.pipeline
    alone = state.is_alone
    before = 0 if state.is_primary else members_before(state)
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
            _note_durable(state, position.op, before)
    note_disk_progress(state)
    acknowledge_durable(state)
    if not state.is_primary and state.commit_max - state.apply_sent >= UNAPPLIED_MAX:
        _apply(state)


def _apply(state: ReplicaState) -> None:
    """Apply what is committed on a backup, behind what it has to send."""
    if state.effects and state.commit_max > state.apply_sent and not state.is_alone:
        state.effects.append(Flush())
    stream_commits(state)


def _note_durable(state: ReplicaState, op: int, before: int) -> None:
    """A backup's log has grown: its head follows, and the entry goes on down the chain and is acknowledged to the primary.
    `before` are the `members_before` this one.

    Whoever completes the quorum with its acknowledgement lets those behind it follow by the tick, together (`spare_forwards`).
    """
    header = state.mirror.header(op)
    assert header is not None
    if op > state.sequencer:
        state.sequencer = op
        state.last_prepare_checksum = header.checksum
    elif op == state.sequencer:
        state.last_prepare_checksum = header.checksum
    if state.status is not Status.NORMAL or state.is_primary or op <= state.commit_min:
        forget_op(state, op)
        return
    completes = state.voter and before + 1 == state.quorums.replication
    prepare = state.bodies.get(op)
    if prepare is not None and not completes:
        forward(state, prepare)
    acknowledge(state, header, before=before)
    if prepare is not None and completes:
        spare_forwards.keep_back(state, prepare)
    state.unhurried.discard(op)


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
    """What a tick does for the log: a backup applies; a primary takes up an acknowledgement, a commit or a promotion that a lost
    message left behind (5.10).
    """
    if state.status is not Status.NORMAL:
        return
    if not state.is_acting_primary:
        _apply(state)
        return
    if state.commit_max < state.sequencer or state.apply_sent < state.commit_max:
        acknowledge_durable(state)
    promote(state)
