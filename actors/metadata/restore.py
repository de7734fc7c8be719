"""The replicated state from the decoded sections of a snapshot, the way back from `levrier.actors.metadata.snapshot`.

A snapshot file is checked by its seal before it comes here. What is checked here is that the sections are the state of some
machine: every id in order and in range, every name once, every number in its field. Anything else raises `SnapshotInvalid`
before anything was built; nothing is skipped, shortened or corrected.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from levrier.actors.metadata.frontier import ORIGIN_MAX, AppliedFrontier, Pairs
from levrier.actors.metadata.options import OptionFields, OptionMap, OptionPool
from levrier.actors.metadata.permissions import ROOT_USER_ID
from levrier.actors.metadata.records import ConsumerGroup, GroupTable, Member, Partition, Revocation, Stream, Topic
from levrier.actors.metadata.slab import Slab
from levrier.actors.metadata.snapshot import COMPRESSION_NAMES, STATS, STATUS_NAMES
from levrier.actors.metadata.streams import PARTITION_ID_MAX, STREAMS_MAX, TOPICS_MAX, StreamsMachine
from levrier.actors.metadata.tokens import Token
from levrier.actors.metadata.users import User, UsersMachine
from levrier.wire.errors import WireError
from levrier.wire.names import NAME_SIZE_MAX
from levrier.wire.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from levrier.wire.requests.replicated import TOKEN_HASH_SIZE

_U32_MAX: Final = 2**32 - 1
_U64_MAX: Final = 2**64 - 1
_CLIENT_SIZE: Final = 16
_HEX_DIGITS: Final = "0123456789abcdef"
_STATUS_CODES: Final = {name: code for code, name in STATUS_NAMES.items()}
_COMPRESSION_CODES: Final = {name: code for code, name in COMPRESSION_NAMES.items()}


class SnapshotInvalid(ValueError):
    """A section does not hold the state of any machine. `where` is the path of the bad field."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{where}: {what}")
        self.what = what
        self.where = where


def users(section: object, pool: OptionPool, *, next_user_id: int) -> UsersMachine:
    """The users machine of a decoded section. Raises `SnapshotInvalid`."""
    items, tokens, permissioner = _array(section, 3, "users")
    records = [_user(pair, f"users[{index}]", pool) for index, pair in enumerate(_array(items, None, "users.items"))]
    holders = [_pair(pair, "users.tokens") for pair in _array(tokens, None, "users.tokens")]
    if [user_id for user_id, _ in holders] != [user.id for user in records]:
        raise SnapshotInvalid("not one entry for each user", "users.tokens")
    owned = [_tokens(entry, f"users.tokens[{user_id}]") for user_id, entry in holders]
    for part in _array(permissioner, 6, "users.permissioner"):
        _array(part, 0, "users.permissioner")
    _uint(next_user_id, _U32_MAX + 1, "next_user_id")
    try:
        return UsersMachine.restore(records, owned, next_user_id, pool)
    except ValueError as error:
        raise SnapshotInvalid(str(error), "users.items") from error


def frontier(positions: Pairs, high_water: Pairs) -> AppliedFrontier:
    """What is applied of each origin, from the two fields of a snapshot. Raises `SnapshotInvalid`."""
    for where, pairs in (("acknowledgement_frontier", positions), ("acknowledgement_high_water", high_water)):
        origins = [origin for origin, _ in pairs]
        if origins != sorted(set(origins)):
            raise SnapshotInvalid("an origin comes twice", where)
        for origin, position in pairs:
            if origin > ORIGIN_MAX or not position:
                raise SnapshotInvalid(f"origin {origin} at {position}", where)
    return AppliedFrontier(positions, high_water)


