"""What the reference model answers to reads (state-machine 10.4)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from levrier.cluster.simulate.checkers.model import layout
from levrier.cluster.simulate.checkers.model.machine import (
    NO_STREAM,
    NO_TOPIC,
    UNAUTHORIZED,
    Key,
    Model,
    Stream,
    Topic,
    found,
    in_order,
)
from levrier.wire.body import Body
from levrier.wire.requests.groups import GetConsumerGroup, GetConsumerGroups, SyncConsumerGroup
from levrier.wire.requests.streams import GetStream, GetStreams
from levrier.wire.requests.tokens import GetPersonalAccessTokens
from levrier.wire.requests.topics import GetTopic, GetTopics
from levrier.wire.requests.users import GetUser, GetUsers

ABSENT: Final = (0, b"")
DENIED: Final = (UNAUTHORIZED, b"")
Answer = tuple[int, bytes]


@dataclass(frozen=True)
class Read:
    """One read: its command code and its body as the wire carries it, and what is asked for."""

    code: int
    body: bytes
    target: tuple[Key, ...] = ()


_TARGETS: Final[dict[int, tuple[type[Body], Callable[[Any], tuple[Any, ...]]]]] = {
    31: (GetUser, lambda body: (body.user,)),
    32: (GetUsers, lambda _: ()),
    41: (GetPersonalAccessTokens, lambda _: ()),
    200: (GetStream, lambda body: (body.stream,)),
    201: (GetStreams, lambda _: ()),
    300: (GetTopic, lambda body: (body.stream, body.topic)),
    301: (GetTopics, lambda body: (body.stream,)),
    600: (GetConsumerGroup, lambda body: (body.stream, body.topic, body.group)),
    601: (GetConsumerGroups, lambda body: (body.stream, body.topic)),
    606: (SyncConsumerGroup, lambda body: (body.stream, body.topic, body.group)),
}

READ_CODES: Final = frozenset(_TARGETS)
"""The reads that the model answers: those whose answer follows from the applied state alone."""


def read_of(code: int, body: bytes) -> Read:
    """The read that a client asked for. Raises `WireError` for a body that does not decode, `KeyError` for another code."""
    kind, target = _TARGETS[code]
    return Read(code, body, tuple(identifier.value for identifier in target(kind.decode(body))))


def answer(model: Model, user: int, client: int, read: Read) -> Answer:
    """Status and body. A deleted user has no rights, and is told so (D-02)."""
    if user not in model.users and read.code != 31:
        return DENIED
    if read.code == 606:
        return _sync(model, client, *read.target)
    if read.code in {31, 32, 41}:
        return _of_users(model, user, read)
    if read.code == 201:
        listed = b"".join(layout.stream_header(stream) for stream in in_order(model.streams))
        return (0, listed) if model.allows(user, "get_streams") else DENIED
    return _of_streams(model, user, read)


def is_answer(model: Model, user: int, client: int, read: Read, told: Answer) -> bool:
    """Whether that is what the model answers. A list of streams is looked at from its end, where most changes are."""
    if read.code != 201 or user not in model.users or not model.allows(user, "get_streams"):
        return answer(model, user, client, read) == told
    status, listed = told
    for stream in reversed(in_order(model.streams)):
        header = layout.stream_header(stream)
        if not listed.endswith(header):
            return False
        listed = listed[: -len(header)]
    return status == 0 and not listed


def _of_users(model: Model, user: int, read: Read) -> Answer:
    if read.code == 41:
        return 0, layout.tokens(model.users[user])
    if read.code == 32:
        listed = b"".join(layout.user(known) for known in in_order(model.users))
        return (0, listed) if model.allows(user, "get_users") else DENIED
    known = found(model.users, read.target[0])
    if known is None:
        return ABSENT
    return (0, layout.user_details(known)) if known.id == user or model.allows(user, "get_users") else DENIED


def _of_streams(model: Model, user: int, read: Read) -> Answer:
    stream: Stream | None = found(model.streams, read.target[0])
    if read.code == 200:
        if stream is None:
            return ABSENT
        shown = layout.stream_header(stream) + _headers(stream)
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
        return 0, layout.topic_details(topic, segments=1)
    count = len(topic.partitions)
    if read.code == 601:
        return 0, b"".join(layout.group_header(group, count) for group in in_order(topic.groups))
    group = found(topic.groups, read.target[2])
    return ABSENT if group is None else (0, layout.group_details(group, count))


def _headers(stream: Stream) -> bytes:
    return b"".join(layout.topic_header(topic) for topic in in_order(stream.topics))


def _sync(model: Model, client: int, *path: Key) -> Answer:
    stream = found(model.streams, path[0])
    topic = found(stream.topics, path[1]) if stream else None
    group = found(topic.groups, path[2]) if topic else None
    member = group.member_of(client) if group else None
    return ABSENT if group is None or member is None else (0, layout.assignment(group, member))
