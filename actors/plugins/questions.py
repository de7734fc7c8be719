"""What a plugin may ask: each question is a value, and says by its type what the answer is.

Answers come from the state that is applied on this node. Most questions are the reads that clients have, asked as root; one
whose thing does not exist is answered with None, as its type says. The types of the answers are in `answers`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from levrier.actors.acknowledgements.messages import Evidence
from levrier.actors.bus.messages import SilentSession
from levrier.actors.plugins.messages import CommittedCatalogue, PendingRevocation
from levrier.wire.body import Body
from levrier.wire.codes import CommandCode
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.groups import GetConsumerGroup, GetConsumerGroups
from levrier.wire.requests.streams import GetStream
from levrier.wire.requests.topics import GetTopic, GetTopics
from levrier.wire.requests.users import GetUser
from levrier.wire.responses.groups import ConsumerGroup, ConsumerGroupDetails, ConsumerGroupList
from levrier.wire.responses.streams import StreamDetails, StreamHeader, StreamList, TopicHeader
from levrier.wire.responses.topics import TopicDetails, TopicList
from levrier.wire.responses.users import User, UserDetails, UserList

A_co = TypeVar("A_co", covariant=True)
A = TypeVar("A")


@dataclass(frozen=True)
class Question(Generic[A_co]):
    """Base of all questions; `A_co` is the type of the answer."""


@dataclass(frozen=True)
class Read(Question[A_co]):
    """A read that clients have too: the command code, its body, and how the answer is decoded."""

    code: int
    body: bytes
    decode: Callable[[bytes], A_co]


def streams() -> Read[tuple[StreamHeader, ...]]:
    """All streams, ascending by id."""
    return Read(int(CommandCode.GET_STREAMS), b"", lambda body: StreamList.decode(body).streams)


def stream(which: int | str) -> Read[StreamDetails | None]:
    """One stream and its topics."""
    return _read(CommandCode.GET_STREAM, GetStream(stream=Identifier(which)), StreamDetails.decode_found)


def topics(of_stream: int | str) -> Read[tuple[TopicHeader, ...]]:
    """The topics of a stream, ascending by id; empty for a stream that does not exist."""
    request = GetTopics(stream=Identifier(of_stream))
    return _read(CommandCode.GET_TOPICS, request, lambda body: TopicList.decode(body).topics)


def topic(of_stream: int | str, which: int | str) -> Read[TopicDetails | None]:
    """One topic and its partitions."""
    request = GetTopic(stream=Identifier(of_stream), topic=Identifier(which))
    return _read(CommandCode.GET_TOPIC, request, TopicDetails.decode_found)


def groups(of_stream: int | str, of_topic: int | str) -> Read[tuple[ConsumerGroup, ...] | None]:
    """The consumer groups of a topic, ascending by id; None for a topic that does not exist."""
    request = GetConsumerGroups(stream=Identifier(of_stream), topic=Identifier(of_topic))
    return _read(CommandCode.GET_CONSUMER_GROUPS, request, lambda body: ConsumerGroupList.decode(body).groups)


def group(of_stream: int | str, of_topic: int | str, which: int | str) -> Read[ConsumerGroupDetails | None]:
    """One consumer group and its members."""
    request = GetConsumerGroup(stream=Identifier(of_stream), topic=Identifier(of_topic), group=Identifier(which))
    return _read(CommandCode.GET_CONSUMER_GROUP, request, ConsumerGroupDetails.decode_found)


def users() -> Read[tuple[User, ...]]:
    """All users, ascending by id."""
    return Read(int(CommandCode.GET_USERS), b"", lambda body: UserList.decode(body).users)


def user(which: int | str) -> Read[UserDetails | None]:
    """One user and its permissions."""
    return _read(CommandCode.GET_USER, GetUser(user=Identifier(which)), UserDetails.decode_found)


@dataclass(frozen=True)
class ExpiredTokens(Question[tuple[tuple[int, str], ...]]):
    """Owner and name of the access tokens that are expired at `now` (microseconds), the earliest first, at most `limit`."""

    now: int
    limit: int


@dataclass(frozen=True)
class PendingRevocations(Question[tuple[PendingRevocation, ...]]):
    """Partitions that members of consumer groups still have to give up, at most `limit`."""

    limit: int


@dataclass(frozen=True)
class Catalogue(Question[CommittedCatalogue | None]):
    """Every partition that there is, with its epoch. Cheap to ask for: it is walked in the plugin's own thread.

    None while the catalogue stands at `unless_revision`.
    """

    unless_revision: int = -1


@dataclass(frozen=True)
class SilentSessions(Question[tuple[SilentSession, ...]]):
    """Sessions on this node whose clients sent nothing for more than `seconds`."""

    seconds: float


@dataclass(frozen=True)
class GroupMembers(Question[tuple[int, ...]]):
    """Those of these clients (128-bit ids) that are members of a consumer group."""

    clients: tuple[int, ...]


@dataclass(frozen=True)
class EndSilent(Question[tuple[SilentSession, ...]]):
    """Log these sessions out, if they are still silent for more than `seconds`, and tell their clients so.

    The answer names those that it was done to.
    """

    sessions: tuple[SilentSession, ...]
    seconds: float


@dataclass(frozen=True)
class WhatIsSafe(Question[Evidence]):
    """What every replica has durably applied: `SafeThrough(frontier, covered)`, or `Blocked(waiting_on)` while some have not
    said anything. History up to a safe frontier may be let go; nothing else is permission.
    """


def _read(code: CommandCode, body: Body, decode: Callable[[bytes], A]) -> Read[A]:
    return Read(int(code), body.encode(), decode)


QUESTIONS: Final = (
    Read,
    ExpiredTokens,
    PendingRevocations,
    Catalogue,
    SilentSessions,
    GroupMembers,
    EndSilent,
    WhatIsSafe,
)
