"""The zeros behind the records of a log: what an append may overwrite without growing the file (persistence 2.2, D-24).

The file grows in whole steps, and a step is used only once all of its zeros are durable: then the sync of an append has
data to write and no metadata, and a file that ends inside a step that holds records was cut off by somebody. A step is
far more than an append may wait for, so whoever owns the log has it filled in pieces ahead, between two appends; an append
that is faster than that fills the rest itself.
"""

from __future__ import annotations

from typing import Final

from levrier.persistence.errors import StorageError
from levrier.persistence.journal_rewrite import write_zeros
from levrier.persistence.storage import File

PIECE_SIZE: Final = 256 * 1024
"""Bytes that are filled and synced at a time, or a quarter of a small step: about as long as two syncs of an append."""
AHEAD_SIZE: Final = 1024 * 1024
"""The next step is begun when less than this is left of the present one, or less than half a step if steps are small."""


class Space:
    """Up to where the file of a log may be written. `end` is a whole number of steps."""

    __slots__ = ("_filled", "_gave_up", "_step", "end")

    def __init__(self, step: int) -> None:
        self._step = step
        self.reset(0)

    def reset(self, size: int) -> None:
        """The log is now a file of `size` bytes. A step at its end that is not whole has to be filled anew."""
        self.end = size // self._step * self._step
        self._filled = self.end
        self._gave_up = False

    def ensure(self, file: File, end: int) -> None:
        """Have the steps up to `end` ready, whatever it takes."""
        if end > self.end:
            target = -(-end // self._step) * self._step
            write_zeros(file, self._filled, target - self._filled)
            file.sync()
            self.reset(target)

    def fill_ahead(self, file: File, used: int) -> None:
        """Fill a piece of the next step if the records, which end at `used`, come near it.

        A failure raises `StorageError` and is not tried again: the append that needs the step reports it if it lasts.
        """
        if self._gave_up or self.end - used >= min(AHEAD_SIZE, self._step // 2):
            return
        target = self.end + self._step
        count = min(PIECE_SIZE, self._step // 4, target - self._filled)
        try:
            write_zeros(file, self._filled, count)
            file.sync()
        except StorageError:
            self._gave_up = True
            raise
        self._filled += count
        if self._filled == target:
            self.reset(target)
