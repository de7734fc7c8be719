"""Permissions as a person writes and reads them.

What holds everywhere is a list of words, `read_streams,poll_messages`; what holds for one stream and topics in it is
`STREAM[:WORDS][#TOPIC[:WORDS]]...`, for example `orders:read_stream#placed:poll_messages`. The words are those of Iggy's
own tool, its short ones (`r_str`) too, and `all`. A file holds the JSON of Iggy's HTTP interface, which is also what
`--json` prints.
"""

import difflib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, NoReturn, TypeVar

from levrier.cluster.cli.catalogue import identifier
from levrier.cluster.cli.output import CommandFailed, Exit, Row
from levrier.wire.identifiers import Identifier
from levrier.wire.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from levrier.wire.responses.streams import StreamDetails

T = TypeVar("T")

EVERYTHING: Final = "everything"
ALL: Final = "all"
NOTHING: Final = "nothing"

_GLOBAL: Final = tuple(field.name for field in fields(GlobalPermissions))
_STREAM: Final = tuple(field.name for field in fields(StreamPermissions) if field.name != "topics")
_TOPIC: Final = tuple(field.name for field in fields(TopicPermissions))
_SHORT_VERBS: Final = {"manage": "m", "read": "r", "poll": "p", "send": "s"}
_SHORT_NOUNS: Final = {"servers": "srv", "users": "usr", "messages": "msg"}
_PART: Final = re.compile(r"((?:id:\d+(?=:|$))|[^:]+)(?::(.*))?", re.DOTALL)
_ID_MAX: Final = (1 << 32) - 1

FindStream = Callable[[Identifier], Awaitable[StreamDetails | None]]


def short_word(word: str) -> str:
    """`read_streams` is `r_str`."""
    verb, noun = word.split("_")
    return f"{_SHORT_VERBS[verb]}_{_SHORT_NOUNS.get(noun, noun[:3])}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGrant:
    """What is granted in one topic."""

    topic: Identifier
    granted: TopicPermissions


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGrant:
    """What is granted in one stream, and in topics of it."""

    stream: Identifier
    granted: Mapping[str, bool]
    topics: tuple[TopicGrant, ...]


def parse_global(text: str | None) -> GlobalPermissions:
    """What holds everywhere. Raises `CommandFailed`."""
    return GlobalPermissions(**_flags(text or "", _GLOBAL, "globally"))


def parse_stream(text: str) -> StreamGrant:
    """What holds in one stream and in topics of it. Raises `CommandFailed`."""
    first, *others = text.split("#")
    stream, words = _part(first, text)
    topics = []
    for other in others:
        topic, topic_words = _part(other, text)
        granted = TopicPermissions(**_flags(topic_words, _TOPIC, "for a topic"))
        topics.append(TopicGrant(topic=topic, granted=granted))
    return StreamGrant(stream=stream, granted=_flags(words, _STREAM, "for a stream"), topics=tuple(topics))


def _part(part: str, whole: str) -> tuple[Identifier, str]:
    found = _PART.fullmatch(part)
    if found is None:
        _refuse(
            f"{whole!r}: STREAM[:WORDS][#TOPIC[:WORDS]] is expected, for example orders:read_stream#placed:poll_messages"
        )
    return identifier(found[1]), found[2] or ""


def _flags(text: str, known: Sequence[str], where: str) -> dict[str, bool]:
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    long = {short_word(word): word for word in known} | {word: word for word in known}
    granted: set[str] = set()
    for word in words:
        if word == ALL:
            granted.update(known)
        elif word in long:
            granted.add(long[word])
        else:
            near = difflib.get_close_matches(word, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)} and {ALL}"
            _refuse(f"{word!r} cannot be granted {where}; {hint}")
    return {word: True for word in known if word in granted}


async def resolve(everywhere: GlobalPermissions, grants: Sequence[StreamGrant], find: FindStream) -> Permissions:
    """The permissions by id. Streams and topics are looked up where they are named. Raises `CommandFailed`."""
    streams: dict[int, StreamPermissions] = {}
    for grant in grants:
        named = isinstance(grant.stream.value, str) or any(isinstance(t.topic.value, str) for t in grant.topics)
        details = await find(grant.stream) if named else None
        if named and details is None:
            raise CommandFailed(f"there is no stream {_written(grant.stream)}, so nothing was changed")
        stream_id = details.stream.id if details is not None else _number(grant.stream)
        if stream_id in streams:
            _refuse(f"stream {_written(grant.stream)} is named twice: put its words behind one colon")
        topics = {_topic_id(topic.topic, details): topic.granted for topic in grant.topics}
        if len(topics) != len(grant.topics):
            _refuse(f"a topic of stream {_written(grant.stream)} is named twice: put its words behind one colon")
        streams[stream_id] = StreamPermissions(**grant.granted, topics=_sorted(topics))
    return Permissions(everywhere, _sorted(streams))


