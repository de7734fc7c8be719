"""Serving entries to a peer that repairs itself (section 10).

What has left the log and is kept in the archive is served like the log itself; it was applied here, so it is proven.
Only what is proven is served: a replica that hands out an entry says that it belongs to its view (D-16), and one that is
Normal serves what is not committed only to who asks in the same view. The journal reads them; they leave as they stand.
"""

from typing import Final

from levrier.actors.consensus.commits import read
from levrier.actors.consensus.effects import Send
from levrier.actors.consensus.frames import send
from levrier.actors.consensus.repair import RANGE_EVICTED, REPAIR_DONE
from levrier.actors.consensus.state import PendingRead, ReadPurpose, ReplicaState, Status
from levrier.wire.prepare import Prepare, to_repair
from levrier.wire.replica_headers import REPAIR_OPS_MAX, RepairRangeReplyHeader, RequestPreparesHeader

READS_MAX: Final = 64
"""Reads for peers under way at once; a request beyond is dropped, its sender asks again."""


def served_to(state: ReplicaState, to_op: int) -> int:
    """The last op of a served range: what was asked, but not above the head or the commit point (C-136)."""
    return min(to_op, max(state.commit_max, state.sequencer))


def receive_request(state: ReplicaState, header: RequestPreparesHeader) -> None:
    """A peer asks for a range: say what is gone for good, and read the rest."""
    if state.is_transferring or state.status is Status.RECOVERING or len(state.reads) >= READS_MAX:
        return
    to_op = served_to(state, header.to_op)
    from_op = max(header.from_op, _floor(state))
    if from_op > header.from_op:
        _reply(state, header.replica, header.nonce, RANGE_EVICTED, from_op)
    until = min(to_op, from_op + REPAIR_OPS_MAX - 1)
    last = _last_servable(state, from_op, until, same_view=header.view == state.view)
    if last < from_op:
        _reply(state, header.replica, header.nonce, REPAIR_DONE, header.from_op - 1)
        return
    read(
        state,
        PendingRead(
            purpose=ReadPurpose.SERVE,
            from_op=from_op,
            to_op=last,
            peer=header.replica,
            nonce=header.nonce,
            asked_from=header.from_op,
            view=header.view,
        ),
    )


def serve(state: ReplicaState, request: PendingRead, prepares: tuple[Prepare, ...]) -> None:
    """The journal has read a range for a peer: send what is still the log of this replica."""
    last = request.asked_from - 1
    for prepare in prepares:
        header = prepare.header
        if not _is_servable(state, header.op, same_view=request.view == state.view):
            break
        if not _has_left(state, header.op) and not state.mirror.holds(header.op, header.checksum):
            break
        state.effects.append(Send(request.peer, to_repair(prepare.frame)))
        last = header.op
    _reply(state, request.peer, request.nonce, REPAIR_DONE, last)


def _last_servable(state: ReplicaState, from_op: int, to_op: int, *, same_view: bool) -> int:
    op = from_op - 1
    while op < to_op and _is_servable(state, op + 1, same_view=same_view):
        op += 1
    return op


def _floor(state: ReplicaState) -> int:
    """The lowest op that can be served."""
    log_begins = state.mirror.snapshot_op + 1
    return min(log_begins, state.archive_first_op) if state.archive_first_op else log_begins


def _has_left(state: ReplicaState, op: int) -> bool:
    """Whether the op has left the log and is kept in the archive."""
    return 0 < state.archive_first_op <= op <= state.mirror.snapshot_op and state.mirror.header(op) is None


def _is_servable(state: ReplicaState, op: int, *, same_view: bool) -> bool:
    if _has_left(state, op):
        return True
    if op in state.unverified or not state.mirror.is_durable(op):
        return False
    return op <= state.commit_max or state.status is Status.VIEW_CHANGE or same_view


def _reply(state: ReplicaState, peer: int, nonce: int, command: int, op: int) -> None:
    config = state.config
    send(
        state,
        peer,
        RepairRangeReplyHeader(
            command=command,
            cluster=config.cluster,
            group=config.group,
            replica=config.replica,
            view=state.view,
            nonce=nonce,
            op=op,
        ),
    )