def streams(section: object, pool: OptionPool, *, consensus_group_high: int) -> StreamsMachine:
    """The streams machine of a decoded section. Raises `SnapshotInvalid`."""
    items, revision, maps = _array(section, 3, "streams")
    source = _Source(
        options=[_options(entry, "streams.options", pool) for entry in _array(maps, None, "streams.options")],
        group_high=_uint(consensus_group_high, _U64_MAX, "consensus_group_high"),
    )
    records = [_stream(pair, source) for pair in _array(items, None, "streams.items")]
    try:
        return StreamsMachine.restore(
            records,
            revision=_uint(revision, _U64_MAX, "streams.revision"),
            consensus_group_high=source.group_high,
            pool=pool,
        )
    except ValueError as error:
        raise SnapshotInvalid(str(error), "streams.items") from error


def _user(value: object, where: str, pool: OptionPool) -> User:
    key, fields = _pair(value, where)
    user_id, username, password_hash, status, created_at, permissions, options = _array(fields, 7, where)
    if _uint(user_id, _U32_MAX, f"{where}.id") != key:
        raise SnapshotInvalid(f"user {user_id!r} under key {key}", where)
    if not isinstance(status, str) or status not in _STATUS_CODES:
        raise SnapshotInvalid("no such status", f"{where}.status")
    if key == ROOT_USER_ID and status != "active":
        raise SnapshotInvalid("root is never inactive", f"{where}.status")
    return User(
        id=key,
        username=_name(username, f"{where}.username"),
        password_hash=_text(password_hash, f"{where}.password_hash"),
        status=_STATUS_CODES[status],
        created_at=_uint(created_at, _U64_MAX, f"{where}.created_at"),
        permissions=None if permissions is None else _permissions(permissions, f"{where}.permissions"),
        options=_options(options, f"{where}.options", pool),
    )


def _tokens(value: object, where: str) -> list[Token]:
    tokens = []
    for pair in _array(value, None, where):
        name, fields = _array(pair, 2, where)
        user_id, own_name, token_hash, expires_at = _array(fields, 4, where)
        if name != own_name:
            raise SnapshotInvalid("a token under the name of another", where)
        if not isinstance(token_hash, str) or len(token_hash) != TOKEN_HASH_SIZE or token_hash.strip(_HEX_DIGITS):
            raise SnapshotInvalid("no token hash", where)
        tokens.append(
            Token(
                _uint(user_id, _U32_MAX, where),
                _name(name, where),
                token_hash,
                None if expires_at is None else _uint(expires_at, _U64_MAX, where),
            )
        )
    return tokens


def _permissions(value: object, where: str) -> Permissions:
    everywhere, streams = _array(value, 2, where)
    return Permissions(
        GlobalPermissions(*_flags(everywhere, 10, where)),
        tuple(
            (stream_id, _stream_permissions(entry, where))
            for stream_id, entry in _ascending([] if streams is None else _array(streams, None, where), where)
        ),
    )


def _stream_permissions(value: object, where: str) -> StreamPermissions:
    *values, topics = _array(value, 7, where)
    manage_stream, read_stream, manage_topics, read_topics, poll_messages, send_messages = _flags(values, 6, where)
    return StreamPermissions(
        manage_stream,
        read_stream,
        manage_topics,
        read_topics,
        poll_messages,
        send_messages,
        topics=tuple(
            (topic_id, TopicPermissions(*_flags(entry, 4, where)))
            for topic_id, entry in _ascending([] if topics is None else _array(topics, None, where), where)
        ),
    )


class _Source(NamedTuple):
    """What all records of the streams section refer to."""

    options: Sequence[OptionMap]
    group_high: int

    def options_at(self, index: object, where: str) -> OptionMap:
        """The option map with this number."""
        return self.options[_uint(index, len(self.options) - 1, where)]


def _stream(value: object, source: _Source) -> Stream:
    key, fields = _pair(value, "streams.items")
    where = f"streams[{key}]"
    stream_id, name, created_at, stats, topics, options = _array(fields, 6, where)
    if stream_id != key or key >= STREAMS_MAX:
        raise SnapshotInvalid(f"stream {stream_id!r} under key {key}", where)
    _stats(stats, where)
    records = [_topic(pair, where, source) for pair in _array(topics, None, where)]
    return Stream(
        id=key,
        name=_name(name, where),
        created_at=_uint(created_at, _U64_MAX, where),
        options=source.options_at(options, where),
        topics=_slab_of(records, where) if records else None,
    )


