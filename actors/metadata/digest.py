"""The digest of the replicated state, kept while the state changes (D-17).

Each record has a hash of its content under its own key, and the digest is the XOR of all of them: a record that comes, goes
or changes costs one or two hashes, whatever the size of the catalogue, and the order of changes leaves no trace. What is
hashed is what a snapshot holds, options by content, so that equal state has an equal digest on every replica.
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgpack
from xxhash import xxh3_64_intdigest

from levrier.actors.metadata.frontier import Pairs
from levrier.wire.permissions import Permissions

if TYPE_CHECKING:
    from levrier.actors.metadata.records import ConsumerGroup, Stream, Topic
    from levrier.actors.metadata.tokens import Token
    from levrier.actors.metadata.users import User

_USER: Final = 0
_TOKEN: Final = 1
_STREAM: Final = 2
_TOPIC: Final = 3
_GROUP: Final = 4
_MACHINE: Final = 5


class Numbers(NamedTuple):
    """What is replicated beside the records: numbers that are never given out twice, and the acknowledgement frontier."""

    revision: int
    consensus_group_high: int
    next_user_id: int
    frontier: Pairs
    high_water: Pairs


class Digest:
    """One XOR. `toggle_*` puts a record in, or takes out the very same one. One thread at a time."""

    __slots__ = ("_packer", "value")

    def __init__(self) -> None:
        self.value = 0
        self._packer = msgpack.Packer()

    def toggle_user(self, user: "User") -> None:
        """A user, without its tokens."""
        rights = None if user.permissions is None else permissions_value(user.permissions)
        self._toggle((_USER, *user[:5], rights, user.options.hash))

    def toggle_token(self, token: "Token") -> None:
        """A token of a user."""
        self._toggle((_TOKEN, *token))

    def toggle_stream(self, stream: "Stream") -> None:
        """A stream, without its topics."""
        self._toggle((_STREAM, stream.id, stream.name, stream.created_at, stream.options.hash))

    def toggle_topic(self, stream_id: int, topic: "Topic") -> None:
        """A topic with its partitions, without its groups."""
        number, name, created_at, expiry, compression, size, options, partitions, next_group, _ = topic
        self._toggle(
            (
                _TOPIC,
                stream_id,
                number,
                name,
                created_at,
                expiry,
                compression,
                size,
                options.hash,
                partitions,
                next_group,
            )
        )

    def toggle_group(self, stream_id: int, topic_id: int, group: "ConsumerGroup") -> None:
        """A consumer group with its members."""
        members = [
            (member.id, member.client.to_bytes(16, "little"), member.user_id, member.partitions, member.pending)
            for member in group.members
        ]
        self._toggle((_GROUP, stream_id, topic_id, group.id, group.name, group.generation, members))

    def _toggle(self, content: tuple[object, ...]) -> None:
        self.value ^= xxh3_64_intdigest(self._packer.pack(content))


def combined(users: int, streams: int, numbers: Numbers) -> int:
    """The digest of a whole machine, 64 bits."""
    packed: bytes = msgpack.packb((_MACHINE, users, streams, *numbers))
    return xxh3_64_intdigest(packed)


def permissions_value(permissions: Permissions) -> tuple[Any, ...]:
    """Permissions as plain arrays, the way a snapshot holds them."""
    streams = tuple(
        (
            stream_id,
            (*stream.flags(), tuple((topic_id, topic.flags()) for topic_id, topic in stream.topics) or None),
        )
        for stream_id, stream in permissions.streams
    )
    return (permissions.global_permissions.flags(), streams or None)
