"""The catalogue of topic options: ten keys, their kinds, defaults, bounds and how each value is read.

Eight keys are the reference's; `consumer_offset_durability` and `durability` are sent by the released client with every
CreateTopic and default to `replicated` (requests specification 1.5, wire specification 13). Every key also takes a text,
read as in a configuration file. What is done with the values is the business of `levrier.wire.topic_options`.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final, Self

from levrier.wire.errors import InvalidOptionValue, WireError
from levrier.wire.options import (
    KIND_BOOL,
    KIND_STRING,
    KIND_UINT8,
    KIND_UINT32,
    KIND_UINT64,
    OptionEntry,
)
from levrier.wire.quantities import parse_byte_size, parse_duration_nanoseconds

COMPRESSION_ALGORITHM: Final = "compression_algorithm"
MESSAGE_EXPIRY: Final = "message_expiry"
MAX_TOPIC_SIZE: Final = "max_topic_size"
SEGMENT_SIZE: Final = "segment_size"
ENFORCE_FSYNC: Final = "enforce_fsync"
MESSAGES_REQUIRED_TO_SAVE: Final = "messages_required_to_save"
SIZE_OF_MESSAGES_REQUIRED_TO_SAVE: Final = "size_of_messages_required_to_save"
PREALLOCATE_SEGMENTS: Final = "preallocate_segments"
CONSUMER_OFFSET_DURABILITY: Final = "consumer_offset_durability"
DURABILITY: Final = "durability"

UNLIMITED: Final = (1 << 64) - 1
"""No expiry, no size cap."""

SEGMENT_SIZE_DEFAULT: Final = 1 << 30
SEGMENT_SIZE_MIN: Final = 1 << 20
SEGMENT_SIZE_MAX: Final = 1 << 30
SEGMENT_SIZE_MULTIPLE: Final = 512
MESSAGES_REQUIRED_MAX: Final = 1 << 24
SIZE_REQUIRED_MAX: Final = 1 << 30

_EXPIRY_SECONDS_MAX: Final = (1 << 32) - 1
_NEVER: Final = frozenset({"unlimited", "Unlimited", "none", "None", "never_expire"})
_EXPIRY_DEFAULT: Final = frozenset({"default", "Default", "server_default", "Server_default"})
_SIZE_ZERO: Final = frozenset({"0", "unlimited", "Unlimited", "none", "None"})
_COMPRESSION: Final[dict[str, int]] = {"none": 1, "gzip": 2}
_COMPRESSION_NAMES: Final[dict[int, str]] = {1: "none", 2: "gzip"}
_DURABILITY: Final = ("replicated", "persisted")

Value = int | str
"""A typed option value: bytes, microseconds, a count, a boolean (as bool), or a durability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOptions:
    """The typed view of a block. None: the key is absent, or names the default by its sentinel 0.

    Expiry in microseconds and sizes in bytes, the largest u64 meaning none; `compression_algorithm` is its code.
    """

    compression_algorithm: int | None = None
    message_expiry: int | None = None
    max_topic_size: int | None = None
    segment_size: int | None = None
    enforce_fsync: bool | None = None
    messages_required_to_save: int | None = None
    size_of_messages_required_to_save: int | None = None
    preallocate_segments: bool | None = None
    consumer_offset_durability: str | None = None
    durability: str | None = None

    @classmethod
    def from_values(cls, values: dict[str, Value]) -> Self:
        """The view of parsed values by key; keys outside the catalogue are ignored."""
        known: dict[str, Value] = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        return cls(**known)  # type: ignore[arg-type]  # Each parser yields the type of its field.

    def values(self) -> dict[str, Value]:
        """What is set, by key, in the order of the catalogue."""
        found: dict[str, Value] = {}
        for field in fields(self):
            value: Value | None = getattr(self, field.name)
            if value is not None:
                found[field.name] = value
        return found


def _parse_compression(entry: OptionEntry) -> Value | None:
    if entry.kind == KIND_UINT8 and len(entry.value) == 1 and entry.value[0] in _COMPRESSION_NAMES:
        return entry.value[0]
    code = _COMPRESSION.get(_text(entry).lower())
    if code is None:
        raise _bad(entry)
    return code


def _parse_expiry(entry: OptionEntry) -> Value | None:
    if entry.kind == KIND_UINT64:
        return _fixed(entry, 8) or None
    text = _text(entry)
    if text in _NEVER:
        return UNLIMITED
    if text in _EXPIRY_DEFAULT:
        return None
    nanoseconds = parse_duration_nanoseconds(text)
    if nanoseconds // 1_000_000_000 > _EXPIRY_SECONDS_MAX:
        raise _bad(entry)
    return nanoseconds // 1000 or None


def _parse_max_topic_size(entry: OptionEntry) -> Value | None:
    if entry.kind == KIND_UINT64:
        return _fixed(entry, 8) or None
    text = _text(entry)
    if text == "unlimited":
        return UNLIMITED
    return None if text == "server_default" else _byte_size(text) or None


def _parse_segment_size(entry: OptionEntry) -> Value | None:
    size = _parse_size(entry)
    if size and not (SEGMENT_SIZE_MIN <= size <= SEGMENT_SIZE_MAX and size % SEGMENT_SIZE_MULTIPLE == 0):
        raise _bad(entry)
    return size or None


def _parse_size_required(entry: OptionEntry) -> Value | None:
    size = _parse_size(entry)
    if size > SIZE_REQUIRED_MAX:
        raise _bad(entry)
    return size or None


