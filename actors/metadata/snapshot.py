"""The sections `users` and `streams` of a snapshot: layout and encoding in pieces (persistence 4.1, D-05, D-35).

Everything is an array, positional, in the order of persistence 4.1. Where this layout is ours:

* options: `[key, value kind, value bin, explicit]` per entry, ascending by key. Keys are always strings, so their kind is
  left out; arrays as map keys and base64 would only cost time.
* streams (3): pairs of id and stream, revision, table of the distinct option maps. A stream or a topic holds the index of
  its map there, numbered in the order in which the maps first come up. Written out, the ten options of a topic would be
  four fifths of a large snapshot and of the time to read it.
* permissions: `[[10 flags], nil | [[stream id, [6 flags, nil | [[topic id, [4 flags]] ...]]] ...]]`, ascending by id.
* users (3): pairs of id and user, pairs of user id and tokens, six empty arrays. Every user has an entry of tokens, which
  are pairs of name and token (4), ascending by name.
* stats of streams and topics are three zeros: counters live beside the replicated state, not in it, so that equal state
  has equal bytes on every replica.
* groups: pairs of id and group, ascending. group (4): id, generation, name, pairs of key and member, ascending. member (5):
  key, client as 16 bytes, ids of its partitions in their order, pending revocations `[partition id, key of the target,
  created_at]`, user id (D-22).

`levrier.actors.metadata.restore` is the way back.

A checkpoint comes every few thousand operations, whatever the size of the catalogue, so a stream that did not change since
the last one is not encoded again: its bytes are kept with its table of topics.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgpack

from levrier.actors.metadata.digest import Digest, permissions_value
from levrier.actors.metadata.options import OptionFields, OptionMap
from levrier.actors.metadata.records import ConsumerGroup, Member, Stream, Topic
from levrier.actors.metadata.slab import Encoded, Slab
from levrier.actors.metadata.tokens import Token
from levrier.actors.metadata.users import ACTIVE, INACTIVE, User

CHUNK_SIZE: Final = 8 * 1024
"""A chunk is given out when it has this many bytes; the piece that filled it may exceed it by some 16 KiB.

