"""Reading a log from its first record to its end, and judging what stands there (D-24, persistence 2.6).

The scan stops at the first place that is no good record. If everything behind it is zero, the log ends there. Otherwise it
is damage: *interior* if a later valid header of this epoch says that the place was durable once, then the boot is refused
and the file left alone; else the *tail* of a batch that was torn by a crash before it was acknowledged, and the caller cuts
it. Nothing here writes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from xxhash import xxh3_64_intdigest

from levrier.persistence.errors import JournalDamaged
from levrier.persistence.journal_format import (
    ALIGNMENT,
    BATCH_SIZE_MAX,
    CHECK_MASK,
    ENTRY_SIZE_MAX,
    FILE_HEADER_SIZE,
    HASHED_SIZE,
    KIND_DURABLE_MARK,
    KIND_PREPARE,
    PREPARE_HEADER_SIZE,
    RECORD,
    RECORD_HEADER_SIZE,
    RECORD_MAGIC,
    RECORD_MAGIC_BYTES,
    decode_file_header,
    record_size,
)
from levrier.persistence.storage import File
from levrier.wire.errors import WireError
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import identity_checksum

WINDOW_SIZE = 1024 * 1024
_ZEROS = bytes(WINDOW_SIZE)
_PREPARE_COMMAND = 6


@dataclass(slots=True, kw_only=True)
class ScanResult:
    """What a log holds. Offsets are those of the record headers; `end` is where the next record goes.

    Everything before `durable_offset` is known to have been synced; the rest may stand in the cache of the system only.
    """

    epoch: int
    entries: list[tuple[PrepareHeader, int]] = field(default_factory=list)
    end: int = FILE_HEADER_SIZE
    durable_offset: int = FILE_HEADER_SIZE
    ends_with_mark: bool = False
    unsealed_count: int = 0
    cut_bytes: int = 0
    reason: str = ""
    unproven: deque[tuple[int, int, int]] = field(default_factory=deque)
    """Offset, size and XXH3 of each record from `durable_offset` on."""


def scan(file: File, *, path: Path, group: int, window_size: int = WINDOW_SIZE) -> ScanResult:
    """Read the whole log. Raises `JournalDamaged` for interior damage, for a tail longer than any batch, and for a tail that
    is not the same when it is read again: a disk that gives wrong bits must not have what it holds cut off.
    """
    result = _Scan(file, path=path, group=group, window_size=window_size).run()
    if result.cut_bytes:
        again = _Scan(file, path=path, group=group, window_size=window_size)
        if (again.run().end, again.result.cut_bytes) != (result.end, result.cut_bytes):
            raise again.damaged("the disk gives other bits each time")
    return result


def read_unproven(file: File, found: ScanResult, *, path: Path) -> bytes:
    """What stands from `durable_offset` to `end`, read again, which must be what the scan has read. Raises `JournalDamaged`."""
    start = found.durable_offset
    content = file.read(start, found.end - start)
    for offset, size, digest in found.unproven:
        if xxh3_64_intdigest(content[offset - start : offset - start + size]) != digest:
            raise JournalDamaged(file=path, offset=offset, op=None, reason="the disk gives other bits each time")
    return content


class _Scan:
    def __init__(self, file: File, *, path: Path, group: int, window_size: int) -> None:
        self._file = file
        self._path = path
        self._size = file.size()
        self._window_size = window_size
        epoch = decode_file_header(file.read(0, FILE_HEADER_SIZE), group=group, file=path)
        self.result = ScanResult(epoch=epoch)
        self._previous: PrepareHeader | None = None
        self._window = b""
        self._window_offset = FILE_HEADER_SIZE

    def run(self) -> ScanResult:
        result = self.result
        while self._size - result.end >= RECORD_HEADER_SIZE:
            reason = self._record(result.end)
            if reason is not None:
                result.reason = reason
                break
        self._judge_rest()
        return result

    def _bytes(self, offset: int, size: int) -> tuple[bytes, int]:
        """A window that holds `size` bytes from `offset` (which the file has), and where in it they start."""
        at = offset - self._window_offset
        if at < 0 or at + size > len(self._window):
            self._window = self._file.read(offset, max(size, self._window_size))
            self._window_offset = offset
            at = 0
        return self._window, at

    def _record(self, offset: int) -> str | None:  # noqa: PLR0911 - one reason a line.
        """Take in the record at `offset`, or say why there is none."""
        result = self.result
        window, at = self._bytes(offset, RECORD_HEADER_SIZE)
        magic, kind, length, check, epoch, durable_offset, checksum = RECORD.unpack_from(window, at)
        if magic != RECORD_MAGIC or epoch != result.epoch:
            return "no record header"
        if checksum != xxh3_64_intdigest(window[at : at + HASHED_SIZE]) or durable_offset > offset:
            return "the record header does not match its checksum"
        if kind == KIND_DURABLE_MARK and length == 0:
            result.end = offset + RECORD_HEADER_SIZE
            result.ends_with_mark = True
            self._took(offset, window[at : at + RECORD_HEADER_SIZE], durable_offset)
            return None
        if kind != KIND_PREPARE or not PREPARE_HEADER_SIZE <= length <= ENTRY_SIZE_MAX:
            return f"a record of kind {kind} with {length} bytes"
        size = record_size(length)
        if offset + size > self._size:
            return "the record runs past the end of the file"
        window, at = self._bytes(offset, size)
        frame_end = at + RECORD_HEADER_SIZE + length
        frame = window[at + RECORD_HEADER_SIZE : frame_end]
        if xxh3_64_intdigest(frame) & CHECK_MASK != check or any(window[frame_end : at + size]):
            return "the prepare does not match the check of its record"
        bad = self._prepare(offset, size, frame)
        if bad is None:
            self._took(offset, window[at : at + size], durable_offset)
        return bad

    def _took(self, offset: int, record: bytes, durable_offset: int) -> None:
        """A record is whole, and says that everything before `durable_offset` was synced."""
        result = self.result
        result.durable_offset = max(result.durable_offset, durable_offset)
        unproven = result.unproven
        unproven.append((offset, len(record), xxh3_64_intdigest(record)))
        while unproven and unproven[0][0] < result.durable_offset:
            unproven.popleft()

    def _prepare(self, offset: int, size: int, frame: bytes) -> str | None:
        result, previous = self.result, self._previous
        try:
            header = PrepareHeader.decode(frame)
        except WireError as error:
            return str(error)
        if header.command != _PREPARE_COMMAND or header.size != len(frame):
            return f"a prepare with command {header.command} and size {header.size}"
        if header.checksum and header.checksum != identity_checksum(frame):
            return "the prepare does not match its checksum"
        if previous and previous.checksum and previous.op + 1 == header.op and header.parent != previous.checksum:
            return f"op {header.op} does not name op {previous.op} as its parent"
        if header.checksum_body == 0:
            result.unsealed_count += 1
        elif header.checksum_body != xxh3_64_intdigest(frame[PREPARE_HEADER_SIZE:]):
            return "the body does not match its checksum"
        result.entries.append((header, offset))
        result.end = offset + size
        result.ends_with_mark = False
        self._previous = header
        return None

    def _judge_rest(self) -> None:
        """Interior, tail, or the zeros behind the log."""
        result = self.result
        start, used = result.end, result.end
        offset = start
        while offset < self._size:
            window = self._file.read(offset, self._window_size)
            content = 0 if window == _ZEROS[: len(window)] else len(window.rstrip(b"\0"))
            if content:
                used = offset + content
                self._refuse_if_durable(start, offset, window)
            if offset + len(window) >= self._size:
                break
            offset += max(len(window) - RECORD_HEADER_SIZE, ALIGNMENT)
        result.cut_bytes = used - start
        if result.cut_bytes > BATCH_SIZE_MAX:
            raise self.damaged(f"{result.cut_bytes} bytes behind it are more than one write can have torn")

    def _refuse_if_durable(self, damage: int, offset: int, window: bytes) -> None:
        epoch = self.result.epoch
        at = window.find(RECORD_MAGIC_BYTES)
        while 0 <= at <= len(window) - RECORD_HEADER_SIZE:
            _, _, _, _, found_epoch, durable_offset, checksum = RECORD.unpack_from(window, at)
            aligned = (offset + at) % ALIGNMENT == 0
            if (
                aligned
                and found_epoch == epoch
                and damage < durable_offset <= offset + at
                and checksum == xxh3_64_intdigest(window[at : at + HASHED_SIZE])
            ):
                raise self.damaged(
                    f"{self.result.reason or 'zeros'}, and the record at offset {offset + at} says that everything "
                    f"before {durable_offset} was durable"
                )
            at = window.find(RECORD_MAGIC_BYTES, at + 1)

    def damaged(self, reason: str) -> JournalDamaged:
        """Where it is, in words."""
        op = self._previous.op + 1 if self._previous is not None else None
        return JournalDamaged(file=self._path, offset=self.result.end, op=op, reason=reason)
