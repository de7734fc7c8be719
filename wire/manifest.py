"""The list of artifacts in an available StateTransferTarget (wire specification 4.14).

Magic, entry count (u32), entry length (u8), the entries, then XXH3 of everything before. Entries longer than known are
read as far as they are known; shorter ones are refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

from levrier.wire.checksums import xxh3
from levrier.wire.errors import ChecksumMismatch, Truncated, WireError

MAGIC: Final = b"ISM1"
ENTRIES_MAX: Final = 65536

_HEAD: Final = Struct("<4sIB")
_ENTRY: Final = Struct("<BQQQ")
_CHECKSUM_SIZE: Final = 8

assert _ENTRY.size == 25


class ArtifactKind(IntEnum):
    """What an artifact holds."""

    METADATA_SNAPSHOT = 0
    CLIENT_TABLE = 1
    SEGMENT_LOG = 2
    CONSUMER_OFFSETS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One entry: the kind, the op it stands at, its size in bytes, and the XXH3 of its bytes."""

    kind: int
    frontier: int
    size: int
    checksum: int


def encode_manifest(artifacts: Sequence[Artifact]) -> bytes:
    """The bytes of a manifest."""
    assert len(artifacts) <= ENTRIES_MAX
    head = _HEAD.pack(MAGIC, len(artifacts), _ENTRY.size)
    body = head + b"".join(_ENTRY.pack(item.kind, item.frontier, item.size, item.checksum) for item in artifacts)
    return body + xxh3(body).to_bytes(_CHECKSUM_SIZE, "little")


def decode_manifest(data: bytes) -> tuple[Artifact, ...]:
    """The artifacts of a manifest. Raises `WireError`; nothing is believed before the checksum holds."""
    if len(data) < _HEAD.size + _CHECKSUM_SIZE:
        raise Truncated(f"{len(data)} bytes", "manifest")
    body = data[:-_CHECKSUM_SIZE]
    if int.from_bytes(data[-_CHECKSUM_SIZE:], "little") != xxh3(body):
        raise ChecksumMismatch("the manifest does not match its checksum", "manifest")
    magic, count, entry_size = _HEAD.unpack_from(body)
    if magic != MAGIC:
        raise WireError(f"{magic!r} is not {MAGIC!r}", "manifest.magic")
    if entry_size < _ENTRY.size:
        raise WireError(f"entries of {entry_size} bytes are shorter than {_ENTRY.size}", "manifest.entry_size")
    if count > ENTRIES_MAX or len(body) != _HEAD.size + count * entry_size:
        raise WireError(f"{count} entries of {entry_size} bytes in {len(body)}", "manifest.count")
    artifacts = []
    for index in range(count):
        kind, frontier, size, checksum = _ENTRY.unpack_from(body, _HEAD.size + index * entry_size)
        if kind > ArtifactKind.CONSUMER_OFFSETS:
            raise WireError(f"{kind} is not a kind of artifact", f"manifest[{index}]")
        artifacts.append(Artifact(kind=kind, frontier=frontier, size=size, checksum=checksum))
    return tuple(artifacts)