Making one chunk takes less than a millisecond, so that a checkpoint never holds the interpreter for long.
"""

_PARTITIONS_IN_PIECE: Final = 256
_PARTITION_SIZE_MAX: Final = 1 + 6 * 9
_TOKENS_IN_PIECE: Final = 16
_TOKEN_SIZE_MAX: Final = 2 + 2 * (2 + 255) + 5 + 66 + 9
_PIECE_SIZE_MAX: Final = 64 * 1024 - CHUNK_SIZE
assert CHUNK_SIZE + _PARTITIONS_IN_PIECE * _PARTITION_SIZE_MAX <= 64 * 1024
_NUMBERS_IN_PIECE: Final = 1024
_NUMBER_SIZE_MAX: Final = 5
_REVOCATIONS_IN_PIECE: Final = 256
_REVOCATION_SIZE_MAX: Final = 1 + 5 + 5 + 9
assert CHUNK_SIZE + _NUMBERS_IN_PIECE * _NUMBER_SIZE_MAX <= 64 * 1024
assert CHUNK_SIZE + _REVOCATIONS_IN_PIECE * _REVOCATION_SIZE_MAX <= 64 * 1024
assert CHUNK_SIZE + _TOKENS_IN_PIECE * _TOKEN_SIZE_MAX <= 64 * 1024

STATUS_NAMES: Final = {ACTIVE: "active", INACTIVE: "inactive"}
COMPRESSION_NAMES: Final = {1: "none", 2: "gzip"}
STATS: Final = (0, 0, 0)
_PERMISSIONER: Final[tuple[tuple[()], ...]] = ((),) * 6


def encode_users(
    users: Sequence[User], tokens: Sequence[tuple[int, tuple[Token, ...]]], digest: Digest
) -> Iterator[bytes]:
    """The section `users`, of users and of the tokens of each, in ascending order of user id, in chunks.

    `digest` takes note of everything that was encoded.
    """
    assert len(users) == len(tokens)
    return _chunks(_user_pieces(users, tokens, digest))


def encode_streams(streams: Sequence[Stream | None], revision: int, digest: Digest) -> Iterator[bytes]:
    """The section `streams`, of streams by id with None where an id is free, in chunks.

    `digest` takes note of everything that was encoded; of a stream whose bytes were kept, as it was then.
    """
    return _chunks(_stream_pieces(streams, revision, digest))


def _chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    collected: list[bytes] = []
    size = 0
    for piece in pieces:
        collected.append(piece)
        size += len(piece)
        if size >= CHUNK_SIZE:
            yield b"".join(collected)
            collected.clear()
            size = 0
    if collected:
        yield b"".join(collected)


def _user_pieces(
    users: Sequence[User], tokens: Sequence[tuple[int, tuple[Token, ...]]], digest: Digest
) -> Iterator[bytes]:
    packer = msgpack.Packer()
    yield packer.pack_array_header(3)
    yield packer.pack_array_header(len(users))
    for user in users:
        digest.toggle_user(user)
        yield packer.pack((user.id, _user_value(user)))
    yield packer.pack_array_header(len(tokens))
    for user_id, owned in tokens:
        yield packer.pack_array_header(2) + packer.pack(user_id) + packer.pack_array_header(len(owned))
        for token in owned:
            digest.toggle_token(token)
        for start in range(0, len(owned), _TOKENS_IN_PIECE):
            yield b"".join(packer.pack((token.name, token)) for token in owned[start : start + _TOKENS_IN_PIECE])
    yield packer.pack(_PERMISSIONER)


def _user_value(user: User) -> tuple[object, ...]:
    return (
        user.id,
        user.username,
        user.password_hash,
        STATUS_NAMES[user.status],
        user.created_at,
        None if user.permissions is None else permissions_value(user.permissions),
        user.options.fields,
    )


class _OptionTable:
    """Numbers the distinct option maps of one encoding; the records that hold them stay alive meanwhile."""

    __slots__ = ("_by_content", "_by_identity")

    def __init__(self) -> None:
        self._by_content: dict[tuple[OptionFields, ...], int] = {}
        self._by_identity: dict[int, int] = {}

    def agrees(self, numbers: tuple[tuple[OptionMap, int], ...]) -> bool:
        """Whether the maps, met now in this order, have these numbers."""
        known = self._by_identity
        for options, number in numbers:
            if known.get(id(options)) != number and self.index(options) != number:
                return False
        return True

    def index(self, options: OptionMap) -> int:
        """The number of the map: maps with equal content have one."""
        index = self._by_identity.get(id(options))
        if index is None:
            index = self._by_content.setdefault(options.fields, len(self._by_content))
            self._by_identity[id(options)] = index
        return index

    def maps(self) -> list[tuple[OptionFields, ...]]:
        """The contents in the order of their numbers."""
        return list(self._by_content)


def _stream_pieces(streams: Sequence[Stream | None], revision: int, digest: Digest) -> Iterator[bytes]:
    packer = msgpack.Packer()
    table = _OptionTable()
    yield packer.pack_array_header(3)
    yield packer.pack_array_header(len(streams) - streams.count(None))
    for stream in streams:
        if stream is None:
            continue
        if stream.topics is None:
            head = (stream.id, stream.name, stream.created_at, STATS)
            digest.toggle_stream(stream)
            yield packer.pack((stream.id, (*head, (), table.index(stream.options))))
            continue
        kept = stream.topics.encoded
        if kept is None or kept.owner != stream[:-1] or not table.agrees(kept.numbers):
            kept = stream.topics.encoded = _encoded(packer, stream, stream.topics, table)
        digest.value ^= kept.digest
        yield from kept.pieces
    yield packer.pack(revision)
    maps = table.maps()
    yield packer.pack_array_header(len(maps))
    yield from map(packer.pack, maps)


def _encoded(packer: msgpack.Packer, stream: Stream, topics: Slab[Topic], table: _OptionTable) -> Encoded:
    distinct = {id(options): options for options in (stream.options, *(topic.options for topic in topics))}
    numbers = tuple((options, table.index(options)) for options in distinct.values())
    pieces = tuple(_joined(_one_stream_pieces(packer, stream, topics, table)))
    return Encoded(pieces, stream[:-1], numbers, _digest_of(stream, topics))


def _digest_of(stream: Stream, topics: Slab[Topic]) -> int:
    digest = Digest()
    digest.toggle_stream(stream)
    for topic in topics:
        digest.toggle_topic(stream.id, topic)
        for group in topic.groups or ():
            digest.toggle_group(stream.id, topic.id, group)
    return digest.value


def _one_stream_pieces(
    packer: msgpack.Packer, stream: Stream, topics: Slab[Topic], table: _OptionTable
) -> Iterator[bytes]:
    head = (stream.id, stream.name, stream.created_at, STATS)
    yield packer.pack_array_header(2) + packer.pack(stream.id) + _open_array(packer, 6, head)
    yield packer.pack_array_header(sum(1 for _ in topics))  # Its length is that of the newest fork.
    for topic in topics:
        yield from _topic_pieces(packer, topic, table)
    yield packer.pack(table.index(stream.options))


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in as few pieces as are allowed."""
    collected: list[bytes] = []
    size = 0
    for piece in pieces:
        if size + len(piece) > _PIECE_SIZE_MAX:
            yield b"".join(collected)
            collected.clear()
            size = 0
        collected.append(piece)
        size += len(piece)
    if collected:
        yield b"".join(collected)


