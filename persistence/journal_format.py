"""The bytes of the log file (D-24): the file header, the record header, and the sizes that belong together.

File, little-endian: one block of 4096 bytes, records back to back, zeros to the end of the preallocated file.

File header: u64 magic, u32 version, u32 zero, u64 group, u64 epoch, zeros, and in the last 8 bytes the XXH3 of the rest.
The epoch is random at each creation and rewrite, so that bytes of an earlier file at the same place on the disk, or bytes
that a client put into a request, never count as records.

Record header, 40 bytes: u32 magic, u8 kind, 3 zero bytes, u32 length of the prepare, u32 check, u64 epoch, u64
durable_offset, u64 XXH3 of the 32 bytes before. `durable_offset` says that everything before it in the file was synced
when this header was written. `check` is the low half of the XXH3 of the whole prepare as stored: the prepare's own
checksums leave out its view, and unsealed ones leave out everything. Then the prepare verbatim, zeros to a multiple of 8.
A durable mark is a record header alone, with length and check zero.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import Final

from xxhash import xxh3_64_intdigest

from levrier.persistence.errors import ForeignJournal, JournalDamaged, UnsupportedVersion

FILE_MAGIC: Final = 0x4C414E524A56454C
FORMAT_VERSION: Final = 1
FILE_HEADER_SIZE: Final = 4096

RECORD_MAGIC: Final = 0x4452564C
RECORD_MAGIC_BYTES: Final = RECORD_MAGIC.to_bytes(4, "little")
RECORD_HEADER_SIZE: Final = 40
HASHED_SIZE: Final = 32
ALIGNMENT: Final = 8
KIND_PREPARE: Final = 1
KIND_DURABLE_MARK: Final = 2

PREPARE_HEADER_SIZE: Final = 256
ENTRY_SIZE_MAX: Final = 64 * 1024 * 1024
BATCH_SIZE_MAX: Final = ENTRY_SIZE_MAX + 4096
"""What one write and one sync carry at most, in bytes, and so the longest tail that a crash can tear."""

EPOCH_MAX: Final = (1 << 64) - 1
CHECK_MASK: Final = 0xFFFF_FFFF

RECORD: Final = Struct("<IB3xIIQQQ")
RECORD_HASHED: Final = Struct("<IB3xIIQQ")
_FILE_HEADER = Struct("<QIIQQ")
_HASH = Struct("<Q")
_HASH_OFFSET = FILE_HEADER_SIZE - _HASH.size

assert RECORD.size == RECORD_HEADER_SIZE
assert RECORD_HASHED.size == HASHED_SIZE
assert FILE_HEADER_SIZE % ALIGNMENT == RECORD_HEADER_SIZE % ALIGNMENT == 0
assert RECORD_HEADER_SIZE + ENTRY_SIZE_MAX + ALIGNMENT <= BATCH_SIZE_MAX

_PADDING = tuple(bytes(-size % ALIGNMENT) for size in range(ALIGNMENT))


def record_size(length: int) -> int:
    """Bytes that a record with a prepare of `length` bytes takes in the file."""
    return (RECORD_HEADER_SIZE + length + ALIGNMENT - 1) & -ALIGNMENT


def padding(length: int) -> bytes:
    """The zeros behind a prepare of `length` bytes."""
    return _PADDING[length % ALIGNMENT]


def encode_file_header(*, group: int, epoch: int) -> bytes:
    """The first block of a log."""
    assert 0 < epoch <= EPOCH_MAX
    block = _FILE_HEADER.pack(FILE_MAGIC, FORMAT_VERSION, 0, group, epoch).ljust(_HASH_OFFSET, b"\0")
    return block + _HASH.pack(xxh3_64_intdigest(block))


def decode_file_header(block: bytes, *, group: int, file: Path) -> int:
    """The epoch of a log. `JournalDamaged`, `UnsupportedVersion` or `ForeignJournal` for a block that is not ours."""
    if len(block) < FILE_HEADER_SIZE:
        raise JournalDamaged(file=file, offset=0, op=None, reason=f"{len(block)} bytes are too short for a log")
    (checksum,) = _HASH.unpack_from(block, _HASH_OFFSET)
    if checksum != xxh3_64_intdigest(block[:_HASH_OFFSET]):
        raise JournalDamaged(file=file, offset=0, op=None, reason="the file header does not match its checksum")
    magic, version, _, found, epoch = _FILE_HEADER.unpack_from(block)
    if magic != FILE_MAGIC:
        raise JournalDamaged(file=file, offset=0, op=None, reason="it does not start like a log")
    if version != FORMAT_VERSION:
        raise UnsupportedVersion(file=file, found=version, expected=FORMAT_VERSION)
    if found != group:
        raise ForeignJournal(file=file, found=found, expected=group)
    assert isinstance(epoch, int)
    return epoch


def encode_record_header(*, kind: int, length: int, check: int, epoch: int, durable_offset: int) -> bytes:
    """The 40 bytes in front of a prepare, or a whole durable mark."""
    hashed = RECORD_HASHED.pack(RECORD_MAGIC, kind, length, check, epoch, durable_offset)
    return hashed + _HASH.pack(xxh3_64_intdigest(hashed))


def encode_durable_mark(*, epoch: int, durable_offset: int) -> bytes:
    """A record that says only that everything before `durable_offset` is durable."""
    return encode_record_header(kind=KIND_DURABLE_MARK, length=0, check=0, epoch=epoch, durable_offset=durable_offset)
