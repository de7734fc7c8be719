"""What the clients ask for: every kind of write and read, on things that exist, have gone, or never were.

Names are used once and never again, so an answer that says "exists already" to a creation tells that it was executed twice.
A stream is renamed and deleted by the client that made it only; everything else is anybody's.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeVar

from levrier.wire.codes import CommandCode, Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.permissions import GlobalPermissions, Permissions
from levrier.wire.requests.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
    LeaveConsumerGroup,
)
from levrier.wire.requests.partitions import CreatePartitions, DeletePartitions
from levrier.wire.requests.streams import CreateStream, DeleteStream, GetStream, PurgeStream, UpdateStream
from levrier.wire.requests.tokens import CreatePersonalAccessToken, DeletePersonalAccessToken
from levrier.wire.requests.topics import CreateTopic, DeleteTopic, GetTopics, PurgeTopic, UpdateTopic
from levrier.wire.requests.users import ChangePassword, CreateUser, DeleteUser, UpdatePermissions, UpdateUser

T = TypeVar("T")

_KEPT_MAX: Final = 40
"""Names of one kind that are remembered as targets."""

_OWN_MAX: Final = 10
"""Streams that one client keeps where as much is deleted as is made."""

_PARTITIONS_MAX: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One write. `makes` and `ends` are the stream of this client that a success brings and takes."""

    operation: int
    body: bytes = field(repr=False)
    text: str
    makes: str | None = None
    ends: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One read."""

    command: int
    body: bytes = field(repr=False)


@dataclass
class Workload:
    """What is left to do, and which names were handed out. Shared by all clients of a simulation."""

    remaining: int
    steady: bool = False
    """Whether as much is deleted as is made, once there is a good deal."""

    token_life_us: int = 3_000_000
    """About how long access tokens live that expire."""

    streams: list[str] = field(default_factory=list)
    topics: list[tuple[str, str]] = field(default_factory=list)
    groups: list[tuple[str, str, str]] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    def take(self) -> bool:
        """Whether one more operation is wanted."""
        if self.remaining <= 0:
            return False
        self.remaining -= 1
        return True


class Wishes:
    """What one client wants next."""

    def __init__(self, random: Random, workload: Workload, prefix: str) -> None:
        self.own: list[str] = []
        """Streams that this client knows to exist, by name."""
        self._random = random
        self._workload = workload
        self._prefix = prefix
        self._count = 0
        self._writes: tuple[tuple[int, Callable[[], Wish]], ...] = (
            (24, self._create_stream),
            (8, self._rename_stream),
            (7, self._delete_stream),
            (2, self._purge_stream),
            (14, self._create_topic),
            (4, self._update_topic),
            (4, self._delete_topic),
            (1, self._purge_topic),
            (4, self._create_partitions),
            (2, self._delete_partitions),
            (5, self._create_group),
            (2, self._delete_group),
            (9, self._join),
            (4, self._leave),
            (4, self._create_user),
            (2, self._update_user),
            (2, self._delete_user),
            (1, self._change_password),
            (2, self._update_permissions),
            (3, self._create_token),
            (2, self._delete_token),
        )
        self._weights = [weight for weight, _ in self._writes]

    def write(self) -> Wish:
        """The next write."""
        (_, draw), *_ = self._random.choices(self._writes, self._weights)
        return draw()

    def read(self) -> Question:
        """The next read."""
        draw = self._random.random()
        if draw < 0.5:
            return Question(command=int(CommandCode.GET_STREAMS), body=b"")
        if draw < 0.65:
            return Question(command=int(CommandCode.GET_STREAM), body=GetStream(stream=self._stream()).encode())
        if draw < 0.8:
            return Question(command=int(CommandCode.GET_USERS), body=b"")
        if draw < 0.9:
            return Question(command=int(CommandCode.GET_TOPICS), body=GetTopics(stream=self._stream()).encode())
        stream, topic = self._topic()
        body = GetConsumerGroups(stream=Identifier(stream), topic=Identifier(topic)).encode()
        return Question(command=int(CommandCode.GET_CONSUMER_GROUPS), body=body)

    # Names

    def _new(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._prefix}-{self._count}"

    def _remember(self, names: list[T], name: T) -> T:
        names.append(name)
        if len(names) > _KEPT_MAX:
            del names[self._random.randrange(len(names))]
        return name

    def _is_full(self, names: list[T]) -> bool:
        """Whether something has to go before more is made."""
        return self._workload.steady and len(names) >= _KEPT_MAX

    def _oldest(self, names: list[T]) -> T | None:
        """What has to go next, if anything; it is a target no more."""
        return names.pop(0) if self._is_full(names) else None

    def _stream_name(self) -> str:
        streams = self._workload.streams
        return self._random.choice(streams) if streams else "nowhere"

    def _stream(self) -> Identifier:
        if self._random.random() < 0.2:
            return Identifier(self._random.randrange(8))
        return Identifier(self._stream_name())

    def _topic(self) -> tuple[str, str]:
        topics = self._workload.topics
        return self._random.choice(topics) if topics else (self._stream_name(), "nothing")

    def _group(self) -> tuple[str, str, str]:
        groups = self._workload.groups
        return self._random.choice(groups) if groups else (*self._topic(), "nobody")

    def _user(self) -> str:
        users = self._workload.users
        return self._random.choice(users) if users else "nobody"

    # Streams

    def _create_stream(self) -> Wish:
        if self._workload.steady and len(self.own) >= _OWN_MAX:
            return self._delete_stream()
        name = self._remember(self._workload.streams, self._new("s"))
        body = CreateStream(name=name).encode()
        return Wish(operation=Operation.CREATE_STREAM, body=body, text=f"create stream {name}", makes=name)

    def _rename_stream(self) -> Wish:
        if not self.own:
            return self._create_stream()
        old, new = self._random.choice(self.own), self._remember(self._workload.streams, self._new("s"))
        body = UpdateStream(stream=Identifier(old), name=new).encode()
        return Wish(
            operation=Operation.UPDATE_STREAM, body=body, text=f"rename stream {old} to {new}", makes=new, ends=old
        )

    def _delete_stream(self) -> Wish:
        if not self.own:
            return self._create_stream()
        name = self._random.choice(self.own)
        body = DeleteStream(stream=Identifier(name)).encode()
        return Wish(operation=Operation.DELETE_STREAM, body=body, text=f"delete stream {name}", ends=name)

    def _purge_stream(self) -> Wish:
        stream = self._stream()
        return Wish(
            operation=Operation.PURGE_STREAM, body=PurgeStream(stream=stream).encode(), text=f"purge stream {stream}"
        )

    # Topics and partitions

    def _create_topic(self) -> Wish:
        if self._is_full(self._workload.topics):
            return self._delete_topic()
        stream, name = self._stream_name(), self._new("t")
        self._remember(self._workload.topics, (stream, name))
        body = CreateTopic(
            stream=Identifier(stream), partitions_count=self._random.randint(1, _PARTITIONS_MAX), name=name
        ).encode()
        return Wish(operation=Operation.CREATE_TOPIC, body=body, text=f"create topic {stream}/{name}")

    def _update_topic(self) -> Wish:
        if self._is_full(self._workload.topics):
            return self._delete_topic()
        stream, topic = self._topic()
        name = self._new("t")
        self._remember(self._workload.topics, (stream, name))
        body = UpdateTopic(stream=Identifier(stream), topic=Identifier(topic), name=name).encode()
        return Wish(operation=Operation.UPDATE_TOPIC, body=body, text=f"rename topic {stream}/{topic} to {name}")

    def _delete_topic(self) -> Wish:
        stream, topic = self._oldest(self._workload.topics) or self._topic()
        body = DeleteTopic(stream=Identifier(stream), topic=Identifier(topic)).encode()
        return Wish(operation=Operation.DELETE_TOPIC, body=body, text=f"delete topic {stream}/{topic}")

    def _purge_topic(self) -> Wish:
        stream, topic = self._topic()
        body = PurgeTopic(stream=Identifier(stream), topic=Identifier(topic)).encode()
        return Wish(operation=Operation.PURGE_TOPIC, body=body, text=f"purge topic {stream}/{topic}")

    def _create_partitions(self) -> Wish:
        stream, topic = self._topic()
        count = self._random.randint(1, _PARTITIONS_MAX)
        body = CreatePartitions(stream=Identifier(stream), topic=Identifier(topic), partitions_count=count).encode()
        return Wish(
            operation=Operation.CREATE_PARTITIONS, body=body, text=f"add {count} partitions to {stream}/{topic}"
        )

    def _delete_partitions(self) -> Wish:
        stream, topic = self._topic()
        body = DeletePartitions(stream=Identifier(stream), topic=Identifier(topic), partitions_count=1).encode()
        return Wish(operation=Operation.DELETE_PARTITIONS, body=body, text=f"take a partition from {stream}/{topic}")

    # Groups

    def _create_group(self) -> Wish:
        if self._is_full(self._workload.groups):
            return self._delete_group()
        stream, topic = self._topic()
        name = self._new("g")
        self._remember(self._workload.groups, (stream, topic, name))
        body = CreateConsumerGroup(stream=Identifier(stream), topic=Identifier(topic), name=name).encode()
        return Wish(operation=Operation.CREATE_CONSUMER_GROUP, body=body, text=f"create group {stream}/{topic}/{name}")

    def _delete_group(self) -> Wish:
        stream, topic, name = self._oldest(self._workload.groups) or self._group()
        body = DeleteConsumerGroup(stream=Identifier(stream), topic=Identifier(topic), group=Identifier(name)).encode()
        return Wish(operation=Operation.DELETE_CONSUMER_GROUP, body=body, text=f"delete group {stream}/{topic}/{name}")

    def _join(self) -> Wish:
        stream, topic, name = self._group()
        body = JoinConsumerGroup(stream=Identifier(stream), topic=Identifier(topic), group=Identifier(name)).encode()
        return Wish(operation=Operation.JOIN_CONSUMER_GROUP, body=body, text=f"join {stream}/{topic}/{name}")

    def _leave(self) -> Wish:
        stream, topic, name = self._group()
        body = LeaveConsumerGroup(stream=Identifier(stream), topic=Identifier(topic), group=Identifier(name)).encode()
        return Wish(operation=Operation.LEAVE_CONSUMER_GROUP, body=body, text=f"leave {stream}/{topic}/{name}")

    # Users and tokens

    def _create_user(self) -> Wish:
        if self._is_full(self._workload.users):
            return self._delete_user()
        name = self._remember(self._workload.users, self._new("u"))
        body = CreateUser(username=name, password="password", permissions=self._permissions()).encode()
        return Wish(operation=Operation.CREATE_USER, body=body, text=f"create user {name}")

    def _update_user(self) -> Wish:
        if self._is_full(self._workload.users):
            return self._delete_user()
        old, new = self._user(), self._remember(self._workload.users, self._new("u"))
        body = UpdateUser(user=Identifier(old), username=new, status=self._random.choice((None, 1, 2))).encode()
        return Wish(operation=Operation.UPDATE_USER, body=body, text=f"rename user {old} to {new}")

    def _delete_user(self) -> Wish:
        name = self._oldest(self._workload.users) or self._user()
        body = DeleteUser(user=Identifier(name)).encode()
        return Wish(operation=Operation.DELETE_USER, body=body, text=f"delete user {name}")

    def _change_password(self) -> Wish:
        name = self._user()
        body = ChangePassword(user=Identifier(name), current_password="password", new_password="password").encode()
        return Wish(operation=Operation.CHANGE_PASSWORD, body=body, text=f"change the password of {name}")

    def _update_permissions(self) -> Wish:
        name = self._user()
        body = UpdatePermissions(user=Identifier(name), permissions=self._permissions()).encode()
        return Wish(operation=Operation.UPDATE_PERMISSIONS, body=body, text=f"change the permissions of {name}")

    def _permissions(self) -> Permissions | None:
        if self._random.random() < 0.3:
            return None
        flags = [self._random.random() < 0.5 for _ in range(10)]
        return Permissions(global_permissions=GlobalPermissions(*flags))

    def _create_token(self) -> Wish:
        if self._is_full(self._workload.tokens):
            return self._delete_token()
        name = self._remember(self._workload.tokens, self._new("p"))
        life = self._workload.token_life_us
        expiry = self._random.choice((0, life // 10, life, 3 * life))
        body = CreatePersonalAccessToken(name=name, expiry=expiry).encode()
        return Wish(operation=Operation.CREATE_PERSONAL_ACCESS_TOKEN, body=body, text=f"create token {name}")

    def _delete_token(self) -> Wish:
        tokens = self._workload.tokens
        name = self._oldest(tokens) or (self._random.choice(tokens) if tokens else "none")
        body = DeletePersonalAccessToken(name=name).encode()
        return Wish(operation=Operation.DELETE_PERSONAL_ACCESS_TOKEN, body=body, text=f"delete token {name}")
