"""Timers, the same in both runtimes: a message told later, through a slot of its own.

The slot keeps two promises that a plain message could not: after `cancel()` nothing arrives, although the message may be
in the mailbox already; and a message that still waits is not queued again, so a busy actor finds one tick, not a flood.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from levrier.actors.runtime.address import Address
from levrier.actors.runtime.cell import Cell
from levrier.actors.runtime.ports import Recipient

_NANOS_PER_MILLI = 1_000_000


@final
class MessageTimer:
    """One timer, and the slot of its message."""

    __slots__ = (
        "_message",
        "_owner_is_gone",
        "_recipient",
        "_waiting",
        "batches",
        "cancelled",
        "cell",
        "due_nanos",
        "interval_nanos",
    )

    def __init__(
        self,
        *,
        now_nanos: int,
        milliseconds: int,
        repeat: bool,
        recipient: Recipient[Any],
        message: object,
        owner_is_gone: Callable[[], bool] = lambda: False,
    ) -> None:
        assert milliseconds >= 0
        assert milliseconds > 0 or not repeat, "a repeated timer needs an interval"
        nanos = milliseconds * _NANOS_PER_MILLI
        self.due_nanos = now_nanos + nanos
        self.interval_nanos = nanos if repeat else 0
        self.cancelled = False
        self.cell: Cell | None = None
        self.batches = False
        self._recipient = recipient
        self._message = message
        self._waiting = False
        self._owner_is_gone = owner_is_gone

    def cancel(self) -> None:
        """Tell it no more, even if it is in the mailbox already."""
        self.cancelled = True

    @property
    def over(self) -> bool:
        """Whether it will never fire again."""
        return self.cancelled or self._owner_is_gone()

    def fire(self, now_nanos: int) -> bool:
        """Queue the message unless the previous one still waits. Gives whether there is a next time to keep.

        The next time is the first multiple of the interval after `now_nanos`: what was missed is not made up for.
        """
        assert now_nanos >= self.due_nanos
        if self.over:
            return False
        self._queue()
        if self.cancelled or not self.interval_nanos:
            return False
        passed = (now_nanos - self.due_nanos) // self.interval_nanos
        self.due_nanos += (passed + 1) * self.interval_nanos
        return True

    def receive(self, message: object) -> None:
        """Deliver the message that was queued."""
        self._waiting = False
        if not self.cancelled and self.cell is not None:
            self.cell.receive(message)

    def _queue(self) -> None:
        recipient = self._recipient
        if not isinstance(recipient, Address):
            recipient.tell(self._message)
            return
        assert recipient.bound, f"a timer of {recipient!r} is due but no actor of that name was started"
        cell = recipient.slot.cell
        assert cell is not None
        if not cell.alive:
            self.cancelled = True
        elif not self._waiting:
            self._waiting = True
            self.cell, self.batches = cell, cell.batches
            recipient.put(self, self._message)