def _topic(value: object, stream: str, source: _Source) -> Topic:
    key, fields = _pair(value, stream)
    where = f"{stream}.topics[{key}]"
    topic_id, name, created_at, expiry, compression, size, stats, partitions, groups, next_group, options = _array(
        fields, 11, where
    )
    if topic_id != key or key >= TOPICS_MAX:
        raise SnapshotInvalid(f"topic {topic_id!r} under key {key}", where)
    if not isinstance(compression, str) or compression not in _COMPRESSION_CODES:
        raise SnapshotInvalid("no such compression", where)
    _stats(stats, where)
    records = tuple([_partition(entry, where, source.group_high) for entry in _array(partitions, None, where)])
    if len(records) > 1 and len({partition.id for partition in records}) != len(records):
        raise SnapshotInvalid("a partition id stands twice", where)
    known = _groups(_array(groups, None, where), records, _uint(next_group, _U64_MAX, where), where)
    return Topic(
        key,
        _name(name, where),
        _uint(created_at, _U64_MAX, where),
        _uint(expiry, _U64_MAX, where),
        _COMPRESSION_CODES[compression],
        _uint(size, _U64_MAX, where),
        source.options_at(options, where),
        records,
        _uint(next_group, _U64_MAX, where),
        known,
    )


def _groups(
    pairs: Sequence[object], partitions: tuple[Partition, ...], next_group: int, topic: str
) -> GroupTable | None:
    """The groups of a topic, of ids that were given out before `next_group`."""
    if not pairs:
        return None
    partition_ids = {partition.id for partition in partitions}
    groups: list[ConsumerGroup] = []
    names: set[str] = set()
    for pair in pairs:
        key, fields = _array(pair, 2, topic)
        where = f"{topic}.groups[{key}]"
        group_id, generation, label, members = _array(fields, 4, where)
        name = _name(label, where)
        least = groups[-1].id + 1 if groups else 0
        if group_id != key or not least <= _uint(group_id, _U64_MAX, where) < next_group:
            raise SnapshotInvalid(f"not the id of a group from {least} to below {next_group}", where)
        if name in names:
            raise SnapshotInvalid("a group of this name is there already", where)
        group = ConsumerGroup(
            _uint(group_id, _U64_MAX, where),
            name,
            _uint(generation, _U64_MAX, where),
            _members(members, partition_ids, where),
        )
        names.add(name)
        groups.append(group)
    return GroupTable(groups) if groups else None


def _members(value: object, partition_ids: set[int], where: str) -> tuple[Member, ...]:
    """The members of a group: every partition has one owner at most, who may have to give it up to another member."""
    members = [_member(key, entry, where) for key, entry in _ascending(_array(value, None, where), where)]
    owned = [partition_id for member in members for partition_id in member.partitions]
    if len(set(owned)) != len(owned) or not partition_ids.issuperset(owned):
        raise SnapshotInvalid("a partition of two owners, or of none of the topic", where)
    if len({member.client for member in members}) != len(members):
        raise SnapshotInvalid("a client is a member twice", where)
    keys = {member.id for member in members}
    for member in members:
        leaving = [revocation.partition_id for revocation in member.pending]
        if len(set(leaving)) != len(leaving) or not set(leaving) <= set(member.partitions):
            raise SnapshotInvalid("a pending revocation of what is not owned", where)
        if not {revocation.target for revocation in member.pending} <= keys - {member.id}:
            raise SnapshotInvalid("a pending revocation in favour of nobody", where)
    return tuple(members)


