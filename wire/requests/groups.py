"""Requests about consumer groups (requests specification 10)."""

from dataclasses import dataclass
from typing import Self

from levrier.wire.body import Body
from levrier.wire.identifiers import Identifier
from levrier.wire.reader import Reader
from levrier.wire.requests.topics import TopicTarget
from levrier.wire.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateConsumerGroup(Body):
    """Creates a group in a topic."""

    stream: Identifier
    topic: Identifier
    name: str

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            stream=Identifier.read(reader, "stream"),
            topic=Identifier.read(reader, "topic"),
            name=reader.name("name"),
        )

    def write(self, writer: Writer) -> None:
        self.stream.write(writer)
        self.topic.write(writer)
        writer.name(self.name, "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTarget(Body):
    """A request that names a group and nothing else."""

    stream: Identifier
    topic: Identifier
    group: Identifier

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            stream=Identifier.read(reader, "stream"),
            topic=Identifier.read(reader, "topic"),
            group=Identifier.read(reader, "group"),
        )

    def write(self, writer: Writer) -> None:
        self.stream.write(writer)
        self.topic.write(writer)
        self.group.write(writer)


class DeleteConsumerGroup(GroupTarget):
    """Deletes a group with its members."""

    __slots__ = ()


class GetConsumerGroup(GroupTarget):
    """Asks for one group and its members."""

    __slots__ = ()


class JoinConsumerGroup(GroupTarget):
    """Makes the caller a member."""

    __slots__ = ()


class LeaveConsumerGroup(GroupTarget):
    """Ends the membership of the caller."""

    __slots__ = ()


class SyncConsumerGroup(GroupTarget):
    """Asks which partitions the caller owns."""

    __slots__ = ()


class GetConsumerGroups(TopicTarget):
    """Asks for the groups of a topic."""

    __slots__ = ()
