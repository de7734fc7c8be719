"""Responses about clients, the cluster and the options (requests specification 2.6, 9.3 to 9.5)."""

from dataclasses import dataclass
from typing import Final, Self

from levrier.wire.body import ResponseBody
from levrier.wire.errors import Truncated, WireError
from levrier.wire.reader import Reader
from levrier.wire.responses.stats import CacheMetrics, Stats
from levrier.wire.writer import Writer

__all__ = [
    "CacheMetrics",
    "ClientDetails",
    "ClientGroup",
    "ClientInfo",
    "ClientList",
    "ClusterMetadata",
    "ClusterNode",
    "OptionDescription",
    "OptionDescriptions",
    "Stats",
]

_CLIENT_GROUP_SIZE: Final = 12
_NODE_SIZE_MIN: Final = 18
_DESCRIPTION_SIZE_MIN: Final = 11
NODE_STATUS_MAX: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo(ResponseBody):
    """One connection. `client_id` is the server's short id; `user_id` is the largest u32 when not logged in."""

    client_id: int
    user_id: int
    transport: int
    address: str
    consumer_groups_count: int = 0

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            client_id=reader.u32("client_id"),
            user_id=reader.u32("user_id"),
            transport=reader.u8("transport"),
            address=reader.text("address"),
            consumer_groups_count=reader.u32("consumer_groups_count"),
        )

    def write(self, writer: Writer) -> None:
        writer.u32(self.client_id, "client_id")
        writer.u32(self.user_id, "user_id")
        writer.u8(self.transport, "transport")
        writer.text(self.address, "address")
        writer.u32(self.consumer_groups_count, "consumer_groups_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientGroup(ResponseBody):
    """A group that a client is a member of."""

    stream_id: int
    topic_id: int
    group_id: int

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(stream_id=reader.u32("stream_id"), topic_id=reader.u32("topic_id"), group_id=reader.u32("group_id"))

    def write(self, writer: Writer) -> None:
        writer.u32(self.stream_id, "stream_id")
        writer.u32(self.topic_id, "topic_id")
        writer.u32(self.group_id, "group_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientDetails(ResponseBody):
    """One connection and its groups: the answer to GET_ME and GET_CLIENT."""

    client: ClientInfo
    groups: tuple[ClientGroup, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        client = ClientInfo.read(reader)
        count = client.consumer_groups_count
        if count * _CLIENT_GROUP_SIZE > reader.remaining:
            raise Truncated(f"{count} groups in {reader.remaining} bytes", reader.where("consumer_groups_count"))
        return cls(client=client, groups=tuple(ClientGroup.read(reader) for _ in range(count)))

    def write(self, writer: Writer) -> None:
        if self.client.consumer_groups_count != len(self.groups):
            raise WireError(f"{len(self.groups)} groups", "consumer_groups_count")
        self.client.write(writer)
        for group in self.groups:
            group.write(writer)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientList(ResponseBody):
    """All connections, without their groups. There is no count; the body ends with the last one."""

    clients: tuple[ClientInfo, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        clients = []
        while reader.remaining:
            clients.append(ClientInfo.read(reader))
        return cls(clients=tuple(clients))

    def write(self, writer: Writer) -> None:
        for client in self.clients:
            client.write(writer)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode(ResponseBody):
    """One node of the cluster: its client address, role (0 leader, 1 follower) and status (0 healthy to 4).

    `ip` and `tcp` must be what clients dial, or every login costs a redirect. A port of 0 is not offered.
    """

    name: str
    ip: str
    tcp: int
    quic: int = 0
    http: int = 0
    websocket: int = 0
    role: int
    status: int = 0

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            name=reader.text("name"),
            ip=reader.text("ip"),
            tcp=reader.u16("tcp"),
            quic=reader.u16("quic"),
            http=reader.u16("http"),
            websocket=reader.u16("websocket"),
            role=_at_most(reader.u8("role"), 1, "role"),
            status=_at_most(reader.u8("status"), NODE_STATUS_MAX, "status"),
        )

    def write(self, writer: Writer) -> None:
        writer.text(self.name, "name")
        writer.text(self.ip, "ip")
        writer.u16(self.tcp, "tcp")
        writer.u16(self.quic, "quic")
        writer.u16(self.http, "http")
        writer.u16(self.websocket, "websocket")
        writer.u8(_at_most(self.role, 1, "role"), "role")
        writer.u8(_at_most(self.status, NODE_STATUS_MAX, "status"), "status")


def _at_most(value: int, limit: int, field: str) -> int:
    """A client discards the whole answer when one role or status is unknown to it."""
    if value > limit:
        raise WireError(f"{value} is above {limit}", f"ClusterNode.{field}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata(ResponseBody):
    """The whole cluster: the answer to GET_CLUSTER_METADATA."""

    name: str
    nodes: tuple[ClusterNode, ...]

    @classmethod
    def read(cls, reader: Reader) -> Self:
        name = reader.text("name")
        count = reader.count("nodes_count", _NODE_SIZE_MIN)
        return cls(name=name, nodes=tuple(ClusterNode.read(reader) for _ in range(count)))

    def write(self, writer: Writer) -> None:
        writer.text(self.name, "name")
        writer.u32(len(self.nodes), "nodes_count")
        for node in self.nodes:
            node.write(writer)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionDescription(ResponseBody):
    """One option key: the kind of its value, its default in that kind, and what it means."""

    key: str
    kind: int
    default: bytes
    description: str

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            key=reader.name("key"),
            kind=reader.u8("kind"),
            default=reader.block("default"),
            description=reader.text("description"),
        )

    def write(self, writer: Writer) -> None:
        writer.name(self.key, "key")
        writer.u8(self.kind, "kind")
        writer.block(self.default, "default")
        writer.text(self.description, "description")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionDescriptions(ResponseBody):
    """The options of a scope: the answer to DESCRIBE_OPTIONS."""

    options: tuple[OptionDescription, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        count = reader.count("count", _DESCRIPTION_SIZE_MIN)
        return cls(options=tuple(OptionDescription.read(reader) for _ in range(count)))

    def write(self, writer: Writer) -> None:
        writer.u32(len(self.options), "count")
        for option in self.options:
            option.write(writer)
