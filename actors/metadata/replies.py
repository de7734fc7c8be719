"""Bodies that show streams, topics and users: of committed creates, and of reads (requests 2.1 to 2.5, 3, 5 to 7).

The layouts are those of `levrier.wire.responses`, packed here in one go: the list of a hundred thousand streams is built
between two commits.
"""

from collections.abc import Iterable
from struct import Struct, pack
from typing import Final

from levrier.actors.metadata.records import ConsumerGroup, Member, Partition, Stream, Topic
from levrier.actors.metadata.tokens import Token
from levrier.actors.metadata.users import User
from levrier.wire.permissions import Permissions
from levrier.wire.responses import tokens, users

_STREAM: Final = Struct("<IQIQQB")
_TOPIC: Final = Struct("<IQIQBQQQB")
_PARTITION: Final = Struct("<IQIQQQ")
_SIZE: Final = Struct("<I")
_GROUP: Final = Struct("<IIIB")
_GENERATION: Final = Struct("<Q")
_U32_MAX: Final = 2**32 - 1

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


def created_user(user: User, status_sent: int, options_sent: bytes) -> bytes:
    """The payload of CreateUser: the status byte and the options exactly as they were sent."""
    return _user_details(user, status_sent, options_sent)


def user_details(user: User) -> bytes:
    """The answer to GET_USER."""
    return _user_details(user, user.status, user.options.explicit_block)


def user_list(listed: Iterable[User]) -> bytes:
    """The answer to GET_USERS."""
    return b"".join(_user(user, user.status, user.options.explicit_block).encode() for user in listed)


def token_list(listed: Iterable[Token]) -> bytes:
    """The answer to GET_PERSONAL_ACCESS_TOKENS: names and expiries, 0 for never, and no hash."""
    shown = tuple(tokens.PersonalAccessToken(name=token.name, expires_at=token.expires_at or 0) for token in listed)
    return tokens.PersonalAccessTokenList(tokens=shown).encode()


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


def _user(user: User, status: int, options: bytes) -> users.User:
    return users.User(id=user.id, created_at=user.created_at, status=status, username=user.username, options=options)


def _user_details(user: User, status: int, options: bytes) -> bytes:
    permissions: Permissions | None = user.permissions
    return users.UserDetails(user=_user(user, status, options), permissions=permissions).encode()


def _partitions(partitions: tuple[Partition, ...], segments: int) -> bytes:
    pack = _PARTITION.pack
    return b"".join([pack(partition.id, partition.created_at, segments, 0, 0, 0) for partition in partitions])


def group_header(group: ConsumerGroup, partitions_count: int) -> bytes:
    """One group; `partitions_count` is that of its topic. An id beyond what the field holds shows as the largest."""
    name = group.name.encode()
    return _GROUP.pack(min(group.id, _U32_MAX), partitions_count, len(group.members), len(name)) + name


def group_details(group: ConsumerGroup, partitions_count: int) -> bytes:
    """The answer to GET_CONSUMER_GROUP, and the payload of CreateConsumerGroup: the group and its members."""
    return group_header(group, partitions_count) + b"".join(
        _SIZE.pack(member.id) + _numbers(member.partitions) for member in group.members
    )


def group_assignment(group: ConsumerGroup, member: Member) -> bytes:
    """The answer to SYNC_CONSUMER_GROUP: the generation, and what this member may poll."""
    return _GENERATION.pack(group.generation) + _numbers(member.pollable)


def _numbers(numbers: tuple[int, ...]) -> bytes:
    return pack(f"<I{len(numbers)}I", len(numbers), *numbers)
