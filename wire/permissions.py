"""What a user may do (requests specification 1.6, state machine specification 10.1).

Ten global flags, six for each stream, four for each topic. Grants only add up; there is no denial. Streams and topics are
kept and written in ascending id order; on reading, a later entry for the same id wins. An absent map and an empty map
are the same thing and the same bytes.
"""

from dataclasses import dataclass, replace
from typing import Final, Self

from levrier.wire.body import Body
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer

_GLOBAL_FLAGS: Final = 10
_STREAM_FLAGS: Final = 6
_TOPIC_FLAGS: Final = 4


def _read_flags(reader: Reader, count: int) -> list[bool]:
    return [byte != 0 for byte in reader.take(count, "flags")]


@dataclass(frozen=True, slots=True)
class GlobalPermissions:
    """The flags that hold for everything, in the order of the wire."""

    manage_servers: bool = False
    read_servers: bool = False
    manage_users: bool = False
    read_users: bool = False
    manage_streams: bool = False
    read_streams: bool = False
    manage_topics: bool = False
    read_topics: bool = False
    poll_messages: bool = False
    send_messages: bool = False

    def flags(self) -> tuple[bool, ...]:
        """The flags in the order of the wire."""
        return (
            self.manage_servers,
            self.read_servers,
            self.manage_users,
            self.read_users,
            self.manage_streams,
            self.read_streams,
            self.manage_topics,
            self.read_topics,
            self.poll_messages,
            self.send_messages,
        )


@dataclass(frozen=True, slots=True)
class TopicPermissions:
    """The flags of one topic, in the order of the wire."""

    manage_topic: bool = False
    read_topic: bool = False
    poll_messages: bool = False
    send_messages: bool = False

    def flags(self) -> tuple[bool, ...]:
        """The flags in the order of the wire."""
        return (self.manage_topic, self.read_topic, self.poll_messages, self.send_messages)


@dataclass(frozen=True, slots=True)
class StreamPermissions:
    """The flags of one stream, in the order of the wire, and its topics by ascending id."""

    manage_stream: bool = False
    read_stream: bool = False
    manage_topics: bool = False
    read_topics: bool = False
    poll_messages: bool = False
    send_messages: bool = False
    topics: tuple[tuple[int, TopicPermissions], ...] = ()

    def flags(self) -> tuple[bool, ...]:
        """The flags in the order of the wire."""
        return (
            self.manage_stream,
            self.read_stream,
            self.manage_topics,
            self.read_topics,
            self.poll_messages,
            self.send_messages,
        )

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read the flags and the topics of one stream."""
        manage_stream, read_stream, manage_topics, read_topics, poll, send = _read_flags(reader, _STREAM_FLAGS)
        topics: dict[int, TopicPermissions] = {}
        more = reader.u8("has_topics")
        while more:
            topic_id = reader.u32("topic_id")
            topics[topic_id] = TopicPermissions(*_read_flags(reader, _TOPIC_FLAGS))
            more = reader.u8("has_next_topic")
        ordered = tuple(sorted(topics.items(), key=_by_id))
        return cls(manage_stream, read_stream, manage_topics, read_topics, poll, send, ordered)

    def write(self, writer: Writer) -> None:
        """Append the flags and the topics."""
        writer.raw(bytes(self.flags()))
        writer.flag(bool(self.topics))
        topics = sorted(self.topics, key=_by_id)
        for index, (topic_id, topic) in enumerate(topics):
            writer.u32(topic_id, "topic_id")
            writer.raw(bytes(topic.flags()))
            writer.flag(index + 1 < len(topics))


@dataclass(frozen=True, slots=True)
class Permissions(Body):
    """Everything a user is granted."""

    global_permissions: GlobalPermissions = GlobalPermissions()
    streams: tuple[tuple[int, StreamPermissions], ...] = ()

    @classmethod
    def root(cls) -> Self:
        """Every global flag."""
        return cls(GlobalPermissions(*(True for _ in range(_GLOBAL_FLAGS))))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read permissions at the cursor."""
        flags = _read_flags(reader, _GLOBAL_FLAGS)
        streams: dict[int, StreamPermissions] = {}
        more = reader.u8("has_streams")
        while more:
            stream_id = reader.u32("stream_id")
            streams[stream_id] = StreamPermissions.read(reader)
            more = reader.u8("has_next_stream")
        return cls(GlobalPermissions(*flags), tuple(sorted(streams.items(), key=_by_id)))

    def write(self, writer: Writer) -> None:
        """Append the permissions."""
        writer.raw(bytes(self.global_permissions.flags()))
        writer.flag(bool(self.streams))
        streams = sorted(self.streams, key=_by_id)
        for index, (stream_id, stream) in enumerate(streams):
            writer.u32(stream_id, "stream_id")
            stream.write(writer)
            writer.flag(index + 1 < len(streams))

    def without_stream(self, stream_id: int) -> "Permissions":
        """These permissions without the entry of a stream; the same object when there is none."""
        kept = tuple(entry for entry in self.streams if entry[0] != stream_id)
        return self if len(kept) == len(self.streams) else Permissions(self.global_permissions, kept)

    def without_topic(self, stream_id: int, topic_id: int) -> "Permissions":
        """These permissions without the entry of a topic; the same object when there is none."""
        streams = tuple(
            (key, _without_topic(stream, topic_id) if key == stream_id else stream) for key, stream in self.streams
        )
        return self if streams == self.streams else Permissions(self.global_permissions, streams)


def _without_topic(stream: StreamPermissions, topic_id: int) -> StreamPermissions:
    kept = tuple(entry for entry in stream.topics if entry[0] != topic_id)
    return replace(stream, topics=kept)


def _by_id(entry: tuple[int, object]) -> int:
    return entry[0]


def read_optional_permissions(reader: Reader) -> Permissions | None:
    """A flag and, if it is set, a u32 length and exactly that many bytes of permissions (requests specification 5)."""
    if not reader.flag("has_permissions"):
        return None
    return Permissions.decode_whole(reader.block("permissions"))


def write_optional_permissions(writer: Writer, permissions: Permissions | None) -> None:
    """The counterpart of `read_optional_permissions`."""
    writer.flag(permissions is not None)
    if permissions is not None:
        writer.block(permissions.encode(), "permissions")
