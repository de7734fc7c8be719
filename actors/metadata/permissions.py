"""Who may do what: the permission record as bit masks, the rules, and the lookup by user (state-machine 10.1, 10.2).

Rights come from replicated state alone, so a replay decides as the first run did. Grants are additive and there is no
deny; a user without a record passes no rule. User 0 is root and passes every rule, whatever its record says. Entries that
name a stream or topic go when its id is freed (D-02), so that whoever gets the id next inherits nothing (BR-41).
"""

from typing import Final, NamedTuple

from levrier.wire.permissions import Permissions

ROOT_USER_ID: Final = 0

# Bits in the order in which the flags stand on the wire (requests 1.6).
_G_MANAGE_SERVERS: Final = 1 << 0
_G_READ_SERVERS: Final = 1 << 1
_G_MANAGE_USERS: Final = 1 << 2
_G_READ_USERS: Final = 1 << 3
_G_MANAGE_STREAMS: Final = 1 << 4
_G_READ_STREAMS: Final = 1 << 5
_G_MANAGE_TOPICS: Final = 1 << 6
_G_READ_TOPICS: Final = 1 << 7
_G_POLL: Final = 1 << 8
_G_SEND: Final = 1 << 9

_S_MANAGE_STREAM: Final = 1 << 0
_S_READ_STREAM: Final = 1 << 1
_S_MANAGE_TOPICS: Final = 1 << 2
_S_READ_TOPICS: Final = 1 << 3
_S_POLL: Final = 1 << 4
_S_SEND: Final = 1 << 5

_T_MANAGE_TOPIC: Final = 1 << 0
_T_READ_TOPIC: Final = 1 << 1
_T_POLL: Final = 1 << 2
_T_SEND: Final = 1 << 3


class Rule(NamedTuple):
    """Passes a user who has any of these flags, on the cluster, on the stream, or on the topic."""

    everywhere: int
    on_stream: int = 0
    on_topic: int = 0


_TOPICS_READ = _G_MANAGE_STREAMS | _G_READ_STREAMS | _G_MANAGE_TOPICS | _G_READ_TOPICS
_STREAM_TOPICS_READ = _S_MANAGE_STREAM | _S_READ_STREAM | _S_MANAGE_TOPICS | _S_READ_TOPICS
_TOPICS_MANAGE = _G_MANAGE_STREAMS | _G_MANAGE_TOPICS
_STREAM_TOPICS_MANAGE = _S_MANAGE_STREAM | _S_MANAGE_TOPICS

CREATE_STREAM: Final = Rule(_G_MANAGE_STREAMS)
READ_STREAMS: Final = Rule(_G_MANAGE_STREAMS | _G_READ_STREAMS)
READ_STREAM: Final = Rule(_G_MANAGE_STREAMS | _G_READ_STREAMS, _S_MANAGE_STREAM | _S_READ_STREAM)
MANAGE_STREAM: Final = Rule(_G_MANAGE_STREAMS, _S_MANAGE_STREAM)
READ_TOPICS: Final = Rule(_TOPICS_READ, _STREAM_TOPICS_READ)
READ_TOPIC: Final = Rule(_TOPICS_READ, _STREAM_TOPICS_READ, _T_MANAGE_TOPIC | _T_READ_TOPIC)
"""Reading one topic, and everything about its consumer groups, their creation and deletion included."""

CREATE_TOPIC: Final = Rule(_TOPICS_MANAGE, _STREAM_TOPICS_MANAGE)
MANAGE_TOPIC: Final = Rule(_TOPICS_MANAGE, _STREAM_TOPICS_MANAGE, _T_MANAGE_TOPIC)
POLL: Final = Rule(_TOPICS_READ | _G_POLL, _STREAM_TOPICS_READ | _S_POLL, _T_MANAGE_TOPIC | _T_READ_TOPIC | _T_POLL)
SEND: Final = Rule(_TOPICS_MANAGE | _G_SEND, _STREAM_TOPICS_MANAGE | _S_SEND, _T_MANAGE_TOPIC | _T_SEND)
READ_SERVERS: Final = Rule(_G_MANAGE_SERVERS | _G_READ_SERVERS)
READ_USERS: Final = Rule(_G_MANAGE_USERS | _G_READ_USERS)
MANAGE_USERS: Final = Rule(_G_MANAGE_USERS)


class _StreamGrant(NamedTuple):
    flags: int
    topics: dict[int, int]


class _Grants(NamedTuple):
    """The permission record of one user, ready to be looked up."""

    flags: int
    streams: dict[int, _StreamGrant]


def _mask(flags: tuple[bool, ...]) -> int:
    return sum(1 << bit for bit, flag in enumerate(flags) if flag)


def _grants(permissions: Permissions) -> _Grants:
    return _Grants(
        flags=_mask(permissions.global_permissions.flags()),
        streams={
            stream_id: _StreamGrant(
                flags=_mask(stream.flags()),
                topics={topic_id: _mask(topic.flags()) for topic_id, topic in stream.topics},
            )
            for stream_id, stream in permissions.streams
        },
    )


class Permissioner:
    """The permissions of every user who has any: always the fold of the users' records (invariant of section 16).

    `_holders` knows who has an entry on which stream, so that deleting a stream costs nothing when nobody has one.
    """

    __slots__ = ("_grants", "_holders")

    def __init__(self) -> None:
        self._grants: dict[int, _Grants] = {}
        self._holders: dict[int, dict[int, None]] = {}

    def load(self, user_id: int, permissions: Permissions | None) -> None:
        """Make this record the whole of the user's rights; None takes all away."""
        self.drop(user_id)
        if permissions is None:
            return
        grants = _grants(permissions)
        self._grants[user_id] = grants
        for stream_id in grants.streams:
            self._holders.setdefault(stream_id, {})[user_id] = None

    def drop(self, user_id: int) -> None:
        """Forget the user."""
        grants = self._grants.pop(user_id, None)
        if grants is None:
            return
        for stream_id in grants.streams:
            holders = self._holders[stream_id]
            del holders[user_id]
            if not holders:
                del self._holders[stream_id]

    def holders(self, stream_id: int) -> list[int]:
        """The users with an entry that names this stream, ascending."""
        holders = self._holders.get(stream_id)
        return sorted(holders) if holders else []

    def allows(self, user_id: int, rule: Rule, stream_id: int | None = None, topic_id: int | None = None) -> bool:
        """Whether the user passes the rule, for this stream and this topic of it where the rule looks at them."""
        if user_id == ROOT_USER_ID:
            return True
        grants = self._grants.get(user_id)
        if grants is None:
            return False
        if grants.flags & rule.everywhere:
            return True
        stream = None if stream_id is None else grants.streams.get(stream_id)
        if stream is None:
            return False
        granted = stream.flags & rule.on_stream
        if not granted and topic_id is not None:
            granted = stream.topics.get(topic_id, 0) & rule.on_topic
        return granted != 0
