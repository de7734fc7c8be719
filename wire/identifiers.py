"""How a request names a stream, a topic, a user or a group (requests specification 1.2).

By number or by name. The two kinds never match each other: a name that looks like a number is still a name.
"""

from dataclasses import dataclass
from typing import Final, Self

from levrier.wire.errors import WireError
from levrier.wire.frozen import quick_init
from levrier.wire.names import encode_name
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer

_NUMERIC: Final = 1
_NAMED: Final = 2
_NUMERIC_SIZE: Final = 4
_NUMERIC_HEAD: Final = bytes((_NUMERIC, _NUMERIC_SIZE))
U32_MAX: Final = (1 << 32) - 1


@quick_init
@dataclass(frozen=True, slots=True)
class Identifier:
    """A number (u32, from 0) or a name (1 to 255 bytes)."""

    value: int | str

    @classmethod
    def read(cls, reader: Reader, field: str = "identifier") -> Self:
        """Read an identifier at the cursor."""
        kind = reader.u8(field)
        if kind == _NUMERIC:
            size = reader.u8(field)
            if size != _NUMERIC_SIZE:
                raise WireError(f"a number of {size} bytes", reader.where(field))
            return cls(reader.u32(field))
        if kind == _NAMED:
            return cls(reader.name(field))
        raise WireError(f"{kind} is not a kind of identifier", reader.where(field))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode an identifier that stands alone."""
        reader = Reader(data, "Identifier")
        value = cls.read(reader)
        reader.finish()
        return value

    def encode(self) -> bytes:
        """The bytes of the identifier. Raises `WireError` for a value that the wire cannot carry."""
        value = self.value
        if isinstance(value, int):
            if not 0 <= value <= U32_MAX:
                raise WireError(f"{value} is not a 32-bit number", "identifier")
            return _NUMERIC_HEAD + value.to_bytes(_NUMERIC_SIZE, "little")
        name = encode_name(value, "identifier")
        return bytes((_NAMED, len(name))) + name

    def write(self, writer: Writer) -> None:
        """Append the identifier."""
        writer.raw(self.encode())

    def __str__(self) -> str:
        return str(self.value)
