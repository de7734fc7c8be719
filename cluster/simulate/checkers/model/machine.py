"""The reference model of the catalogue: what state-machine 2 to 10 and decisions D-01 to D-05 say, in the plainest words.

Written from the specification alone and independent of the product: dicts, lists, loops, no sharing, no index. An operation is
a `Step`; `Model.apply` gives the code, the body of the reply, and the users who are gone, as the product has to give them.
"""

from dataclasses import dataclass, field
from typing import Any

from levrier.cluster.simulate.checkers.model import layout
from levrier.cluster.simulate.checkers.model import rights as rules
from levrier.cluster.simulate.checkers.model.groups import Group, complete, cooperative, eager
from levrier.cluster.simulate.checkers.model.options import (
    Block,
    Options,
    Refused,
    created_options,
    lenient,
    patched,
    typed,
)
from levrier.cluster.simulate.checkers.model.rights import Rights

U64_MAX = 2**64 - 1
NO_STREAM, STREAM_EXISTS, NO_TOPIC, TOPIC_EXISTS, NO_PARTITION = 1009, 1012, 2010, 2013, 3007
BAD_COUNT, IDS_EXHAUSTED, NO_GROUP, GROUP_EXISTS, NO_MEMBER = 2019, 3013, 5000, 5004, 5006
UNAVAILABLE = 5
NOT_FOUND, UNAUTHORIZED, WRONG_PASSWORD, BAD_USERNAME, USER_EXISTS = 20, 41, 42, 43, 46
CANNOT_DELETE, CANNOT_RESTRICT, TOKEN_EXISTS, BAD_EXPIRY = 48, 49, 51, 56
PARTITION_IDS = 1_000_000
Key = int | str


@dataclass(frozen=True)
class Step:
    """One operation of the log: who asks, through which client, at which time, and for what."""

    operation: int
    user: int
    client: int
    time: int
    args: dict[str, Any]


@dataclass
class User:
    """State-machine 2.1."""

    id: int
    name: str
    password_hash: str
    active: bool
    created_at: int
    rights: Rights | None
    options: Options
    tokens: dict[str, tuple[str, int | None]] = field(default_factory=dict)


@dataclass
class Partition:
    """State-machine 2.2."""

    id: int
    consensus_group: int
    created_at: int
    created_revision: int
    watermark: int = 0
    purges: int = 0


@dataclass
class Topic:
    """State-machine 2.2."""

    id: int
    name: str
    created_at: int
    expiry: int
    compression: int
    size: int
    options: Options
    partitions: list[Partition]
    groups: dict[int, Group] = field(default_factory=dict)
    next_group: int = 0

    @property
    def ids(self) -> list[int]:
        return [partition.id for partition in self.partitions]


@dataclass
class Stream:
    """State-machine 2.2."""

    id: int
    name: str
    created_at: int
    options: Options
    topics: dict[int, Topic] = field(default_factory=dict)


@dataclass
class Outcome:
    """What the product has to answer."""

    code: int
    body: bytes
    dropped_users: tuple[int, ...] = ()


