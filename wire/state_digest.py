"""The body of StateDigest, frame 66: what the replicated state of a member came to at one op (D-17, D-34).

A msgpack array `[op, digest]`: the op it stands at, above 0, and 64 bits. The digest itself is opaque here.
"""

from dataclasses import dataclass
from typing import Final, Self

import msgpack

from levrier.wire.errors import WireError

COMMAND: Final = 66
BODY_SIZE_MAX: Final = 1 + 9 + 9
_U64: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class StateDigest:
    """What the sender's state came to when `op` was the last one applied."""

    op: int
    digest: int

    def encode(self) -> bytes:
        """The body."""
        packed: bytes = msgpack.packb([self.op, self.digest])
        return packed

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Read a body. Raises `WireError` for anything that `encode` does not make."""
        if len(body) > BODY_SIZE_MAX:
            raise WireError(f"{len(body)} bytes, at most {BODY_SIZE_MAX} are expected", "state_digest")
        try:
            values = msgpack.unpackb(body)
        except (ValueError, msgpack.UnpackException) as error:
            raise WireError(f"no msgpack: {error}", "state_digest") from error
        match values:
            case [int(op), int(digest)] if type(op) is int and type(digest) is int and 0 < op < _U64 and digest >= 0:
                return cls(op, digest)
            case _:
                raise WireError("no array of an op above 0 and a digest", "state_digest")
