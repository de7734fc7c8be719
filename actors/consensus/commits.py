"""The one commit stream (sections 5.8 and 5.10, design rules 2, 3 and 11).

Everything that is committed goes out as Apply, in op order, once its own entry is durable here and proven to be the view's;
`commit_min` follows only when Applied comes back. A primary has the bodies in its pipeline and a backup in memory; what is
in neither is read from the journal, one read at a time.
"""

from levrier.actors.consensus.admission import promote, resync_prepare_timer
from levrier.actors.consensus.checkpoints import capture_if_due
from levrier.actors.consensus.effects import Apply, Read
from levrier.actors.consensus.forward_results import FORWARDED_CONNECTION, send_committed
from levrier.actors.consensus.state import PendingRead, ReadPurpose, ReplicaState, Status
from levrier.wire.prepare import Prepare

READ_OPS_MAX = 256
"""Ops in one read of the commit walk."""


def stream_commits(state: ReplicaState) -> None:
    """Tell the state machine every committed op above `apply_sent` that this log durably holds, in order (rule 2)."""
    op = state.apply_sent
    if op >= state.commit_max or state.transfer_stage or state.status is not Status.NORMAL or state.is_corrupt:
        return
    pipeline = state.pipeline
    effects = state.effects
    bodies = state.bodies
    while op < state.commit_max:
        entry = pipeline.prepare_at(op + 1)
        if entry is not None:
            if not entry.durable:
                break
            effects.append(Apply(entry.prepare, entry.reply_to))
        else:
            prepare = _body(state, op + 1)
            if prepare is None:
                break
            effects.append(Apply(prepare, None))
        op += 1
        if bodies:
            bodies.pop(op, None)
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
        entry = pipeline.pop_head()
        if state.forwarded and entry.reply_to is not None and entry.reply_to.connection == FORWARDED_CONNECTION:
            send_committed(state, entry.reply_to, op)
        resync_prepare_timer(state)
    if state.unverified:
        state.unverified.discard(op)
    if state.applying or state.unsettled:
        _settle(state, op)
    if pipeline.requests:
        promote(state)


def remember_bodies(state: ReplicaState, prepares: tuple[Prepare, ...]) -> None:
    """Entries that the journal was asked for; what is not the entry of the moment any more is left out."""
    for prepare in prepares:
        header = prepare.header
        held = state.mirror.header(header.op)
        if held is not None and held.checksum == header.checksum and header.op > state.apply_sent:
            state.bodies[header.op] = prepare


def is_reading(state: ReplicaState, purpose: ReadPurpose) -> bool:
    """Whether such a read is under way."""
    return any(read.purpose is purpose for read in state.reads)


def read(state: ReplicaState, pending: PendingRead) -> None:
    """Ask the journal, which answers in order."""
    state.reads.append(pending)
    state.effects.append(Read(pending.from_op, pending.to_op))


def _body(state: ReplicaState, op: int) -> Prepare | None:
    """The entry to apply at `op`, if it is durable, proven and in memory. One that is only on the disk is asked for."""
    mirror = state.mirror
    header = mirror.header(op)
    if header is None or not mirror.is_durable(op) or op in state.unverified:
        return None
    prepare = state.bodies.get(op)
    if prepare is not None and prepare.header.checksum == header.checksum:
        return prepare
    if not is_reading(state, ReadPurpose.COMMIT):
        to_op = min(state.commit_max, op + READ_OPS_MAX - 1)
        read(state, PendingRead(purpose=ReadPurpose.COMMIT, from_op=op, to_op=to_op))
    return None


def _settle(state: ReplicaState, op: int) -> None:
    """What was unknown about requests at or below an applied op is known now: the client table answers them (D-29)."""
    for client in [client for client, at in state.applying.items() if at <= op]:
        del state.applying[client]
    for key in [key for key, fate in state.unsettled.items() if fate.op <= op]:
        del state.unsettled[key]