class Rejected(Exception):
    """A check failed: nothing was changed before."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def insist(condition: object, code: int) -> None:
    if not condition:
        raise Rejected(code)


def lowest_free(taken: dict[int, Any]) -> int:
    return next(key for key in range(len(taken) + 1) if key not in taken)


def in_order(records: dict[int, Any]) -> list[Any]:
    return [records[key] for key in sorted(records)]


def found(records: dict[int, Any], key: Key) -> Any:
    """By id or by name; the two never match each other (4)."""
    if isinstance(key, int):
        return records.get(key)
    return next((record for record in records.values() if record.name == key), None)


def name_is_free(records: dict[int, Any], name: str, own_id: int | None = None) -> bool:
    return all(record.name != name or record.id == own_id for record in records.values())


class Model:
    """The whole replicated state but the client table."""

    def __init__(self) -> None:
        self.users: dict[int, User] = {}
        self.next_user = 0
        self.streams: dict[int, Stream] = {}
        self.revision = 0
        self.group_high = 0

    def apply(self, step: Step) -> Outcome:
        """Commit one operation: the gate (10.3), then the checks of the operation in their order (5 to 7)."""
        for _, number in step.args.get("assignments", ()):
            self.group_high = max(self.group_high, number)  # D-07: also of what is rejected.
        if step.operation == 1:
            return self.register(step)
        if step.operation in {0, 2}:
            return Outcome(0, b"")
        if step.operation == 3:
            self.client_leaves(step.client)
            return Outcome(0, b"")
        try:
            insist(self.gate(step), UNAUTHORIZED)
            insist(step.operation in OPERATIONS, UNAVAILABLE)
            payload, dropped = OPERATIONS[step.operation](self, step)
        except (Rejected, Refused) as rejection:
            return Outcome(rejection.code, layout.rejection(rejection.code))
        return Outcome(0, layout.success(payload), dropped)

    def register(self, step: Step) -> Outcome:
        if step.user and step.user not in self.users:
            return Outcome(UNAUTHORIZED, layout.rejection(UNAUTHORIZED), (step.user,))
        return Outcome(0, b"")

    # Who may (10.2, 10.3; D-02)

    def gate(self, step: Step) -> bool:
        if step.user == 0:
            return True
        if step.user not in self.users:
            return False
        rule = rules.RULE_OF_OPERATION.get(step.operation)
        if rule is None:
            return step.operation != 144 or self.may_change_password(step)
        stream = topic = None
        if "stream" in step.args:
            stream = found(self.streams, step.args["stream"])
            if stream is None:
                return True
        if "topic" in step.args:
            topic = found(stream.topics, step.args["topic"]) if stream else None
            if topic is None:
                return True
        return self.allows(step.user, rule, stream and stream.id, topic and topic.id)

    def may_change_password(self, step: Step) -> bool:
        target = found(self.users, step.args["target"])
        return target is None or target.id == step.user or self.allows(step.user, "change_password")

    def allows(self, user: int, rule: str, stream: int | None = None, topic: int | None = None) -> bool:
        if user == 0:
            return True
        known = self.users.get(user)
        return known is not None and rules.allows(known.rights, rule, stream, topic)

    # Users (5)

    def bootstrap(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        """D-01."""
        if not self.users:
            args = step.args
            self.users[0] = User(0, args["name"], args["hash"], True, step.time, rules.everything(), {})
            self.next_user = 1
        return b"", ()

    def create_user(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        args = step.args
        insist(3 <= len(args["name"].encode()) <= 50, BAD_USERNAME)
        insist(name_is_free(self.users, args["name"]), USER_EXISTS)
        options = patched({}, args["options"])
        user = User(self.next_user, args["name"], args["hash"], args["status"] != 2, step.time, args["rights"], options)
        self.users[user.id] = user
        self.next_user += 1
        return layout.user_details(user, args["status"], layout.block(args["options"])), ()

    def update_user(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        args = step.args
        user = found(self.users, args["target"])
        insist(user, NOT_FOUND)
        insist(not (user.id == 0 and args["status"] == 2), CANNOT_DELETE)  # D-03.
        options = patched(user.options, args["options"])
        name = args["name"]
        if name is not None:
            insist(3 <= len(name.encode()) <= 50, BAD_USERNAME)
            insist(name_is_free(self.users, name, user.id), USER_EXISTS)
            user.name = name
        if args["status"] in (1, 2):
            user.active = args["status"] == 1
        user.options = options
        return b"", ()

    def delete_user(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        user = found(self.users, step.args["target"])
        insist(user, NOT_FOUND)
        insist(user.id != 0, CANNOT_DELETE)
        del self.users[user.id]
        gone = False
        for topic, group in self.all_groups():
            for client in sorted(member.client for member in group.members.values() if member.user == user.id):
                group.remove(client)
                eager(group, topic.ids)
                gone = True
        self.revision += gone
        return b"", (user.id,)

    def change_password(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        user = found(self.users, step.args["target"])
        insist(user, NOT_FOUND)
        insist(step.args["hash"], WRONG_PASSWORD)
        user.password_hash = step.args["hash"]
        return b"", ()

    def update_permissions(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        user = found(self.users, step.args["target"])
        insist(user, NOT_FOUND)
        insist(user.id != 0, CANNOT_RESTRICT)
        user.rights = step.args["rights"]
        return b"", ()

    def create_token(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        args = step.args
        user = self.users.get(args["owner"])
        insist(user, NOT_FOUND)  # D-04.
        assert user is not None
        insist(args["name"] not in user.tokens, TOKEN_EXISTS)
        never = args["expiry"] in (0, U64_MAX)
        expires_at = None if never else step.time + args["expiry"]
        insist(expires_at is None or step.time < expires_at <= U64_MAX, BAD_EXPIRY)
        user.tokens[args["name"]] = (args["hash"], expires_at)
        return b"", ()

    def delete_token(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        args = step.args
        user = self.users.get(args["owner"])
        insist(user, NOT_FOUND)
        assert user is not None
        _, expires_at = user.tokens.get(args["name"], ("", None))
        if args["only_if_expired"] and (expires_at is None or expires_at > step.time):
            return b"", ()
        insist(args["name"] in user.tokens, NOT_FOUND)
        del user.tokens[args["name"]]
        return b"", ()

    # Streams (6)

    def stream(self, step: Step) -> Stream:
        stream = found(self.streams, step.args["stream"])
        insist(stream, NO_STREAM)
        assert isinstance(stream, Stream)
        return stream

    def topic(self, step: Step) -> Topic:
        topic = found(self.stream(step).topics, step.args["topic"])
        insist(topic, NO_TOPIC)
        assert isinstance(topic, Topic)
        return topic

    def group(self, step: Step) -> Group:
        group = found(self.topic(step).groups, step.args["group"])
        insist(group, NO_GROUP)
        assert isinstance(group, Group)
        return group

    def create_stream(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        args = step.args
        insist(name_is_free(self.streams, args["name"]), STREAM_EXISTS)
        stream = Stream(lowest_free(self.streams), args["name"], step.time, patched({}, args["options"]))
        self.streams[stream.id] = stream
        return layout.stream_header(stream, options=layout.block(args["options"])), ()

    def update_stream(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        stream = self.stream(step)
        insist(name_is_free(self.streams, step.args["name"], stream.id), STREAM_EXISTS)
        stream.options = patched(stream.options, step.args["options"])
        stream.name = step.args["name"]
        return b"", ()

    def delete_stream(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        stream = self.stream(step)
        del self.streams[stream.id]
        for user in self.users.values():  # D-02.
            if user.rights is not None:
                user.rights.streams.pop(stream.id, None)
        self.revision += 1
        return b"", ()

    def purge_stream(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        self.purge([p for topic in self.stream(step).topics.values() for p in topic.partitions])
        return b"", ()

    def purge(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            partition.purges += 1
            partition.watermark = 0
        self.revision += bool(partitions)

    # Topics and partitions (6)

    def create_topic(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        args = step.args
        stream = self.stream(step)
        insist(name_is_free(stream.topics, args["name"]), TOPIC_EXISTS)
        check_ids([number for number, _ in args["assignments"]])
        options, view = created_options(args["options"], args["derived"])
        self.revision += 1
        topic = Topic(
            lowest_free(stream.topics),
            args["name"],
            step.time,
            expiry=view.get("message_expiry", 0),
            compression=view.get("compression_algorithm", 1),
            size=view.get("max_topic_size", 0),
            options=options,
            partitions=[Partition(number, high, step.time, self.revision) for number, high in args["assignments"]],
        )
        stream.topics[topic.id] = topic
        return layout.topic_details(topic, segments=0), ()

    def update_topic(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        args = step.args
        topic = self.topic(step)
        insist(name_is_free(self.stream(step).topics, args["name"], topic.id), TOPIC_EXISTS)
        view = typed(lenient(args["options"]))
        topic.options = patched(topic.options, args["options"])
        topic.name = args["name"]
        topic.expiry = view.get("message_expiry", topic.expiry)
        topic.compression = view.get("compression_algorithm", topic.compression)
        topic.size = view.get("max_topic_size", topic.size)
        return b"", ()

    def delete_topic(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        stream, topic = self.stream(step), self.topic(step)
        del stream.topics[topic.id]
        for user in self.users.values():  # D-02.
            if user.rights is not None and stream.id in user.rights.streams:
                user.rights.streams[stream.id].topics.pop(topic.id, None)
        self.revision += 1
        return b"", ()

    def purge_topic(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        self.purge(self.topic(step).partitions)
        return b"", ()

    def create_partitions(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        topic = self.topic(step)
        base = max(topic.ids, default=-1) + 1
        numbers = [(base + offset, high) for offset, high in step.args["assignments"]]
        check_ids([number for number, _ in numbers])
        self.revision += 1
        topic.partitions += [Partition(number, high, step.time, self.revision) for number, high in numbers]
        self.deal_out(topic)
        return b"", ()

    def delete_partitions(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        topic, count = self.topic(step), step.args["count"]
        insist(count <= len(topic.partitions), BAD_COUNT)
        if count:
            del topic.partitions[-count:]
            self.deal_out(topic)
            self.revision += 1
        return b"", ()

    def deal_out(self, topic: Topic) -> None:
        for group in in_order(topic.groups):
            eager(group, topic.ids)

    def truncate(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        topic = self.topic(step)
        partition = next((each for each in topic.partitions if each.id == step.args["partition"]), None)
        insist(partition, NO_PARTITION)
        assert partition is not None
        partition.watermark = max(partition.watermark, step.args["offset"])
        self.revision += 1
        return b"", ()

    # Consumer groups (7)

    def all_groups(self) -> list[tuple[Topic, Group]]:
        return [
            (topic, group)
            for stream in in_order(self.streams)
            for topic in in_order(stream.topics)
            for group in in_order(topic.groups)
        ]

    def create_group(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        topic = self.topic(step)
        insist(name_is_free(topic.groups, step.args["name"]), GROUP_EXISTS)
        group = Group(topic.next_group, step.args["name"])
        topic.next_group += 1
        topic.groups[group.id] = group
        return layout.group_header(group, len(topic.partitions)), ()

    def delete_group(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        group = self.group(step)
        del self.topic(step).groups[group.id]
        self.revision += 1
        return b"", ()

    def join(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        group = self.group(step)
        if group.member_of(step.args["client"]) is None:
            group.add(lowest_free(group.members), step.args["client"], step.user)
            cooperative(group, self.topic(step).ids, set(step.args["in_flight"]), step.time)
        return b"", ()

    def leave(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        group = self.group(step)
        insist(group.member_of(step.args["client"]) is not None, NO_MEMBER)
        group.remove(step.args["client"])
        eager(group, self.topic(step).ids)
        return b"", ()

    def remove_member(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        self.client_leaves(step.args["client"])
        return b"", ()

    def client_leaves(self, client: int) -> None:
        left = [(topic, group) for topic, group in self.all_groups() if group.member_of(client) is not None]
        for topic, group in left:
            group.remove(client)
            eager(group, topic.ids)
        self.revision += bool(left)

    def complete_revocation(self, step: Step) -> tuple[bytes, tuple[int, ...]]:
        try:
            group = self.topic(step).groups.get(step.args["group_id"])
        except Rejected:
            return b"", ()
        if group is not None and complete(group, step.args["source"], step.args["partition"]):
            self.revision += 1
        return b"", ()


def check_ids(numbers: list[int]) -> None:
    """Whatever is met first (6)."""
    for index, number in enumerate(numbers):
        insist(number < 2**32, BAD_COUNT)
        insist(number < PARTITION_IDS, IDS_EXHAUSTED)
        insist(number not in numbers[:index], BAD_COUNT)


OPERATIONS = {
    64: Model.create_topic,
    65: Model.create_partitions,
    66: Model.remove_member,
    67: Model.complete_revocation,
    68: Model.truncate,
    69: Model.bootstrap,
    128: Model.create_stream,
    129: Model.update_stream,
    130: Model.delete_stream,
    131: Model.purge_stream,
    133: Model.update_topic,
    134: Model.delete_topic,
    135: Model.purge_topic,
    137: Model.delete_partitions,
    139: Model.create_group,
    140: Model.delete_group,
    141: Model.create_user,
    142: Model.update_user,
    143: Model.delete_user,
    144: Model.change_password,
    145: Model.update_permissions,
    146: Model.create_token,
    147: Model.delete_token,
    148: Model.join,
    149: Model.leave,
}

__all__ = ["OPERATIONS", "Block", "Model", "Options", "Outcome", "Step", "Stream", "Topic", "User"]
