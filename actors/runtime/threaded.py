"""The threaded runtime: one node's actors on their dispatchers, its worker threads, its end.

Which actors share a thread is the `arrangement`, a mapping from actor name to dispatcher name. The dispatcher called "io"
runs an asyncio loop, every other one is a plain thread. Nothing runs before `start()`, so an actor's `on_start` may tell
any neighbour. `stop()` is the one owner of the shutdown: it ends the actors in the order given, each after everything
that was told it before, and joins every thread.

The first failure halts every actor of the node and calls `on_failure` once, in the thread that failed. That callback must
only note the failure (set an event, end the process); it must not call `stop()`, which waits for this very thread.

The dispatchers named `expendable` run code that is not ours and may never return: a stop ends them first, side by side, and
leaves behind what has not ended within `EXPENDABLE_SECONDS`.
"""

from __future__ import annotations

import os
import queue
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, final

from loguru import logger

from levrier.actors.runtime.address import Address
from levrier.actors.runtime.asyncio_dispatcher import AsyncioDispatcher
from levrier.actors.runtime.base import FailurePolicy
from levrier.actors.runtime.cell import Cell, describe_error
from levrier.actors.runtime.dispatchers import Dispatcher, ThreadDispatcher
from levrier.actors.runtime.ports import Clock, ExitStatus, FatalReason, Recipient, SystemClock, WorkFailed
from levrier.actors.runtime.probe import Probe
from levrier.actors.runtime.timers import MessageTimer

if TYPE_CHECKING:
    import asyncio

    from levrier.actors.runtime.base import NodeActor

M = TypeVar("M")
R = TypeVar("R")

IO_DISPATCHER = "io"
_THREAD_CHECK_SECONDS = 0.05
EXPENDABLE_SECONDS = 2
"""How long a stop waits for all actors of expendable dispatchers together."""


class OnFailure(Protocol):
    """Gets the reason the node is down, once."""

    def __call__(self, reason: FatalReason, /) -> object:
        """Note the failure."""
        ...


def _ignore(_reason: FatalReason, /) -> None:
    """Nobody asked for reports of plugins; they are in the log."""


