"""Requests about partitions and segments (requests specification 8)."""

from dataclasses import dataclass
from typing import Self

from levrier.wire.body import Body
from levrier.wire.identifiers import Identifier
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsOfTopic(Body):
    """A request that names a topic and a number of partitions."""

    stream: Identifier
    topic: Identifier
    partitions_count: int

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            stream=Identifier.read(reader, "stream"),
            topic=Identifier.read(reader, "topic"),
            partitions_count=reader.u32("partitions_count"),
        )

    def write(self, writer: Writer) -> None:
        self.stream.write(writer)
        self.topic.write(writer)
        writer.u32(self.partitions_count, "partitions_count")


class CreatePartitions(PartitionsOfTopic):
    """Appends partitions; their ids start one above the highest."""

    __slots__ = ()


class DeletePartitions(PartitionsOfTopic):
    """Takes the last partitions away."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSegments(Body):
    """Drops the oldest closed segments of one partition."""

    stream: Identifier
    topic: Identifier
    partition_id: int
    segments_count: int

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            stream=Identifier.read(reader, "stream"),
            topic=Identifier.read(reader, "topic"),
            partition_id=reader.u32("partition_id"),
            segments_count=reader.u32("segments_count"),
        )

    def write(self, writer: Writer) -> None:
        self.stream.write(writer)
        self.topic.write(writer)
        writer.u32(self.partition_id, "partition_id")
        writer.u32(self.segments_count, "segments_count")
