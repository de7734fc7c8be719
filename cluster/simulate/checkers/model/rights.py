"""Rights in the reference model: the tables of state-machine 10.1 and 10.2, with the flags by their names."""

from dataclasses import dataclass, field

GLOBAL = [
    *("manage_servers", "read_servers", "manage_users", "read_users", "manage_streams", "read_streams"),
    *("manage_topics", "read_topics", "poll_messages", "send_messages"),
]
STREAM = ["manage_stream", "read_stream", "manage_topics", "read_topics", "poll_messages", "send_messages"]
TOPIC = ["manage_topic", "read_topic", "poll_messages", "send_messages"]


@dataclass
class StreamRights:
    """What a user may do in one stream, and in its topics."""

    flags: set[str] = field(default_factory=set)
    topics: dict[int, set[str]] = field(default_factory=dict)


@dataclass
class Rights:
    """The permission record of a user."""

    flags: set[str] = field(default_factory=set)
    streams: dict[int, StreamRights] = field(default_factory=dict)


def everything() -> Rights:
    """What root has (13)."""
    return Rights(set(GLOBAL))


_READ = ("manage_streams read_streams manage_topics read_topics", "manage_stream read_stream manage_topics read_topics")
_MANAGE = ("manage_streams manage_topics", "manage_stream manage_topics")

RULES: dict[str, tuple[str, str, str]] = {
    "create_stream": ("manage_streams", "", ""),
    "get_streams": ("manage_streams read_streams", "", ""),
    "get_stream": ("manage_streams read_streams", "manage_stream read_stream", ""),
    "manage_stream": ("manage_streams", "manage_stream", ""),
    "get_topics": (*_READ, ""),
    "get_topic": (*_READ, "manage_topic read_topic"),
    "create_topic": (*_MANAGE, ""),
    "manage_topic": (*_MANAGE, "manage_topic"),
    "poll_messages": (
        "poll_messages read_topics manage_topics read_streams manage_streams",
        "poll_messages manage_stream read_stream manage_topics read_topics",
        "manage_topic read_topic poll_messages",
    ),
    "append_messages": (
        "send_messages manage_streams manage_topics",
        "send_messages manage_stream manage_topics",
        "manage_topic send_messages",
    ),
    "system": ("manage_servers read_servers", "", ""),
    "get_users": ("manage_users read_users", "", ""),
    "manage_users": ("manage_users", "", ""),
    "change_password": ("manage_users", "", ""),
}
"""Flags of which any passes: everywhere, on the stream, on the topic."""

RULE_OF_OPERATION = {
    64: "create_topic",
    65: "manage_topic",
    68: "manage_topic",
    128: "create_stream",
    129: "manage_stream",
    130: "manage_stream",
    131: "manage_stream",
    133: "manage_topic",
    134: "manage_topic",
    135: "manage_topic",
    137: "manage_topic",
    139: "get_topic",
    140: "get_topic",
    141: "manage_users",
    142: "manage_users",
    143: "manage_users",
    145: "manage_users",
    148: "get_topic",
    149: "get_topic",
}
"""What the gate of apply looks at (10.3); the others have no rule, or one of their own."""


def allows(rights: Rights | None, rule: str, stream: int | None, topic: int | None) -> bool:
    """Whether any grant passes the rule. Without a record, none does."""
    if rights is None:
        return False
    everywhere, on_stream, on_topic = (set(flags.split()) for flags in RULES[rule])
    granted = StreamRights() if stream is None else rights.streams.get(stream, StreamRights())
    own = set() if topic is None else granted.topics.get(topic, set())
    return bool(rights.flags & everywhere or granted.flags & on_stream or own & on_topic)
