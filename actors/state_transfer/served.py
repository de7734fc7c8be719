"""A snapshot that is served: an open file, the table that travels beside it, and the artifacts of both (section 11).

The file stays open while it is served, so a checkpoint that puts a newer one in its place takes nothing from a slow peer.
It is read in pieces: once to verify its trailer and to find the fields and the client table in it, later for the chunks.
"""

from pathlib import Path
from typing import Final

import msgpack
import xxhash

from levrier.actors.state_transfer.ports import StateCodec
from levrier.persistence.errors import FileMissing, SnapshotDamaged, StorageError
from levrier.persistence.snapshot import FIELD_COUNT, FORMAT_VERSION, TRAILER_SIZE, trailer
from levrier.persistence.storage import File, Storage
from levrier.wire.checksums import xxh3
from levrier.wire.errors import WireError
from levrier.wire.manifest import Artifact, ArtifactKind

_READ_SIZE: Final = 256 * 1024


class ServedSnapshot:
    """The payload of one snapshot file, and its client table in transfer encoding. `op` is what the file reflects."""

    __slots__ = ("_file", "_table", "artifacts", "op")

    def __init__(self, *, op: int, file: File, table: bytes, artifacts: tuple[Artifact, ...]) -> None:
        self.op = op
        self.artifacts = artifacts
        self._file = file
        self._table = table

    def read(self, artifact: int, offset: int, size: int) -> bytes:
        """Exactly those bytes. Raises `StorageError`."""
        assert offset + size <= self.artifacts[artifact].size
        if self.artifacts[artifact].kind == ArtifactKind.CLIENT_TABLE:
            return self._table[offset : offset + size]
        return self._file.read(offset, size)

    def close(self) -> None:
        """Let go of the file. Safe to repeat."""
        self._file.close()


def open_served(storage: Storage, path: Path, codec: StateCodec) -> ServedSnapshot | None:
    """Open and verify the snapshot file; None without one. Raises `StorageError` for one that cannot be served."""
    try:
        file = storage.open(path, create=False)
    except FileMissing:
        return None
    try:
        return _examine(file, path, codec)
    except BaseException:
        file.close()
        raise


def _examine(file: File, path: Path, codec: StateCodec) -> ServedSnapshot:
    size = file.size() - TRAILER_SIZE
    if size <= 0:
        raise SnapshotDamaged(file=path, reason="it is shorter than a trailer")
    payload = _Payload(file, size)
    try:
        op, table_frontier, section = _read_fields(payload)
        table = codec.table_artifact(section)
    except StorageError:
        raise
    except (WireError, msgpack.UnpackException, ValueError, TypeError) as error:
        raise SnapshotDamaged(file=path, reason=f"it cannot be read ({error})") from error
    checksum = payload.finish()
    if file.read(size, TRAILER_SIZE) != trailer(checksum):
        raise SnapshotDamaged(file=path, reason=f"the trailer is not that of a payload with checksum {checksum:#x}")
    artifacts = (
        Artifact(kind=ArtifactKind.METADATA_SNAPSHOT, frontier=op, size=size, checksum=checksum),
        Artifact(kind=ArtifactKind.CLIENT_TABLE, frontier=table_frontier, size=len(table), checksum=xxh3(table)),
    )
    return ServedSnapshot(op=op, file=file, table=table, artifacts=artifacts)


def _read_fields(payload: "_Payload") -> tuple[int, int, object]:
    """Op, table frontier and client-table section. The two large sections are passed over without being built."""
    unpacker = msgpack.Unpacker(payload, read_size=_READ_SIZE, use_list=False, strict_map_key=False)
    count = unpacker.read_array_header()
    version = unpacker.unpack()
    if count != FIELD_COUNT or version != FORMAT_VERSION:
        raise ValueError(f"{count} fields of version {version!r:.20}")
    unpacker.skip()  # created_at
    op = unpacker.unpack()
    unpacker.skip()  # users
    unpacker.skip()  # streams
    section = unpacker.unpack()
    for _ in range(5):
        unpacker.skip()  # writer_release up to the high-water marks of acknowledgements
    table_frontier = unpacker.unpack()
    if not isinstance(op, int) or not isinstance(table_frontier, int) or not 0 < op <= table_frontier:
        raise ValueError(f"op {op!r:.20}, table at {table_frontier!r:.20}")
    return op, table_frontier, section


class _Payload:
    """The payload as a stream for the unpacker, hashed on the way."""

    __slots__ = ("_at", "_file", "_hash", "_size")

    def __init__(self, file: File, size: int) -> None:
        self._file = file
        self._size = size
        self._at = 0
        self._hash = xxhash.xxh3_64()

    def read(self, size: int) -> bytes:
        """The next bytes; none at the end."""
        data = self._file.read(self._at, min(size, self._size - self._at))
        self._hash.update(data)
        self._at += len(data)
        return data

    def finish(self) -> int:
        """Read what the unpacker did not want, and give the checksum of the whole payload."""
        while self.read(_READ_SIZE):
            pass
        return self._hash.intdigest()
