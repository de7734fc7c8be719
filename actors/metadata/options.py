"""Stored options of streams, topics and users, shared between all that have equal ones (state-machine 9.4, 9.5).

A catalogue of a million topics holds a handful of distinct option maps, so they are interned: a create whose two blocks were
seen before costs one lookup, and equal maps are one object. Interning never shows in any byte.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgpack
from xxhash import xxh3_64_intdigest

from levrier.wire.options import OptionEntry
from levrier.wire.topic_option_catalogue import SEGMENT_SIZE, SEGMENT_SIZE_DEFAULT
from levrier.wire.topic_options import (
    StoredOption,
    encode_stored,
    merge_block,
    merge_create,
    merge_update,
    parse_leniently,
)

OptionFields = tuple[str, int, bytes, bool]
"""Key, kind of the value, value, whether the client named it: one option as a snapshot holds it."""

_INTERNED_MAX: Final = 4096
_COMPRESSION_NONE: Final = 1


class OptionMap:
    """An immutable map of options in key order, with the two blocks that show it in responses.

    `explicit_block` holds what clients named, `derived_block` the defaults that were resolved at admission.
    """

    __slots__ = ("derived_block", "explicit_block", "fields", "hash", "stored")

    def __init__(self, stored: tuple[StoredOption, ...]) -> None:
        """Raise `WireError` for options that no block can carry."""
        self.stored = stored
        self.fields: tuple[OptionFields, ...] = tuple(
            (option.key, option.kind, option.value, option.explicit) for option in stored
        )
        self.hash: int = xxh3_64_intdigest(msgpack.packb(self.fields))
        """Of the content, for the digest of what holds these options."""
        self.explicit_block = encode_stored(stored, explicit=True)
        self.derived_block = encode_stored(stored, explicit=False)

    @property
    def segment_size(self) -> int:
        """The segment size of a topic in bytes; the default where none is stored that can be read."""
        found = parse_leniently(
            OptionEntry(option.key, option.kind, option.value) for option in self.stored if option.key == SEGMENT_SIZE
        ).segment_size
        return SEGMENT_SIZE_DEFAULT if found is None else found


NO_OPTIONS: Final = OptionMap(())


class CreatedOptions(NamedTuple):
    """What a created topic has: its stored map and the typed values, 0 meaning the default of the server."""

    stored: OptionMap
    message_expiry: int
    compression: int
    max_topic_size: int


class PatchedOptions(NamedTuple):
    """What an update of a topic leaves: the stored map, and the typed values that the block named (None: unchanged)."""

    stored: OptionMap
    message_expiry: int | None
    compression: int | None
    max_topic_size: int | None


class OptionPool:
    """Makes option maps. What it remembers is bounded and only saves time and memory."""

    __slots__ = ("_created", "_maps")

    def __init__(self) -> None:
        self._maps: dict[tuple[OptionFields, ...], OptionMap] = {(): NO_OPTIONS}
        self._created: dict[tuple[bytes, bytes], CreatedOptions] = {}

    def of(self, fields: Iterable[OptionFields]) -> OptionMap:
        """The map of these options, in key order. Raises `WireError` for options that no block can carry."""
        key = tuple(fields)
        found = self._maps.get(key)
        if found is None:
            found = self._remember(
                OptionMap(
                    tuple(
                        StoredOption(key=name, kind=kind, value=value, explicit=explicit)
                        for name, kind, value, explicit in key
                    )
                )
            )
        return found

    def patch(self, options: OptionMap, block: bytes) -> OptionMap:
        """These options with a committed block laid over them, as explicit. Raises `WireError` (4042)."""
        return self._interned(merge_block(options.stored, block))

    def patch_of_topic(self, options: OptionMap, block: bytes) -> PatchedOptions:
        """The same for a topic, with the typed values that the block names. Raises `WireError` (4042)."""
        named, stored = merge_update(options.stored, block)
        return PatchedOptions(
            self._interned(stored), named.message_expiry, named.compression_algorithm, named.max_topic_size
        )

    def merge(self, explicit: bytes, derived: bytes) -> CreatedOptions:
        """The options of a new topic from the two blocks in the log. Raises `WireError` (4042)."""
        key = (explicit, derived)
        created = self._created.get(key)
        if created is None:
            typed, stored = merge_create(explicit, derived)
            created = CreatedOptions(
                self._interned(stored),
                typed.message_expiry or 0,
                typed.compression_algorithm or _COMPRESSION_NONE,
                typed.max_topic_size or 0,
            )
            if len(self._created) >= _INTERNED_MAX:
                self._created.clear()
            self._created[key] = created
        return created

    def _interned(self, stored: tuple[StoredOption, ...]) -> OptionMap:
        made = OptionMap(stored)
        return self._maps.get(made.fields) or self._remember(made)

    def _remember(self, made: OptionMap) -> OptionMap:
        if len(self._maps) >= _INTERNED_MAX:
            self._maps.clear()
            self._maps[()] = NO_OPTIONS
        self._maps[made.fields] = made
        return made
