"""Response elements about streams and topics (requests specification 2.1 to 2.3, 3, 7)."""

from dataclasses import dataclass
from typing import Final, Self

from levrier.wire.body import ResponseBody
from levrier.wire.errors import WireError
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer

_STREAM_HEADER_SIZE_MIN: Final = 38
_TOPIC_HEADER_SIZE_MIN: Final = 59
_COMPRESSION_CODES: Final = (1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamHeader(ResponseBody):
    """One stream. `created_at` in microseconds since the epoch; `options` is an options block."""

    id: int
    created_at: int
    topics_count: int = 0
    size_bytes: int = 0
    messages_count: int = 0
    name: str
    options: bytes = b""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            id=reader.u32("id"),
            created_at=reader.u64("created_at"),
            topics_count=reader.u32("topics_count"),
            size_bytes=reader.u64("size_bytes"),
            messages_count=reader.u64("messages_count"),
            name=reader.name("name"),
            options=reader.block("options"),
        )

    def write(self, writer: Writer) -> None:
        writer.u32(self.id, "id")
        writer.u64(self.created_at, "created_at")
        writer.u32(self.topics_count, "topics_count")
        writer.u64(self.size_bytes, "size_bytes")
        writer.u64(self.messages_count, "messages_count")
        writer.name(self.name, "name")
        writer.block(self.options, "options")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicHeader(ResponseBody):
    """One topic. Expiry in microseconds, sizes in bytes; two options blocks: what the client named, and the defaults."""

    id: int
    created_at: int
    partitions_count: int
    message_expiry: int
    compression_algorithm: int
    max_topic_size: int
    size_bytes: int = 0
    messages_count: int = 0
    name: str
    explicit_options: bytes = b""
    derived_options: bytes = b""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            id=reader.u32("id"),
            created_at=reader.u64("created_at"),
            partitions_count=reader.u32("partitions_count"),
            message_expiry=reader.u64("message_expiry"),
            compression_algorithm=_read_compression(reader),
            max_topic_size=reader.u64("max_topic_size"),
            size_bytes=reader.u64("size_bytes"),
            messages_count=reader.u64("messages_count"),
            name=reader.name("name"),
            explicit_options=reader.block("explicit_options"),
            derived_options=reader.block("derived_options"),
        )

    def write(self, writer: Writer) -> None:
        writer.u32(self.id, "id")
        writer.u64(self.created_at, "created_at")
        writer.u32(self.partitions_count, "partitions_count")
        writer.u64(self.message_expiry, "message_expiry")
        if self.compression_algorithm not in _COMPRESSION_CODES:
            raise WireError(f"{self.compression_algorithm} is no algorithm", "compression_algorithm")
        writer.u8(self.compression_algorithm, "compression_algorithm")
        writer.u64(self.max_topic_size, "max_topic_size")
        writer.u64(self.size_bytes, "size_bytes")
        writer.u64(self.messages_count, "messages_count")
        writer.name(self.name, "name")
        writer.block(self.explicit_options, "explicit_options")
        writer.block(self.derived_options, "derived_options")


def _read_compression(reader: Reader) -> int:
    code = reader.u8("compression_algorithm")
    if code not in _COMPRESSION_CODES:
        raise WireError(f"{code} is no algorithm", reader.where("compression_algorithm"))
    return code


def read_topic_headers(reader: Reader, count: int) -> tuple[TopicHeader, ...]:
    """Read `count` topic headers; refused at once when so many cannot be there."""
    if count * _TOPIC_HEADER_SIZE_MIN > reader.remaining:
        raise WireError(f"{count} topics in {reader.remaining} bytes", reader.where("topics_count"))
    return tuple(TopicHeader.read(reader) for _ in range(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDetails(ResponseBody):
    """One stream and its topics: the answer to GET_STREAM, and without topics to CreateStream."""

    stream: StreamHeader
    topics: tuple[TopicHeader, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        stream = StreamHeader.read(reader)
        return cls(stream=stream, topics=read_topic_headers(reader, stream.topics_count))

    def write(self, writer: Writer) -> None:
        if self.stream.topics_count != len(self.topics):
            raise WireError(f"{len(self.topics)} topics, not {self.stream.topics_count}", "topics_count")
        self.stream.write(writer)
        for topic in self.topics:
            topic.write(writer)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamList(ResponseBody):
    """All streams: the answer to GET_STREAMS. There is no count; the body ends with the last one."""

    streams: tuple[StreamHeader, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        streams = []
        while reader.remaining:
            streams.append(StreamHeader.read(reader))
        return cls(streams=tuple(streams))

    def write(self, writer: Writer) -> None:
        for stream in self.streams:
            stream.write(writer)


assert len(StreamHeader(id=0, created_at=0, name="s").encode()) == _STREAM_HEADER_SIZE_MIN
