"""What happens to the options of a topic: judged at admission, merged at apply, described on request.

Admission is strict (`admit_create`, `admit_update`): an unknown key is 4041, a bad value 4042. Apply is lenient
(`merge_create`, `merge_update`): what is in the log was judged once, by the primary that put it there, and must not be
judged again by a replica that knows other keys (state machine specification 9.3 to 9.6).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from levrier.wire.errors import InvalidOptionValue, InvalidTopicSize, TooManyPartitions, UnsupportedOption, WireError
from levrier.wire.options import OptionEntry, decode_block, decode_committed_block, encode_block
from levrier.wire.responses.system import OptionDescription
from levrier.wire.topic_option_catalogue import (
    BY_NAME,
    CATALOGUE,
    DEFAULTS,
    MAX_TOPIC_SIZE,
    PREALLOCATE_SEGMENTS,
    SEGMENT_SIZE_DEFAULT,
    UNLIMITED,
    TopicOptions,
    Value,
    parse_value,
)

__all__ = [
    "DEFAULTS",
    "PARTITIONS_PER_REQUEST_MAX",
    "PREALLOCATED_MAX",
    "SEGMENT_SIZE_DEFAULT",
    "UNLIMITED",
    "AdmittedOptions",
    "StoredOption",
    "TopicOptions",
    "admit_create",
    "admit_update",
    "check_partitions_count",
    "describe_topic_options",
    "encode_stored",
    "merge_block",
    "merge_create",
    "merge_update",
    "parse_leniently",
    "parse_strictly",
]

PREALLOCATED_MAX: Final = 64 << 30
PARTITIONS_PER_REQUEST_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedOptions:
    """The options of an admitted CreateTopic: what the client named, and the two blocks that go into the log.

    `explicit` is the client's block in canonical kinds without sentinel zeros; `derived` holds the default of every other
    key of the catalogue.
    """

    named: TopicOptions
    explicit: bytes
    derived: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOption:
    """An option of a topic as the state machine keeps it. `explicit` tells what a client named from a default."""

    key: str
    kind: int
    value: bytes
    explicit: bool

    def entry(self) -> OptionEntry:
        """The entry of an options block."""
        return OptionEntry(self.key, self.kind, self.value)


def parse_strictly(block: bytes, *, updating: bool = False) -> TopicOptions:
    """The typed view of a request's block.

    Raises `UnsupportedOption` (4041) for a key outside the catalogue, or one that cannot be changed when `updating`;
    `InvalidOptionValue` (4042) for a bad value; `WireError` for a malformed block.
    """
    values: dict[str, Value] = {}
    for entry in decode_block(block):
        key = BY_NAME.get(entry.key)
        if key is None or (updating and not key.updatable):
            raise UnsupportedOption("cannot be changed" if key else "no such option", entry.key)
        value = parse_value(key, entry)
        if value is not None:
            values[key.name] = value
    return TopicOptions.from_values(values)


def admit_create(block: bytes, *, partitions_count: int) -> AdmittedOptions:
    """Judge the block of a CreateTopic and derive what goes into the log.

    Beside the errors of `parse_strictly`: `InvalidOptionValue` (4042) when more than 64 GiB would be reserved up front,
    `TooManyPartitions` (2015) above 1000 partitions, `InvalidTopicSize` (1019) for a cap below one segment.
    """
    named = parse_strictly(block)
    segment_size = named.segment_size if named.segment_size is not None else SEGMENT_SIZE_DEFAULT
    if named.preallocate_segments and segment_size * partitions_count > PREALLOCATED_MAX:
        raise InvalidOptionValue(f"{partitions_count} segments of {segment_size} bytes", PREALLOCATE_SEGMENTS)
    check_partitions_count(partitions_count, minimum=0)
    if named.max_topic_size is not None and named.max_topic_size < segment_size:
        raise InvalidTopicSize(f"{named.max_topic_size} is below a segment of {segment_size}", MAX_TOPIC_SIZE)
    values = named.values()
    return AdmittedOptions(
        named=named,
        explicit=encode_block(BY_NAME[name].entry(value) for name, value in values.items()),
        derived=encode_block(key.entry(key.default) for key in CATALOGUE if key.name not in values),
    )


def check_partitions_count(count: int, *, minimum: int) -> None:
    """Raise `TooManyPartitions` (2015) unless a request asks for `minimum` to 1000 partitions (0 on CreateTopic)."""
    if not minimum <= count <= PARTITIONS_PER_REQUEST_MAX:
        raise TooManyPartitions(f"{count} is not {minimum} to {PARTITIONS_PER_REQUEST_MAX}", "partitions_count")


def admit_update(block: bytes, *, segment_size: int | None) -> TopicOptions:
    """Judge the block of an UpdateTopic; it goes into the log as sent.

    `segment_size` is the topic's stored one, None when unknown. Beside the errors of `parse_strictly`:
    `InvalidTopicSize` (1019) for a cap below one segment.
    """
    named = parse_strictly(block, updating=True)
    floor = SEGMENT_SIZE_DEFAULT if segment_size is None else segment_size
    if named.max_topic_size is not None and named.max_topic_size < floor:
        raise InvalidTopicSize(f"{named.max_topic_size} is below a segment of {floor}", MAX_TOPIC_SIZE)
    return named


def parse_leniently(entries: Iterable[OptionEntry]) -> TopicOptions:
    """The typed view of entries from the log: what this catalogue cannot read is left out."""
    values: dict[str, Value] = {}
    for entry in entries:
        key = BY_NAME.get(entry.key)
        if key is None:
            continue
        try:
            value = parse_value(key, entry)
        except WireError:
            continue
        if value is not None:
            values[key.name] = value
    return TopicOptions.from_values(values)


def merge_create(explicit: bytes, derived: bytes) -> tuple[TopicOptions, tuple[StoredOption, ...]]:
    """What a created topic has (9.4): the typed view, explicit over derived, and the stored map in key order.

    A stored value that the typed view resolved is kept in its canonical form, under its own provenance. Raises
    `InvalidOptionValue` (4042) for a value whose size does not fit its kind.
    """
    derived_entries, explicit_entries = decode_committed_block(derived), decode_committed_block(explicit)
    values = parse_leniently(derived_entries).values() | parse_leniently(explicit_entries).values()
    stored = {entry.key: StoredOption(key=entry.key, kind=entry.kind, value=entry.value, explicit=False)
              for entry in derived_entries}  # fmt: skip
    for entry in explicit_entries:
        stored[entry.key] = StoredOption(key=entry.key, kind=entry.kind, value=entry.value, explicit=True)
    for name, value in values.items():
        kept = stored[name]
        canonical = BY_NAME[name].entry(value)
        stored[name] = StoredOption(key=name, kind=canonical.kind, value=canonical.value, explicit=kept.explicit)
    return TopicOptions.from_values(values), _in_key_order(stored)


def merge_update(stored: Iterable[StoredOption], block: bytes) -> tuple[TopicOptions, tuple[StoredOption, ...]]:
    """What an update changes (6, UpdateTopic): the typed view of the block, and the stored map with it patched in.

    The bytes are stored as sent, as explicit, sentinel zeros included; a key that was not sent keeps its value. Raises
    `InvalidOptionValue` (4042) for a value whose size does not fit its kind.
    """
    return parse_leniently(decode_committed_block(block)), merge_block(stored, block)


def merge_block(stored: Iterable[StoredOption], block: bytes) -> tuple[StoredOption, ...]:
    """A stored map with a committed block patched in as explicit, for streams and users too, in key order."""
    patched = {option.key: option for option in stored}
    for entry in decode_committed_block(block):
        patched[entry.key] = StoredOption(key=entry.key, kind=entry.kind, value=entry.value, explicit=True)
    return _in_key_order(patched)


def encode_stored(options: Iterable[StoredOption], *, explicit: bool) -> bytes:
    """The block of the options of one provenance, as a response carries it."""
    return encode_block(option.entry() for option in options if option.explicit is explicit)


def describe_topic_options() -> tuple[OptionDescription, ...]:
    """The catalogue as DESCRIBE_OPTIONS shows it, in its order."""
    return tuple(
        OptionDescription(
            key=key.name, kind=key.kind, default=key.entry(key.default).value, description=key.description
        )
        for key in CATALOGUE
    )


def _in_key_order(stored: dict[str, StoredOption]) -> tuple[StoredOption, ...]:
    return tuple(option for _, option in sorted(stored.items(), key=lambda item: item[0].encode()))
