"""The state snapshot: one msgpack payload and a trailer, replaced as a whole (persistence section 4, D-22, D-35).

Persistence knows bytes, not state: whoever captured the state hands over encoded msgpack, in slices of any length, so that
no single encode holds the interpreter. This module owns the frame around it.

File: payload, then 20 bytes: u32 magic 0x49534E50 ("ISNP"), u128 XXH3-64 of the payload bytes, little-endian. A file
without that trailer is refused: there is no older format to be lenient for.

Payload, format version 1: one msgpack array of 13, positional.

    0  version                     uint, 1. Peeked before anything else is decoded
    1  created_at                  uint, microseconds: the timestamp of the op below (never a clock)
    2  sequence                    uint, the op whose effects are the last ones included
    3  users                       section, nil if absent
    4  streams                     section, nil if absent
    5  client_table                section, nil if absent
    6  writer_release              uint, packed protocol version; provenance only
    7  consensus_group_high_water  uint, highest consensus-group id ever handed out (D-07)
    8  next_user_id                uint (D-02)
    9  acknowledgement_frontier    array of [origin uint, op uint], ascending by origin
    10 acknowledgement_high_water  array of [origin uint, identity uint], ascending by origin
    11 table_frontier              uint, last op whose effects the client table includes
    12 birth_id                    bin 16, u128 little-endian, 0 before birth. Phase and voter are each member's own and
                                   live in its superblock only, so equal states have equal bytes on every member

A section is exactly one msgpack value; its inner layout belongs to the state that it describes. 128-bit integers are
16-byte little-endian bins everywhere (`encode_u128`). Any change of shape, at any depth, is a new version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgpack
import xxhash

from levrier.persistence.data_dir import GroupPaths, temporary
from levrier.persistence.errors import (
    SnapshotDamaged,
    SnapshotNotWritten,
    SnapshotSuperseded,
    StorageError,
    UnsupportedVersion,
)
from levrier.persistence.storage import File, Storage

FORMAT_VERSION: Final = 1
TRAILER_MAGIC: Final = 0x49534E50
TRAILER_SIZE: Final = 20
FIELD_COUNT: Final = 13
ABSENT_SECTION: Final = b"\xc0"

_MAGIC_BYTES = TRAILER_MAGIC.to_bytes(4, "little")
_WRITE_SIZE = 256 * 1024
SYNC_SIZE: Final = 1024 * 1024
"""Bytes after which what was written is synced. Hundreds of dirty mebibytes at the end would keep the disk from the log."""
_U64_MAX = (1 << 64) - 1
_SECTION_FIRST = 3
_RELEASE = 6

assert FIELD_COUNT < 16, "the first byte stays a short array header (S-094)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFields:
    """Everything of a snapshot that is not a section. See the module docstring for each meaning."""

    sequence: int
    created_at: int
    writer_release: int
    consensus_group_high_water: int = 0
    next_user_id: int = 0
    acknowledgement_frontier: tuple[tuple[int, int], ...] = ()
    acknowledgement_high_water: tuple[tuple[int, int], ...] = ()
    table_frontier: int = 0
    birth_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A decoded snapshot. A section is the raw decoded msgpack (tuples for arrays, dict for maps), None if absent.

    `checksum` is the XXH3 of the payload bytes as they lie on disk; `size` is the length of the payload in bytes.
    """

    fields: SnapshotFields
    users: object
    streams: object
    client_table: object
    checksum: int
    size: int

    @property
    def op(self) -> int:
        """The op whose effects are the last ones included."""
        return self.fields.sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInfo:
    """What was written: the op, the XXH3 of the payload bytes, and their length without the trailer."""

    op: int
    checksum: int
    size: int


def encode_u128(value: int) -> bytes:
    """A 128-bit integer for msgpack: 16 bytes, little-endian, to be packed as bin (D-35)."""
    return value.to_bytes(16, "little")


def decode_u128(value: object) -> int:
    """The inverse of `encode_u128`; ValueError for anything else than 16 bytes."""
    if not isinstance(value, bytes) or len(value) != 16:
        raise ValueError("a 128-bit integer is a bin of 16 bytes")
    return int.from_bytes(value, "little")


def trailer(checksum: int) -> bytes:
    """The 20 bytes behind a payload whose XXH3 is `checksum`."""
    return _MAGIC_BYTES + checksum.to_bytes(16, "little")


def encode_prefix(fields: SnapshotFields) -> bytes:
    """The payload up to the first section."""
    packer = msgpack.Packer()
    return b"".join(
        (
            packer.pack_array_header(FIELD_COUNT),
            packer.pack(FORMAT_VERSION),
            packer.pack(fields.created_at),
            packer.pack(fields.sequence),
        )
    )


