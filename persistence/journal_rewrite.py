"""Copying the surviving entries of a log into a new file, a bounded piece at a time (persistence 2.4, 2.5).

The new file becomes visible only after all of it was synced, so each record may say that everything before it is durable,
and a durable mark closes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from xxhash import xxh3_64, xxh3_64_intdigest

from levrier.persistence.data_dir import temporary
from levrier.persistence.errors import JournalDamaged, StorageError
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
from levrier.persistence.journal_index import SlotIndex
from levrier.persistence.storage import File, Storage
from levrier.persistence.superblock import remove_quietly
from levrier.wire.headers import PrepareHeader

CHUNK_SIZE: Final = 256 * 1024
FILL_RESERVE: Final = 256 * 1024
"""Zeros that are left at least for what is appended before the file takes the place of the log."""
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


@dataclass(slots=True)
class Source:
    """The file that is copied from; its records end at `end`, which grows when appends go on meanwhile."""

    file: File
    path: Path
    epoch: int
    end: int


class Rewriter:
    """Fills a new file beside `path`. Its `index`, `end` and `allocated` describe it; `file` stays open.

    `copy` each entry, then `seal`; whoever wants to spread that over time may `flush`, `fill` and `sync` in between. After
    a failure of any of them call `abort`. `source` is None for a log that is created.
    """

    def __init__(
        self, storage: Storage, path: Path, *, source: Source | None, slots: int, group: int, epoch: int, step: int
    ) -> None:
        self.index = SlotIndex(slots)
        self.epoch = epoch
        self.end = 0
        self.allocated = 0
        self.unsynced_size = 0
        self.scratch = temporary(path)
        self._storage = storage
        self._source = source
        self._step = step
        self._reserve = min(step, FILL_RESERVE)
        self._out = bytearray(encode_file_header(group=group, epoch=epoch))
        self._window = b""
        self._window_offset = 0
        self.file = storage.open(self.scratch, create=True)
        try:
            self.file.truncate(0)
        except StorageError:
            self.abort()
            raise

    def abort(self) -> None:
        """Close and remove the new file."""
        self.file.close()
        remove_quietly(self._storage, self.scratch)

    def note_source_end(self, end: int) -> None:
        """The source has grown to `end`."""
        assert self._source is not None
        self._source.end = end

    def copy(self, header: PrepareHeader, offset: int) -> Iterator[int]:
        """Copy an entry of the source, a piece for each size that it yields.

        `JournalDamaged` if it went bad meanwhile; it is never taken over unchecked.
        """
        source = self._source
        assert source is not None
        at = self._offset
        if record_size(header.size) > CHUNK_SIZE:
            yield from self._copy_large(source, header, offset)
        else:
            yield self._copy_small(source, header, offset)
        self.index.put(header, at)

    def flush(self) -> None:
        """Write what is buffered."""
        if self._out:
            self.file.write(self.end, self._out)
            self.unsynced_size += len(self._out)
            self.end += len(self._out)
            self.allocated = max(self.allocated, self.end)
            self._out = bytearray()

    def fill(self, size: int | None) -> bool:
        """Write zeros behind the records, at most `size` bytes if given. True when enough of them stand there."""
        assert not self._out
        lacking = ((self.end + self._reserve) // self._step + 1) * self._step - self.allocated
        count = lacking if size is None else min(size, lacking)
        if count > 0:
            write_zeros(self.file, self.allocated, count)
            self.unsynced_size += count
            self.allocated += count
        return count >= lacking

    def sync(self) -> None:
        """Make durable what was written so far, so that `seal` has less to do."""
        self.file.sync()
        self.unsynced_size = 0

    def seal(self) -> None:
        """Close the file with a durable mark and make all of it durable: it may take the place of the log."""
        if self.index.count:
            self._put(encode_durable_mark(epoch=self.epoch, durable_offset=self._offset))
        self.flush()
        if self.allocated > self.end:
            self.file.datasync()  # It was filled and synced before; only contents have changed since.
        else:
            self.fill(None)
            self.file.sync()

    @property
    def _offset(self) -> int:
        return self.end + len(self._out)

    def _copy_small(self, source: Source, header: PrepareHeader, offset: int) -> int:
        size = RECORD_HEADER_SIZE + header.size
        at = offset - self._window_offset
        if at < 0 or at + size > len(self._window):
            # Not beyond the end: what an append puts there later would be missing from the window.
            self._window = source.file.read(offset, min(CHUNK_SIZE, source.end - offset))
            self._window_offset = offset
            at = 0
        check = _checked_header(self._window, at, offset, header, path=source.path, epoch=source.epoch)
        frame = self._window[at + RECORD_HEADER_SIZE : at + size]
        if len(frame) != header.size or xxh3_64_intdigest(frame) & CHECK_MASK != check:
            raise _damaged(source.path, offset, header, "the prepare does not match the check of its record")
        self._put(b"".join((self._record_header(header.size, check), frame, padding(size))))
        return record_size(header.size)

    def _copy_large(self, source: Source, header: PrepareHeader, offset: int) -> Iterator[int]:
        content = source.file.read(offset, RECORD_HEADER_SIZE)
        check = _checked_header(content, 0, offset, header, path=source.path, epoch=source.epoch)
        self._put(self._record_header(header.size, check))
        digest = xxh3_64()
        done = 0
        while done < header.size:
            piece = source.file.read(offset + RECORD_HEADER_SIZE + done, min(CHUNK_SIZE, header.size - done))
            if not piece:
                break
            digest.update(piece)
            self._put(piece)
            done += len(piece)
            yield len(piece)
        if done != header.size or digest.intdigest() & CHECK_MASK != check:
            raise _damaged(source.path, offset, header, "the prepare does not match the check of its record")
        self._put(padding(RECORD_HEADER_SIZE + header.size))

    def _record_header(self, length: int, check: int) -> bytes:
        return encode_record_header(
            kind=KIND_PREPARE, length=length, check=check, epoch=self.epoch, durable_offset=self._offset
        )

    def _put(self, data: bytes) -> None:
        self._out += data
        if len(self._out) >= CHUNK_SIZE:
            self.flush()


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
