"""The sealed headers between replicas: normal operation and view change (wire specification 4.6 to 4.11).

State transfer and repair are in `levrier.wire.transfer_headers`, forwarding in `levrier.wire.forward_headers`, both
re-exported here. A client request handed on by a node is `RoutedRequestHeader` in `levrier.wire.routed`.
"""

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Final, Self

from levrier.wire.checksums import seal_frame, verify_seal
from levrier.wire.control import ControlHeader, Layout, verified_body
from levrier.wire.errors import FrameSizeOutOfRange, Truncated, UnexpectedCommand, WireError
from levrier.wire.forward_headers import (
    ForwardLogoutHeader,
    ForwardLogoutResultHeader,
    ForwardRegisterHeader,
    ForwardRegisterResultHeader,
    LogoutOutcome,
    RegisterOutcome,
)
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.frozen import quick_init
from levrier.wire.transfer_headers import (
    REPAIR_OPS_MAX,
    STATE_CHUNK_SIZE_MAX,
    RepairRangeReplyHeader,
    RequestPreparesHeader,
    RequestStateChunkHeader,
    RequestStateTransferHeader,
    StateChunkHeader,
    StateTransferTargetHeader,
)

__all__ = [
    "REPAIR_OPS_MAX",
    "STATE_CHUNK_SIZE_MAX",
    "SUFFIX_HEADERS_MAX",
    "CommitHeader",
    "DoViewChangeHeader",
    "ExtensionHeader",
    "ForwardLogoutHeader",
    "ForwardLogoutResultHeader",
    "ForwardRegisterHeader",
    "ForwardRegisterResultHeader",
    "LogoutOutcome",
    "PrepareOkHeader",
    "RegisterOutcome",
    "RepairRangeReplyHeader",
    "RequestPreparesHeader",
    "RequestStartViewHeader",
    "RequestStateChunkHeader",
    "RequestStateTransferHeader",
    "StartViewChangeHeader",
    "StartViewHeader",
    "StateChunkHeader",
    "StateTransferTargetHeader",
    "verified_body",
]

SUFFIX_HEADERS_MAX: Final = 128

_PREPARE_OK_COMMAND: Final = 7
_PREPARE_OK: Final = Struct("<32x16sIIIBB66x16s16sQQQQB7xQ48x")
_PREPARE_OK_FIELDS: Final = Struct("<32xQQIIIBB66xQQQQQQQQB7xQ48x")

assert _PREPARE_OK.size == _PREPARE_OK_FIELDS.size == HEADER_SIZE


def check_release(release: int) -> None:
    """Raise `WireError` unless the release is 0, the only one there is."""
    if release:
        raise WireError(f"{release} is not 0", "release")


