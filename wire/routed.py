"""A client request handed on between nodes (wire specification 4.2): the request header with a group at its end."""

from dataclasses import dataclass
from typing import Final, Self

from levrier.wire.errors import Truncated
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.headers import RequestHeader

_GROUP_OFFSET: Final = 248


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedRequestHeader:
    """A request and the group it is meant for; a client's own frame counts as group 0 (unset)."""

    request: RequestHeader
    group: int

    @classmethod
    def decode(cls, frame: bytes) -> Self:
        """Decode the first 256 bytes; the rules are those of `RequestHeader`."""
        if len(frame) < HEADER_SIZE:
            raise Truncated(f"{len(frame)} bytes are less than a header", "header")
        return cls(
            request=RequestHeader.decode(frame), group=int.from_bytes(frame[_GROUP_OFFSET:HEADER_SIZE], "little")
        )

    def encode(self) -> bytes:
        """The 256 header bytes."""
        return self.request.encode()[:_GROUP_OFFSET] + self.group.to_bytes(8, "little")
