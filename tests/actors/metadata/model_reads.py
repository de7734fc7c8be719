"""Every read there is to ask the reference model and the product about."""

from collections.abc import Iterator

from levrier.cluster.simulate.checkers.model.machine import Key, Model, found
from levrier.cluster.simulate.checkers.model.reads import Read
from levrier.wire.body import Body
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.groups import GetConsumerGroup, GetConsumerGroups, SyncConsumerGroup
from levrier.wire.requests.streams import GetStream, GetStreams
from levrier.wire.requests.tokens import GetPersonalAccessTokens
from levrier.wire.requests.topics import GetTopic, GetTopics
from levrier.wire.requests.users import GetUser, GetUsers


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
