"""Bodies that show streams and topics: of committed creates, and of reads (requests 2.1 to 2.3, 3, 7).

The layouts are those of `levrier.wire.responses`, packed here in one go: the list of a hundred thousand streams is built
between two commits.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from levrier.actors.metadata.records import Partition, Stream, Topic

_STREAM: Final = Struct("<IQIQQB")
_TOPIC: Final = Struct("<IQIQBQQQB")
_PARTITION: Final = Struct("<IQIQQQ")
_SIZE: Final = Struct("<I")

SEGMENTS_AT_CREATION: Final = 0
SEGMENTS_IN_READS: Final = 1
"""Iggy shows no segment in the reply to a create and at least one ever after, and clients see it (requests 2.3)."""


def created_stream(stream: Stream, options_sent: bytes) -> bytes:
    """The payload of CreateStream: the options exactly as they were sent."""
    return _stream_header(stream, 0, options_sent)


def created_topic(topic: Topic) -> bytes:
    """The payload of CreateTopic: the topic and its partitions."""
    return topic_header(topic) + _partitions(topic.partitions, SEGMENTS_AT_CREATION)


def stream_details(stream: Stream) -> bytes:
    """The answer to GET_STREAM: the stream and its topics, ascending by id."""
    return stream_header(stream) + b"".join(map(topic_header, stream.topics or ()))


def stream_list(streams: Iterable[Stream]) -> bytes:
    """The answer to GET_STREAMS."""
    return b"".join(map(stream_header, streams))


def topic_details(topic: Topic) -> bytes:
    """The answer to GET_TOPIC: the topic and its partitions in their order."""
    return topic_header(topic) + _partitions(topic.partitions, SEGMENTS_IN_READS)


def topic_list(stream: Stream | None) -> bytes:
    """The answer to GET_TOPICS: a count, then the topics ascending by id. An unknown stream has none."""
    if stream is None or stream.topics is None:
        return _SIZE.pack(0)
    return _SIZE.pack(len(stream.topics)) + b"".join(map(topic_header, stream.topics))


def stream_header(stream: Stream) -> bytes:
    """One stream as it stands now."""
    return _stream_header(stream, 0 if stream.topics is None else len(stream.topics), stream.options.explicit_block)


def topic_header(topic: Topic) -> bytes:
    """One topic as it stands now: the options that the client named, then the defaults."""
    name = topic.name.encode()
    explicit = topic.options.explicit_block
    derived = topic.options.derived_block
    head = _TOPIC.pack(
        topic.id,
        topic.created_at,
        len(topic.partitions),
        topic.message_expiry,
        topic.compression,
        topic.max_topic_size,
        0,
        0,
        len(name),
    )
    return b"".join((head, name, _SIZE.pack(len(explicit)), explicit, _SIZE.pack(len(derived)), derived))


def _stream_header(stream: Stream, topics_count: int, options: bytes) -> bytes:
    name = stream.name.encode()
    head = _STREAM.pack(stream.id, stream.created_at, topics_count, 0, 0, len(name))
    return b"".join((head, name, _SIZE.pack(len(options)), options))


def _partitions(partitions: tuple[Partition, ...], segments: int) -> bytes:
    pack = _PARTITION.pack
    return b"".join([pack(partition.id, partition.created_at, segments, 0, 0, 0) for partition in partitions])
