"""The replicated state at one op, held by pointers and encoded later, in another thread, in small pieces.

Capturing copies the list of streams, the list of users and that of their tokens: pointers. Records are immutable, and the machine forks a table of
topics before it changes one that a capture may still read, so what stands here never moves (design section 3, "The path
of a checkpoint").
"""

from collections.abc import Iterator
from dataclasses import dataclass

from levrier.actors.metadata import snapshot
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

    def users(self) -> Iterator[bytes]:
        """The msgpack encoding of the `users` section."""
        return snapshot.encode_users(self.captured_users, self.captured_tokens)

    def streams(self) -> Iterator[bytes]:
        """The msgpack encoding of the `streams` section."""
        return snapshot.encode_streams(self.captured_streams, self.revision)
