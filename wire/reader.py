"""A bounds-checked cursor over a body. It raises `WireError`, and nothing else, whatever the bytes are."""

from struct import Struct
from typing import Final

from levrier.wire.errors import TrailingBytes, Truncated, WireError
from levrier.wire.names import decode_text

_F32: Final = Struct("<f")


class Reader:
    """Reads little-endian values one after the other; `what` names the value being decoded in errors."""

    __slots__ = ("_data", "_end", "_offset", "_what")

    def __init__(self, data: bytes, what: str = "body") -> None:
        self._data = data
        self._offset = 0
        self._end = len(data)
        self._what = what

    @property
    def offset(self) -> int:
        """How many bytes have been read."""
        return self._offset

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return self._end - self._offset

    def where(self, field: str) -> str:
        """The place of a field, for errors."""
        return f"{self._what}.{field}"

    def take(self, size: int, field: str) -> bytes:
        """The next `size` bytes."""
        start = self._offset
        end = start + size
        if end > self._end:
            raise Truncated(f"{size} bytes at {start}, {self._end - start} left", f"{self._what}.{field}")
        self._offset = end
        return self._data[start:end]

    def u8(self, field: str) -> int:
        """An unsigned byte."""
        start = self._offset
        if start >= self._end:
            raise Truncated(f"1 byte at {start}, none left", f"{self._what}.{field}")
        self._offset = start + 1
        return self._data[start]

    def u16(self, field: str) -> int:
        """An unsigned 16-bit number."""
        return int.from_bytes(self.take(2, field), "little")

    def u32(self, field: str) -> int:
        """An unsigned 32-bit number."""
        return int.from_bytes(self.take(4, field), "little")

    def u64(self, field: str) -> int:
        """An unsigned 64-bit number."""
        return int.from_bytes(self.take(8, field), "little")

    def u128(self, field: str) -> int:
        """An unsigned 128-bit number."""
        return int.from_bytes(self.take(16, field), "little")

    def f32(self, field: str) -> float:
        """A 32-bit float."""
        value: float = _F32.unpack(self.take(4, field))[0]
        return value

    def flag(self, field: str) -> bool:
        """A byte that is 0 or 1; anything else is refused."""
        value = self.u8(field)
        if value > 1:
            raise WireError(f"{value} is neither 0 nor 1", self.where(field))
        return value == 1

    def name(self, field: str) -> str:
        """A name: length byte, then 1 to 255 bytes of UTF-8."""
        size = self.u8(field)
        if size == 0:
            raise WireError("empty", self.where(field))
        return decode_text(self.take(size, field), self.where(field))

    def short_text(self, field: str) -> str:
        """A text behind a length byte, possibly empty."""
        return decode_text(self.take(self.u8(field), field), self.where(field))

    def text(self, field: str) -> str:
        """A text behind a u32 length, possibly empty."""
        return decode_text(self.take(self.u32(field), field), self.where(field))

    def block(self, field: str) -> bytes:
        """Bytes behind a u32 length, possibly none."""
        return self.take(self.u32(field), field)

    def count(self, field: str, entry_size: int) -> int:
        """A u32 count of entries that take at least `entry_size` bytes each: refused when they cannot be there."""
        count = self.u32(field)
        if count * entry_size > self.remaining:
            raise Truncated(f"{count} entries in {self.remaining} bytes", self.where(field))
        return count

    def rest(self) -> bytes:
        """Everything that is left."""
        start = self._offset
        self._offset = self._end
        return self._data[start:]

    def finish(self) -> None:
        """Raise `TrailingBytes` unless everything was read."""
        if self._offset != self._end:
            raise TrailingBytes(f"{self._end - self._offset} bytes follow", self._what)
