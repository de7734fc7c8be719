"""Topic options as a person writes and reads them: `KEY=VALUE`."""

import difflib
from collections.abc import Sequence

from levrier.cluster.cli.output import CommandFailed, Duration, Exit, Size
from levrier.wire.errors import WireError
from levrier.wire.options import (
    KIND_BOOL,
    KIND_STRING,
    KIND_UINT8,
    KIND_UINT32,
    KIND_UINT64,
    OptionEntry,
    decode_block,
    encode_block,
)
from levrier.wire.responses.topics import TopicHeader
from levrier.wire.topic_option_catalogue import (
    BY_NAME,
    MAX_TOPIC_SIZE,
    MESSAGE_EXPIRY,
    SEGMENT_SIZE,
    SIZE_OF_MESSAGES_REQUIRED_TO_SAVE,
    parse_value,
)
from levrier.wire.topic_options import UNLIMITED, describe_topic_options, parse_strictly

_NUMBERS = frozenset({KIND_UINT8, KIND_UINT32, KIND_UINT64})
_QUANTITIES = {
    MESSAGE_EXPIRY: Duration,
    MAX_TOPIC_SIZE: Size,
    SEGMENT_SIZE: Size,
    SIZE_OF_MESSAGES_REQUIRED_TO_SAVE: Size,
}


def parse_options(pairs: Sequence[str]) -> tuple[OptionEntry, ...]:
    """`KEY=VALUE` pairs as entries; values are written as in a configuration file. Raises `CommandFailed`."""
    known = {option.key: option.description for option in describe_topic_options()}
    entries = []
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not value:
            raise CommandFailed(
                f"option {pair!r}: KEY=VALUE is expected, for example message_expiry=7days", Exit.COULD_NOT_ASK
            )
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise CommandFailed(f"option {key!r} is not known; {hint}", Exit.COULD_NOT_ASK)
        entry = OptionEntry(key, KIND_STRING, value.encode(errors="surrogateescape"))
        try:
            parse_strictly(encode_block((entry,)))
        except WireError as error:
            raise CommandFailed(f"{key}={value} cannot be used; {key} is {known[key]}", Exit.COULD_NOT_ASK) from error
        entries.append(entry)
    return tuple(entries)


def shown_options(topic: TopicHeader) -> dict[str, object]:
    """Every option of a topic and its value; what is not set by the client is what the node resolved."""
    entries = (*decode_block(topic.derived_options), *decode_block(topic.explicit_options))
    return {entry.key: shown_value(_canonical(entry)) for entry in sorted(entries, key=lambda entry: entry.key)}


def _canonical(entry: OptionEntry) -> OptionEntry:
    """A client may have written `1day`: the same value in the kind of its key."""
    option = BY_NAME.get(entry.key)
    if option is None or entry.kind != KIND_STRING:
        return entry
    try:
        value = parse_value(option, entry)
    except WireError:
        return entry  # Set by a release that knows other values: shown as it is.
    return entry if value is None else option.entry(value)


def shown_value(entry: OptionEntry) -> object:
    """The value of an entry as a table and JSON show it."""
    if entry.kind == KIND_STRING:
        return entry.value.decode(errors="replace")
    if entry.kind == KIND_BOOL:
        return entry.value != b"\0"
    if entry.kind in _NUMBERS:
        number = int.from_bytes(entry.value, "little")
        if entry.kind == KIND_UINT64 and number == UNLIMITED:
            return "unlimited"
        return _QUANTITIES.get(entry.key, int)(number)
    return entry.value.hex()