def _member(key: int, value: object, where: str) -> Member:
    member_id, client, partitions, pending, user_id = _array(value, 5, where)
    if member_id != key:
        raise SnapshotInvalid(f"member {member_id!r} under key {key}", where)
    if not isinstance(client, bytes) or len(client) != _CLIENT_SIZE:
        raise SnapshotInvalid("no client id", where)
    return Member(
        key,
        int.from_bytes(client, "little"),
        _uint(user_id, _U32_MAX, where),
        tuple([_uint(partition_id, _U32_MAX, where) for partition_id in _array(partitions, None, where)]),
        tuple([_revocation(entry, where) for entry in _array(pending, None, where)]),
    )


def _revocation(value: object, where: str) -> Revocation:
    partition_id, target, created_at = _array(value, 3, where)
    return Revocation(
        _uint(partition_id, _U32_MAX, where), _uint(target, _U32_MAX, where), _uint(created_at, _U64_MAX, where)
    )


def _partition(value: object, where: str, group_high: int) -> Partition:
    fields = _array(value, 6, where)
    for field in fields:
        _uint(field, _U64_MAX, where)
    partition = Partition._make(fields)
    if partition.id >= PARTITION_ID_MAX:
        raise SnapshotInvalid(f"partition id {partition.id} is out of range", where)
    if partition.consensus_group_id > group_high:
        raise SnapshotInvalid(f"consensus group {partition.consensus_group_id} is above {group_high}", where)
    return partition


def _slab_of(records: Iterable[Topic], where: str) -> Slab[Topic]:
    """The table of these topics. Raises `SnapshotInvalid`."""
    try:
        return Slab.restore(records)
    except ValueError as error:
        raise SnapshotInvalid(str(error), where) from error


def _options(value: object, where: str, pool: OptionPool) -> OptionMap:
    options: list[OptionFields] = []
    for entry in _array(value, None, where):
        key, kind, data, explicit = _array(entry, 4, where)
        name = _name(key, where)
        if options and options[-1][0] >= name:
            raise SnapshotInvalid(f"{name!r} is not in order", where)
        if not isinstance(data, bytes) or not isinstance(explicit, bool):
            raise SnapshotInvalid(f"{name!r} is not a value and a flag", where)
        options.append((name, _uint(kind, 255, where), data, explicit))
    try:
        return pool.of(options)
    except WireError as error:
        raise SnapshotInvalid(str(error), where) from error


def _stats(value: object, where: str) -> None:
    if tuple(_array(value, 3, where)) != STATS:
        raise SnapshotInvalid("counters in a snapshot, where none are kept", where)


def _ascending(pairs: Sequence[object], where: str) -> Iterator[tuple[int, object]]:
    previous = -1
    for value in pairs:
        key, entry = _pair(value, where)
        if key <= previous:
            raise SnapshotInvalid(f"id {key} does not follow {previous}", where)
        previous = key
        yield key, entry


def _pair(value: object, where: str) -> tuple[int, object]:
    key, entry = _array(value, 2, where)
    return _uint(key, _U32_MAX, where), entry


def _array(value: object, size: int | None, where: str) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise SnapshotInvalid(f"{type(value).__name__} is no array", where)
    if size is not None and len(value) != size:
        raise SnapshotInvalid(f"{len(value)} elements, not {size}", where)
    return value


def _uint(value: object, maximum: int, where: str) -> int:
    if type(value) is not int or not 0 <= value <= maximum:
        raise SnapshotInvalid("not a number in range", where)
    return value


def _flags(value: object, count: int, where: str) -> list[bool]:
    flags = _array(value, count, where)
    if not all(isinstance(flag, bool) for flag in flags):
        raise SnapshotInvalid("not flags", where)
    return [flag is True for flag in flags]


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise SnapshotInvalid("not a text", where)
    return value


def _name(value: object, where: str) -> str:
    name = _text(value, where)
    if not 1 <= len(name.encode(errors="replace")) <= NAME_SIZE_MAX:
        raise SnapshotInvalid("not 1 to 255 bytes", where)
    return name