def check_suffix_size(body_size: int) -> int:
    """The number of headers in a suffix of that size. Raises `WireError` unless it is a whole number up to 128."""
    count, rest = divmod(body_size, HEADER_SIZE)
    if rest or count > SUFFIX_HEADERS_MAX:
        raise WireError(f"{body_size} bytes are not 0 to {SUFFIX_HEADERS_MAX} headers", "size")
    return count


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOkHeader(ControlHeader):
    """A replica holds an entry (4.6). `view` is the sender's own; `prepare_checksum` the entry's identity.

    There are some of these for each entry, so they are coded in one piece; `LAYOUT` says the same and a test compares.
    """

    COMMANDS: ClassVar = (_PREPARE_OK_COMMAND,)
    LAYOUT: ClassVar = Layout(
        ("parent", "u128"),
        ("prepare_checksum", "u128"),
        ("op", "u64"),
        ("commit", "u64"),
        ("timestamp", "u64"),
        ("request", "u64"),
        ("operation", "u8"),
        ("pad", 7),
        ("group", "u64"),
        ("reserved", 48),
    )

    parent: int
    prepare_checksum: int
    op: int
    commit: int
    timestamp: int
    request: int
    operation: int
    group: int
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    @classmethod
    def decode(cls, frame: bytes) -> Self:
        """Check the seal and the rules of the header in `frame`. Raises `WireError`."""
        if len(frame) < HEADER_SIZE:
            raise Truncated(f"{len(frame)} bytes are less than a header", "header")
        verify_seal(frame)
        (
            cluster,
            cluster_high,
            size,
            view,
            release,
            command,
            replica,
            parent,
            parent_high,
            checksum,
            checksum_high,
            op,
            commit,
            timestamp,
            request,
            operation,
            group,
        ) = _PREPARE_OK_FIELDS.unpack_from(frame)
        if command != _PREPARE_OK_COMMAND:
            raise UnexpectedCommand(f"{command} is not PrepareOkHeader", "command")
        if size != HEADER_SIZE:
            raise FrameSizeOutOfRange(f"{size} in PrepareOkHeader", "size")
        return cls(
            parent=parent | parent_high << 64 if parent_high else parent,
            prepare_checksum=checksum | checksum_high << 64 if checksum_high else checksum,
            op=op,
            commit=commit,
            timestamp=timestamp,
            request=request,
            operation=operation,
            group=group,
            cluster=cluster | cluster_high << 64,
            view=view,
            release=release,
            replica=replica,
        )

    @classmethod
    def decode_frame(cls, frame: bytes) -> tuple[Self, bytes]:
        """Decode a whole frame, which has no body. Raises `WireError`."""
        return cls.decode(frame), b""

    def encode(self, body: bytes = b"") -> bytes:
        """The whole frame."""
        assert not body
        return seal_frame(
            _PREPARE_OK.pack(
                self.cluster.to_bytes(16, "little"),
                HEADER_SIZE,
                self.view,
                self.release,
                _PREPARE_OK_COMMAND,
                self.replica,
                self.parent.to_bytes(16, "little"),
                self.prepare_checksum.to_bytes(16, "little"),
                self.op,
                self.commit,
                self.timestamp,
                self.request,
                self.operation,
                self.group,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitHeader(ControlHeader):
    """The primary's heartbeat and commit point (4.7). `timestamp_monotonic` in microseconds."""

    COMMANDS: ClassVar = (9,)
    LAYOUT: ClassVar = Layout(
        ("commit_checksum", "u128"),
        ("timestamp_monotonic", "u64"),
        ("commit", "u64"),
        ("checkpoint_op", "u64"),
        ("group", "u64"),
        ("reserved", 80),
    )

    commit: int
    timestamp_monotonic: int
    group: int
    commit_checksum: int = 0
    checkpoint_op: int = 0
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartViewChangeHeader(ControlHeader):
    """A replica wants the view in `view` (4.8)."""

    COMMANDS: ClassVar = (10,)
    LAYOUT: ClassVar = Layout(("group", "u64"), ("reserved", 120))

    group: int
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    def validate(self, body_size: int) -> None:
        """Release must be 0."""
        del body_size
        check_release(self.release)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoViewChangeHeader(ControlHeader):
    """What a replica brings into a new view (4.9); its body is a suffix (`levrier.wire.suffix`).

    `op` is the head of its log, `log_view` the view in which it was last normal. Bit i of `nack_bitset`: it never
    prepared entry i of the suffix; of `present_bitset`: it can serve that entry's body.
    """

    COMMANDS: ClassVar = (11,)
    LAYOUT: ClassVar = Layout(
        ("op", "u64"),
        ("commit", "u64"),
        ("group", "u64"),
        ("log_view", "u32"),
        ("reserved", 68),
        ("nack_bitset", "u128"),
        ("present_bitset", "u128"),
    )
    HAS_BODY: ClassVar = True
    BODY_CHECKSUM: ClassVar = True

    op: int
    commit: int
    log_view: int
    group: int
    nack_bitset: int = 0
    present_bitset: int = 0
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    def validate(self, body_size: int) -> None:
        """The rules of 4.9 that the header alone can break."""
        check_release(self.release)
        if self.log_view > self.view:
            raise WireError(f"{self.log_view} is above view {self.view}", "log_view")
        if self.commit > self.op:
            raise WireError(f"{self.commit} is above op {self.op}", "commit")
        count = check_suffix_size(body_size)
        if (self.nack_bitset | self.present_bitset) >> count:
            raise WireError(f"a bit is set past the {count} entries", "bitset")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartViewHeader(ControlHeader):
    """The log of a new view (4.10); its body is a suffix. `incarnation` echoes a probe's, 0 when unsolicited."""

    COMMANDS: ClassVar = (12,)
    LAYOUT: ClassVar = Layout(
        ("op", "u64"), ("commit", "u64"), ("group", "u64"), ("reserved", 88), ("incarnation", "u128")
    )
    HAS_BODY: ClassVar = True
    BODY_CHECKSUM: ClassVar = True

    op: int
    commit: int
    group: int
    incarnation: int = 0
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    def validate(self, body_size: int) -> None:
        """The rules of 4.10 that the header alone can break."""
        check_release(self.release)
        if self.commit > self.op:
            raise WireError(f"{self.commit} is above op {self.op}", "commit")
        check_suffix_size(body_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStartViewHeader(ControlHeader):
    """A recovering replica asks for the current view (4.11). `incarnation` is fresh for each boot."""

    COMMANDS: ClassVar = (17,)
    LAYOUT: ClassVar = Layout(("group", "u64"), ("reserved", 104), ("incarnation", "u128"))

    group: int
    incarnation: int
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    def validate(self, body_size: int) -> None:
        """Release must be 0."""
        del body_size
        check_release(self.release)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionHeader(ControlHeader):
    """A frame of our own above Iggy's commands (decision D-34): 64 Acknowledgement, 65 MemberState, 66 StateDigest.

    Bytes 128..136 are the group, the rest is zero; the body is under `checksum_body`.
    """

    COMMANDS: ClassVar = (64, 65, 66)
    LAYOUT: ClassVar = Layout(("group", "u64"), ("reserved", 120))
    HAS_BODY: ClassVar = True
    BODY_CHECKSUM: ClassVar = True
    RESERVED_CHECKED: ClassVar = True

    command: int
    group: int
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    @property
    def command_code(self) -> int:
        """Which of the three frames this is."""
        return self.command