def _topic_pieces(packer: msgpack.Packer, topic: Topic, table: _OptionTable) -> Iterator[bytes]:
    head = (
        topic.id,
        topic.name,
        topic.created_at,
        topic.message_expiry,
        COMPRESSION_NAMES[topic.compression],
        topic.max_topic_size,
        STATS,
    )
    tail = (topic.next_consumer_group_id, table.index(topic.options))
    partitions = topic.partitions
    if len(partitions) <= _PARTITIONS_IN_PIECE and not topic.groups:
        yield packer.pack((topic.id, (*head, partitions, (), *tail)))
        return
    yield packer.pack_array_header(2) + packer.pack(topic.id) + _open_array(packer, 11, head)
    yield from _array_pieces(packer, partitions, _PARTITIONS_IN_PIECE)
    groups = topic.groups
    yield packer.pack_array_header(0 if groups is None else len(groups))
    for group in groups or ():
        yield from _group_pieces(packer, group)
    yield b"".join(map(packer.pack, tail))


def _group_pieces(packer: msgpack.Packer, group: ConsumerGroup) -> Iterator[bytes]:
    yield packer.pack_array_header(2) + packer.pack(group.id)
    yield _open_array(packer, 4, (group.id, group.generation, group.name))
    yield packer.pack_array_header(len(group.members))
    for member in group.members:
        yield from _member_pieces(packer, member)


def _member_pieces(packer: msgpack.Packer, member: Member) -> Iterator[bytes]:
    yield packer.pack_array_header(2) + packer.pack(member.id)
    yield _open_array(packer, 5, (member.id, member.client.to_bytes(16, "little")))
    yield from _array_pieces(packer, member.partitions, _NUMBERS_IN_PIECE)
    yield from _array_pieces(packer, member.pending, _REVOCATIONS_IN_PIECE)
    yield packer.pack(member.user_id)


def _array_pieces(packer: msgpack.Packer, elements: Sequence[object], count: int) -> Iterator[bytes]:
    """An array, `count` elements to a piece."""
    yield packer.pack_array_header(len(elements))
    for start in range(0, len(elements), count):
        yield b"".join(map(packer.pack, elements[start : start + count]))


def _open_array(packer: msgpack.Packer, size: int, head: tuple[object, ...]) -> bytes:
    """The header of an array of `size` and its first elements; the caller appends the others."""
    return packer.pack_array_header(size) + b"".join(map(packer.pack, head))
