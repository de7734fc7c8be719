"""What a frame of an authenticated peer must be before anybody is told of it (wire specification 4.5 to 4.15, 5, 6.1).

In this order: a command that replicas send each other; for control frames the seal, before any other field is believed,
the rules of the header, and the body against its checksum where the command has one; for prepares the identity and the
body; then that cluster and group are ours, and that the sender is the peer of the link. A prepare names who built it, not
who passes it on, so its `replica` only has to be a member. What fails is dropped and counted; the link lives.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from levrier.actors.bus.handshake import LinkIdentity
from levrier.actors.bus.messages import ReplicaFrame
from levrier.actors.consensus.messages import PrepareReceived, RepairPrepareReceived
from levrier.wire.control import ControlHeader
from levrier.wire.errors import ChecksumMismatch, WireError
from levrier.wire.framing import COMMAND_OFFSET
from levrier.wire.prepare import Prepare
from levrier.wire.replica_headers import (
    CommitHeader,
    DoViewChangeHeader,
    ExtensionHeader,
    ForwardLogoutHeader,
    ForwardLogoutResultHeader,
    ForwardRegisterHeader,
    ForwardRegisterResultHeader,
    PrepareOkHeader,
    RepairRangeReplyHeader,
    RequestPreparesHeader,
    RequestStartViewHeader,
    RequestStateChunkHeader,
    RequestStateTransferHeader,
    StartViewChangeHeader,
    StartViewHeader,
    StateChunkHeader,
    StateTransferTargetHeader,
)

PREPARE: Final = 6
REPAIR_PREPARE: Final = 19

_PREPARES: Final = frozenset((PREPARE, REPAIR_PREPARE))

_HEADERS: Final[tuple[type[ControlHeader], ...]] = (
    PrepareOkHeader,
    CommitHeader,
    StartViewChangeHeader,
    DoViewChangeHeader,
    StartViewHeader,
    RequestStartViewHeader,
    RequestPreparesHeader,
    RepairRangeReplyHeader,
    RequestStateTransferHeader,
    StateTransferTargetHeader,
    RequestStateChunkHeader,
    StateChunkHeader,
    ForwardRegisterHeader,
    ForwardRegisterResultHeader,
    ForwardLogoutHeader,
    ForwardLogoutResultHeader,
    ExtensionHeader,
)

CONTROL_HEADERS: Final[dict[int, type[ControlHeader]]] = {
    command: header for header in _HEADERS for command in header.COMMANDS
}
"""Which header a command has. Requests, replies and handshakes are not among them: they have no place on a link."""

assert len(CONTROL_HEADERS) == 20
assert PREPARE not in CONTROL_HEADERS
assert REPAIR_PREPARE not in CONTROL_HEADERS


class DropReason(IntEnum):
    """Why a frame went nowhere. The last two are of frames that were to be sent."""

    COMMAND = 0
    """No command of the replica port."""
    CHECKSUM = 1
    """Seal, identity or body checksum do not fit the bytes."""
    INVALID = 2
    """A header that breaks a rule of its command."""
    CLUSTER = 3
    GROUP = 4
    SENDER = 5
    """It speaks for another replica than the one at the other end."""
    NO_RECIPIENT = 6
    """Nobody of this node takes that command."""
    NOT_CONNECTED = 7
    QUEUE_FULL = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A frame that went nowhere, and why, in words."""

    reason: DropReason
    detail: str


Inbound = PrepareReceived | RepairPrepareReceived | ReplicaFrame


class FrameReader:
    """Reads the frames of authenticated peers."""

    __slots__ = ("_cluster", "_group", "_replica_count")

    def __init__(self, identity: LinkIdentity) -> None:
        self._cluster = identity.cluster
        self._group = identity.group
        self._replica_count = identity.replica_count

    def read(self, frame: bytes, *, sender: int) -> Inbound | Dropped:
        """Verify a whole frame of that peer."""
        command = frame[COMMAND_OFFSET]
        try:
            if command in _PREPARES:
                return self._read_prepare(frame, sender)
            decoder = CONTROL_HEADERS.get(command)
            if decoder is None:
                return Dropped(reason=DropReason.COMMAND, detail=f"command {command}")
            header, body = decoder.decode_frame(frame)
        except ChecksumMismatch as error:
            return Dropped(reason=DropReason.CHECKSUM, detail=f"command {command}: {error}")
        except WireError as error:
            return Dropped(reason=DropReason.INVALID, detail=f"command {command}: {error}")
        message = ReplicaFrame(command=command, header=header, body=body, sender=sender)
        return self._misdirected(message) or message

    def _read_prepare(self, frame: bytes, sender: int) -> PrepareReceived | RepairPrepareReceived | Dropped:
        prepare = Prepare.decode(frame)
        header = prepare.header
        if header.cluster != self._cluster:
            return self._foreign_cluster(header.cluster)
        if header.group != self._group:
            return self._foreign_group(header.group)
        if header.replica >= self._replica_count:
            return Dropped(reason=DropReason.SENDER, detail=f"a prepare of replica {header.replica}")
        if frame[COMMAND_OFFSET] == PREPARE:
            return PrepareReceived(prepare=prepare, sender=sender)
        return RepairPrepareReceived(prepare=prepare, sender=sender)

    def _misdirected(self, message: ReplicaFrame) -> Dropped | None:
        header = message.header
        if header.replica != message.sender:
            detail = f"replica {message.sender} sent command {message.command} in the name of {header.replica}"
            return Dropped(reason=DropReason.SENDER, detail=detail)
        if header.cluster != self._cluster:
            return self._foreign_cluster(header.cluster)
        group: int | None = getattr(header, "group", None)  # Forwarding frames have none.
        if group is not None and group != self._group:
            return self._foreign_group(group)
        return None

    def _foreign_cluster(self, cluster: int) -> Dropped:
        detail = f"cluster id {cluster:032x} there, {self._cluster:032x} here"
        return Dropped(reason=DropReason.CLUSTER, detail=detail)

    def _foreign_group(self, group: int) -> Dropped:
        return Dropped(reason=DropReason.GROUP, detail=f"group {group:#x} there, {self._group:#x} here")
