"""From durable to applied: completions, acknowledgements, the quorum, and the one commit stream (sections 5.6 to 5.10).

A completion is judged against the state of the moment by (op, checksum), never by its op alone (rule 8). Counting an
acknowledgement and raising `commit_max` is one step (rule 9). Everything that is committed goes out as Apply, in op order,
once its own entry is durable here (rules 2 and 11); `commit_min` follows only when Applied comes back.
"""

from collections.abc import Sequence

from levrier.actors.consensus.admission import promote, resync_prepare_timer
from levrier.actors.consensus.checkpoints import capture_if_due
from levrier.actors.consensus.effects import Apply, Note, Severity
from levrier.actors.consensus.gate import may_send, note_disk_progress
from levrier.actors.consensus.messages import LogPosition
from levrier.actors.consensus.pipeline import PrepareEntry
from levrier.actors.consensus.state import ReplicaState, Status


def note_appended(state: ReplicaState, positions: Sequence[LogPosition]) -> None:
    """A batch is durable: acknowledge what of it is still in the pipeline, and commit what that completes."""
    mirror = state.mirror
    pipeline = state.pipeline
    for position in positions:
        if not mirror.mark_durable(position.op, position.checksum):
            state.effects.append(Note(Severity.DEBUG, f"op {position.op} is durable but was given up before"))
            continue
        entry = pipeline.prepare_at(position.op)
        if entry is not None and entry.prepare.header.checksum == position.checksum:
            entry.durable = True
    note_disk_progress(state)
    acknowledge_durable(state)


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
    return state.is_acting_primary and may_send(state)


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


def stream_commits(state: ReplicaState) -> None:
    """Tell the state machine every committed op above `apply_sent` that this log durably holds, in order (rule 2)."""
    pipeline = state.pipeline
    effects = state.effects
    op = state.apply_sent
    while op < state.commit_max:
        entry = pipeline.prepare_at(op + 1)
        if entry is None or not entry.durable:
            break
        effects.append(Apply(entry.prepare, entry.reply_to))
        op += 1
    if op > state.apply_sent:
        state.apply_sent = op
        capture_if_due(state)


def note_applied(state: ReplicaState, op: int) -> None:
    """An op is applied and its reply cached: only now it leaves the pipeline (rule 3), and its slot is free."""
    assert op == state.commit_min + 1, "applied in order, without a gap"
    assert op <= state.apply_sent
    state.commit_min = op
    pipeline = state.pipeline
    if pipeline.prepares and pipeline.prepares[0].prepare.header.op == op:
        pipeline.pop_head()
        resync_prepare_timer(state)
    if pipeline.requests:
        promote(state)


def drive(state: ReplicaState) -> None:
    """The backstops of a tick: an acknowledgement, a commit or a promotion that a lost message left behind (5.10)."""
    if state.status is not Status.NORMAL or not state.is_acting_primary:
        return
    if state.commit_max < state.sequencer or state.apply_sent < state.commit_max:
        acknowledge_durable(state)
    promote(state)
