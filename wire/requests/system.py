"""Requests about the node and the cluster (requests specification 9)."""

from dataclasses import dataclass
from typing import Self

from levrier.wire.body import Body, EmptyBody
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer


class Ping(EmptyBody):
    """Asks for a sign of life."""

    __slots__ = ()


class GetStats(EmptyBody):
    """Asks for the figures of the node."""

    __slots__ = ()


class GetMe(EmptyBody):
    """Asks for the caller's own connection."""

    __slots__ = ()


class GetClients(EmptyBody):
    """Asks for all connections."""

    __slots__ = ()


class GetClusterMetadata(EmptyBody):
    """Asks for the nodes of the cluster."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetClient(Body):
    """Asks for one connection by the server's short id."""

    client_id: int

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(client_id=reader.u32("client_id"))

    def write(self, writer: Writer) -> None:
        writer.u32(self.client_id, "client_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeOptions(Body):
    """Asks which options a scope knows: 1 topic, 2 stream, 3 user. An unknown scope decodes."""

    scope: int

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(scope=reader.u8("scope"))

    def write(self, writer: Writer) -> None:
        writer.u8(self.scope, "scope")


@dataclass(frozen=True, slots=True, kw_only=True)
class GetSnapshotFile(Body):
    """Asks for a diagnostic archive. Compression 1 stored to 6 xz; types 1 to 6, or 100 for all."""

    compression: int
    types: tuple[int, ...]

    @classmethod
    def read(cls, reader: Reader) -> Self:
        compression = reader.u8("compression")
        return cls(compression=compression, types=tuple(reader.take(reader.u8("count"), "types")))

    def write(self, writer: Writer) -> None:
        writer.u8(self.compression, "compression")
        writer.u8(len(self.types), "count")
        for kind in self.types:
            writer.u8(kind, "types")
