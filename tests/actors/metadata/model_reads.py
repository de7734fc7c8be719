"""What the reference model answers to reads (state-machine 10.4), and every read there is to ask about."""

from collections.abc import Iterator
from dataclasses import dataclass

from levrier.wire.body import Body
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.groups import GetConsumerGroup, GetConsumerGroups, SyncConsumerGroup
from levrier.wire.requests.streams import GetStream, GetStreams
from levrier.wire.requests.tokens import GetPersonalAccessTokens
from levrier.wire.requests.topics import GetTopic, GetTopics
from levrier.wire.requests.users import GetUser, GetUsers
from tests.actors.metadata import model_bytes
from tests.actors.metadata.model import NO_STREAM, NO_TOPIC, UNAUTHORIZED, Key, Model, Stream, Topic, found, in_order

ABSENT = (0, b"")
DENIED = (UNAUTHORIZED, b"")
Answer = tuple[int, bytes]


@dataclass(frozen=True)
class Read:
    """One read: its command code and its body as the wire carries it, and what is asked for."""

    code: int
    body: bytes
    target: tuple[Key, ...] = ()


def every_read(model: Model, keys: tuple[Key, ...]) -> Iterator[Read]:
    """Lists, and each kind of thing under each combination of keys that leads somewhere, and some that do not."""
    yield from (Read(code, body.encode()) for code, body in _LISTS)
    for user in (*keys, *model.users):
        yield Read(31, GetUser(user=Identifier(user)).encode(), (user,))
    for stream in keys:
        yield Read(200, GetStream(stream=Identifier(stream)).encode(), (stream,))
        yield Read(301, GetTopics(stream=Identifier(stream)).encode(), (stream,))
        for topic in keys if found(model.streams, stream) else keys[:1]:
            yield from _of_topic(model, stream, topic, keys)


_LISTS: tuple[tuple[int, Body], ...] = ((201, GetStreams()), (32, GetUsers()), (41, GetPersonalAccessTokens()))


def _of_topic(model: Model, stream: Key, topic: Key, keys: tuple[Key, ...]) -> Iterator[Read]:
    path = {"stream": Identifier(stream), "topic": Identifier(topic)}
    yield Read(300, GetTopic(**path).encode(), (stream, topic))
    yield Read(601, GetConsumerGroups(**path).encode(), (stream, topic))
    known = found(model.streams, stream)
    for group in keys if known and found(known.topics, topic) else keys[:1]:
        target = (stream, topic, group)
        yield Read(600, GetConsumerGroup(**path, group=Identifier(group)).encode(), target)
        yield Read(606, SyncConsumerGroup(**path, group=Identifier(group)).encode(), target)


def answer(model: Model, user: int, client: int, read: Read) -> Answer:
    """Status and body. A deleted user has no rights, and is told so (D-02)."""
    if user not in model.users and read.code != 31:
        return DENIED
    if read.code == 606:
        return _sync(model, client, *read.target)
    if read.code in {31, 32, 41}:
        return _of_users(model, user, read)
    if read.code == 201:
        listed = b"".join(model_bytes.stream_header(stream) for stream in in_order(model.streams))
        return (0, listed) if model.allows(user, "get_streams") else DENIED
    return _of_streams(model, user, read)


def _of_users(model: Model, user: int, read: Read) -> Answer:
    if read.code == 41:
        return 0, model_bytes.tokens(model.users[user])
    if read.code == 32:
        listed = b"".join(model_bytes.user(known) for known in in_order(model.users))
        return (0, listed) if model.allows(user, "get_users") else DENIED
    known = found(model.users, read.target[0])
    if known is None:
        return ABSENT
    return (0, model_bytes.user_details(known)) if known.id == user or model.allows(user, "get_users") else DENIED


def _of_streams(model: Model, user: int, read: Read) -> Answer:
    stream: Stream | None = found(model.streams, read.target[0])
    if read.code == 200:
        if stream is None:
            return ABSENT
        shown = model_bytes.stream_header(stream) + _headers(stream)
        return (0, shown) if model.allows(user, "get_stream", stream.id) else DENIED
    if read.code == 301:
        if stream is None:
            return 0, bytes(4)
        listed = len(stream.topics).to_bytes(4, "little") + _headers(stream)
        return (0, listed) if model.allows(user, "get_topics", stream.id) else DENIED
    topic: Topic | None = None if stream is None else found(stream.topics, read.target[1])
    if stream is None or topic is None:
        missing = NO_STREAM if stream is None else NO_TOPIC
        return ABSENT if read.code == 300 else (missing, b"")
    return _of_topics(topic, read) if model.allows(user, "get_topic", stream.id, topic.id) else DENIED


def _of_topics(topic: Topic, read: Read) -> Answer:
    if read.code == 300:
        return 0, model_bytes.topic_details(topic, segments=1)
    count = len(topic.partitions)
    if read.code == 601:
        return 0, b"".join(model_bytes.group_header(group, count) for group in in_order(topic.groups))
    group = found(topic.groups, read.target[2])
    return ABSENT if group is None else (0, model_bytes.group_details(group, count))


def _headers(stream: Stream) -> bytes:
    return b"".join(model_bytes.topic_header(topic) for topic in in_order(stream.topics))


def _sync(model: Model, client: int, *path: Key) -> Answer:
    stream = found(model.streams, path[0])
    topic = found(stream.topics, path[1]) if stream else None
    group = found(topic.groups, path[2]) if topic else None
    member = group.member_of(client) if group else None
    return ABSENT if group is None or member is None else (0, model_bytes.assignment(group, member))
