"""The common part of control frames: prefix, seal, and a layout given as a list of fields (wire specification 1.1, 5.4).

A subclass names its command, and its fields from offset 128 on with their widths. Encoding fills in size, body checksum
and seal. Decoding believes nothing before the seal has been checked.
"""

from struct import Struct
from typing import Any, ClassVar, Final, Self

from levrier.wire.checksums import seal_frame, verify_seal, xxh3
from levrier.wire.errors import ChecksumMismatch, FrameSizeOutOfRange, Truncated, UnexpectedCommand, WireError
from levrier.wire.framing import HEADER_SIZE

_PREFIX: Final = Struct("<32x16sIIIBB")
_PREFIX_SIZE: Final = 128
_RESERVED_FRAME: Final = bytes(66)
_CODES: Final[dict[str, str]] = {"u128": "16s", "u64": "Q", "u32": "I", "u8": "B"}


class Layout:
    """Bytes 128..256 of a header: named fields, runs of zeros (`zero`, width), in the order of the table."""

    __slots__ = ("_struct", "_wide", "_zeros", "names")

    def __init__(self, *parts: tuple[str, str | int]) -> None:
        names: list[str] = []
        wide: list[bool] = []
        zeros: list[tuple[int, int]] = []
        code = "<"
        for name, width in parts:
            if isinstance(width, int):
                zeros.append((_PREFIX_SIZE + Struct(code).size, width))
                code += f"{width}x"
            else:
                names.append(name)
                wide.append(width == "u128")
                code += _CODES[width]
        self.names = tuple(names)
        self._wide = tuple(wide)
        self._zeros = tuple(zeros)
        self._struct = Struct(code)
        assert self._struct.size == HEADER_SIZE - _PREFIX_SIZE

    def unpack(self, header: bytes) -> dict[str, int]:
        """The fields by name."""
        values = self._struct.unpack_from(header, _PREFIX_SIZE)
        return {
            name: int.from_bytes(value, "little") if wide else value
            for name, wide, value in zip(self.names, self._wide, values, strict=True)
        }

    def pack(self, header: object) -> bytes:
        """The 128 bytes of a header that has these fields as attributes."""
        return self._struct.pack(
            *(
                int.to_bytes(getattr(header, name), 16, "little") if wide else getattr(header, name)
                for name, wide in zip(self.names, self._wide, strict=True)
            )
        )

    def zeros_hold(self, header: bytes) -> bool:
        """Whether every reserved region is zero."""
        return not any(any(header[start : start + width]) for start, width in self._zeros)


class ControlHeader:
    """A sealed header between replicas. A subclass is a frozen dataclass with the fields of `LAYOUT` and of the prefix.

    The prefix fields are `cluster`, `view`, `release` and `replica` (the sender); size and checksums are computed.
    """

    __slots__ = ()

    COMMANDS: ClassVar[tuple[int, ...]]
    LAYOUT: ClassVar[Layout]
    HAS_BODY: ClassVar[bool] = False
    BODY_CHECKSUM: ClassVar[bool] = False
    RESERVED_CHECKED: ClassVar[bool] = False

    cluster: int
    view: int
    release: int
    replica: int

    @property
    def command_code(self) -> int:
        """The command byte. Where two commands share a layout the subclass has a `command` field."""
        return self.COMMANDS[0]

    def validate(self, body_size: int) -> None:
        """Raise `WireError` when the fields break a rule of the table. `body_size` is size minus 256."""

    @classmethod
    def decode(cls, frame: bytes) -> Self:
        """Check the seal and the rules of the header in `frame`; the body is not looked at. Raises `WireError`."""
        if len(frame) < HEADER_SIZE:
            raise Truncated(f"{len(frame)} bytes are less than a header", "header")
        verify_seal(frame)
        cluster, size, view, release, command, replica = _PREFIX.unpack_from(frame)
        if command not in cls.COMMANDS:
            raise UnexpectedCommand(f"{command} is not {cls.__name__}", "command")
        if size < HEADER_SIZE or (size != HEADER_SIZE and not cls.HAS_BODY):
            raise FrameSizeOutOfRange(f"{size} in {cls.__name__}", "size")
        if cls.RESERVED_CHECKED and (frame[62:128] != _RESERVED_FRAME or not cls.LAYOUT.zeros_hold(frame)):
            raise WireError("a reserved region is not zero", "reserved")
        fields: dict[str, Any] = dict(cls.LAYOUT.unpack(frame))
        fields["cluster"] = int.from_bytes(cluster, "little")
        fields["view"], fields["release"], fields["replica"] = view, release, replica
        if len(cls.COMMANDS) > 1:
            fields["command"] = command
        header = cls(**fields)
        header.validate(size - HEADER_SIZE)
        return header

    @classmethod
    def decode_frame(cls, frame: bytes) -> tuple[Self, bytes]:
        """Decode a whole frame: the header, and the body checked against its checksum. Raises `WireError`."""
        header = cls.decode(frame)
        return header, verified_body(frame, sealed=cls.BODY_CHECKSUM)

    def encode(self, body: bytes = b"") -> bytes:
        """The whole frame: header with size, body checksum and seal, then the body."""
        assert not body or self.HAS_BODY
        checksum_body = xxh3(body) if body and self.BODY_CHECKSUM else 0
        prefix: Any = self
        header = _PREFIX_FULL.pack(
            checksum_body.to_bytes(16, "little"),
            prefix.cluster.to_bytes(16, "little"),
            HEADER_SIZE + len(body),
            prefix.view,
            prefix.release,
            self.command_code,
            prefix.replica,
        )
        self.validate(len(body))
        return seal_frame(header + self.LAYOUT.pack(self)) + body


_PREFIX_FULL: Final = Struct("<16x16s16sIIIBB66x")

assert _PREFIX_FULL.size == _PREFIX_SIZE


def verified_body(frame: bytes, *, sealed: bool = True) -> bytes:
    """The body of a control frame: exactly bytes 256..size, which must hash to `checksum_body` when `sealed`.

    No body goes with checksum 0; a body with checksum 0 is refused, it does not count as unsealed (5.1). Raises
    `Truncated` and `ChecksumMismatch`.
    """
    if len(frame) < HEADER_SIZE:
        raise Truncated(f"{len(frame)} bytes are less than a header", "header")
    size = int.from_bytes(frame[48:52], "little")
    if len(frame) < size:
        raise Truncated(f"{len(frame)} of {size} bytes", "body")
    body = frame[HEADER_SIZE:size]
    if sealed and int.from_bytes(frame[16:32], "little") != (xxh3(body) if body else 0):
        raise ChecksumMismatch("the body does not match its checksum", "checksum_body")
    return body
