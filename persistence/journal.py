"""The write-ahead log of one consensus group (persistence section 2, framing D-24, failures D-25).

Owns `journal.wal` and its index. One owner calls it, one call at a time, and may append between the steps of a drain.
Invariants: an entry is indexed only after a sync that covers it; every rewrite is a new file under a new epoch, renamed
into place; what is indexed is what a reopen finds, unless a later append overwrote the slot.

It knows bytes and hash chains, not consensus: which entry is right when two views disagree is not decided here.

Deviations from the reference: one write and one sync carry a whole batch; the file is preallocated, so that the sync
writes data only; after a failed append everything is refused until `truncate_from`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from xxhash import xxh3_64_intdigest

from levrier.persistence.errors import (
    AppendRefused,
    InvalidInput,
    JournalBusy,
    JournalDamaged,
    JournalPoisoned,
    StorageError,
)
from levrier.persistence.journal_drain import DrainSession
from levrier.persistence.journal_format import (
    BATCH_SIZE_MAX,
    CHECK_MASK,
    FILE_HEADER_SIZE,
    KIND_PREPARE,
    RECORD_HEADER_SIZE,
    encode_durable_mark,
    encode_record_header,
    padding,
    record_size,
)
from levrier.persistence.journal_index import Entry, SlotIndex
from levrier.persistence.journal_refusals import refuse
from levrier.persistence.journal_retired import RetiredFile
from levrier.persistence.journal_rewrite import Rewriter, Source, read_frame, write_zeros
from levrier.persistence.journal_scan import ScanResult, read_unproven, scan
from levrier.persistence.journal_space import Space
from levrier.persistence.storage import File, Storage
from levrier.wire.errors import WireError
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import Prepare

PREALLOCATE_STEP = 4 * 1024 * 1024
SLOTS_MAX = 1 << 20


class PrepareJournal:
    """An open log. Use `open`; every method that touches the file raises `StorageError`."""

    def __init__(
        self,
        storage: Storage,
        path: Path,
        *,
        group: int,
        snapshot_op: int,
        slots: int,
        epoch_source: Callable[[], int],
        preallocate_step: int,
    ) -> None:
        assert preallocate_step % FILE_HEADER_SIZE == 0
        self._storage = storage
        self._path = path
        self._group = group
        self._slots = slots
        self._epoch_source = epoch_source
        self._step = preallocate_step
        self._space = Space(preallocate_step)
        self._snapshot_op = snapshot_op
        self._index = SlotIndex(slots)
        self._last_op: int | None = None
        self._file: File | None = None
        self._epoch = 0
        self._end = 0
        self._marked_end = 0
        self._poison: str | None = None
        self._failed_from: int | None = None
        self._dirty = False
        self._drain: DrainSession | None = None
        self._retired: RetiredFile | None = None
        self._handing_out = False
        self._cut_offset: int | None = None
        self._cut_bytes = 0
        self._unsealed_count = 0

    @classmethod
    def open(
        cls,
        storage: Storage,
        path: Path,
        *,
        group: int,
        snapshot_op: int,
        slots: int,
        epoch_source: Callable[[], int],
        preallocate_step: int = PREALLOCATE_STEP,
        before_cut: Callable[[], None] | None = None,
    ) -> PrepareJournal:
        """Open the log at `path`, or create an empty one.

        `snapshot_op` is the op of the snapshot (0 if none): entries at or below it may be overwritten. `epoch_source`
        gives a random number of 64 bits at each call. A torn tail is cut, which `cut_offset` and `cut_bytes` then tell, and
        before a byte of it is gone `before_cut` is called (D-24);
        `JournalDamaged` (file untouched), `UnsupportedVersion` or `ForeignJournal` otherwise; `InvalidInput` for a slot
        count that is 0 or too small for what the log holds.
        """
        if not 0 < slots <= SLOTS_MAX:
            raise InvalidInput(file=path, what=f"{slots} slots", next_step=f"set 1 to {SLOTS_MAX} slots")
        journal = cls(
            storage,
            path,
            group=group,
            snapshot_op=snapshot_op,
            slots=slots,
            epoch_source=epoch_source,
            preallocate_step=preallocate_step,
        )
        try:
            if storage.exists(path):
                journal._load(before_cut)
            else:
                journal._rewrite([])
            journal._assert_invariants()
        except BaseException:
            journal.close()
            raise
        return journal

    # What it holds. None of these touches the file.

    @property
    def last_op(self) -> int | None:
        """The highest op seen; None for an empty log."""
        return self._last_op

    @property
    def snapshot_op(self) -> int:
        """The watermark: entries at or below it may be overwritten."""
        return self._snapshot_op

    @property
    def slots(self) -> int:
        """How many entries the index has room for."""
        return self._slots

    @property
    def is_empty(self) -> bool:
        """Whether it holds no entry: such a log counts as absent at boot (D-31)."""
        return self._index.count == 0

    @property
    def size(self) -> int:
        """Bytes in use, the file header included; the file itself is longer by what is preallocated."""
        return self._end

    @property
    def allocated_size(self) -> int:
        """Up to where the log may grow without growing the file, in bytes; the file is no shorter."""
        return self._space.end

    @property
    def poisoned(self) -> str | None:
        """Why only reopening helps, None if healthy."""
        return self._poison

    @property
    def failed_from(self) -> int | None:
        """After a failed append: appends are refused until `truncate_from` of this op or a lower one."""
        return self._failed_from

    @property
    def cut_offset(self) -> int | None:
        """Where opening cut a torn tail, None if it cut nothing. See the last sentence of D-24."""
        return self._cut_offset

    @property
    def cut_bytes(self) -> int:
        """How many bytes opening cut, 0 if none."""
        return self._cut_bytes

    @property
    def unsealed_count(self) -> int:
        """Entries without a body checksum that opening found; worth a warning."""
        return self._unsealed_count

    @property
    def remaining_capacity(self) -> int:
        """Ops that still fit before a checkpoint must free slots: by op distance, not by occupied slots."""
        if self._last_op is None or self._last_op <= self._snapshot_op:
            return self._slots
        return max(0, self._slots - (self._last_op - self._snapshot_op))

    def set_snapshot_op(self, op: int) -> None:
        """Raise the watermark; it never decreases."""
        assert op >= self._snapshot_op, (op, self._snapshot_op)
        self._snapshot_op = op
        self._assert_invariants()

    def header(self, op: int) -> PrepareHeader | None:
        """The header of `op`, if it is indexed."""
        return self._index.header(op)

    def previous_header(self, header: PrepareHeader) -> PrepareHeader | None:
        """The header below; None for op 0."""
        return self.header(header.op - 1) if header.op else None

    def headers_from(self, op: int) -> list[PrepareHeader]:
        """Every indexed header at or above `op`, ascending; gaps are possible."""
        return sorted((each for each in self._index.headers if each is not None and each.op >= op), key=_op)

    # Reading

    def entry(self, op: int) -> Prepare | None:
        """The entry of `op`; None if it is absent, unreadable or damaged, or the log is poisoned."""
        header = self.header(op)
        if header is None:
            return None
        try:
            return self.entry_at(header)
        except StorageError:
            return None

    def entry_at(self, header: PrepareHeader) -> Prepare | None:
        """The entry of exactly this header; None if another or none is indexed there.

        Raises `JournalPoisoned`, `JournalDamaged` or `IoFailed`.
        """
        self._refuse_if_poisoned()
        indexed = self.header(header.op)
        if indexed is None or indexed.checksum != header.checksum:
            return None
        offset = self._index.offset(header.op)
        frame = read_frame(self._open_file, offset, indexed, path=self._path, epoch=self._epoch)
        try:
            prepare = Prepare.decode(frame)
        except WireError as error:
            raise JournalDamaged(file=self._path, offset=offset, op=header.op, reason=str(error)) from error
        if prepare.header != indexed:
            raise JournalDamaged(file=self._path, offset=offset, op=header.op, reason="another entry stands there")
        return prepare

    # Writing

    def append(self, prepares: Sequence[Prepare]) -> None:
        """Write all of `prepares` with one write and one sync; they are durable when it returns.

        Before any byte is written: `JournalPoisoned`, `AppendRefused`, `EntryInvalid`, `SlotCollision`. A failure of the
        disk raises `IoFailed` and leaves unknown bytes behind. After any failure nothing is indexed, and everything is
        refused until `truncate_from(failed_from)`. A batch above `BATCH_SIZE_MAX` takes more than one write and sync.
        """
        if not prepares:
            return
        self._refuse_if_poisoned()
        if self._failed_from is not None:
            raise AppendRefused(file=self._path, op=prepares[0].header.op, failed_from=self._failed_from)
        try:
            refuse(prepares, path=self._path, index=self._index, slots=self._slots, snapshot_op=self._snapshot_op)
            placed = self._write(prepares)
        except StorageError:
            self._note_failure(prepares)
            raise
        for header, offset, end in placed:
            self._index.put(header, offset)
            if self._last_op is None or header.op > self._last_op:
                self._last_op = header.op
            self._end = end
            if self._drain is not None:
                self._drain.note(header, offset, end)
        self._assert_invariants()

    def write_durable_mark(self) -> None:
        """State on disk that everything so far is durable: damage in it is then never taken for a torn tail.

        For when the log is idle and before `close`. Does nothing if nothing was appended since the last one, or if the
        log is poisoned or waits for a truncation. A failure leaves the log as it was.
        """
        if self._poison is not None or self._failed_from is not None or self._dirty or self._end == self._marked_end:
            return
        mark = encode_durable_mark(epoch=self._epoch, durable_offset=self._end)
        end = self._end + len(mark)
        self._space.ensure(self._open_file, end)
        self._open_file.write(self._end, mark)
        self._open_file.datasync()
        self._end = self._marked_end = end
        self._assert_invariants()

    def fill_ahead(self) -> None:
        """Prepare a piece of what comes behind the file if the log nears its end, so that no append waits for all of it.

        For between two appends. A failure raises `StorageError` and costs nothing yet; see `Space`.
        """
        if self._poison is None and self._failed_from is None and not self._dirty:
            self._space.fill_ahead(self._open_file, self._end)

    def begin_drain(self, up_to: int) -> DrainSession:
        """Begin to remove all entries with an op at or below `up_to`; what is appended meanwhile stays.

        Until the session is over, drains and truncations are refused as `JournalBusy`. The watermark rises at once: the
        snapshot that makes the entries unnecessary is durable, whether or not the session succeeds.
        """
        self._refuse_if_poisoned()
        self._refuse_if_busy()
        index = self._index
        rewriter = self._rewriter() if self._dirty or index.holds_any_up_to(up_to) else None
        self._snapshot_op = max(self._snapshot_op, up_to)
        last = -1 if self._last_op is None else self._last_op
        ops: Sequence[int] = range(up_to + 1, last + 1)
        if last - up_to > self._slots:  # Not contiguous, so rather ask the slots than all numbers between.
            ops = [header.op for header, _ in index.entries() if header.op > up_to]
        self._drain = DrainSession(rewriter=rewriter, index=index, ops=ops, begun_at=self._end, switch=self._switch)
        self._assert_invariants()
        return self._drain

    def drain(self, up_to: int, on_drained: Callable[[Prepare], None] | None = None) -> int:
        """Remove all entries with an op at or below `up_to` in one go, give the number removed. See `begin_drain`.

        `on_drained` gets each of them, ascending, before anything is changed. A failure before the rename leaves the
        entries as they were; a later one poisons the log.
        """
        if on_drained is not None:
            self._refuse_if_poisoned()
            self._refuse_if_busy()
            self._handing_out = True
            try:
                self._hand_out(up_to, on_drained)
            finally:
                self._handing_out = False
        removed = self.begin_drain(up_to).finish()
        self._close_retired()
        return removed

    def truncate_from(self, op: int) -> int:
        """Remove all entries with an op at or above `op` (> 0), give the number removed; the watermark stays.

        After a failed append it always rewrites the file (D-25), and appends are accepted again if `op` is at or below
        `failed_from`. `last_op` becomes the highest survivor.
        """
        self._refuse_if_poisoned()
        self._refuse_if_busy()
        if op <= 0:
            raise InvalidInput(file=self._path, what=f"truncation from op {op}", next_step="name an op above 0")
        entries = self._index.entries()
        live = [entry for entry in entries if entry[0].op < op]
        removed = len(entries) - len(live)
        if removed or self._dirty:
            self._rewrite(live)
        if removed:
            self._last_op = live[-1][0].op if live else None
        if self._failed_from is not None and op <= self._failed_from:
            self._failed_from = None
        self._assert_invariants()
        return removed

    def release(self) -> bool:
        """Free a piece of the file that the last rewrite replaced. True when more is left; `close` frees it otherwise."""
        is_left = self._retired is not None and self._poison is None and self._retired.release()
        if not is_left:
            self._close_retired()
        return is_left

    def close(self) -> None:
        """Close the file. What was appended is durable already; write a durable mark before, if all is well.

        A drain that is under way is aborted.
        """
        self._close_retired()
        if self._drain is not None:
            self._drain.abort()
        if self._file is not None:
            self._file.close()
            self._file = None

    # Inside

    def _close_retired(self) -> None:
        if self._retired is not None:
            self._retired.close()
            self._retired = None

    @property
    def _open_file(self) -> File:
        assert self._file is not None, "the log is closed"
        return self._file

    def _load(self, before_cut: Callable[[], None] | None) -> None:
        file = self._storage.open(self._path, create=False)
        try:
            found = scan(file, path=self._path, group=self._group)
            self._refuse_if_shortened(file.size(), found)
            for header, offset in found.entries:
                self._index_scanned(header, offset)
            if found.cut_bytes and before_cut is not None:
                before_cut()
            self._make_durable(file, found)
            self._space.reset(file.size())
        except BaseException:
            file.close()
            raise
        self._file = file
        self._epoch = found.epoch
        self._end = found.end
        self._marked_end = found.end if found.ends_with_mark or not found.entries else 0
        self._unsealed_count = found.unsealed_count

    def _refuse_if_shortened(self, size: int, found: ScanResult) -> None:
        """A log uses a stretch only once the whole step of zeros behind it is on the disk.

        A crash while the file grows leaves a size that is no whole number of steps, but the entries end before that step. If
        they reach into it, somebody has cut the file off, as an interrupted copy does: what stood behind is lost.
        """
        whole = size // self._step * self._step
        if size != whole and found.end > whole:
            last = found.entries[-1][0].op if found.entries else 0
            raise JournalDamaged(
                file=self._path,
                offset=size,
                op=last + 1,
                reason=f"the file ends after {size} bytes, it was longer once",
            )

    def _make_durable(self, file: File, found: ScanResult) -> None:
        """Cut the torn tail, and have on the disk what the scan read: until now it may only be in the system's cache.

        A process that was killed before its sync, or whose sync failed, leaves such bytes. They are written again, since a
        sync alone does nothing for what an earlier failed one gave up. The rename of a rewrite may be as unfinished.
        """
        if found.durable_offset < found.end:
            file.write(found.durable_offset, read_unproven(file, found, path=self._path))
        if found.cut_bytes:
            write_zeros(file, found.end, found.cut_bytes)
            self._cut_offset = found.end
            self._cut_bytes = found.cut_bytes
        file.sync()
        self._storage.sync_directory(self._path.parent)

    def _index_scanned(self, header: PrepareHeader, offset: int) -> None:
        occupant = self._index.headers[header.op % self._slots]
        if occupant is not None and occupant.op != header.op and occupant.op > self._snapshot_op:
            raise InvalidInput(
                file=self._path,
                what=f"{self._slots} slots hold either op {occupant.op} or op {header.op}, the log has both",
                next_step="set metadata.journal_slots back to the larger value that this log was written with",
            )
        self._index.put(header, offset)
        if self._last_op is None or header.op > self._last_op:
            self._last_op = header.op

    def _write(self, prepares: Sequence[Prepare]) -> list[tuple[PrepareHeader, int, int]]:
        """Write and sync; gives (header, offset, end of the record) of each."""
        placed: list[tuple[PrepareHeader, int, int]] = []
        parts: list[bytes] = []
        durable = end = self._end
        epoch = self._epoch
        for prepare in prepares:
            frame = prepare.frame
            size = len(frame)
            if parts and end + record_size(size) - durable > BATCH_SIZE_MAX:
                self._commit(durable, end, parts)
                durable, parts = end, []
            parts += (
                encode_record_header(
                    kind=KIND_PREPARE,
                    length=size,
                    check=xxh3_64_intdigest(frame) & CHECK_MASK,
                    epoch=epoch,
                    durable_offset=durable,
                ),
                frame,
                padding(RECORD_HEADER_SIZE + size),
            )
            offset, end = end, end + record_size(size)
            placed.append((prepare.header, offset, end))
        self._commit(durable, end, parts)
        return placed

    def _commit(self, start: int, end: int, parts: list[bytes]) -> None:
        self._space.ensure(self._open_file, end)
        self._dirty = True
        file = self._open_file
        file.write(start, b"".join(parts))
        file.datasync()
        self._dirty = False

    def _note_failure(self, prepares: Sequence[Prepare]) -> None:
        """Refuse what follows: an op above a hole must not slip in behind the caller's back (design 3, rule 8).

        Ops that were there already do not count, else a refused duplicate would ask for good entries to be truncated.
        """
        last = -1 if self._last_op is None else self._last_op
        fresh = [prepare.header.op for prepare in prepares if prepare.header.op > last]
        if fresh:
            self._failed_from = min(fresh)
        elif self._dirty:
            self._failed_from = last + 1

    def _hand_out(self, up_to: int, on_drained: Callable[[Prepare], None]) -> None:
        for header, _ in self._index.entries():
            if header.op > up_to:
                break
            prepare = self.entry_at(header)
            assert prepare is not None
            on_drained(prepare)

    def _rewriter(self) -> Rewriter:
        """A new file under a new epoch, to be filled with what is to survive."""
        source = None
        if self._file is not None:
            source = Source(file=self._file, path=self._path, epoch=self._epoch, end=self._end)
        return Rewriter(
            self._storage,
            self._path,
            source=source,
            slots=self._slots,
            group=self._group,
            epoch=self._next_epoch(),
            step=self._step,
        )

    def _rewrite(self, live: Sequence[Entry]) -> None:
        """Replace the file by one that holds `live` only."""
        rewriter = self._rewriter()
        try:
            for header, offset in live:
                for _ in rewriter.copy(header, offset):
                    pass
            rewriter.seal()
        except StorageError:
            rewriter.abort()
            raise
        self._switch(rewriter)
        self._close_retired()

    def _switch(self, rewriter: Rewriter) -> int:
        """Let the new file take the place of the log, give the number of entries that it has less."""
        try:
            self._storage.replace(rewriter.scratch, self._path)
        except StorageError:
            rewriter.abort()
            raise
        self._close_retired()
        self._retired = None if self._file is None else RetiredFile(self._file)
        removed = self._index.count - rewriter.index.count
        self._file = rewriter.file
        self._index = rewriter.index
        self._epoch = rewriter.epoch
        self._end = self._marked_end = rewriter.end
        self._space.reset(rewriter.allocated)
        self._dirty = False
        self._drain = None
        try:
            self._storage.sync_directory(self._path.parent)
            self._file = self._storage.open(self._path, create=False)  # Under its own name, for errors to come.
        except StorageError as error:
            self._poison = f"after a rewrite, before its directory was synced and the file reopened: {error.what}"
            raise JournalPoisoned(file=self._path, reason=self._poison) from error
        rewriter.file.close()
        return removed

    def _next_epoch(self) -> int:
        """A number that differs from the present epoch and from zero."""
        while True:
            epoch = self._epoch_source()
            if epoch not in {0, self._epoch}:
                return epoch

    def _refuse_if_poisoned(self) -> None:
        if self._poison is not None:
            raise JournalPoisoned(file=self._path, reason=self._poison)

    def _refuse_if_busy(self) -> None:
        """One rewrite at a time, also against one that an `on_drained` callback asks for."""
        if self._handing_out or (self._drain is not None and not self._drain.over):
            raise JournalBusy(file=self._path)

    def _assert_invariants(self) -> None:
        last, failed_from = self._last_op, self._failed_from
        assert max(FILE_HEADER_SIZE, self._marked_end) <= self._end <= self._space.end
        assert self._index.count <= self._slots
        if last is not None and last > self._snapshot_op:
            assert self._index.header(last) is not None
        if failed_from is not None:
            assert failed_from > (-1 if last is None else last)
        assert failed_from is not None or not self._dirty


def _op(header: PrepareHeader) -> int:
    return header.op
