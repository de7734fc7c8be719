"""The bytes that the reference model has to see: replies, answers of reads (requests 2 to 10), and the sections of a snapshot.

Laid out here a second time, field by field, from the specification.
"""

from functools import lru_cache
from struct import pack
from typing import TYPE_CHECKING, Any

from levrier.cluster.simulate.checkers.model import rights as rules
from levrier.cluster.simulate.checkers.model.groups import Group, Member
from levrier.cluster.simulate.checkers.model.options import Block, Options
from levrier.cluster.simulate.checkers.model.rights import Rights

if TYPE_CHECKING:
    from levrier.cluster.simulate.checkers.model.machine import Model, Stream, Topic, User


def success(payload: bytes) -> bytes:
    return bytes(4) + payload


def rejection(code: int) -> bytes:
    return pack("<III", 1, 0, code)


def sized(data: bytes) -> bytes:
    return pack("<I", len(data)) + data


def named(name: str) -> bytes:
    data = name.encode()
    return bytes([len(data)]) + data


@lru_cache(maxsize=4096)
def block(entries: Block) -> bytes:
    """An options block, ascending by key (requests 1.5)."""
    return b"".join(
        b"\x02" + sized(key.encode()) + bytes([kind]) + sized(value)
        for key, kind, value in sorted(entries, key=lambda entry: entry[0].encode())
    )


def stored_block(options: Options, *, explicit: bool) -> bytes:
    return block(tuple((key, kind, value) for key, (kind, value, named) in options.items() if named is explicit))


def stream_header(stream: "Stream", options: bytes | None = None) -> bytes:
    """Requests 2.1; the reply to a create shows the options as they were sent."""
    shown = stored_block(stream.options, explicit=True) if options is None else options
    counters = pack("<QIQQ", stream.created_at, len(stream.topics), 0, 0)
    return pack("<I", stream.id) + counters + named(stream.name) + sized(shown)


def topic_header(topic: "Topic") -> bytes:
    """Requests 2.2."""
    head = pack("<IQI", topic.id, topic.created_at, len(topic.partitions))
    typed = pack("<QBQQQ", topic.expiry, topic.compression, topic.size, 0, 0)
    explicit, derived = (stored_block(topic.options, explicit=flag) for flag in (True, False))
    return head + typed + named(topic.name) + sized(explicit) + sized(derived)


def topic_details(topic: "Topic", segments: int) -> bytes:
    """Requests 2.3: no segment in the reply to a create, one ever after."""
    partitions = (pack("<IQIQQQ", each.id, each.created_at, segments, 0, 0, 0) for each in topic.partitions)
    return topic_header(topic) + b"".join(partitions)


def user(user: "User", status: int | None = None, options: bytes | None = None) -> bytes:
    """Requests 2.4."""
    shown = stored_block(user.options, explicit=True) if options is None else options
    byte = (1 if user.active else 2) if status is None else status
    return pack("<IQB", user.id, user.created_at, byte) + named(user.name) + sized(shown)


def user_details(known: "User", status: int | None = None, options: bytes | None = None) -> bytes:
    """Requests 2.5."""
    rights = bytes(4) if known.rights is None else b"\x01" + sized(permissions(known.rights))
    return user(known, status, options) + rights


def permissions(rights: Rights) -> bytes:
    """Requests 1.6: flags, then entries, each behind a byte that says that one follows."""
    data = flags(rights.flags, rules.GLOBAL)
    for stream_id, stream in sorted(rights.streams.items()):
        data += b"\x01" + pack("<I", stream_id) + flags(stream.flags, rules.STREAM)
        for topic_id, topic in sorted(stream.topics.items()):
            data += b"\x01" + pack("<I", topic_id) + flags(topic, rules.TOPIC)
        data += b"\x00"
    return data + b"\x00"


def flags(granted: set[str], names: list[str]) -> bytes:
    return bytes(name in granted for name in names)


