"""Responses about consumer groups (requests specification 2.7, 10)."""

from dataclasses import dataclass
from typing import Final, Self

from levrier.wire.body import ResponseBody
from levrier.wire.errors import Truncated, WireError
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer

_PARTITION_SIZE: Final = 4
_MEMBER_SIZE_MIN: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup(ResponseBody):
    """One group. `partitions_count` is that of the topic."""

    id: int
    partitions_count: int
    members_count: int = 0
    name: str

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            id=reader.u32("id"),
            partitions_count=reader.u32("partitions_count"),
            members_count=reader.u32("members_count"),
            name=reader.name("name"),
        )

    def write(self, writer: Writer) -> None:
        writer.u32(self.id, "id")
        writer.u32(self.partitions_count, "partitions_count")
        writer.u32(self.members_count, "members_count")
        writer.name(self.name, "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMember(ResponseBody):
    """One member and the partitions it owns."""

    id: int
    partitions: tuple[int, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(id=reader.u32("id"), partitions=_read_partitions(reader))

    def write(self, writer: Writer) -> None:
        writer.u32(self.id, "id")
        _write_partitions(writer, self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDetails(ResponseBody):
    """One group and its members: the answer to GET_CONSUMER_GROUP, and without members to CreateConsumerGroup."""

    group: ConsumerGroup
    members: tuple[ConsumerGroupMember, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        group = ConsumerGroup.read(reader)
        count = group.members_count
        if count * _MEMBER_SIZE_MIN > reader.remaining:
            raise Truncated(f"{count} members in {reader.remaining} bytes", reader.where("members_count"))
        return cls(group=group, members=tuple(ConsumerGroupMember.read(reader) for _ in range(count)))

    def write(self, writer: Writer) -> None:
        if self.group.members_count != len(self.members):
            raise WireError(f"{len(self.members)} members, not {self.group.members_count}", "members_count")
        self.group.write(writer)
        for member in self.members:
            member.write(writer)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupList(ResponseBody):
    """The groups of a topic. There is no count; the body ends with the last one."""

    groups: tuple[ConsumerGroup, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        groups = []
        while reader.remaining:
            groups.append(ConsumerGroup.read(reader))
        return cls(groups=tuple(groups))

    def write(self, writer: Writer) -> None:
        for group in self.groups:
            group.write(writer)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupAssignment(ResponseBody):
    """What the caller owns: the answer to SYNC_CONSUMER_GROUP. An empty body says that it is no member."""

    generation: int
    partitions: tuple[int, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(generation=reader.u64("generation"), partitions=_read_partitions(reader))

    def write(self, writer: Writer) -> None:
        writer.u64(self.generation, "generation")
        _write_partitions(writer, self.partitions)


def _read_partitions(reader: Reader) -> tuple[int, ...]:
    return tuple(reader.u32("partition") for _ in range(reader.count("partitions_count", _PARTITION_SIZE)))


def _write_partitions(writer: Writer, partitions: tuple[int, ...]) -> None:
    writer.u32(len(partitions), "partitions_count")
    for partition in partitions:
        writer.u32(partition, "partition")
