"""Copying the surviving entries of a log into a new file, a bounded piece at a time (persistence 2.4, 2.5).

The new file becomes visible only after all of it was synced, so each record may say that everything before it is durable,
and a durable mark closes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xxhash import xxh3_64, xxh3_64_intdigest

from levrier.persistence.errors import JournalDamaged
from levrier.persistence.journal_format import (
    CHECK_MASK,
    HASHED_SIZE,
    KIND_PREPARE,
    RECORD,
    RECORD_HEADER_SIZE,
    RECORD_MAGIC,
    encode_durable_mark,
    encode_file_header,
    encode_record_header,
    padding,
    record_size,
)
from levrier.persistence.storage import File, Storage
from levrier.wire.headers import PrepareHeader

CHUNK_SIZE = 1024 * 1024
_ZEROS = bytes(CHUNK_SIZE)


def write_zeros(file: File, offset: int, size: int) -> None:
    """Write `size` zeros from `offset`, not synced."""
    view = memoryview(_ZEROS)
    while size > 0:
        count = min(size, CHUNK_SIZE)
        file.write(offset, view[:count])
        offset += count
        size -= count


def read_frame(file: File, offset: int, header: PrepareHeader, *, path: Path, epoch: int) -> bytes:
    """The prepare of the record at `offset`, checked against its record header; `JournalDamaged` if it is not there."""
    content = file.read(offset, RECORD_HEADER_SIZE + header.size)
    check = _checked_header(content, 0, offset, header, path=path, epoch=epoch)
    frame = content[RECORD_HEADER_SIZE:]
    if len(frame) != header.size or xxh3_64_intdigest(frame) & CHECK_MASK != check:
        raise _damaged(path, offset, header, "the prepare does not match the check of its record")
    return frame


class Rewriter:
    """Fills the new file. `offsets`, `end` and `allocated` describe it after `copy`; `file` stays open."""

    def __init__(self, storage: Storage, scratch: Path, *, group: int, epoch: int, step: int) -> None:
        self.file = storage.open(scratch, create=True)
        self.offsets: list[int] = []
        self.end = 0
        self.allocated = 0
        self._group = group
        self._epoch = epoch
        self._step = step
        self._out = bytearray()
        self._window = b""
        self._window_offset = 0

    def copy(
        self, source: File | None, live: Sequence[tuple[PrepareHeader, int]], *, path: Path, source_epoch: int
    ) -> None:
        """Write the whole new file and sync it. `JournalDamaged` if an entry of the source went bad meanwhile."""
        self.file.truncate(0)
        self._put(encode_file_header(group=self._group, epoch=self._epoch))
        for header, offset in live:
            assert source is not None
            self.offsets.append(self._offset)
            if record_size(header.size) > CHUNK_SIZE:
                self._copy_large(source, header, offset, path=path, source_epoch=source_epoch)
            else:
                self._copy_small(source, header, offset, path=path, source_epoch=source_epoch)
        if live:
            self._put(encode_durable_mark(epoch=self._epoch, durable_offset=self._offset))
        self._flush()
        self.allocated = (self.end // self._step + 1) * self._step
        write_zeros(self.file, self.end, self.allocated - self.end)
        self.file.sync()

    @property
    def _offset(self) -> int:
        return self.end + len(self._out)

    def _copy_small(self, source: File, header: PrepareHeader, offset: int, *, path: Path, source_epoch: int) -> None:
        size = RECORD_HEADER_SIZE + header.size
        at = offset - self._window_offset
        if at < 0 or at + size > len(self._window):
            self._window = source.read(offset, CHUNK_SIZE)
            self._window_offset = offset
            at = 0
        check = _checked_header(self._window, at, offset, header, path=path, epoch=source_epoch)
        frame = self._window[at + RECORD_HEADER_SIZE : at + size]
        if len(frame) != header.size or xxh3_64_intdigest(frame) & CHECK_MASK != check:
            raise _damaged(path, offset, header, "the prepare does not match the check of its record")
        self._put(b"".join((self._record_header(header.size, check), frame, padding(size))))

    def _copy_large(self, source: File, header: PrepareHeader, offset: int, *, path: Path, source_epoch: int) -> None:
        content = source.read(offset, RECORD_HEADER_SIZE)
        check = _checked_header(content, 0, offset, header, path=path, epoch=source_epoch)
        self._put(self._record_header(header.size, check))
        digest = xxh3_64()
        done = 0
        while done < header.size:
            piece = source.read(offset + RECORD_HEADER_SIZE + done, min(CHUNK_SIZE, header.size - done))
            if not piece:
                break
            digest.update(piece)
            self._put(piece)
            done += len(piece)
        if done != header.size or digest.intdigest() & CHECK_MASK != check:
            raise _damaged(path, offset, header, "the prepare does not match the check of its record")
        self._put(padding(RECORD_HEADER_SIZE + header.size))

    def _record_header(self, length: int, check: int) -> bytes:
        return encode_record_header(
            kind=KIND_PREPARE, length=length, check=check, epoch=self._epoch, durable_offset=self._offset
        )

    def _put(self, data: bytes) -> None:
        self._out += data
        if len(self._out) >= CHUNK_SIZE:
            self._flush()

    def _flush(self) -> None:
        if self._out:
            self.file.write(self.end, self._out)
            self.end += len(self._out)
            self._out = bytearray()


def _checked_header(content: bytes, at: int, offset: int, header: PrepareHeader, *, path: Path, epoch: int) -> int:
    """The frame check in the record header at `content[at]`, which must be there: `JournalDamaged` if it is not."""
    if len(content) - at >= RECORD_HEADER_SIZE:
        magic, kind, length, check, found_epoch, _, checksum = RECORD.unpack_from(content, at)
        if (
            magic == RECORD_MAGIC
            and kind == KIND_PREPARE
            and found_epoch == epoch
            and length == header.size
            and checksum == xxh3_64_intdigest(content[at : at + HASHED_SIZE])
        ):
            assert isinstance(check, int)
            return check
    raise _damaged(path, offset, header, "its record header is gone")


def _damaged(path: Path, offset: int, header: PrepareHeader, reason: str) -> JournalDamaged:
    return JournalDamaged(file=path, offset=offset, op=header.op, reason=reason)
