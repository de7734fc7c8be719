"""A machine with its log: operations by name, so that a test says what happens and not how it is framed."""

from collections.abc import Callable
from typing import Any

import msgpack

from levrier.actors.metadata import queries
from levrier.actors.metadata.machine import Applied, MetadataMachine
from levrier.wire.body import Body
from levrier.wire.codes import COMMITTED_CODES, Operation
from levrier.wire.headers import PrepareHeader
from levrier.wire.identifiers import Identifier
from levrier.wire.options import KIND_UINT64, OptionEntry, encode_block
from levrier.wire.requests.partitions import CreatePartitions, DeletePartitions
from levrier.wire.requests.replicated import (
    BootstrapRoot,
    CreatePartitionsWithAssignments,
    CreateTopicWithAssignments,
    TruncatePartition,
)
from levrier.wire.requests.streams import CreateStream, DeleteStream, GetStream, PurgeStream, UpdateStream
from levrier.wire.requests.topics import CreateTopic, DeleteTopic, GetTopic, PurgeTopic, UpdateTopic
from levrier.wire.responses.streams import StreamDetails
from levrier.wire.responses.topics import TopicDetails
from levrier.wire.topic_options import admit_create

BAD_OPTIONS = encode_block([OptionEntry("message_expiry", KIND_UINT64, b"\x01")])
"""Well formed, and of a size that does not fit its kind: 4042 when it is applied."""

HASH = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA"
NO_USERS: list[object] = [[], [], [[], [], [], [], [], []]]
NO_STREAMS: list[object] = [[], 0, []]

Key = int | str


def named(key: Key) -> Identifier:
    """The identifier of an id or a name."""
    return Identifier(key)


def uint64(key: str, value: int) -> OptionEntry:
    """An option in the canonical kind of most topic keys."""
    return OptionEntry(key, KIND_UINT64, value.to_bytes(8, "little"))


