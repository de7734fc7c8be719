"""A drain in bounded steps, so that appends go on between them (persistence 2.4; design section 4).

A drain copies what stays into a new file. With thousands of live entries that takes longer than an append may wait, so a
session copies a little at a time, fills the preallocated rest and syncs as it goes, while the old file remains the log: it
takes the appends, it is what a crash leaves, and an abort only removes the new file. What is appended meanwhile is copied
behind the rest. `finish` is the one step that has to be short: the last few entries, a small sync, the rename.

Nothing here decides what may be removed, or when a step is due.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from levrier.persistence.errors import StorageError
from levrier.persistence.journal_format import RECORD_HEADER_SIZE, record_size
from levrier.persistence.journal_index import Entry, SlotIndex
from levrier.persistence.journal_rewrite import CHUNK_SIZE, Rewriter
from levrier.wire.headers import PrepareHeader

STEP_SIZE: Final = 64 * 1024
"""Bytes that a step copies: below a millisecond even of the smallest entries."""
SYNC_SIZE: Final = 256 * 1024
"""Unsynced bytes of the new file after which a step syncs it: few enough not to keep the disk from an append."""
_ABSENT_COST: Final = RECORD_HEADER_SIZE
"""What a step counts for an op that the log does not hold."""

assert STEP_SIZE <= SYNC_SIZE
assert CHUNK_SIZE <= SYNC_SIZE


class DrainSession:
    """One drain. Made by `PrepareJournal.begin_drain`; `step` until `ready`, then `finish`; or `abort` at any time.

    `rewriter` is None when there is nothing to remove. `ops` are those to keep, ascending, as far as `index` still has them
    when their turn comes; `switch` makes the new file the log and gives the number of entries removed.
    """

    def __init__(
        self,
        *,
        rewriter: Rewriter | None,
        index: SlotIndex,
        ops: Iterable[int],
        begun_at: int,
        switch: Callable[[Rewriter], int],
    ) -> None:
        self._rewriter = rewriter
        self._index = index
        self._ops = ops
        self._begun_at = begun_at
        self._switch = switch
        self._late: deque[Entry] = deque()
        self._late_size = 0
        self._pieces = iter(()) if rewriter is None else self._copying(rewriter)
        self._ready = rewriter is None
        self._over = False

    @property
    def ready(self) -> bool:
        """Whether `finish` has only to copy what was appended since the last step."""
        return self._ready

    @property
    def over(self) -> bool:
        """Whether it was finished or aborted, or has failed."""
        return self._over

    def note(self, header: PrepareHeader, offset: int, end: int) -> None:
        """The log has taken an entry: its record stands from `offset` to `end` and is durable. For the log only."""
        if self._rewriter is None or self._over:
            return
        self._late.append((header, offset))
        self._late_size += record_size(header.size)
        self._rewriter.note_source_end(end)

    def step(self) -> None:
        """Copy, fill and sync a bounded piece. A failure raises `StorageError` and aborts; the log is as before.

        What came since the last step counts twice, so the drain ends however fast the log grows.
        """
        assert not self._over
        rewriter = self._rewriter
        assert rewriter is not None and not self._ready, "a drain that is ready is finished"  # noqa: PT018
        budget = STEP_SIZE + 2 * self._late_size
        self._late_size = 0
        try:
            nothing_left = self._copy(budget)
            rewriter.flush()
            filled = nothing_left and rewriter.fill(SYNC_SIZE)
            if filled or rewriter.unsynced_size >= SYNC_SIZE:
                rewriter.sync()
        except StorageError:
            self.abort()
            raise
        self._ready = filled

    def finish(self) -> int:
        """Copy what is left, whatever it is, and switch to the new file; gives the number of entries removed.

        A failure before the rename raises `StorageError` and leaves the log as it was, a later one poisons it. The old file
        stays open until `PrepareJournal.release`.
        """
        assert not self._over
        rewriter = self._rewriter
        if rewriter is None:
            self._over = True
            return 0
        try:
            self._copy(None)
            rewriter.seal()
        except StorageError:
            self.abort()
            raise
        self._over = True
        return self._switch(rewriter)

    def abort(self) -> None:
        """Give up: the new file is removed, the log stays as it is. Safe to repeat."""
        if self._over:
            return
        self._over = True
        if self._rewriter is not None:
            self._rewriter.abort()

    def _copy(self, budget: int | None) -> bool:
        """Copy until nothing is left for now, which gives True, or `budget` bytes are through."""
        done = 0
        for size in self._pieces:
            if size == 0:
                return True
            done += size
            if budget is not None and done >= budget:
                return False
        raise AssertionError("there is always a next piece")

    def _copying(self, rewriter: Rewriter) -> Iterator[int]:
        """Copies a piece each time, and gives its size; 0 when there is none for now."""
        index, late = self._index, self._late
        for op in self._ops:
            header, offset = index.header(op), index.offset(op)
            if header is None or offset >= self._begun_at:  # Gone since, or it is among the late ones.
                yield _ABSENT_COST
            else:
                yield from rewriter.copy(header, offset)
        while True:
            if late:
                yield from rewriter.copy(*late.popleft())
            else:
                yield 0