def group_header(group: Group, partitions: int) -> bytes:
    """Requests 2.7."""
    return pack("<III", group.id, partitions, len(group.members)) + named(group.name)


def numbers(listed: list[int]) -> bytes:
    return pack(f"<I{len(listed)}I", len(listed), *listed)


def group_details(group: Group, partitions: int) -> bytes:
    """Requests 10."""
    members = (pack("<I", key) + numbers(member.owned) for key, member in group.ascending)
    return group_header(group, partitions) + b"".join(members)


def assignment(group: Group, member: Member) -> bytes:
    """The answer to a sync: generation and what may be polled (state-machine 7.5)."""
    return pack("<Q", group.generation) + numbers(member.staying)


def tokens(known: "User") -> bytes:
    """Requests 6: ascending by name, 0 for never."""
    return b"".join(named(name) + pack("<Q", expiry or 0) for name, (_, expiry) in sorted(known.tokens.items()))


# The sections of a snapshot, as lists (persistence 4.1, D-05, D-22, D-35)


def sections(model: "Model") -> tuple[Any, Any, int, int]:
    """Users, streams, the high water of consensus groups, the next user id."""
    return _users(model), _streams(model), model.group_high, model.next_user


def _users(model: "Model") -> Any:
    users = [known for _, known in sorted(model.users.items())]
    items = [
        [
            known.id,
            [
                known.id,
                known.name,
                known.password_hash,
                "active" if known.active else "inactive",
                known.created_at,
                None if known.rights is None else _rights(known.rights),
                _options(known.options),
            ],
        ]
        for known in users
    ]
    owned = [
        [known.id, [[name, [known.id, name, *token]] for name, token in sorted(known.tokens.items())]]
        for known in users
    ]
    return [items, owned, [[]] * 6]


def _rights(rights: Rights) -> Any:
    streams = [
        [
            stream_id,
            [
                *(name in stream.flags for name in rules.STREAM),
                [
                    [topic_id, [name in topic for name in rules.TOPIC]]
                    for topic_id, topic in sorted(stream.topics.items())
                ]
                or None,
            ],
        ]
        for stream_id, stream in sorted(rights.streams.items())
    ]
    return [[name in rights.flags for name in rules.GLOBAL], streams or None]


def _options(options: Options) -> Any:
    return [
        [key, kind, value, explicit]
        for key, (kind, value, explicit) in sorted(options.items(), key=lambda item: item[0].encode())
    ]


def _streams(model: "Model") -> Any:
    maps: list[Any] = []

    def number(options: Options) -> int:
        listed = _options(options)
        if listed not in maps:
            maps.append(listed)
        return maps.index(listed)

    items = []
    for _, stream in sorted(model.streams.items()):
        own = number(stream.options)
        topics = [[topic.id, _topic(topic, number(topic.options))] for _, topic in sorted(stream.topics.items())]
        items.append([stream.id, [stream.id, stream.name, stream.created_at, [0, 0, 0], topics, own]])
    return [items, model.revision, maps]


def _topic(topic: "Topic", options: int) -> Any:
    partitions = [
        [each.id, each.consensus_group, each.created_at, each.created_revision, each.watermark, each.purges]
        for each in topic.partitions
    ]
    groups = [[group.id, _group(group)] for _, group in sorted(topic.groups.items())]
    compression = {1: "none", 2: "gzip"}[topic.compression]
    head = [topic.id, topic.name, topic.created_at, topic.expiry, compression, topic.size, [0, 0, 0]]
    return [*head, partitions, groups, topic.next_group, options]


def _group(group: Group) -> Any:
    members = [
        [
            key,
            [
                key,
                member.client.to_bytes(16, "little"),
                member.owned,
                [[*each] for each in member.pending],
                member.user,
            ],
        ]
        for key, member in group.ascending
    ]
    return [group.id, group.generation, group.name, members]
