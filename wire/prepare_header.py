"""The header of a log entry (wire specification 4.5). Import it from `levrier.wire.headers`."""

from dataclasses import dataclass
from struct import Struct
from typing import Final, Self

from levrier.wire.codes import OPERATIONS
from levrier.wire.errors import FrameSizeOutOfRange, Truncated, UnexpectedCommand, WireError
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.frozen import quick_init

_PREPARE: Final = Struct("<16s16s16sIIIBB66x16s16s16sQQQQB7xQI28x")
_PREPARE_FIELDS: Final = Struct("<QQQQQQIIIBB66sQQQQQQQQQQB7sQI28s")
_PREPARE_COMMAND: Final = 6
_REPAIR_PREPARE_COMMAND: Final = 19
_ZERO_7: Final = bytes(7)
_ZERO_28: Final = bytes(28)
_ZERO_66: Final = bytes(66)

assert _PREPARE.size == HEADER_SIZE


@quick_init
@dataclass(frozen=True, slots=True)
class PrepareHeader:
    """One entry of the log (4.5). `command` is 6, or 19 for the same layout sent as a repair.

    `parent` is the `checksum` of the entry before it, `timestamp` microseconds since the epoch.
    """

    op: int
    operation: int = 0
    client: int = 0
    request: int = 0
    user_id: int = 0
    timestamp: int = 0
    commit: int = 0
    view: int = 0
    group: int = 0
    size: int = HEADER_SIZE
    checksum: int = 0
    checksum_body: int = 0
    parent: int = 0
    request_checksum: int = 0
    cluster: int = 0
    release: int = 0
    replica: int = 0
    command: int = _PREPARE_COMMAND

    @classmethod
    def blank(cls, op: int) -> Self:
        """The placeholder of an op that the sender of a view-change suffix does not hold (4.9)."""
        return cls(op, size=0)

    @property
    def is_blank(self) -> bool:
        """Whether this is the placeholder of an op that the sender does not hold."""
        return self.size == 0

    @classmethod
    def decode(cls, frame: bytes) -> Self:
        """Decode the first 256 bytes: the command, the reserved regions and the operation are checked, no checksum.

        A size of 0 is accepted only for a blank header.
        """
        if len(frame) < HEADER_SIZE:
            raise Truncated(f"{len(frame)} bytes are less than a header", "header")
        (
            checksum,
            checksum_high,
            checksum_body,
            checksum_body_high,
            cluster,
            cluster_high,
            size,
            view,
            release,
            command,
            replica,
            reserved_frame,
            client,
            client_high,
            parent,
            parent_high,
            request_checksum,
            request_checksum_high,
            op,
            commit,
            timestamp,
            request,
            operation,
            pad,
            group,
            user_id,
            reserved,
        ) = _PREPARE_FIELDS.unpack_from(frame)
        if command not in (_PREPARE_COMMAND, _REPAIR_PREPARE_COMMAND):
            raise UnexpectedCommand(f"{command} is not Prepare", "command")
        if reserved_frame != _ZERO_66 or pad != _ZERO_7 or reserved != _ZERO_28:
            raise WireError("a reserved region is not zero", "reserved")
        if operation not in OPERATIONS and operation:
            raise WireError(f"{operation} is not an operation", "operation")
        header = cls(
            op,
            operation,
            client | client_high << 64,
            request,
            user_id,
            timestamp,
            commit,
            view,
            group,
            size,
            checksum | checksum_high << 64 if checksum_high else checksum,
            checksum_body | checksum_body_high << 64 if checksum_body_high else checksum_body,
            parent | parent_high << 64 if parent_high else parent,
            request_checksum | request_checksum_high << 64 if request_checksum_high else request_checksum,
            cluster | cluster_high << 64 if cluster_high else cluster,
            release,
            replica,
            command,
        )
        if size < HEADER_SIZE and header != cls.blank(op):
            raise FrameSizeOutOfRange(f"{size} is less than a header", "size")
        return header

    def encode(self) -> bytes:
        """The 256 header bytes, checksums as they stand in the fields."""
        return _PREPARE.pack(
            self.checksum.to_bytes(16, "little"),
            self.checksum_body.to_bytes(16, "little"),
            self.cluster.to_bytes(16, "little"),
            self.size,
            self.view,
            self.release,
            self.command,
            self.replica,
            self.client.to_bytes(16, "little"),
            self.parent.to_bytes(16, "little"),
            self.request_checksum.to_bytes(16, "little"),
            self.op,
            self.commit,
            self.timestamp,
            self.request,
            self.operation,
            self.group,
            self.user_id,
        )