class Log:
    """Applies one operation after the other, each at its own time, and remembers them for replay."""

    def __init__(self, machine: MetadataMachine | None = None, *, op: int = 0) -> None:
        self.machine = MetadataMachine() if machine is None else machine
        self.op = op
        self.next_group = 1
        self.entries: list[tuple[PrepareHeader, bytes]] = []

    def apply(self, operation: int, body: Body | bytes = b"", *, user: int = 0, client: int = 7) -> Applied:
        """Commit one operation."""
        self.op += 1
        header = PrepareHeader(
            self.op, int(operation), client=client, user_id=user, timestamp=1_000_000 + self.op, request=self.op
        )
        data = body if isinstance(body, bytes) else body.encode()
        self.entries.append((header, data))
        applied = self.machine.apply(header, data)
        if operation in _JUDGED:
            assert applied.code in COMMITTED_CODES[operation], f"operation {operation} may not commit {applied.code}"
        return applied

    def groups(self, ids: list[int]) -> tuple[tuple[int, int], ...]:
        """Partition ids (or offsets) with the next consensus groups, as a primary hands them out."""
        assigned = tuple((number, self.next_group + index) for index, number in enumerate(ids))
        self.next_group += len(ids)
        return assigned

    def bootstrap(self, username: str = "iggy") -> Applied:
        return self.apply(Operation.BOOTSTRAP_ROOT, BootstrapRoot(username=username, password_hash=HASH), client=0)

    def create_stream(self, name: str, options: bytes = b"", *, user: int = 0) -> Applied:
        return self.apply(Operation.CREATE_STREAM, CreateStream(name=name, options=options), user=user)

    def update_stream(self, stream: Key, name: str, options: bytes = b"", *, user: int = 0) -> Applied:
        return self.apply(
            Operation.UPDATE_STREAM, UpdateStream(stream=named(stream), name=name, options=options), user=user
        )

    def delete_stream(self, stream: Key, *, user: int = 0) -> Applied:
        return self.apply(Operation.DELETE_STREAM, DeleteStream(stream=named(stream)), user=user)

    def purge_stream(self, stream: Key, *, user: int = 0) -> Applied:
        return self.apply(Operation.PURGE_STREAM, PurgeStream(stream=named(stream)), user=user)

    def create_topic(
        self,
        stream: Key,
        name: str,
        ids: list[int] | None = None,
        *,
        options: bytes | None = None,
        derived: bytes | None = None,
        user: int = 0,
        groups: tuple[tuple[int, int], ...] | None = None,
    ) -> Applied:
        """With options left out, what admission makes of a request that names none."""
        admitted = admit_create(b"", partitions_count=0)
        ids = [] if ids is None else ids
        return self.apply(
            Operation.CREATE_TOPIC_WITH_ASSIGNMENTS,
            CreateTopicWithAssignments(
                request=CreateTopic(
                    stream=named(stream),
                    partitions_count=len(ids),
                    name=name,
                    options=admitted.explicit if options is None else options,
                ),
                derived_options=admitted.derived if derived is None else derived,
                assignments=self.groups(ids) if groups is None else groups,
                created_view=0,
            ),
            user=user,
        )

    def update_topic(self, stream: Key, topic: Key, name: str, options: bytes = b"", *, user: int = 0) -> Applied:
        return self.apply(
            Operation.UPDATE_TOPIC,
            UpdateTopic(stream=named(stream), topic=named(topic), name=name, options=options),
            user=user,
        )

    def delete_topic(self, stream: Key, topic: Key, *, user: int = 0) -> Applied:
        return self.apply(Operation.DELETE_TOPIC, DeleteTopic(stream=named(stream), topic=named(topic)), user=user)

    def purge_topic(self, stream: Key, topic: Key, *, user: int = 0) -> Applied:
        return self.apply(Operation.PURGE_TOPIC, PurgeTopic(stream=named(stream), topic=named(topic)), user=user)

    def create_partitions(
        self,
        stream: Key,
        topic: Key,
        offsets: list[int],
        *,
        user: int = 0,
        groups: tuple[tuple[int, int], ...] | None = None,
    ) -> Applied:
        return self.apply(
            Operation.CREATE_PARTITIONS_WITH_ASSIGNMENTS,
            CreatePartitionsWithAssignments(
                request=CreatePartitions(stream=named(stream), topic=named(topic), partitions_count=len(offsets)),
                assignments=self.groups(offsets) if groups is None else groups,
                created_view=0,
            ),
            user=user,
        )

    def delete_partitions(self, stream: Key, topic: Key, count: int, *, user: int = 0) -> Applied:
        return self.apply(
            Operation.DELETE_PARTITIONS,
            DeletePartitions(stream=named(stream), topic=named(topic), partitions_count=count),
            user=user,
        )

    def truncate(self, stream: Key, topic: Key, partition: int, offset: int, *, user: int = 0) -> Applied:
        return self.apply(
            Operation.TRUNCATE_PARTITION,
            TruncatePartition(stream=named(stream), topic=named(topic), partition_id=partition, up_to_offset=offset),
            user=user,
        )

    def stream(self, key: Key) -> StreamDetails | None:
        """What GET_STREAM shows root."""
        return StreamDetails.decode_found(self.query(200, GetStream(stream=named(key)).encode()))

    def topic(self, stream: Key, key: Key) -> TopicDetails | None:
        """What GET_TOPIC shows root."""
        return TopicDetails.decode_found(self.query(300, GetTopic(stream=named(stream), topic=named(key)).encode()))

    def query(self, code: int, body: bytes) -> bytes:
        """The body of a read by root that must succeed."""
        status, answer = queries.answer(self.machine, 0, 7, code, body)
        assert status == 0
        return answer


