"""Requests about streams (requests specification 3)."""

from dataclasses import dataclass
from typing import Self

from levrier.wire.body import Body, EmptyBody
from levrier.wire.frozen import quick_init
from levrier.wire.identifiers import Identifier
from levrier.wire.options import read_options
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStream(Body):
    """`options` is the block as sent; there are no stream options yet."""

    name: str
    options: bytes = b""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(name=reader.name("name"), options=read_options(reader))

    def write(self, writer: Writer) -> None:
        writer.name(self.name, "name")
        writer.raw(self.options)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStream(Body):
    """Renames a stream; its own name is allowed."""

    stream: Identifier
    name: str
    options: bytes = b""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            stream=Identifier.read(reader, "stream"),
            name=reader.name("name"),
            options=read_options(reader),
        )

    def write(self, writer: Writer) -> None:
        self.stream.write(writer)
        writer.name(self.name, "name")
        writer.raw(self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTarget(Body):
    """A request that names a stream and nothing else."""

    stream: Identifier

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(stream=Identifier.read(reader, "stream"))

    def write(self, writer: Writer) -> None:
        self.stream.write(writer)


class DeleteStream(StreamTarget):
    """Deletes a stream with everything under it."""

    __slots__ = ()


class PurgeStream(StreamTarget):
    """Drops the messages of a stream and keeps its shape."""

    __slots__ = ()


class GetStream(StreamTarget):
    """Asks for one stream and its topics."""

    __slots__ = ()


class GetStreams(EmptyBody):
    """Asks for all streams."""

    __slots__ = ()
