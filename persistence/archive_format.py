"""The bytes of an archive segment: consecutive entries that left the log, sealed, never changed (acknowledgements 5).

File, little-endian: the prepares verbatim, back to back; then the footer; then u32 length of the footer and the trailer of a
snapshot (magic, XXH3 of the footer). A segment gets its name once all of it is durable, so one that has a name is whole.

Footer: one msgpack array of eight, positional.

    0  version         uint, 1
    1  group           uint
    2  first_op        uint
    3  last_op         uint
    4  first_parent    bin 16: what the first entry names as its parent
    5  last_checksum   bin 16: the identity of the last entry
    6  origins         array of [origin uint, op uint]: the last op of each origin, ascending by origin
    7  index           bin, 16 bytes for each entry: u64 offset, u64 XXH3 of the prepare as it stands here

The checks of the index cover the view too, which the prepare's own checksums leave out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

import msgpack

from levrier.persistence.errors import ArchiveDamaged, UnsupportedVersion
from levrier.persistence.snapshot import TRAILER_SIZE, decode_u128, encode_u128, read_sealed, trailer
from levrier.persistence.storage import File
from levrier.wire.acknowledgement import Frontier
from levrier.wire.checksums import xxh3

FORMAT_VERSION: Final = 1
SUFFIX: Final = ".segment"
ENTRIES_MAX: Final = 1 << 20
INDEX: Final = Struct("<QQ")

_LENGTH = Struct("<I")
_TAIL_SIZE = _LENGTH.size + TRAILER_SIZE
_FOOTER_SIZE_MAX: Final = ENTRIES_MAX * INDEX.size + 8 * 1024
_FIELD_COUNT: Final = 8
_NAME_DIGITS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """What the footer of a segment says. `size` is that of the file in bytes, `end` where the last prepare ends."""

    path: Path
    size: int
    end: int
    first_op: int
    last_op: int
    first_parent: int
    last_checksum: int
    origins: Frontier

    @property
    def count(self) -> int:
        """How many entries it holds."""
        return self.last_op - self.first_op + 1


def segment_name(first_op: int) -> str:
    """The name of the segment that begins with this op; names sort like ops."""
    return f"{first_op:0{_NAME_DIGITS}}{SUFFIX}"


def is_segment_name(name: str) -> bool:
    """Whether a file of that name is a segment."""
    digits = name.removesuffix(SUFFIX)
    return name.endswith(SUFFIX) and len(digits) == _NAME_DIGITS and digits.isdecimal()


def encode_footer(
    *, group: int, first_op: int, last_op: int, first_parent: int, last_checksum: int, origins: Frontier, index: bytes
) -> bytes:
    """Everything behind the last prepare."""
    assert len(index) == (last_op - first_op + 1) * INDEX.size
    footer: bytes = msgpack.packb(
        [
            FORMAT_VERSION,
            group,
            first_op,
            last_op,
            encode_u128(first_parent),
            encode_u128(last_checksum),
            origins.positions,
            index,
        ]
    )
    assert len(footer) <= _FOOTER_SIZE_MAX
    return footer + _LENGTH.pack(len(footer)) + trailer(xxh3(footer))


def read_footer(file: File, path: Path, *, group: int) -> tuple[Segment, bytes]:
    """The segment and its index. `ArchiveDamaged` or `UnsupportedVersion` for a file that is none of this group."""
    size = file.size()
    if size <= _TAIL_SIZE:
        raise ArchiveDamaged(file=path, reason=f"{size} bytes are too short")
    tail = file.read(size - _TAIL_SIZE, _TAIL_SIZE)
    (length,) = _LENGTH.unpack_from(tail)
    at = size - _TAIL_SIZE - length
    if at < 0 or length > _FOOTER_SIZE_MAX:
        raise ArchiveDamaged(file=path, reason=f"a footer of {length} bytes in a file of {size}")
    footer = read_sealed(file.read(at, length) + tail[_LENGTH.size :])
    if isinstance(footer, str):
        raise ArchiveDamaged(file=path, reason=footer)
    try:
        values = msgpack.unpackb(footer, use_list=False)
    except (ValueError, msgpack.UnpackException) as error:
        raise ArchiveDamaged(file=path, reason=f"no msgpack: {error}") from error
    return _segment(values, path, size=size, end=at, group=group)


def _segment(values: object, path: Path, *, size: int, end: int, group: int) -> tuple[Segment, bytes]:
    if not isinstance(values, tuple) or not values:
        raise ArchiveDamaged(file=path, reason="the footer is no array")
    if values[0] != FORMAT_VERSION:
        found = values[0] if isinstance(values[0], int) else 0
        raise UnsupportedVersion(file=path, found=found, expected=FORMAT_VERSION)
    match values:
        case (_, int(found), int(first), int(last), bytes(parent), bytes(checksum), tuple(origins), bytes(index)):
            pass
        case _:
            raise ArchiveDamaged(file=path, reason=f"the footer is no array of {_FIELD_COUNT}")
    if found != group:
        raise ArchiveDamaged(file=path, reason=f"it belongs to group {found}, not {group}")
    if not 0 < first <= last or len(index) != (last - first + 1) * INDEX.size:
        raise ArchiveDamaged(file=path, reason=f"ops {first} to {last} with an index of {len(index)} bytes")
    try:
        segment = Segment(
            path=path,
            size=size,
            end=end,
            first_op=first,
            last_op=last,
            first_parent=decode_u128(parent),
            last_checksum=decode_u128(checksum),
            origins=Frontier.of(dict(origins)),
        )
    except (ValueError, TypeError) as error:
        raise ArchiveDamaged(file=path, reason=str(error)) from error
    return segment, index
