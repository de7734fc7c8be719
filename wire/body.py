"""The two bases of everything that stands behind a header: request bodies and response bodies.

A subclass is a frozen dataclass that says how it is read and written; it may be nested in another one, which is why
reading goes on from a cursor.
"""

from dataclasses import dataclass
from typing import Self

from levrier.wire.reader import Reader
from levrier.wire.writer import Writer


class Body:
    """A request body. As in the reference, bytes behind it are ignored: an SDK may send more than is read.

    The Node SDK does, with the count of partitions at the end of a DeleteTopic.
    """

    __slots__ = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read the value at the cursor. Raises `WireError`."""
        raise NotImplementedError(cls.__name__)

    def write(self, writer: Writer) -> None:
        """Append the value. Raises `WireError` for a field that the wire cannot carry."""
        raise NotImplementedError(type(self).__name__)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a body. Raises `WireError`."""
        return cls.read(Reader(data, cls.__name__))

    @classmethod
    def decode_whole(cls, data: bytes) -> Self:
        """Decode a body that must end where the data ends. Raises `WireError`."""
        reader = Reader(data, cls.__name__)
        value = cls.read(reader)
        reader.finish()
        return value

    def encode(self) -> bytes:
        """The bytes of the body. Raises `WireError` for a field that the wire cannot carry."""
        writer = Writer(type(self).__name__)
        self.write(writer)
        return writer.finish()


@dataclass(frozen=True, slots=True)
class EmptyBody(Body):
    """A request without a body: here nothing may follow."""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Nothing to decode. Raises `WireError` when there is something."""
        return cls.decode_whole(data)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Nothing to read."""
        del reader
        return cls()

    def write(self, writer: Writer) -> None:
        """Nothing to write."""


class ResponseBody(Body):
    """A response payload, without the result section. As in the official client, bytes behind it are ignored."""

    __slots__ = ()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a payload. Raises `WireError`."""
        return cls.read(Reader(data, cls.__name__))

    @classmethod
    def decode_found(cls, data: bytes) -> Self | None:
        """Decode the answer to a query for one thing: an empty body means that it was not found."""
        return cls.decode(data) if data else None