def _sorted(entries: Mapping[int, T]) -> tuple[tuple[int, T], ...]:
    return tuple((number, entries[number]) for number in sorted(entries))


def _topic_id(topic: Identifier, details: StreamDetails | None) -> int:
    if isinstance(topic.value, int):
        return topic.value
    assert details is not None
    for header in details.topics:
        if header.name == topic.value:
            return header.id
    raise CommandFailed(f"there is no topic {_written(topic)} in stream {details.stream.name}, so nothing was changed")


def _number(which: Identifier) -> int:
    assert isinstance(which.value, int)
    return which.value


def _written(which: Identifier) -> str:
    """As it is typed. A bare number was a name: the id is what somebody may have meant."""
    if isinstance(which.value, int):
        return f"id:{which.value}"
    return f"{which.value} (the id is written id:{which.value})" if which.value.isdigit() else which.value


def _refuse(message: str) -> NoReturn:
    raise CommandFailed(message, Exit.COULD_NOT_ASK)


# JSON.


def as_json(permissions: Permissions | None) -> dict[str, Any] | None:
    """As Iggy's HTTP interface writes them; None for a user without any."""
    if permissions is None:
        return None
    streams = {}
    for stream_id, stream in permissions.streams:
        flags = dict(zip(_STREAM, stream.flags(), strict=True))
        topics = {str(topic_id): asdict(topic) for topic_id, topic in stream.topics}
        streams[str(stream_id)] = {**flags, "topics": topics or None}
    return {"global": asdict(permissions.global_permissions), "streams": streams or None}


def from_json(text: str) -> Permissions:
    """The counterpart of `as_json`; a flag that is left out is not granted. Raises `CommandFailed`."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"no JSON: {error}", Exit.COULD_NOT_ASK) from error
    record = _object(whole, "the whole", ("global", "streams"))
    everywhere = _flags_of(record.get("global"), "global", _GLOBAL)
    streams = []
    for stream_id, stream in _by_id(record.get("streams"), "streams"):
        where = f"streams.{stream_id}"
        granted = _flags_of(stream, where, _STREAM, also=("topics",))
        topics = tuple(
            (topic_id, TopicPermissions(**_flags_of(topic, f"{where}.topics.{topic_id}", _TOPIC)))
            for topic_id, topic in _by_id((stream or {}).get("topics"), f"{where}.topics")
        )
        streams.append((stream_id, StreamPermissions(**granted, topics=topics)))
    return Permissions(GlobalPermissions(**everywhere), tuple(streams))


def _object(value: object, where: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        _refuse(f"{where} is no object with {', '.join(known)}")
    for key in value:
        if key not in known:
            _refuse(f"{where}: {key!r} is not known; known are {', '.join(known)}")
    return value


def _flags_of(value: object, where: str, known: Sequence[str], *, also: Sequence[str] = ()) -> dict[str, bool]:
    if value is None:
        return {}
    record = _object(value, where, (*known, *also))
    flags = {key: record[key] for key in known if key in record}
    for key, flag in flags.items():
        if not isinstance(flag, bool):
            _refuse(f"{where}.{key} is {json.dumps(flag)}, neither true nor false")
    return flags


def _by_id(value: object, where: str) -> tuple[tuple[int, Any], ...]:
    if value is None:
        return ()
    if not isinstance(value, dict):
        _refuse(f"{where} is no object with ids as keys")
    found: dict[int, Any] = {}
    for key, item in value.items():
        if not (key.isascii() and key.isdigit() and int(key) <= _ID_MAX):
            _refuse(f"{where}: {key!r} is no id; a file names streams and topics by their numbers")
        if int(key) in found:
            _refuse(f"{where}: {key!r} is there twice")
        found[int(key)] = item
    return _sorted(found)


# Tables.


async def rows(permissions: Permissions, find: FindStream) -> list[Row]:
    """A row for everything, for each stream and for each topic, with their names where they can be found."""
    shown = [_row(EVERYTHING, permissions.global_permissions.flags(), _GLOBAL)]
    for stream_id, stream in permissions.streams:
        details = await find(Identifier(stream_id))
        names = {} if details is None else {topic.id: topic.name for topic in details.topics}
        of = f"stream {_called(None if details is None else details.stream.name, stream_id)}"
        shown.append(_row(of, stream.flags(), _STREAM))
        shown.extend(
            _row(f"{of}, topic {_called(names.get(topic_id), topic_id)}", topic.flags(), _TOPIC)
            for topic_id, topic in stream.topics
        )
    return shown


def _called(name: str | None, number: int) -> str:
    return f"id:{number}" if name is None else f"{name} (id:{number})"


def _row(where: str, flags: Sequence[bool], known: Sequence[str]) -> Row:
    granted = [word for word, flag in zip(known, flags, strict=True) if flag]
    words = NOTHING if not granted else ALL if len(granted) == len(known) else granted
    return {"on": where, "granted": words}
