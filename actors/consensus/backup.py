"""A live prepare on a backup (sections 5.4 and 6.4).

What is held already is compared by identity: only the very entry is acknowledged again, and an unproven one that differs
makes way, durably, before anything is acknowledged (BR-03).
"""

from levrier.actors.consensus.acks import send_prepare_ok
from levrier.actors.consensus.commits import stream_commits
from levrier.actors.consensus.effects import Note, Severity
from levrier.actors.consensus.log_gate import follows, make_way, park, submit
from levrier.actors.consensus.normal import forward
from levrier.actors.consensus.repair import maybe_request_repair
from levrier.actors.consensus.spare_acks import note_feed
from levrier.actors.consensus.state import ReplicaState, Status
from levrier.actors.consensus.verified import verify
from levrier.wire.prepare import Prepare


def receive_prepare(state: ReplicaState, prepare: Prepare, sender: int | None) -> None:
    """A prepare of the primary, from whoever passed it on."""
    header = prepare.header
    if header.view > state.view:
        state.observe_view(header.view)
    if state.is_transferring or state.status is not Status.NORMAL or header.view != state.view or state.is_primary:
        return
    state.commit_max = max(state.commit_max, header.commit)
    if header.op > state.commit_min:
        if _take(state, prepare, sender):
            return
    else:
        send_prepare_ok(state, header)  # Applied here, and the primary of a young view may not know.
    stream_commits(state)


def _take(state: ReplicaState, prepare: Prepare, sender: int | None) -> bool:
    """True if it is being appended: its acknowledgement comes before anything that is committed is applied."""
    header = prepare.header
    op = header.op
    held = state.mirror.header(op)
    if held is not None and held.checksum == header.checksum:
        verify(state, op)
        if state.mirror.is_durable(op):
            forward(state, prepare)
            send_prepare_ok(state, held)
        return False
    if held is not None and not make_way(state, op):
        state.effects.append(Note(Severity.ERROR, f"op {op} of view {header.view} differs from a proven entry"))
        return False
    if state.truncation is not None:
        park(state, prepare, is_repair=False)
        return False
    if not follows(state, prepare):
        # What the primary sends itself is waited for, and it will not send it again for long.
        maybe_request_repair(state, state.primary, up_to=op if sender == state.primary else 0)
        return False
    note_feed(state, op, sender)
    submit(state, prepare, is_proven=True)
    return True
