"""Options blocks: a sequence of typed key-value entries (requests specification 1.5, state machine specification 9).

Two ways to read one. Strictly (`decode_block`), for a request: any structural fault is refused; kinds above the known
ones are passed on. Leniently (`decode_committed_block`), for a block that is already in the log and that every replica,
older ones included, must judge alike: entries of an unknown kind are dropped, a value whose size does not fit its kind
fails the whole block (9.5). What a key means is the business of `levrier.wire.topic_options`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from levrier.wire.errors import InvalidOptionValue, OptionsBlockTooLarge, UnsupportedOption, WireError
from levrier.wire.names import decode_text, encode_text
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer

KIND_RAW: Final = 1
KIND_STRING: Final = 2
KIND_BOOL: Final = 3
KIND_UINT8: Final = 9
KIND_UINT32: Final = 11
KIND_UINT64: Final = 12
KIND_KNOWN_MAX: Final = 15

OPTION_ENTRIES_MAX: Final = 1024
OPTIONS_BLOCK_SIZE_MAX: Final = 100_000
OPTION_SIZE_MAX: Final = 255

_FIXED_SIZES: Final[dict[int, int]] = {
    3: 1,
    4: 1,
    5: 2,
    6: 4,
    7: 8,
    8: 16,
    9: 1,
    10: 2,
    11: 4,
    12: 8,
    13: 16,
    14: 4,
    15: 8,
}


@dataclass(frozen=True, slots=True)
class OptionEntry:
    """One entry: the key, the kind of the value (1 to 15 known, above passed on), and the value's bytes."""

    key: str
    kind: int
    value: bytes


def decode_block(data: bytes) -> tuple[OptionEntry, ...]:
    """The entries of a block in the order they were sent.

    Raises `WireError` for a structural fault: a length out of 1..=255, a key that is no UTF-8 string or comes twice, kind
    0. `OptionsBlockTooLarge` (4043) is raised above 1024 entries or 100 000 bytes.
    """
    if not data:
        return ()
    if len(data) > OPTIONS_BLOCK_SIZE_MAX:
        raise OptionsBlockTooLarge(f"{len(data)} bytes", "options")
    reader = Reader(data, "options")
    entries: dict[str, OptionEntry] = {}
    while reader.remaining:
        if len(entries) == OPTION_ENTRIES_MAX:
            raise OptionsBlockTooLarge(f"more than {OPTION_ENTRIES_MAX} entries", "options")
        entry = _read_entry(reader)
        if entry.key in entries:
            raise WireError(f"{entry.key!r} comes twice", "options.key")
        entries[entry.key] = entry
    return tuple(entries.values())


def decode_committed_block(data: bytes) -> tuple[OptionEntry, ...]:
    """The entries of a block from the log, without those of an unknown kind.

    Raises `InvalidOptionValue` (4042) when a value's size does not fit its kind, and `WireError` for a structural fault.
    """
    entries = []
    for entry in decode_block(data):
        size = _FIXED_SIZES.get(entry.kind)
        if size is not None and len(entry.value) != size:
            raise InvalidOptionValue(f"{len(entry.value)} bytes of kind {entry.kind}", entry.key)
        if entry.kind <= KIND_KNOWN_MAX:
            entries.append(entry)
    return tuple(entries)


def encode_block(entries: Iterable[OptionEntry]) -> bytes:
    """The block of these entries, in ascending byte order of their keys. Raises `WireError` for what does not fit."""
    encoded: dict[bytes, OptionEntry] = {}
    for entry in entries:
        key = encode_text(entry.key, "options.key")
        if key in encoded:
            raise WireError(f"{entry.key!r} comes twice", "options.key")
        encoded[key] = entry
    if len(encoded) > OPTION_ENTRIES_MAX:
        raise OptionsBlockTooLarge(f"{len(encoded)} entries", "options")
    writer = Writer("options")
    for key, entry in sorted(encoded.items()):
        writer.u8(KIND_STRING, "key_kind")
        _write_sized(writer, key, "key")
        if entry.kind == 0:
            raise WireError("0 is not a kind", "options.value_kind")
        writer.u8(entry.kind, "value_kind")
        _write_sized(writer, entry.value, "value")
    block = writer.finish()
    if len(block) > OPTIONS_BLOCK_SIZE_MAX:
        raise OptionsBlockTooLarge(f"{len(block)} bytes", "options")
    return block


def read_options(reader: Reader) -> bytes:
    """The options at the end of a request: the rest of the body, checked for structure and kept as sent."""
    block = reader.rest()
    if block:
        decode_block(block)
    return block


def refuse_options(block: bytes) -> None:
    """Raise `UnsupportedOption` (4041) if the block names any key: streams and users have none."""
    for entry in decode_block(block):
        raise UnsupportedOption("no such option", entry.key)


def _read_entry(reader: Reader) -> OptionEntry:
    key_kind = reader.u8("key_kind")
    if key_kind != KIND_STRING:
        raise WireError(f"a key of kind {key_kind}", "options.key_kind")
    key = decode_text(_read_sized(reader, "key"), "options.key")
    kind = reader.u8("value_kind")
    if kind == 0:
        raise WireError("0 is not a kind", "options.value_kind")
    return OptionEntry(key, kind, _read_sized(reader, "value"))


def _read_sized(reader: Reader, field: str) -> bytes:
    size = reader.u32(field)
    if not 1 <= size <= OPTION_SIZE_MAX:
        raise WireError(f"{size} bytes are not 1 to {OPTION_SIZE_MAX}", reader.where(field))
    return reader.take(size, field)


def _write_sized(writer: Writer, data: bytes, field: str) -> None:
    if not 1 <= len(data) <= OPTION_SIZE_MAX:
        raise WireError(f"{len(data)} bytes are not 1 to {OPTION_SIZE_MAX}", writer.where(field))
    writer.block(data, field)
