"""Requests about topics (requests specification 7)."""

from dataclasses import dataclass
from typing import Self

from levrier.wire.body import Body
from levrier.wire.identifiers import Identifier
from levrier.wire.options import read_options
from levrier.wire.reader import Reader
from levrier.wire.requests.streams import StreamTarget
from levrier.wire.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic(Body):
    """`partitions_count` stands before the name. `options` is the block as sent."""

    stream: Identifier
    partitions_count: int
    name: str
    options: bytes = b""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            stream=Identifier.read(reader, "stream"),
            partitions_count=reader.u32("partitions_count"),
            name=reader.name("name"),
            options=read_options(reader),
        )

    def write(self, writer: Writer) -> None:
        self.stream.write(writer)
        writer.u32(self.partitions_count, "partitions_count")
        writer.name(self.name, "name")
        writer.raw(self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTopic(Body):
    """Renames a topic and patches its options; `options` is the block as sent."""

    stream: Identifier
    topic: Identifier
    name: str
    options: bytes = b""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            stream=Identifier.read(reader, "stream"),
            topic=Identifier.read(reader, "topic"),
            name=reader.name("name"),
            options=read_options(reader),
        )

    def write(self, writer: Writer) -> None:
        self.stream.write(writer)
        self.topic.write(writer)
        writer.name(self.name, "name")
        writer.raw(self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTarget(Body):
    """A request that names a topic and nothing else."""

    stream: Identifier
    topic: Identifier

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(stream=Identifier.read(reader, "stream"), topic=Identifier.read(reader, "topic"))

    def write(self, writer: Writer) -> None:
        self.stream.write(writer)
        self.topic.write(writer)


class DeleteTopic(TopicTarget):
    """Deletes a topic with its partitions and groups."""

    __slots__ = ()


class PurgeTopic(TopicTarget):
    """Drops the messages of a topic and keeps its shape."""

    __slots__ = ()


class GetTopic(TopicTarget):
    """Asks for one topic and its partitions."""

    __slots__ = ()


class GetTopics(StreamTarget):
    """Asks for the topics of a stream."""

    __slots__ = ()