@final
class ThreadedRuntime:
    """Runs the actors of one node on threads. Satisfies `Runtime`."""

    def __init__(
        self,
        name: str,
        *,
        arrangement: Mapping[str, str],
        on_failure: OnFailure,
        on_report: OnFailure = _ignore,
        clock: Clock | None = None,
        workers: int = 2,
        use_uvloop: bool = False,
        expendable: Collection[str] = (),
    ) -> None:
        assert workers >= 1
        self._expendable = frozenset(expendable)
        self._name = name
        self._arrangement = dict(arrangement)
        self._on_failure = on_failure
        self._on_report = on_report
        self._clock = SystemClock() if clock is None else clock
        self._random = random.SystemRandom()
        self._lock = threading.RLock()
        self._addresses: dict[str, Address[Any]] = {}
        self._cells: list[Cell] = []
        self._failure: FatalReason | None = None
        self._started = False
        self._stopped = False
        self._work_abandoned = False
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._dispatchers: dict[str, Dispatcher] = {}
        for dispatcher in self._arrangement.values():
            if dispatcher not in self._dispatchers:
                self._dispatchers[dispatcher] = self._new_dispatcher(dispatcher, use_uvloop=use_uvloop)
                self._dispatchers[dispatcher].may_wait = dispatcher in self._expendable
        assert self._dispatchers, "an arrangement names at least one actor"
        self._workers = [
            threading.Thread(target=self._work_off, name=f"levrier-{name}-worker-{index}", daemon=True)
            for index in range(workers)
        ]

    @property
    def name(self) -> str:
        """The node's name."""
        return self._name

    @property
    def clock(self) -> Clock:
        """The node's clock."""
        return self._clock

    @property
    def random(self) -> random.Random:
        """The operating system's randomness."""
        return self._random

    @property
    def failure(self) -> FatalReason | None:
        """Why the node is down, none while it is not."""
        return self._failure

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the dispatcher called "io". It runs between `start()` and `stop()`."""
        dispatcher = self._dispatchers[IO_DISPATCHER]
        assert isinstance(dispatcher, AsyncioDispatcher)
        return dispatcher.loop

    def entropy(self, size: int) -> bytes:
        """`size` random bytes, fit for secrets."""
        return os.urandom(size)

    def address(self, actor_name: str) -> Address[Any]:
        """The address of an actor of the arrangement. The same object each time."""
        assert actor_name in self._arrangement, f"the arrangement of node {self._name} has no actor {actor_name}"
        with self._lock:
            address = self._addresses.get(actor_name)
            if address is None:
                address = self._addresses[actor_name] = Address(node=self._name, name=actor_name)
            return address

    def every(self, milliseconds: int, recipient: Recipient[M], message: M) -> MessageTimer:
        """Tell `message` again and again, fired by the recipient's own dispatcher."""
        return self._add_timer(milliseconds, repeat=True, recipient=recipient, message=message)

    def after(self, milliseconds: int, recipient: Recipient[M], message: M) -> MessageTimer:
        """Tell `message` once, fired by the recipient's own dispatcher."""
        return self._add_timer(milliseconds, repeat=False, recipient=recipient, message=message)

    def offload(self, work: Callable[[], R], deliver: Callable[[R | WorkFailed], object], to: Recipient[Any]) -> None:
        """Run `work` in one of the worker threads, then tell `to` what `deliver` makes of its result."""

        def job() -> None:
            result: R | WorkFailed
            try:
                result = work()
            except AssertionError:
                raise
            except Exception as error:  # noqa: BLE001
                result = WorkFailed(reason=describe_error(error))
            to.tell(deliver(result))

        self._work.put(job)

    def fail(self, reason: FatalReason) -> None:
        """Declare the node dead. Callable from any thread; the first reason counts."""
        self._fail(reason, None)

    def adopt(self, actor: NodeActor) -> None:
        """Put the actor on its dispatcher and bind its address."""
        cell = Cell(name=actor.name, supervisor=self, receive=actor.receive, actor=actor)
        dispatcher = self._dispatcher_of(actor.name)
        actor.inbox.bind(cell=cell, append=dispatcher.append, home=dispatcher)
        self._admit(cell, dispatcher)

    def probe(self, name: str) -> Probe[Any]:
        """A probe in place of the actor of that name; it records in the dispatcher's thread."""
        probe: Probe[Any] = Probe(name)
        self._admit(Cell(name=name, supervisor=self, receive=probe.tell), self._dispatcher_of(name))
        return probe

    def start(self) -> None:
        """Start the threads: `on_start` runs, then what was told so far is delivered."""
        assert not self._started, "a runtime starts once"
        assert not self._stopped
        self._started = True
        for dispatcher in self._dispatchers.values():
            dispatcher.start()
        for worker in self._workers:
            worker.start()

    def stop(self, *, order: Sequence[str] = (), timeout_seconds: float = 30.0) -> None:
        """End the actors in `order`, then the others last started first, then every thread. Once is enough.

        Each actor handles what it was told before its turn came; what it tells then still reaches those behind it.
        AssertionError when an actor or a thread does not end within `timeout_seconds`.
        """
        threads = [dispatcher.thread for dispatcher in self._dispatchers.values()] + self._workers
        current = threading.current_thread()
        assert current not in threads, "stop() waits for the node's threads and may not run in one of them"
        if self._stopped:
            return
        self._stopped = True
        if not self._started:
            self._discard()
            return
        abandoned = self._end_expendable()
        for cell in self._stopping_order(order):
            if self._arrangement[cell.name] not in self._expendable:
                self._end(cell, timeout_seconds)
        self._work_abandoned = True
        for _ in self._workers:
            self._work.put(None)
        for dispatcher in self._dispatchers.values():
            dispatcher.close()
        left_behind = [dispatcher.thread for dispatcher in abandoned]
        awaited = [thread for thread in threads if thread not in left_behind]
        for thread in awaited:
            thread.join(timeout_seconds)
        stuck = [thread.name for thread in awaited if thread.is_alive()]
        assert not stuck, f"threads that did not end: {', '.join(stuck)}"
        for dispatcher in self._dispatchers.values():
            if dispatcher not in abandoned:
                dispatcher.drain_dead()
        for cell in self._cells:
            if not cell.ended and self._dispatcher_of(cell.name) not in abandoned:
                cell.discard()

    def inbox_depths(self) -> dict[str, int]:
        """Entries that wait, by dispatcher: the actors of one dispatcher share one mailbox."""
        return {name: len(dispatcher.queue) for name, dispatcher in self._dispatchers.items()}

    def actor_raised(self, cell: Cell, error: Exception) -> None:
        """Apply the actor's failure policy; the traceback is logged here, once."""
        reason = FatalReason(status=ExitStatus.ACTOR_FAILED, reason=describe_error(error), actor=cell.name)
        if cell.actor is None or cell.actor.failure_policy is FailurePolicy.NODE_DOWN:
            self._fail(reason, error)
            return
        logger.opt(exception=error).error("actor {} of node {} ended: {}", cell.name, self._name, reason.reason)
        cell.halt()
        cell.end()
        self._on_report(reason)

    def dispatcher_died(self, name: str, error: BaseException) -> None:
        """Something other than an actor raised: our bug, and the node's end."""
        self._fail(FatalReason(status=ExitStatus.ACTOR_FAILED, reason=describe_error(error), actor=name), error)

    def _fail(self, reason: FatalReason, error: BaseException | None) -> None:
        with self._lock:
            first = self._failure is None
            if first:
                self._failure = reason
                for cell in self._cells:
                    cell.halt()
        if not first:
            logger.debug("node {} is down already; also: {}", self._name, reason)
            return
        logger.opt(exception=error).error(
            "node {} is down, status {}: {}: {}", self._name, reason.status, reason.actor, reason.reason
        )
        self._on_failure(reason)

    def _new_dispatcher(self, name: str, *, use_uvloop: bool) -> Dispatcher:
        thread_name = f"levrier-{self._name}-{name}"
        if name == IO_DISPATCHER:
            return AsyncioDispatcher(name=name, thread_name=thread_name, host=self, use_uvloop=use_uvloop)
        return ThreadDispatcher(name=name, thread_name=thread_name, host=self)

    def _dispatcher_of(self, actor_name: str) -> Dispatcher:
        assert actor_name in self._arrangement, f"the arrangement of node {self._name} has no actor {actor_name}"
        return self._dispatchers[self._arrangement[actor_name]]

    def _admit(self, cell: Cell, dispatcher: Dispatcher) -> None:
        def start() -> None:
            with self._lock:
                # Waits for the lines below: `on_start` may tell this very address, and nobody may tell it earlier.
                assert self.address(cell.name).slot is cell
            cell.start()

        with self._lock:
            address = self.address(cell.name)
            address.assert_free()
            self._cells = [known for known in self._cells if not known.ended]
            self._cells.append(cell)
            if self._failure is not None:
                cell.halt()
            dispatcher.post(start)
            address.bind(slot=cell, append=dispatcher.append, home=dispatcher)

    def _add_timer(
        self, milliseconds: int, *, repeat: bool, recipient: Recipient[Any], message: object
    ) -> MessageTimer:
        timer = MessageTimer(
            now_nanos=time.monotonic_ns(),
            milliseconds=milliseconds,
            repeat=repeat,
            recipient=recipient,
            message=message,
        )
        if isinstance(recipient, Address):
            self._dispatcher_of(recipient.name).add_timer(timer)
        else:
            next(iter(self._dispatchers.values())).add_timer(timer)
        return timer

    def _stopping_order(self, order: Sequence[str]) -> list[Cell]:
        by_name = {cell.name: cell for cell in self._cells if not cell.ended}
        named = [by_name.pop(name) for name in order if name in by_name]
        return named + list(reversed(by_name.values()))

    def _end(self, cell: Cell, timeout_seconds: float) -> None:
        ended = threading.Event()
        dispatcher = self._dispatcher_of(cell.name)

        def end() -> None:
            cell.end()
            ended.set()

        deadline = time.monotonic() + timeout_seconds
        dispatcher.post(end)
        while not ended.wait(_THREAD_CHECK_SECONDS):
            if not dispatcher.thread.is_alive():
                # It died of something worse than an actor's exception; its actors still release what they hold.
                cell.end()
                return
            assert time.monotonic() < deadline, f"actor {cell.name} did not end in {timeout_seconds} s"

    def _end_expendable(self) -> list[Dispatcher]:
        """End the actors of expendable dispatchers, side by side, and give up on those that do not end soon.

        The thread of such a one is left to itself: it is told nothing more, ends by itself when its handler returns, and as
        a daemon keeps no process alive.
        """
        cells = [cell for cell in self._cells if not cell.ended and self._arrangement[cell.name] in self._expendable]
        ended = {cell: threading.Event() for cell in cells}

        def end(cell: Cell) -> None:
            cell.end()
            ended[cell].set()

        for cell in cells:
            self._dispatcher_of(cell.name).post(partial(end, cell))
        deadline = time.monotonic() + EXPENDABLE_SECONDS
        abandoned = []
        for cell in cells:
            if not ended[cell].wait(max(0.0, deadline - time.monotonic())):
                cell.halt()
                abandoned.append(self._dispatcher_of(cell.name))
                logger.warning(
                    "actor {} did not end within {} s: its thread is left behind", cell.name, EXPENDABLE_SECONDS
                )
        return abandoned

    def _discard(self) -> None:
        for cell in self._cells:
            cell.discard()
        for dispatcher in self._dispatchers.values():
            if isinstance(dispatcher, AsyncioDispatcher):
                dispatcher.close_unstarted()
            dispatcher.drain_dead()

    def _work_off(self) -> None:
        while (job := self._work.get()) is not None:
            if self._work_abandoned:
                continue
            try:
                job()
            except Exception as error:  # noqa: BLE001
                self.dispatcher_died("worker", error)