def encode_suffix(fields: SnapshotFields) -> bytes:
    """The payload behind the last section."""
    packer = msgpack.Packer()
    assert list(fields.acknowledgement_frontier) == sorted(fields.acknowledgement_frontier)
    assert list(fields.acknowledgement_high_water) == sorted(fields.acknowledgement_high_water)
    return b"".join(
        (
            packer.pack(fields.writer_release),
            packer.pack(fields.consensus_group_high_water),
            packer.pack(fields.next_user_id),
            packer.pack(fields.acknowledgement_frontier),
            packer.pack(fields.acknowledgement_high_water),
            packer.pack(fields.table_frontier),
            packer.pack(encode_u128(fields.birth_id)),
        )
    )


def encode_payload(
    fields: SnapshotFields,
    *,
    users: bytes = ABSENT_SECTION,
    streams: bytes = ABSENT_SECTION,
    client_table: bytes = ABSENT_SECTION,
) -> bytes:
    """A whole payload at once, from encoded sections."""
    return b"".join((encode_prefix(fields), users, streams, client_table, encode_suffix(fields)))


class SnapshotWriter:
    """Writes one snapshot at a time beside the present one and renames it over it.

    `begin(fields)`, then `write` the three sections in order, in slices of any length, then `finish`. A snapshot that was
    received goes through `begin_received(op)` with its payload verbatim. `abort` gives up; what was there stays.
    """

    def __init__(self, storage: Storage, directory: Path) -> None:
        self._storage = storage
        self._directory = directory
        self._path = GroupPaths(directory).snapshot
        self._scratch = temporary(self._path)
        self._file: File | None = None
        self._fields: SnapshotFields | None = None
        self._op = 0
        self._size = 0
        self._unsynced_size = 0
        self._hash = xxhash.xxh3_64()
        self._pending = bytearray()

    @property
    def writing(self) -> bool:
        """Whether a snapshot was begun and neither finished nor aborted."""
        return self._file is not None

    @property
    def size(self) -> int:
        """Payload bytes so far."""
        return self._size + len(self._pending)

    def begin(self, fields: SnapshotFields) -> None:
        """Start a snapshot of our own. Raises `SnapshotNotWritten` (stage create)."""
        self._start(fields.sequence)
        self._fields = fields
        self._pending += encode_prefix(fields)

    def begin_received(self, op: int) -> None:
        """Start a snapshot whose payload, at `op`, comes from a peer and is stored as it is."""
        self._start(op)

    def write(self, chunk: bytes) -> None:
        """Append encoded bytes. Raises `SnapshotNotWritten` (stage write or sync); the snapshot is given up then."""
        file = self._file
        assert file is not None, "write before begin"
        self._pending += chunk
        if len(self._pending) >= _WRITE_SIZE:
            self._guarded("write", self._flush)
            if self._unsynced_size >= SYNC_SIZE:
                self._guarded("sync", file.datasync)
                self._unsynced_size = 0

    def finish(self, may_replace: Callable[[], bool] | None = None) -> SnapshotInfo:
        """Make it the snapshot of this directory, durably.

        `may_replace` is asked right before the rename (D-26); if it says no: `SnapshotSuperseded`. Any failure raises
        `SnapshotNotWritten` with its stage and gives the snapshot up.
        """
        file = self._file
        assert file is not None, "finish before begin"
        if self._fields is not None:
            self._pending += encode_suffix(self._fields)
        self._guarded("write", self._flush)
        info = SnapshotInfo(op=self._op, checksum=self._hash.intdigest(), size=self._size)
        self._guarded("write", lambda: file.write(info.size, trailer(info.checksum)))
        self._guarded("sync", file.sync)
        if may_replace is not None and not may_replace():
            self.abort()
            raise SnapshotSuperseded(file=self._path, op=info.op)
        self._guarded("rename", lambda: self._storage.replace(self._scratch, self._path))
        self._close()
        try:
            self._storage.sync_directory(self._directory)
        except StorageError as error:
            raise SnapshotNotWritten(file=self._path, stage="sync-directory", cause=error) from error
        return info

    def abort(self) -> None:
        """Give up what was begun; nothing happens if nothing was."""
        if self._file is None:
            return
        self._close()
        try:
            self._storage.remove(self._scratch)
        except StorageError:
            return  # A stale temporary file is never read and overwritten by the next attempt.

    def _start(self, op: int) -> None:
        assert self._file is None, "one snapshot at a time"
        self._op = op
        self._size = 0
        self._unsynced_size = 0
        self._hash = xxhash.xxh3_64()
        self._pending = bytearray()
        self._fields = None
        try:
            self._file = self._storage.open(self._scratch, create=True)
            self._file.truncate(0)
        except StorageError as error:
            self.abort()
            raise SnapshotNotWritten(file=self._path, stage="create", cause=error) from error

    def _flush(self) -> None:
        assert self._file is not None
        data, self._pending = self._pending, bytearray()
        self._hash.update(data)
        self._file.write(self._size, data)
        self._size += len(data)
        self._unsynced_size += len(data)

    def _guarded(self, stage: str, call: Callable[[], None]) -> None:
        try:
            call()
        except StorageError as error:
            self.abort()
            raise SnapshotNotWritten(file=self._path, stage=stage, cause=error) from error

    def _close(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None


def write_snapshot(
    storage: Storage,
    directory: Path,
    fields: SnapshotFields,
    sections: Iterable[bytes],
    may_replace: Callable[[], bool] | None = None,
) -> SnapshotInfo:
    """`SnapshotWriter` in one call; `sections` are the slices of users, streams and client table, in that order."""
    writer = SnapshotWriter(storage, directory)
    writer.begin(fields)
    try:
        for chunk in sections:
            writer.write(chunk)
    except BaseException:
        writer.abort()
        raise
    return writer.finish(may_replace)


def peek_version(payload: bytes | memoryview) -> int | None:
    """The format version, or None if the payload does not begin as an array with an unsigned integer."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(payload[:16])
    try:
        if unpacker.read_array_header() == 0:
            return None
        version = unpacker.unpack()
    except (msgpack.UnpackException, ValueError):
        return None
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        return None
    return version


def read_payload(storage: Storage, path: Path) -> bytes | None:
    """The payload with its trailer verified and taken off, None without a file. `SnapshotDamaged` if it is wrong."""
    if not storage.exists(path):
        return None
    payload = read_sealed(storage.read_all(path))
    if isinstance(payload, str):
        raise SnapshotDamaged(file=path, reason=payload)
    return payload


def read_sealed(content: bytes) -> bytes | str:
    """The payload of a file that ends in the trailer; in words, what is wrong with it."""
    at = len(content) - TRAILER_SIZE
    if at <= 0 or content[at : at + 4] != _MAGIC_BYTES:
        return f"no trailer at the end of its {len(content)} bytes"
    payload = content[:at]
    expected = int.from_bytes(content[at + 4 :], "little")
    found = xxhash.xxh3_64_intdigest(payload)
    if found != expected:
        return f"checksum {found:#x} over {at} bytes, the trailer says {expected:#x}"
    return payload


def decode_payload(payload: bytes, *, path: Path | str = "snapshot") -> Snapshot:
    """Decode a payload. The version is judged first: `UnsupportedVersion`; anything else wrong is `SnapshotDamaged`."""
    version = peek_version(payload)
    if version is None:
        raise SnapshotDamaged(file=path, reason="it carries no format version")
    if version != FORMAT_VERSION:
        raise UnsupportedVersion(file=path, found=version, expected=FORMAT_VERSION)
    try:
        values = msgpack.unpackb(payload, use_list=False, strict_map_key=False)
    except (msgpack.UnpackException, ValueError, TypeError) as error:
        raise SnapshotDamaged(file=path, reason=f"not the msgpack of a snapshot ({error})") from error
    if len(values) != FIELD_COUNT:
        raise SnapshotDamaged(file=path, reason=f"{len(values)} fields, expected {FIELD_COUNT}")
    try:
        fields = _decode_fields(values)
    except ValueError as error:
        raise SnapshotDamaged(file=path, reason=str(error)) from error
    users, streams, client_table = values[_SECTION_FIRST:_RELEASE]
    return Snapshot(
        fields=fields,
        users=users,
        streams=streams,
        client_table=client_table,
        checksum=xxhash.xxh3_64_intdigest(payload),
        size=len(payload),
    )


def read_snapshot(storage: Storage, path: Path) -> Snapshot | None:
    """Read, verify and decode the snapshot file; None if there is none. Trailer, then version, then the rest."""
    payload = read_payload(storage, path)
    return None if payload is None else decode_payload(payload, path=path)


def _decode_fields(values: tuple[object, ...]) -> SnapshotFields:
    return SnapshotFields(
        created_at=_unsigned(values[1], "created_at"),
        sequence=_unsigned(values[2], "sequence"),
        writer_release=_unsigned(values[_RELEASE], "writer_release"),
        consensus_group_high_water=_unsigned(values[7], "consensus_group_high_water"),
        next_user_id=_unsigned(values[8], "next_user_id"),
        acknowledgement_frontier=_pairs(values[9], "acknowledgement_frontier"),
        acknowledgement_high_water=_pairs(values[10], "acknowledgement_high_water"),
        table_frontier=_unsigned(values[11], "table_frontier"),
        birth_id=decode_u128(values[12]),
    )


def _unsigned(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _U64_MAX:
        raise ValueError(f"{name} is not an unsigned integer")
    return value


def _pairs(value: object, name: str) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, tuple):
        raise ValueError(f"{name} is not an array")  # noqa: TRY004 - one type for bytes that make no sense.
    pairs = []
    for pair in value:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"{name} is not an array of pairs")
        pairs.append((_unsigned(pair[0], name), _unsigned(pair[1], name)))
    if pairs != sorted(pairs):
        raise ValueError(f"{name} is out of order")
    return tuple(pairs)
