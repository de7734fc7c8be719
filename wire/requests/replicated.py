"""Bodies that only nodes see: the forms that stand in the log (requests specification 12, decisions D-01 and D-33).

Operations not listed here replicate the client's body as it is.
"""

from dataclasses import dataclass, field
from typing import Final, Self

from levrier.wire.body import Body
from levrier.wire.errors import WireError
from levrier.wire.identifiers import Identifier
from levrier.wire.names import decode_text, encode_text
from levrier.wire.options import decode_block
from levrier.wire.reader import Reader
from levrier.wire.requests.partitions import CreatePartitions
from levrier.wire.requests.topics import CreateTopic
from levrier.wire.writer import Writer

TOKEN_HASH_SIZE: Final = 64
_ASSIGNMENT_SIZE: Final = 12
_PARTITION_SIZE: Final = 4


def _read_assignments(reader: Reader) -> tuple[tuple[int, int], ...]:
    count = reader.count("assignments", _ASSIGNMENT_SIZE)
    return tuple((reader.u32("partition"), reader.u64("consensus_group_id")) for _ in range(count))


def _write_assignments(writer: Writer, assignments: tuple[tuple[int, int], ...]) -> None:
    writer.u32(len(assignments), "assignments")
    for partition, consensus_group_id in assignments:
        writer.u32(partition, "partition")
        writer.u64(consensus_group_id, "consensus_group_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicWithAssignments(Body):
    """Operation 64. `derived_options` holds the defaults of every key that the client did not name.

    `assignments` are (partition id, consensus group id); the ids are absolute. `created_view` is the view of the primary
    that assigned them.
    """

    request: CreateTopic
    derived_options: bytes
    assignments: tuple[tuple[int, int], ...]
    created_view: int

    @classmethod
    def read(cls, reader: Reader) -> Self:
        request = CreateTopic.decode(reader.block("request"))
        derived_options = reader.block("derived_options")
        decode_block(derived_options)
        return cls(
            request=request,
            derived_options=derived_options,
            assignments=_read_assignments(reader),
            created_view=reader.u32("created_view"),
        )

    def write(self, writer: Writer) -> None:
        writer.block(self.request.encode(), "request")
        writer.block(self.derived_options, "derived_options")
        _write_assignments(writer, self.assignments)
        writer.u32(self.created_view, "created_view")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsWithAssignments(Body):
    """Operation 65. `assignments` are (offset, consensus group id); offsets count from 0 above the next partition id."""

    request: CreatePartitions
    assignments: tuple[tuple[int, int], ...]
    created_view: int

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            request=CreatePartitions.decode(reader.block("request")),
            assignments=_read_assignments(reader),
            created_view=reader.u32("created_view"),
        )

    def write(self, writer: Writer) -> None:
        writer.block(self.request.encode(), "request")
        _write_assignments(writer, self.assignments)
        writer.u32(self.created_view, "created_view")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveConsumerGroupMember(Body):
    """Operation 66: a client leaves all its groups."""

    client: int

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(client=reader.u128("client"))

    def write(self, writer: Writer) -> None:
        writer.u128(self.client, "client")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteConsumerGroupRevocation(Body):
    """Operation 67: a partition that a member had to give up goes to its new owner."""

    stream: Identifier
    topic: Identifier
    group_id: int
    source_client: int
    partition_id: int

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            stream=Identifier.read(reader, "stream"),
            topic=Identifier.read(reader, "topic"),
            group_id=reader.u64("group_id"),
            source_client=reader.u128("source_client"),
            partition_id=reader.u32("partition_id"),
        )

    def write(self, writer: Writer) -> None:
        self.stream.write(writer)
        self.topic.write(writer)
        writer.u64(self.group_id, "group_id")
        writer.u128(self.source_client, "source_client")
        writer.u32(self.partition_id, "partition_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatePartition(Body):
    """Operation 68: messages up to an offset are gone."""

    stream: Identifier
    topic: Identifier
    partition_id: int
    up_to_offset: int

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            stream=Identifier.read(reader, "stream"),
            topic=Identifier.read(reader, "topic"),
            partition_id=reader.u32("partition_id"),
            up_to_offset=reader.u64("up_to_offset"),
        )

    def write(self, writer: Writer) -> None:
        self.stream.write(writer)
        self.topic.write(writer)
        writer.u32(self.partition_id, "partition_id")
        writer.u64(self.up_to_offset, "up_to_offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapRoot(Body):
    """Operation 69: the root user of a blank cluster (decision D-01)."""

    username: str
    password_hash: str = field(repr=False)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        username = reader.name("username")
        data = reader.take(reader.u16("password_hash"), "password_hash")
        return cls(username=username, password_hash=decode_text(data, "BootstrapRoot.password_hash"))

    def write(self, writer: Writer) -> None:
        writer.name(self.username, "username")
        data = encode_text(self.password_hash, "BootstrapRoot.password_hash")
        writer.u16(len(data), "password_hash")
        writer.raw(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePersonalAccessTokenReplicated(Body):
    """Operation 146 in the log: the owner and the hash of the token (64 lowercase hex digits) instead of a secret."""

    user_id: int
    name: str
    expiry: int
    token_hash: str = field(repr=False)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            user_id=reader.u32("user_id"),
            name=reader.name("name"),
            expiry=reader.u64("expiry"),
            token_hash=_checked_hash(decode_text(reader.take(TOKEN_HASH_SIZE, "token_hash"), "token_hash")),
        )

    def write(self, writer: Writer) -> None:
        writer.u32(self.user_id, "user_id")
        writer.name(self.name, "name")
        writer.u64(self.expiry, "expiry")
        writer.raw(encode_text(_checked_hash(self.token_hash), "token_hash"))


def _checked_hash(token_hash: str) -> str:
    if len(token_hash) != TOKEN_HASH_SIZE or token_hash.strip("0123456789abcdef"):
        raise WireError(f"not {TOKEN_HASH_SIZE} lowercase hex digits", "token_hash")
    return token_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePersonalAccessTokenReplicated(Body):
    """Operation 147 in the log. With `only_if_expired` it does nothing unless the token has expired by then."""

    user_id: int
    name: str
    only_if_expired: bool = False

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            user_id=reader.u32("user_id"),
            name=reader.name("name"),
            only_if_expired=reader.flag("only_if_expired"),
        )

    def write(self, writer: Writer) -> None:
        writer.u32(self.user_id, "user_id")
        writer.name(self.name, "name")
        writer.flag(self.only_if_expired)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinConsumerGroupReplicated(Body):
    """Operation 148 in the log: who joins, and which partitions have polled but uncommitted messages."""

    stream: Identifier
    topic: Identifier
    group: Identifier
    client: int
    in_flight: tuple[int, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            stream=Identifier.read(reader, "stream"),
            topic=Identifier.read(reader, "topic"),
            group=Identifier.read(reader, "group"),
            client=reader.u128("client"),
            in_flight=tuple(reader.u32("partition") for _ in range(reader.count("in_flight", _PARTITION_SIZE))),
        )

    def write(self, writer: Writer) -> None:
        self.stream.write(writer)
        self.topic.write(writer)
        self.group.write(writer)
        writer.u128(self.client, "client")
        writer.u32(len(self.in_flight), "in_flight")
        for partition in self.in_flight:
            writer.u32(partition, "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveConsumerGroupReplicated(Body):
    """Operation 149 in the log: who leaves."""

    stream: Identifier
    topic: Identifier
    group: Identifier
    client: int

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            stream=Identifier.read(reader, "stream"),
            topic=Identifier.read(reader, "topic"),
            group=Identifier.read(reader, "group"),
            client=reader.u128("client"),
        )

    def write(self, writer: Writer) -> None:
        self.stream.write(writer)
        self.topic.write(writer)
        self.group.write(writer)
        writer.u128(self.client, "client")
