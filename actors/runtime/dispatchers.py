"""Dispatchers: one mailbox, one thread, any number of actors.

A dispatcher owns a deque of entries and a heap of timers. It handles entries strictly in arrival order over all its
actors, which gives FIFO per pair and fairness for nothing. After the mailbox has run empty, or after `BATCH_MAX` entries,
it closes the open batches and looks at its timers. Timers are fired by the wait timeout of the thread itself; a timer
whose last message still waits is not queued again.

A dispatcher is woken only when it is idle. The consumer sets `idle` and then looks at the mailbox once more; a producer
appends and then looks at `idle`. One of the two sees the other, so no wake-up is lost; one too many does no harm.

A wake-up by an actor is sent when its dispatcher's turn ends, or after `WAKES_WITHIN` entries: whoever were woken earlier
would only wait for the interpreter, which this thread holds, and be woken a second time to get it. A thread that may let go
for long in the middle of a turn, at the batch end of an actor that waits for a disk or in code that is not ours, wakes at once.
"""

from __future__ import annotations

import abc
import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol, final

from pykka._envelope import Envelope

from levrier.actors.runtime.address import Entry
from levrier.actors.runtime.cell import CONTROL, Cell, answer_dead
from levrier.actors.runtime.timers import MessageTimer

BATCH_MAX = 256
WAKES_WITHIN = 16
"""Entries after which whoever is to be woken is, at the latest."""

assert BATCH_MAX % WAKES_WITHIN == 0
_IDLE_SECONDS_MAX = 3600.0


class DispatcherHost(Protocol):
    """The runtime as a dispatcher sees it."""

    def actor_raised(self, cell: Cell, error: Exception) -> None:
        """An actor raised."""
        ...

    def dispatcher_died(self, name: str, error: BaseException) -> None:
        """Something other than an actor raised in a dispatcher's thread."""
        ...


class _Running(threading.local):
    """Which dispatcher the present thread belongs to, if any."""

    dispatcher: Dispatcher | None = None


_running = _Running()


class Dispatcher(abc.ABC):
    """What the thread and the asyncio dispatcher share: the mailbox, the timers, one turn."""

    def __init__(self, *, name: str, thread_name: str, host: DispatcherHost) -> None:
        self.name = name
        self.idle = False
        self.may_wait = False
        """Whether the handlers here may take long without holding the interpreter."""
        self.queue: deque[Entry] = deque()
        self.append = self.queue.append
        self._host = host
        self._open_batches: dict[Cell, None] = {}
        self._timers: list[tuple[int, int, MessageTimer]] = []
        self._timer_numbers = itertools.count()
        self._closing = False
        self._to_rouse: list[Dispatcher] = []
        self._thread = threading.Thread(target=self._run_guarded, name=thread_name, daemon=True)

    def wake(self) -> None:
        """Make an idle dispatcher look at its mailbox, once the dispatcher that asks for it lets go. Callable from any thread."""
        self.idle = False
        asking = _running.dispatcher
        if asking is None or asking is self or asking.may_wait:
            self.rouse()
        else:
            asking._rouse_later(self)

    @abc.abstractmethod
    def rouse(self) -> None:
        """Make the dispatcher look at its mailbox now. Callable from any thread."""

    @abc.abstractmethod
    def _run(self) -> None:
        """Work until `_closing`."""

    @property
    def thread(self) -> threading.Thread:
        """The thread that runs the actors."""
        return self._thread

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def post(self, action: Callable[[], object]) -> None:
        """Run `action` in the dispatcher's thread, behind what is queued. Callable from any thread."""
        self.append((CONTROL, action))
        if self.idle:
            self.wake()

    def close(self) -> None:
        """Have the thread end once the mailbox is empty. Callable from any thread."""
        self.post(self._mark_closing)

    def drain_dead(self) -> None:
        """After the thread has ended: answer whoever still asks, and drop the rest."""
        while self.queue:
            _, message = self.queue.popleft()
            if isinstance(message, Envelope):
                answer_dead(message)

    def add_timer(self, timer: MessageTimer) -> None:
        """Have the timer fire here. Callable from any thread."""
        self.post(lambda: self._push_timer(timer))

    def _mark_closing(self) -> None:
        self._closing = True

    def _push_timer(self, timer: MessageTimer) -> None:
        heapq.heappush(self._timers, (timer.due_nanos, next(self._timer_numbers), timer))

    def _rouse_later(self, other: Dispatcher) -> None:
        """Rouse another dispatcher at the end of this turn."""
        self._to_rouse.append(other)

    def _rouse_others(self) -> None:
        others, self._to_rouse = self._to_rouse, []
        for other in others:
            other.rouse()

    def _run_guarded(self) -> None:
        _running.dispatcher = self
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001
            self._host.dispatcher_died(self.name, error)
        finally:
            self._rouse_others()

    def _turn(self) -> None:
        """Handle what is queued, at most BATCH_MAX entries; close the batches; fire the due timers."""
        popleft = self.queue.popleft
        open_batches = self._open_batches
        for number in range(BATCH_MAX):
            if self._to_rouse and not number % WAKES_WITHIN:
                self._rouse_others()
            try:
                slot, message = popleft()
            except IndexError:
                break
            try:
                slot.receive(message)
            except Exception as error:
                if slot.cell is None:
                    raise
                self._host.actor_raised(slot.cell, error)
            if slot.batches and slot.cell is not None:
                slot.cell.batch_open = True
                open_batches[slot.cell] = None
        if open_batches:
            self._end_batches()
        if self._timers:
            self._fire_timers()
        if self._to_rouse:
            self._rouse_others()

    def _end_batches(self) -> None:
        """Those that wait for a disk last, so that what is to be sent is sent, and who is to be woken is woken, before."""
        waiting: list[Cell] = []
        for cell in self._open_batches:
            if cell.waits:
                waiting.append(cell)
            else:
                cell.end_batch()
        self._open_batches.clear()
        if not waiting:
            return
        self._rouse_others()
        may_wait, self.may_wait = self.may_wait, True
        for cell in waiting:
            cell.end_batch()
        self.may_wait = may_wait

    def _fire_timers(self) -> None:
        now = time.monotonic_ns()
        timers = self._timers
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            if timer.fire(now):
                self._push_timer(timer)

    def _next_due_nanos(self) -> int | None:
        """When the next timer is due, none when there is none."""
        timers = self._timers
        while timers and timers[0][2].over:
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def _seconds_to_next_timer(self) -> float | None:
        """Seconds until the next timer is due, none when there is none."""
        due = self._next_due_nanos()
        return None if due is None else max(0, due - time.monotonic_ns()) / 1e9


@final
class ThreadDispatcher(Dispatcher):
    """A plain thread that sleeps on a lock."""

    def __init__(self, *, name: str, thread_name: str, host: DispatcherHost) -> None:
        super().__init__(name=name, thread_name=thread_name, host=host)
        self._sleep = threading.Lock()
        self._sleep.acquire()

    def rouse(self) -> None:
        """Release the lock the consumer sleeps on."""
        # Two producers may both have seen it idle; the second finds the lock released already.
        if self._sleep.locked():
            try:
                self._sleep.release()
            except RuntimeError:
                return

    def _run(self) -> None:
        queue = self.queue
        while not (self._closing and not queue):
            self._turn()
            if queue or self._closing:
                continue
            self.idle = True
            if not queue:
                seconds = self._seconds_to_next_timer()
                self._sleep.acquire(timeout=_IDLE_SECONDS_MAX if seconds is None else seconds)
            self.idle = False