def _parse_messages_required(entry: OptionEntry) -> Value | None:
    if entry.kind == KIND_UINT32:
        messages = _fixed(entry, 4)
    else:
        text = _text(entry)
        if not (text.isascii() and text.removeprefix("+").isdigit()):
            raise _bad(entry)
        messages = int(text)
    if not 1 <= messages <= MESSAGES_REQUIRED_MAX:
        raise _bad(entry)
    return messages


def _parse_bool(entry: OptionEntry) -> Value | None:
    if entry.kind == KIND_BOOL and entry.value in (b"\x00", b"\x01"):
        return entry.value == b"\x01"
    if entry.kind == KIND_STRING and entry.value in (b"true", b"false"):
        return entry.value == b"true"
    raise _bad(entry)


def _parse_durability(entry: OptionEntry) -> Value | None:
    text = _text(entry).lower()
    if text not in _DURABILITY:
        raise _bad(entry)
    return text


def _parse_size(entry: OptionEntry) -> int:
    return _fixed(entry, 8) if entry.kind == KIND_UINT64 else _byte_size(_text(entry))


def _byte_size(text: str) -> int:
    return 0 if text in _SIZE_ZERO else parse_byte_size(text)


def _fixed(entry: OptionEntry, size: int) -> int:
    if len(entry.value) != size:
        raise _bad(entry)
    return int.from_bytes(entry.value, "little")


def _text(entry: OptionEntry) -> str:
    if entry.kind != KIND_STRING:
        raise _bad(entry)
    try:
        return entry.value.decode()
    except UnicodeDecodeError as error:
        raise _bad(entry) from error


def _bad(entry: OptionEntry) -> InvalidOptionValue:
    return InvalidOptionValue(f"{len(entry.value)} bytes of kind {entry.kind} are no valid value", entry.key)


@dataclass(frozen=True, slots=True)
class OptionKey:
    """One row of the catalogue; `kind` is the canonical kind of the value."""

    name: str
    kind: int
    default: Value
    parse: Callable[[OptionEntry], Value | None]
    description: str
    updatable: bool = False

    def entry(self, value: Value) -> OptionEntry:
        """The entry that carries `value` in the canonical kind of the key."""
        if self.name == COMPRESSION_ALGORITHM:
            assert isinstance(value, int)
            return OptionEntry(self.name, self.kind, _COMPRESSION_NAMES[value].encode())
        if isinstance(value, str):
            return OptionEntry(self.name, self.kind, value.encode())
        size = {KIND_BOOL: 1, KIND_UINT32: 4, KIND_UINT64: 8}[self.kind]
        return OptionEntry(self.name, self.kind, value.to_bytes(size, "little"))


CATALOGUE: Final[tuple[OptionKey, ...]] = (
    OptionKey(
        COMPRESSION_ALGORITHM,
        KIND_STRING,
        1,
        _parse_compression,
        "how messages are compressed: none or gzip",
        updatable=True,
    ),
    OptionKey(
        MESSAGE_EXPIRY,
        KIND_UINT64,
        UNLIMITED,
        _parse_expiry,
        "age at which messages expire, in microseconds or as a duration; the largest value means never",
        updatable=True,
    ),
    OptionKey(
        MAX_TOPIC_SIZE,
        KIND_UINT64,
        UNLIMITED,
        _parse_max_topic_size,
        "size at which the oldest segments go, in bytes or as a size; the largest value means unlimited",
        updatable=True,
    ),
    OptionKey(
        SEGMENT_SIZE,
        KIND_UINT64,
        SEGMENT_SIZE_DEFAULT,
        _parse_segment_size,
        "size of one segment, 1 MiB to 1 GiB, a multiple of 512 bytes",
    ),
    OptionKey(ENFORCE_FSYNC, KIND_BOOL, False, _parse_bool, "whether every write is forced to the disk"),
    OptionKey(
        MESSAGES_REQUIRED_TO_SAVE,
        KIND_UINT32,
        1024,
        _parse_messages_required,
        "number of held messages that are written out, 1 to 16777216",
    ),
    OptionKey(
        SIZE_OF_MESSAGES_REQUIRED_TO_SAVE,
        KIND_UINT64,
        1 << 20,
        _parse_size_required,
        "size of held messages that are written out, at most 1 GiB",
    ),
    OptionKey(
        PREALLOCATE_SEGMENTS, KIND_BOOL, False, _parse_bool, "whether the space of a segment is reserved up front"
    ),
    OptionKey(
        CONSUMER_OFFSET_DURABILITY,
        KIND_STRING,
        "replicated",
        _parse_durability,
        "when a consumer offset counts as stored: replicated or persisted",
    ),
    OptionKey(
        DURABILITY,
        KIND_STRING,
        "replicated",
        _parse_durability,
        "when a message counts as stored: replicated or persisted",
    ),
)
BY_NAME: Final[dict[str, OptionKey]] = {key.name: key for key in CATALOGUE}

DEFAULTS: Final = TopicOptions.from_values({key.name: key.default for key in CATALOGUE})
"""What an absent key means."""

assert [key.name for key in CATALOGUE] == [field.name for field in fields(TopicOptions)]


def parse_value(key: OptionKey, entry: OptionEntry) -> Value | None:
    """The value of an entry, None for the sentinel that means the default. Raises `InvalidOptionValue` (4042)."""
    try:
        return key.parse(entry)
    except InvalidOptionValue:
        raise
    except WireError as error:
        raise InvalidOptionValue(error.what, entry.key) from error
