"""A log with the operations on consumer groups by name, and what the machine says of a group."""

from dataclasses import dataclass

from levrier.actors.metadata import groups, queries
from levrier.actors.metadata.machine import Applied
from levrier.actors.metadata.records import ConsumerGroup
from levrier.wire.codes import COMMITTED_CODES, Operation
from levrier.wire.requests.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    SyncConsumerGroup,
)
from levrier.wire.requests.replicated import (
    CompleteConsumerGroupRevocation,
    JoinConsumerGroupReplicated,
    LeaveConsumerGroupReplicated,
    RemoveConsumerGroupMember,
)
from levrier.wire.requests.topics import TopicTarget
from levrier.wire.responses.groups import ConsumerGroup as ShownGroup
from levrier.wire.responses.groups import ConsumerGroupAssignment, ConsumerGroupDetails, ConsumerGroupList
from tests.actors.metadata.support import Key, Log, encoded, named

A, B, C, D = 0xA, 0xB, 0xC, 0xD << 100


class GroupLog(Log):
    """Groups stand in topic `t` of stream `s` where nothing else is said, and are called `g`."""

    def judged(self, operation: int, applied: Applied) -> Applied:
        assert applied.code in COMMITTED_CODES[operation]
        return applied

    def create(self, name: str = "g", *, stream: Key = "s", topic: Key = "t", user: int = 0) -> Applied:
        body = CreateConsumerGroup(stream=named(stream), topic=named(topic), name=name)
        return self.judged(139, self.apply(Operation.CREATE_CONSUMER_GROUP, body, user=user))

    def delete(self, group: Key = "g", *, stream: Key = "s", topic: Key = "t", user: int = 0) -> Applied:
        body = DeleteConsumerGroup(stream=named(stream), topic=named(topic), group=named(group))
        return self.judged(140, self.apply(Operation.DELETE_CONSUMER_GROUP, body, user=user))

    def join(
        self,
        client: int,
        group: Key = "g",
        *,
        stream: Key = "s",
        topic: Key = "t",
        in_flight: tuple[int, ...] = (),
        user: int = 0,
    ) -> Applied:
        body = JoinConsumerGroupReplicated(
            stream=named(stream), topic=named(topic), group=named(group), client=client, in_flight=in_flight
        )
        return self.judged(148, self.apply(Operation.JOIN_CONSUMER_GROUP, body, user=user, client=client))

    def leave(self, client: int, group: Key = "g", *, stream: Key = "s", topic: Key = "t", user: int = 0) -> Applied:
        body = LeaveConsumerGroupReplicated(stream=named(stream), topic=named(topic), group=named(group), client=client)
        return self.judged(149, self.apply(Operation.LEAVE_CONSUMER_GROUP, body, user=user, client=client))

    def logout(self, client: int) -> Applied:
        return self.apply(Operation.LOGOUT, b"", client=client)

    def remove_member(self, client: int) -> Applied:
        return self.apply(Operation.REMOVE_CONSUMER_GROUP_MEMBER, RemoveConsumerGroupMember(client=client), client=0)

    def complete(
        self, source: int, partition: int, group_id: int = 0, *, stream: Key = "s", topic: Key = "t"
    ) -> Applied:
        body = CompleteConsumerGroupRevocation(
            stream=named(stream), topic=named(topic), group_id=group_id, source_client=source, partition_id=partition
        )
        return self.apply(Operation.COMPLETE_CONSUMER_GROUP_REVOCATION, body, client=0)

    # What there is.

    @property
    def revision(self) -> int:
        return self.machine.streams.revision

    def group(self, group: Key = "g", *, stream: Key = "s", topic: Key = "t") -> ConsumerGroup:
        path = groups.find(self.machine.streams, named(stream), named(topic), named(group))
        assert not isinstance(path, int), path
        return path.group

    def owned(self, group: Key = "g", *, stream: Key = "s", topic: Key = "t") -> dict[int, tuple[int, ...]]:
        """Partitions by client, in the order of the member keys."""
        return {member.client: member.partitions for member in self.group(group, stream=stream, topic=topic).members}

    def pending(self, client: int, group: Key = "g") -> list[int]:
        """Partitions that a client has to give up, in their order."""
        member = self.group(group).member_of(client)
        assert member is not None
        return [revocation.partition_id for revocation in member.pending]

    def sync(
        self, client: int, group: Key = "g", *, stream: Key = "s", topic: Key = "t"
    ) -> tuple[int, tuple[int, ...]]:
        """Generation and pollable partitions that a member is told."""
        status, body = self.ask_sync(client, group, stream=stream, topic=topic)
        assert status == 0
        answer = ConsumerGroupAssignment.decode(body)
        return answer.generation, answer.partitions

    def ask_sync(self, client: int, group: Key = "g", *, stream: Key = "s", topic: Key = "t") -> tuple[int, bytes]:
        body = SyncConsumerGroup(stream=named(stream), topic=named(topic), group=named(group)).encode()
        return queries.answer(self.machine, 0, client, 606, body)

    def ask_group(
        self, group: Key = "g", *, stream: Key = "s", topic: Key = "t", user: int = 0
    ) -> tuple[int, ConsumerGroupDetails | None]:
        body = GetConsumerGroup(stream=named(stream), topic=named(topic), group=named(group)).encode()
        status, answer = queries.answer(self.machine, user, 7, 600, body)
        return status, ConsumerGroupDetails.decode(answer) if answer else None

    def ask_groups(self, *, stream: Key = "s", topic: Key = "t", user: int = 0) -> tuple[int, tuple[ShownGroup, ...]]:
        body: TopicTarget = GetConsumerGroups(stream=named(stream), topic=named(topic))
        status, answer = queries.answer(self.machine, user, 7, 601, body.encode())
        return status, ConsumerGroupList.decode(answer).groups


def with_group(partitions: int, *members: int) -> GroupLog:
    """Topic `t` of stream `s` with group `g`, which these clients have joined one after the other."""
    log = GroupLog()
    log.bootstrap()
    log.create_stream("s")
    log.create_topic("s", "t", list(range(partitions)))
    assert log.create().code == 0
    for client in members:
        assert log.join(client) == Applied(0, bytes(4))
    return log


@dataclass(frozen=True)
class Unchanged:
    """The state that a rejected operation has to leave behind."""

    before: tuple[object, ...]

    @classmethod
    def of(cls, log: Log) -> "Unchanged":
        return cls(encoded(log.machine))

    def holds(self, log: Log) -> bool:
        return encoded(log.machine) == self.before
