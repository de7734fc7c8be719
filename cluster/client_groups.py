"""The commands of our client about consumer groups, segments and the node itself (requests 8 to 10)."""

from abc import ABC, abstractmethod

from levrier.cluster.client_names import Name, identifier
from levrier.wire.codes import CommandCode, Operation, OptionScope
from levrier.wire.requests.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    SyncConsumerGroup,
)
from levrier.wire.requests.partitions import DeleteSegments
from levrier.wire.requests.system import DescribeOptions, GetClient, GetSnapshotFile
from levrier.wire.responses.groups import (
    ConsumerGroup,
    ConsumerGroupAssignment,
    ConsumerGroupDetails,
    ConsumerGroupList,
)
from levrier.wire.responses.system import (
    ClientDetails,
    ClientInfo,
    ClientList,
    OptionDescription,
    OptionDescriptions,
    Stats,
)

DEFLATED = 2
EVERY_SECTION = 100


class GroupCommands(ABC):
    """What a client can do about groups and learn of a node, over `request` and `query` of whoever derives from it."""

    @abstractmethod
    async def request(self, operation: int, body: bytes = b"", *, deadline_seconds: float | None = None) -> bytes:
        """Have a replicated operation executed once."""

    @abstractmethod
    async def query(self, code: int, body: bytes = b"", *, deadline_seconds: float | None = None) -> bytes:
        """Ask a NonReplicated command."""

    async def create_group(self, stream: Name, topic: Name, name: str) -> ConsumerGroup:
        """Create a consumer group in a topic."""
        body = CreateConsumerGroup(stream=identifier(stream), topic=identifier(topic), name=name).encode()
        return ConsumerGroupDetails.decode(await self.request(Operation.CREATE_CONSUMER_GROUP, body)).group

    async def get_group(self, stream: Name, topic: Name, group: Name) -> ConsumerGroupDetails | None:
        """One group and its members, None when there is none of that name."""
        body = GetConsumerGroup(stream=identifier(stream), topic=identifier(topic), group=identifier(group)).encode()
        return ConsumerGroupDetails.decode_found(await self.query(CommandCode.GET_CONSUMER_GROUP, body))

    async def get_groups(self, stream: Name, topic: Name) -> tuple[ConsumerGroup, ...]:
        """The groups of a topic."""
        body = GetConsumerGroups(stream=identifier(stream), topic=identifier(topic)).encode()
        return ConsumerGroupList.decode(await self.query(CommandCode.GET_CONSUMER_GROUPS, body)).groups

    async def delete_group(self, stream: Name, topic: Name, group: Name) -> None:
        """Delete a group with its members."""
        target = DeleteConsumerGroup(stream=identifier(stream), topic=identifier(topic), group=identifier(group))
        await self.request(Operation.DELETE_CONSUMER_GROUP, target.encode())

    async def join_group(self, stream: Name, topic: Name, group: Name) -> None:
        """Become a member until this session ends; joining again is no error."""
        target = JoinConsumerGroup(stream=identifier(stream), topic=identifier(topic), group=identifier(group))
        await self.request(Operation.JOIN_CONSUMER_GROUP, target.encode())

    async def leave_group(self, stream: Name, topic: Name, group: Name) -> None:
        """End the own membership."""
        target = LeaveConsumerGroup(stream=identifier(stream), topic=identifier(topic), group=identifier(group))
        await self.request(Operation.LEAVE_CONSUMER_GROUP, target.encode())

    async def sync_group(self, stream: Name, topic: Name, group: Name) -> ConsumerGroupAssignment | None:
        """The partitions that this client may poll, None when it is no member."""
        body = SyncConsumerGroup(stream=identifier(stream), topic=identifier(topic), group=identifier(group)).encode()
        return ConsumerGroupAssignment.decode_found(await self.query(CommandCode.SYNC_CONSUMER_GROUP, body))

    async def delete_segments(self, stream: Name, topic: Name, partition_id: int, segments_count: int) -> None:
        """Drop the oldest closed segments of a partition."""
        request = DeleteSegments(
            stream=identifier(stream),
            topic=identifier(topic),
            partition_id=partition_id,
            segments_count=segments_count,
        )
        await self.request(Operation.DELETE_SEGMENTS, request.encode())

    async def get_me(self) -> ClientDetails:
        """The own connection and its groups."""
        return ClientDetails.decode(await self.query(CommandCode.GET_ME))

    async def get_client(self, short_id: int) -> ClientDetails | None:
        """One connection of the node by the node's own id, None when there is none."""
        return ClientDetails.decode_found(
            await self.query(CommandCode.GET_CLIENT, GetClient(client_id=short_id).encode())
        )

    async def get_clients(self) -> tuple[ClientInfo, ...]:
        """All connections of the node."""
        return ClientList.decode(await self.query(CommandCode.GET_CLIENTS)).clients

    async def get_stats(self) -> Stats:
        """The figures of the node."""
        return Stats.decode(await self.query(CommandCode.GET_STATS))

    async def describe_options(self, scope: OptionScope = OptionScope.TOPIC) -> tuple[OptionDescription, ...]:
        """The options that topics, streams or users know."""
        body = DescribeOptions(scope=scope).encode()
        return OptionDescriptions.decode(await self.query(CommandCode.DESCRIBE_OPTIONS, body)).options

    async def snapshot_file(self, *, compression: int = DEFLATED, types: tuple[int, ...] = (EVERY_SECTION,)) -> bytes:
        """The diagnostics archive of the node, a ZIP file."""
        body = GetSnapshotFile(compression=compression, types=types).encode()
        return await self.query(CommandCode.GET_SNAPSHOT_FILE, body)