_JUDGED = frozenset(
    {
        Operation.BOOTSTRAP_ROOT,
        Operation.CREATE_STREAM,
        Operation.UPDATE_STREAM,
        Operation.DELETE_STREAM,
        Operation.PURGE_STREAM,
        Operation.CREATE_TOPIC_WITH_ASSIGNMENTS,
        Operation.UPDATE_TOPIC,
        Operation.DELETE_TOPIC,
        Operation.PURGE_TOPIC,
        Operation.CREATE_PARTITIONS_WITH_ASSIGNMENTS,
        Operation.DELETE_PARTITIONS,
        Operation.TRUNCATE_PARTITION,
    }
)
"""The operations that are served now: each may commit the codes of its row and no others (wire 14.1)."""


def encoded(machine: MetadataMachine) -> tuple[bytes, bytes, int, int]:
    """Everything that a snapshot holds of the machine: equal states, equal values."""
    captured = machine.capture(0, 0)
    return (
        b"".join(captured.users()),
        b"".join(captured.streams()),
        captured.consensus_group_high,
        captured.next_user_id,
    )


def restored(machine: MetadataMachine) -> MetadataMachine:
    """The machine that a snapshot of this one gives."""
    return decoded(encoded(machine))


def decoded(state: tuple[bytes, bytes, int, int]) -> MetadataMachine:
    """The machine that an encoded state gives."""
    users, streams, group_high, next_user_id = state
    return MetadataMachine.restore(
        users=msgpack.unpackb(users, strict_map_key=False),
        streams=msgpack.unpackb(streams, strict_map_key=False),
        consensus_group_high=group_high,
        next_user_id=next_user_id,
    )


def sections(machine: MetadataMachine) -> tuple[Any, Any]:
    """The two sections as the snapshot reader hands them over."""
    users, streams, _, _ = encoded(machine)
    return msgpack.unpackb(users), msgpack.unpackb(streams)


def partitions_of(machine: MetadataMachine, stream: Key, topic: Key) -> list[tuple[int, int, int, int, int]]:
    """(id, consensus group, created revision, watermark, purge generation) of the partitions of a topic, in order."""
    path = machine.streams.find_topic(named(stream), named(topic))
    assert not isinstance(path, int)
    return [
        (p.id, p.consensus_group_id, p.created_revision, p.deleted_up_to_offset, p.purge_generation)
        for p in path.topic.partitions
    ]


def with_users(*grants: Any) -> MetadataMachine:
    """A machine with root and a user for each grant, from id 1 on: a permission value of a snapshot, or None."""
    log = Log()
    log.bootstrap()
    users, streams = sections(log.machine)
    for index, grant in enumerate(grants, start=1):
        users[0].append([index, [index, f"user{index}", HASH, "active", 5, grant, []]])
        users[1].append([index, []])
    return MetadataMachine.restore(users=users, streams=streams, consensus_group_high=0, next_user_id=1 + len(grants))


GLOBAL_FLAGS = (
    "manage_servers",
    "read_servers",
    "manage_users",
    "read_users",
    "manage_streams",
    "read_streams",
    "manage_topics",
    "read_topics",
    "poll_messages",
    "send_messages",
)
STREAM_FLAGS = ("manage_stream", "read_stream", "manage_topics", "read_topics", "poll_messages", "send_messages")
TOPIC_FLAGS = ("manage_topic", "read_topic", "poll_messages", "send_messages")


def grant(
    *everywhere: str,
    stream: tuple[int, tuple[str, ...]] | None = None,
    topic: tuple[int, int, tuple[str, ...]] | None = None,
) -> list[Any]:
    """A permission record as a snapshot holds it: global flags, and the flags of one stream or of one topic."""
    assert all(flag in GLOBAL_FLAGS for flag in everywhere)
    streams: list[Any] | None = None
    if stream is not None:
        streams = [[stream[0], [*(flag in stream[1] for flag in STREAM_FLAGS), None]]]
    if topic is not None:
        flags = [flag in topic[2] for flag in TOPIC_FLAGS]
        streams = [[topic[0], [*([False] * len(STREAM_FLAGS)), [[topic[1], flags]]]]]
    return [[flag in everywhere for flag in GLOBAL_FLAGS], streams]


Step = Callable[[Log], Applied]
