"""The replicated state at one op, held by pointers and encoded later, in another thread, in small pieces.

Capturing copies the list of streams, the list of users and that of their tokens: pointers. Records are immutable, and the machine forks a table of
topics before it changes one that a capture may still read, so what stands here never moves (design section 3, "The path
of a checkpoint").
"""

from collections.abc import Iterator
from dataclasses import dataclass

from levrier.actors.metadata import snapshot
from levrier.actors.metadata.digest import Digest
from levrier.actors.metadata.frontier import Pairs
from levrier.actors.metadata.records import Stream
from levrier.actors.metadata.tokens import Token
from levrier.actors.metadata.users import User


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataCapture:
    """Implements `messages.CapturedMetadata`. Both encodings may be produced any number of times, by any thread."""

    op: int
    timestamp: int
    consensus_group_high: int
    next_user_id: int
    frontier: Pairs
    high_water: Pairs
    captured_users: tuple[User, ...]
    captured_tokens: tuple[tuple[int, tuple[Token, ...]], ...]
    captured_streams: list[Stream | None]
    revision: int
    users_digest: int
    streams_digest: int
    """What the machine had kept at that op; what is encoded must come to the same (D-17)."""

    def users(self) -> Iterator[bytes]:
        """The msgpack encoding of the `users` section."""
        digest = Digest()
        yield from snapshot.encode_users(self.captured_users, self.captured_tokens, digest)
        assert digest.value == self.users_digest, _corrupt("users", self.op)

    def streams(self) -> Iterator[bytes]:
        """The msgpack encoding of the `streams` section."""
        digest = Digest()
        yield from snapshot.encode_streams(self.captured_streams, self.revision, digest)
        assert digest.value == self.streams_digest, _corrupt("streams", self.op)


def _corrupt(section: str, op: int) -> str:
    """The node ends: its memory is not what its log made, and no snapshot of it may take the place of the last one."""
    return f"the {section} at op {op} are not what was applied: this node's memory is corrupt, its disk is not touched"
