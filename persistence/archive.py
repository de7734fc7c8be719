"""What left the log and is kept: segments of consecutive entries, each deleted only as a whole (acknowledgements 5).

Owns the directory `archive`. One owner, one call at a time. Invariants: a segment that has a name is durable and whole; the
*run*, its upper end, is one hash chain without a gap; segments are deleted from the lowest on, and only below a frontier.

What a drain is about to remove goes through an `ArchiveSession` first. It takes only entries that chain down from the entry
at the snapshot's op, which the log keeps and which was applied from it: an entry that a view change reassigned, or that lies
below a snapshot that came from a peer, never gets in. Where nothing chains on to what is kept already, a new run begins; the
older one can serve nobody any more, and is kept until it may go like any other.

A segment that is damaged is left alone, told to whoever opened the archive, and ends the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from levrier.persistence.archive_format import (
    ENTRIES_MAX,
    INDEX,
    Segment,
    encode_footer,
    is_segment_name,
    read_footer,
    segment_name,
)
from levrier.persistence.data_dir import TEMPORARY_SUFFIX, temporary
from levrier.persistence.errors import ArchiveDamaged, JournalDamaged, StorageError, UnsupportedVersion
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.storage import File, Storage
from levrier.persistence.superblock import remove_quietly
from levrier.wire.acknowledgement import Frontier
from levrier.wire.checksums import xxh3
from levrier.wire.errors import WireError
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import Prepare

SEGMENT_SIZE_MAX: Final = 32 * 1024 * 1024
"""A segment is closed at this size, one entry more at most."""
STEP_SIZE: Final = 32 * 1024
"""Bytes that a step of a session copies: below a millisecond even of the smallest entries."""
SYNC_SIZE: Final = 256 * 1024
"""Unsynced bytes after which a step syncs: few enough not to keep the disk from an append."""
_HEADER_COST: Final = 64
"""What a step counts for a header that it only looks at."""


def read_segments(storage: Storage, directory: Path, *, group: int) -> tuple[list[Segment], list[str]]:
    """The segments of a directory, ascending, and what of it is damaged, in words. Changes nothing."""
    segments, damaged = [], []
    for name in storage.list(directory):
        if not is_segment_name(name):
            continue
        path = directory / name
        file = storage.open(path, create=False)
        try:
            segments.append(read_footer(file, path, group=group)[0])
        except (ArchiveDamaged, UnsupportedVersion) as error:
            damaged.append(str(error))
        finally:
            file.close()
    return segments, damaged


class Archive:
    """The segments of one group, ascending. `damaged` says in words what could not be read when it was opened."""

    def __init__(
        self,
        storage: Storage,
        directory: Path,
        *,
        group: int,
        segments: Sequence[Segment],
        damaged: Sequence[str],
        segment_size_max: int,
        step_size: int,
    ) -> None:
        self.segment_size_max = segment_size_max
        self.step_size = step_size
        self.damaged = tuple(damaged)
        self._storage = storage
        self._directory = directory
        self._group = group
        self._segments = list(segments)
        self._unreadable: set[Path] = set()
        self._reading: tuple[Segment, File, bytes] | None = None
        self._run: list[Segment] = []
        self._find_run()

    @classmethod
    def open(
        cls,
        storage: Storage,
        directory: Path,
        *,
        group: int,
        segment_size_max: int = SEGMENT_SIZE_MAX,
        step_size: int = STEP_SIZE,
    ) -> Archive:
        """Read what is there. Removes what a crash left half-written; damaged segments stay where they are."""
        storage.make_directory(directory)
        storage.sync_directory(directory)
        for name in storage.list(directory):
            if name.endswith(TEMPORARY_SUFFIX):
                remove_quietly(storage, directory / name)
        segments, damaged = read_segments(storage, directory, group=group)
        return cls(
            storage,
            directory,
            group=group,
            segments=segments,
            damaged=damaged,
            segment_size_max=segment_size_max,
            step_size=step_size,
        )

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Everything that is kept, ascending by op."""
        return tuple(self._segments)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def last_op(self) -> int:
        """The highest op that is kept, 0 if nothing is."""
        return self._segments[-1].last_op if self._segments else 0

    @property
    def first_op(self) -> int:
        """Where the run begins that ends at `last_op`, 0 if there is none."""
        return self._run[0].first_op if self._run else 0

    def entry(self, op: int) -> Prepare | None:
        """The entry of an op of the run; None if it is not there.

        Raises `StorageError`. A segment that turns out to be damaged belongs to the run no more, nor does what lies below.
        """
        segment = next((each for each in self._run if each.first_op <= op <= each.last_op), None)
        if segment is None:
            return None
        try:
            return self._read(segment, op)
        except (ArchiveDamaged, UnsupportedVersion):
            self._unreadable.add(segment.path)
            self._find_run()
            raise

    def begin(self, journal: PrepareJournal, up_to: int) -> ArchiveSession:
        """Begin to take in what the log holds up to `up_to` and the archive does not."""
        return ArchiveSession(self, journal, up_to)

    def reclaim(self, frontier: Frontier) -> int:
        """Delete the lowest segments of which everything is at or below the frontier; gives the number.

        A failure raises `StorageError`; what was deleted before it stays deleted.
        """
        count = 0
        while self._segments and frontier.dominates(self._segments[0].origins):
            self.close()
            self._storage.remove(self._segments[0].path)
            del self._segments[0]
            self._find_run()
            count += 1
        if count:
            self._storage.sync_directory(self._directory)
        return count

    def close(self) -> None:
        """Close what is open for reading."""
        if self._reading is not None:
            self._reading[1].close()
            self._reading = None

    # For sessions.

    @property
    def group(self) -> int:
        """Whose entries these are."""
        return self._group

    @property
    def end(self) -> Segment | None:
        """The last segment."""
        return self._segments[-1] if self._segments else None

    def scratch(self, first_op: int) -> tuple[Path, File]:
        """A new file for a segment that begins with this op, under its temporary name."""
        path = temporary(self._directory / segment_name(first_op))
        file = self._storage.open(path, create=True)
        try:
            file.truncate(0)
        except StorageError:
            self.discard(path, file)
            raise
        return path, file

    def discard(self, path: Path, file: File) -> None:
        """Give a scratch file up."""
        file.close()
        remove_quietly(self._storage, path)

    def add(self, path: Path, file: File) -> None:
        """The scratch file is whole and synced: give it its name, durably."""
        name = self._directory / path.name.removesuffix(TEMPORARY_SUFFIX)
        segment, _ = read_footer(file, name, group=self._group)
        assert segment.first_op > self.last_op
        file.close()
        self._storage.replace(path, name)
        self._storage.sync_directory(self._directory)
        self._segments.append(segment)
        self._find_run()

    # Inside

    def _find_run(self) -> None:
        """The segments that chain up to the last one, ascending."""
        run: list[Segment] = []
        for segment in reversed(self._segments):
            if segment.path in self._unreadable or (run and not _continues(segment, run[-1])):
                break
            run.append(segment)
        self._run = run[::-1]

    def _read(self, segment: Segment, op: int) -> Prepare:
        file, index = self._opened(segment)
        at = (op - segment.first_op) * INDEX.size
        offset, check = INDEX.unpack_from(index, at)
        end = segment.end if op == segment.last_op else INDEX.unpack_from(index, at + INDEX.size)[0]
        frame = file.read(offset, max(0, end - offset))
        if xxh3(frame) != check:
            raise ArchiveDamaged(file=segment.path, reason=f"op {op} does not match its check")
        try:
            prepare = Prepare.decode(frame)
        except WireError as error:
            raise ArchiveDamaged(file=segment.path, reason=f"op {op}: {error}") from error
        if prepare.header.op != op:
            raise ArchiveDamaged(file=segment.path, reason=f"op {prepare.header.op} stands in the place of op {op}")
        return prepare

    def _opened(self, segment: Segment) -> tuple[File, bytes]:
        """The file and the index of a segment; the last one that was read stays open."""
        if self._reading is not None and self._reading[0].path == segment.path:
            return self._reading[1:]
        self.close()
        file = self._storage.open(segment.path, create=False)
        try:
            _, index = read_footer(file, segment.path, group=self._group)
        except StorageError:
            file.close()
            raise
        self._reading = (segment, file, index)
        return file, index


