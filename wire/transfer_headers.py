"""The sealed headers of log repair and state transfer (wire specification 4.12 to 4.14)."""

from dataclasses import dataclass
from typing import ClassVar, Final

from levrier.wire.control import ControlHeader, Layout
from levrier.wire.errors import WireError

REPAIR_OPS_MAX: Final = 128
STATE_CHUNK_SIZE_MAX: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPreparesHeader(ControlHeader):
    """A replica asks a peer for entries `from_op` to `to_op`, both included (4.12)."""

    COMMANDS: ClassVar = (18,)
    LAYOUT: ClassVar = Layout(
        ("nonce", "u128"), ("from_op", "u64"), ("to_op", "u64"), ("group", "u64"), ("reserved", 88)
    )

    nonce: int
    from_op: int
    to_op: int
    group: int
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    def validate(self, body_size: int) -> None:
        """The range must not be empty, nor start at 0."""
        del body_size
        if not 1 <= self.from_op <= self.to_op:
            raise WireError(f"{self.from_op} to {self.to_op} is no range of ops", "from_op")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRangeReplyHeader(ControlHeader):
    """The end of a repair (4.13). RepairDone (20): `op` is the last served; RangeEvicted (21): the oldest still kept."""

    COMMANDS: ClassVar = (20, 21)
    LAYOUT: ClassVar = Layout(("nonce", "u128"), ("op", "u64"), ("group", "u64"), ("reserved", 96))

    command: int
    nonce: int
    op: int
    group: int
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    @property
    def command_code(self) -> int:
        """Which of the two answers this is."""
        return self.command


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStateTransferHeader(ControlHeader):
    """A replica asks the primary for its state (4.14)."""

    COMMANDS: ClassVar = (22,)
    LAYOUT: ClassVar = Layout(("nonce", "u128"), ("group", "u64"), ("reserved", 104))

    nonce: int
    group: int
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTransferTargetHeader(ControlHeader):
    """What the primary offers (4.14); the body of an available one is a manifest, which ends in its own checksum."""

    COMMANDS: ClassVar = (23,)
    LAYOUT: ClassVar = Layout(
        ("nonce", "u128"),
        ("commit_op", "u64"),
        ("group", "u64"),
        ("available", "u8"),
        ("unavailable_transient", "u8"),
        ("pad", 6),
        ("commit_max", "u64"),
        ("reserved", 80),
    )
    HAS_BODY: ClassVar = True

    nonce: int
    commit_op: int
    group: int
    available: int
    unavailable_transient: int = 0
    commit_max: int = 0
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    def validate(self, body_size: int) -> None:
        """Flags are 0 or 1 and not both set; an unavailable target has no body."""
        if self.available > 1 or self.unavailable_transient > 1 or self.available + self.unavailable_transient > 1:
            raise WireError(f"{self.available} and {self.unavailable_transient}", "available")
        if body_size and not self.available:
            raise WireError(f"{body_size} bytes with nothing available", "size")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStateChunkHeader(ControlHeader):
    """A replica asks for `len` bytes of one artifact (4.14). `artifact` is an index into the manifest."""

    COMMANDS: ClassVar = (24,)
    LAYOUT: ClassVar = Layout(
        ("nonce", "u128"), ("offset", "u64"), ("group", "u64"), ("len", "u32"), ("artifact", "u32"), ("reserved", 88)
    )

    nonce: int
    offset: int
    group: int
    len: int
    artifact: int
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    def validate(self, body_size: int) -> None:
        """At least one byte."""
        del body_size
        if self.len == 0:
            raise WireError("nothing asked for", "len")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChunkHeader(ControlHeader):
    """Bytes of one artifact (4.14). The body has no checksum of its own: the whole artifact has."""

    COMMANDS: ClassVar = (25,)
    LAYOUT: ClassVar = Layout(
        ("nonce", "u128"), ("offset", "u64"), ("group", "u64"), ("artifact", "u32"), ("reserved", 92)
    )
    HAS_BODY: ClassVar = True

    nonce: int
    offset: int
    group: int
    artifact: int
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0
