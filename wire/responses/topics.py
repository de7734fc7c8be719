"""Responses about topics and partitions (requests specification 2.2, 2.3, 7)."""

from dataclasses import dataclass
from typing import Final, Self

from levrier.wire.body import ResponseBody
from levrier.wire.errors import Truncated, WireError
from levrier.wire.reader import Reader
from levrier.wire.responses.streams import TopicHeader, read_topic_headers
from levrier.wire.writer import Writer

__all__ = ["PARTITION_SIZE", "Partition", "TopicDetails", "TopicHeader", "TopicList"]

PARTITION_SIZE: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(ResponseBody):
    """One partition. `created_at` in microseconds since the epoch."""

    id: int
    created_at: int
    segments_count: int = 0
    current_offset: int = 0
    size_bytes: int = 0
    messages_count: int = 0

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            id=reader.u32("id"),
            created_at=reader.u64("created_at"),
            segments_count=reader.u32("segments_count"),
            current_offset=reader.u64("current_offset"),
            size_bytes=reader.u64("size_bytes"),
            messages_count=reader.u64("messages_count"),
        )

    def write(self, writer: Writer) -> None:
        writer.u32(self.id, "id")
        writer.u64(self.created_at, "created_at")
        writer.u32(self.segments_count, "segments_count")
        writer.u64(self.current_offset, "current_offset")
        writer.u64(self.size_bytes, "size_bytes")
        writer.u64(self.messages_count, "messages_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDetails(ResponseBody):
    """One topic and its partitions: the answer to GET_TOPIC and to CreateTopic."""

    topic: TopicHeader
    partitions: tuple[Partition, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        topic = TopicHeader.read(reader)
        count = topic.partitions_count
        if count * PARTITION_SIZE > reader.remaining:
            raise Truncated(f"{count} partitions in {reader.remaining} bytes", reader.where("partitions_count"))
        return cls(topic=topic, partitions=tuple(Partition.read(reader) for _ in range(count)))

    def write(self, writer: Writer) -> None:
        if self.topic.partitions_count != len(self.partitions):
            raise WireError(f"{len(self.partitions)} partitions, not {self.topic.partitions_count}", "partitions_count")
        self.topic.write(writer)
        for partition in self.partitions:
            partition.write(writer)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicList(ResponseBody):
    """The topics of a stream: the answer to GET_TOPICS. An unknown stream has none."""

    topics: tuple[TopicHeader, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(topics=read_topic_headers(reader, reader.u32("topics_count")))

    def write(self, writer: Writer) -> None:
        writer.u32(len(self.topics), "topics_count")
        for topic in self.topics:
            topic.write(writer)
