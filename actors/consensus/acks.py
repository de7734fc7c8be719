"""Acknowledgements: a backup's of what it durably holds, a primary's count of them, and the quorum (sections 5.6, 5.7, 5.10).

Acknowledged is an entry by its identity, durable here and proven to be the view's (I6, D-16), never an op number. Counting
and raising `commit_max` is one step (rule 9); the primary's own acknowledgement never leaves the handler, so there is no
loopback that could hold a stale one.
"""

from levrier.actors.consensus.commits import stream_commits
from levrier.actors.consensus.frames import prepare_ok, send
from levrier.actors.consensus.gate import may_send
from levrier.actors.consensus.pipeline import PrepareEntry
from levrier.actors.consensus.state import Owed, ReplicaState, Status
from levrier.wire.headers import PrepareHeader
from levrier.wire.replica_headers import PrepareOkHeader


def acknowledge_durable(state: ReplicaState) -> None:
    """Count this replica's own acknowledgement of everything it durably holds, and go on from there.

    Called after an append, after a superblock write that sends had waited for, and at every tick as the backstop of 5.10.
    """
    if not may_acknowledge(state):
        return
    replica = state.config.replica
    own = 1 << replica
    op = state.commit_max + 1
    while True:
        entry = state.pipeline.prepare_at(op)
        if entry is None or not entry.durable:
            break
        if not entry.acknowledged & own:
            count_acknowledgement(state, entry, replica)
        op += 1
    advance_commit(state)


def may_acknowledge(state: ReplicaState) -> bool:
    """Whether this replica's acknowledgement of its own entries counts now (5.6, 5.7)."""
    return state.is_acting_primary and state.voter and may_send(state)


def count_acknowledgement(state: ReplicaState, entry: PrepareEntry, replica: int) -> bool:
    """Add one replica's acknowledgement. True only for the one that completes the quorum."""
    assert 0 <= replica < state.config.replica_count
    entry.acknowledged |= 1 << replica
    if entry.quorum_reached or entry.acknowledged.bit_count() < state.quorums.replication:
        return False
    entry.quorum_reached = True
    return True


def advance_commit(state: ReplicaState) -> None:
    """Raise `commit_max` over every op in a row that has its quorum, and send the commit stream on."""
    pipeline = state.pipeline
    op = state.commit_max
    while True:
        entry = pipeline.prepare_at(op + 1)
        if entry is None or not entry.quorum_reached:
            break
        op += 1
    if op > state.commit_max:
        state.commit_max = op
        if state.sequencer > op:
            state.timeouts.prepare.start()
    stream_commits(state)


def receive_prepare_ok(state: ReplicaState, header: PrepareOkHeader) -> None:
    """Another replica durably holds an entry of this primary's view."""
    if header.view > state.view:
        state.observe_view(header.view)
    if header.view != state.view or not state.is_acting_primary:
        return
    sender = header.replica
    state.suspects &= ~(1 << sender)
    entry = state.pipeline.prepare_at(header.op)
    if entry is None or entry.prepare.header.checksum != header.prepare_checksum or entry.acknowledged >> sender & 1:
        return
    if count_acknowledgement(state, entry, sender):
        advance_commit(state)


def send_prepare_ok(state: ReplicaState, header: PrepareHeader) -> None:
    """Acknowledge one entry to the primary of the view, if it may be acknowledged (5.6).

    What is applied here and went into a snapshot counts as held: a view's log has no other entry at a committed op. The stamp
    of the entry says nothing: it may be that of a later view, which this replica forgot before its superblock had it.
    """
    if state.status is not Status.NORMAL or state.is_primary or state.is_transferring or not state.voter:
        return
    if state.is_corrupt:
        return
    op = header.op
    if op >= state.mirror.snapshot_op and (op in state.unverified or not state.mirror.holds(op, header.checksum)):
        return
    if not may_send(state):
        state.owed |= Owed.ACKNOWLEDGEMENTS
        return
    send(state, state.primary, prepare_ok(state, header))


def acknowledge_suffix(state: ReplicaState) -> None:
    """Acknowledge everything that is held above the commit point that the view was announced with.

    That is the primary's: it may not know yet what is committed, while this replica has applied it already.
    """
    if state.status is not Status.NORMAL or state.is_primary:
        return
    if not may_send(state):
        state.owed |= Owed.ACKNOWLEDGEMENTS
        return
    mirror = state.mirror
    for op in range(max(state.view_commit + 1, mirror.snapshot_op), mirror.last_op + 1):
        header = mirror.header(op)
        if header is not None:
            send_prepare_ok(state, header)
