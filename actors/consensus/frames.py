"""Building and sending the frames of one replica (wire specification 4.6 to 4.15).

Everything that carries a view goes through here, so that the gate stands in front of it (section 9, D-11): a caller asks
`may_send` first and leaves a flag in `owed` when it may not. Repair frames and forward results are not gated.
"""

from levrier.actors.consensus.effects import Broadcast, Send
from levrier.actors.consensus.state import ReplicaState
from levrier.wire.control import ControlHeader
from levrier.wire.headers import PrepareHeader
from levrier.wire.replica_headers import (
    CommitHeader,
    DoViewChangeHeader,
    PrepareOkHeader,
    RequestStartViewHeader,
    StartViewChangeHeader,
    StartViewHeader,
)
from levrier.wire.suffix import encode_suffix


def send(state: ReplicaState, replica: int, header: ControlHeader, body: bytes = b"") -> None:
    """Send a control frame to one other replica."""
    assert replica != state.config.replica, "what is for oneself is handled in the same handler"
    state.effects.append(Send(replica, header.encode(body)))


def broadcast(state: ReplicaState, header: ControlHeader, body: bytes = b"") -> None:
    """Send a control frame to every other replica."""
    state.effects.append(Broadcast(header.encode(body)))


def prepare_ok(state: ReplicaState, header: PrepareHeader) -> PrepareOkHeader:
    """This replica durably holds the entry of `header`."""
    config = state.config
    return PrepareOkHeader(
        cluster=config.cluster,
        group=config.group,
        replica=config.replica,
        view=state.view,
        op=header.op,
        prepare_checksum=header.checksum,
        parent=header.parent,
        timestamp=header.timestamp,
        request=header.request,
        operation=header.operation,
        commit=state.commit_max,
    )


def heartbeat(state: ReplicaState) -> CommitHeader:
    """The heartbeat: what is applied here, named by the checksum of its entry if the log still holds it."""
    config = state.config
    entry = state.mirror.header(state.commit_min)
    return CommitHeader(
        cluster=config.cluster,
        group=config.group,
        replica=config.replica,
        view=state.view,
        commit=state.commit_min,
        commit_checksum=entry.checksum if entry is not None else 0,
        timestamp_monotonic=state.heartbeat_timestamp,
        checkpoint_op=state.checkpoint.snapshot_op,
    )


def start_view_change(state: ReplicaState) -> StartViewChangeHeader:
    """This replica wants its view."""
    config = state.config
    return StartViewChangeHeader(cluster=config.cluster, group=config.group, replica=config.replica, view=state.view)


def do_view_change(state: ReplicaState, *, op: int, commit: int, nack: int, present: int) -> DoViewChangeHeader:
    """The vote of this replica; its body is the suffix."""
    config = state.config
    return DoViewChangeHeader(
        cluster=config.cluster,
        group=config.group,
        replica=config.replica,
        view=state.view,
        log_view=state.log_view,
        op=op,
        commit=commit,
        nack_bitset=nack,
        present_bitset=present,
    )


def start_view(
    state: ReplicaState, headers: tuple[PrepareHeader, ...], *, op: int, incarnation: int = 0
) -> tuple[StartViewHeader, bytes]:
    """The log of the view that this replica leads, up to `op`, and the body that names it (D-16)."""
    config = state.config
    return (
        StartViewHeader(
            cluster=config.cluster,
            group=config.group,
            replica=config.replica,
            view=state.view,
            op=op,
            commit=min(state.commit_max, op),
            incarnation=incarnation,
        ),
        encode_suffix(headers),
    )


def request_start_view(state: ReplicaState) -> RequestStartViewHeader:
    """What is the view? The answer echoes the incarnation."""
    config = state.config
    return RequestStartViewHeader(
        cluster=config.cluster,
        group=config.group,
        replica=config.replica,
        view=state.view,
        incarnation=config.incarnation,
    )