class ArchiveSession:
    """One taking in. Made by `Archive.begin`; `step` until it gives True; or `abort` at any time.

    The log may be appended to, and its suffix truncated, between two steps. A failure of `step` aborts; what was sealed
    before it is kept.
    """

    def __init__(self, archive: Archive, journal: PrepareJournal, up_to: int) -> None:
        self._archive = archive
        self._journal = journal
        self._up_to = up_to
        self._scratch: tuple[Path, File] | None = None
        self._offset = 0
        self._unsynced = 0
        self._out = bytearray()
        self._index = bytearray()
        self._origins: dict[int, int] = {}
        self._first: PrepareHeader | None = None
        self._last: PrepareHeader | None = None
        self._lost: list[str] = []
        self._pieces = self._taking_in()

    def take_lost(self) -> list[str]:
        """What could not be taken in since this was asked last, because the log does not hold it whole any more."""
        lost, self._lost = self._lost, []
        return lost

    def step(self) -> bool:
        """Copy a bounded piece. True when everything is durably in the archive. Raises `StorageError`."""
        done = 0
        try:
            for size in self._pieces:
                done += size
                if done >= self._archive.step_size:
                    self._flush()
                    return False
            self._seal()
        except StorageError:
            self.abort()
            raise
        return True

    def abort(self) -> None:
        """Give up the segment that is being written. Safe to repeat."""
        if self._scratch is not None:
            self._archive.discard(*self._scratch)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._scratch = self._first = self._last = None
        self._offset = self._unsynced = 0
        self._out.clear()
        self._index.clear()
        self._origins.clear()

    def _taking_in(self) -> Iterator[int]:
        """Yields the size of each piece that was done."""
        headers: list[PrepareHeader] = []
        for header in _chain_down(self._journal, self._up_to, self._archive.last_op):
            headers.append(header)
            yield _HEADER_COST
        while headers:
            header = headers.pop()
            try:
                self._take(header)
            except JournalDamaged as error:
                # Lost for good, and what lies below it could serve nobody beyond it: a new run begins behind it.
                self._lost.append(f"op {header.op} is lost to the archive: {error}")
                self._seal()
            yield header.size

    def _take(self, header: PrepareHeader) -> None:
        prepare = self._journal.entry_at(header)
        if prepare is None:
            raise JournalDamaged(file="journal", offset=0, op=header.op, reason="it is not in the log any more")
        if self._scratch is None:
            self._scratch = self._archive.scratch(header.op)
            self._first = header
        frame = prepare.frame
        self._index += INDEX.pack(self._offset + len(self._out), xxh3(frame))
        self._out += frame
        self._origins[header.replica] = header.op
        self._last = header
        if (
            self._offset + len(self._out) >= self._archive.segment_size_max
            or len(self._index) >= ENTRIES_MAX * INDEX.size
        ):
            self._seal()

    def _flush(self) -> None:
        if self._scratch is None or not self._out:
            return
        file = self._scratch[1]
        file.write(self._offset, self._out)
        self._offset += len(self._out)
        self._unsynced += len(self._out)
        self._out = bytearray()
        if self._unsynced >= SYNC_SIZE:
            file.datasync()
            self._unsynced = 0

    def _seal(self) -> None:
        """Close the segment that is being written, if there is one, and have it in the archive."""
        if self._scratch is None:
            return
        assert self._first is not None
        assert self._last is not None
        self._out += encode_footer(
            group=self._archive.group,
            first_op=self._first.op,
            last_op=self._last.op,
            first_parent=self._first.parent,
            last_checksum=self._last.checksum,
            origins=Frontier.of(self._origins),
            index=bytes(self._index),
        )
        path, file = self._scratch
        file.write(self._offset, self._out)
        file.sync()
        self._archive.add(path, file)
        self._begin_anew()


def _chain_down(journal: PrepareJournal, up_to: int, floor: int) -> Iterator[PrepareHeader]:
    """The entries above `floor` that the entry behind `up_to` descends from, descending, as far as the log holds them."""
    upper = journal.header(up_to + 1)
    while upper is not None and upper.op - 1 > floor:
        lower = journal.header(upper.op - 1)
        if lower is None or not lower.checksum or upper.parent != lower.checksum:
            return
        yield lower
        upper = lower


def _continues(lower: Segment, upper: Segment) -> bool:
    return lower.last_op + 1 == upper.first_op and lower.last_checksum == upper.first_parent
