"""The counterpart of `Reader`: appends little-endian values. A value that does not fit raises `WireError`."""

from struct import Struct
from typing import Final

from levrier.wire.errors import WireError
from levrier.wire.names import encode_name, encode_text

_F32: Final = Struct("<f")


class Writer:
    """Collects the parts of a body; `what` names the value being encoded in errors."""

    __slots__ = ("_parts", "_what")

    def __init__(self, what: str = "body") -> None:
        self._parts: list[bytes] = []
        self._what = what

    def finish(self) -> bytes:
        """All bytes written."""
        return b"".join(self._parts)

    def where(self, field: str) -> str:
        """The place of a field, for errors."""
        return f"{self._what}.{field}"

    def _number(self, value: int, size: int, field: str) -> None:
        try:
            self._parts.append(value.to_bytes(size, "little"))
        except OverflowError as error:
            raise WireError(f"{value} does not fit {size} bytes", self.where(field)) from error

    def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        self._parts.append(data)

    def u8(self, value: int, field: str) -> None:
        """An unsigned byte."""
        self._number(value, 1, field)

    def u16(self, value: int, field: str) -> None:
        """An unsigned 16-bit number."""
        self._number(value, 2, field)

    def u32(self, value: int, field: str) -> None:
        """An unsigned 32-bit number."""
        self._number(value, 4, field)

    def u64(self, value: int, field: str) -> None:
        """An unsigned 64-bit number."""
        self._number(value, 8, field)

    def u128(self, value: int, field: str) -> None:
        """An unsigned 128-bit number."""
        self._number(value, 16, field)

    def f32(self, value: float, field: str) -> None:
        """A 32-bit float."""
        try:
            self._parts.append(_F32.pack(value))
        except OverflowError as error:
            raise WireError(f"{value} does not fit a 32-bit float", self.where(field)) from error

    def flag(self, value: bool) -> None:
        """A byte that is 0 or 1."""
        self._parts.append(b"\x01" if value else b"\x00")

    def name(self, name: str, field: str) -> None:
        """A name: length byte, then 1 to 255 bytes of UTF-8."""
        data = encode_name(name, field)
        self._parts.append(bytes((len(data),)) + data)

    def short_text(self, text: str, field: str) -> None:
        """A text of up to 255 bytes behind a length byte."""
        data = encode_text(text, self.where(field))
        self.u8(len(data), field)
        self._parts.append(data)

    def text(self, text: str, field: str) -> None:
        """A text behind a u32 length."""
        self.block(encode_text(text, self.where(field)), field)

    def block(self, data: bytes, field: str) -> None:
        """Bytes behind a u32 length."""
        self.u32(len(data), field)
        self._parts.append(data)
