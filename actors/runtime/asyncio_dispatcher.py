"""The dispatcher whose thread runs an asyncio event loop, for the actor that owns sockets.

Its mailbox is the same deque; a wake-up is one `call_soon_threadsafe`, coalesced: none is sent while one is under way or
while a turn runs. Between two turns the loop serves its sockets. An exception that reaches the loop's exception handler is
our bug and fails the node; an OSError there is the world's and is logged.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, final

from loguru import logger

from levrier.actors.runtime.dispatchers import Dispatcher, DispatcherHost

_CLOSING_ROUNDS = 5
_NANOS_PER_MILLI = 1_000_000


def new_event_loop(*, use_uvloop: bool) -> asyncio.AbstractEventLoop:
    """An event loop: uvloop's when asked for and installed, the standard one otherwise."""
    if use_uvloop:
        try:
            import uvloop  # noqa: PLC0415
        except ImportError:
            pass
        else:
            loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            return loop
    return asyncio.new_event_loop()


@final
class AsyncioDispatcher(Dispatcher):
    """A thread with an event loop. Handlers run in the loop's thread and may use `loop` directly."""

    def __init__(self, *, name: str, thread_name: str, host: DispatcherHost, use_uvloop: bool = False) -> None:
        super().__init__(name=name, thread_name=thread_name, host=host)
        self.loop = new_event_loop(use_uvloop=use_uvloop)
        self.loop.set_exception_handler(self._on_loop_exception)
        self._thread_ident = -1
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_due = 0
        self._in_turn = False
        self._finishing = False

    def rouse(self) -> None:
        """Schedule a turn."""
        if threading.get_ident() == self._thread_ident:
            self.loop.call_soon(self._loop_turn)
            return
        try:
            self.loop.call_soon_threadsafe(self._loop_turn)
        except RuntimeError:
            # The loop was closed between the look at `idle` and now: the runtime has stopped.
            assert self.loop.is_closed()

    def close_unstarted(self) -> None:
        """Release the loop of a dispatcher that was never started."""
        self.loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self._thread_ident = threading.get_ident()
        self.loop.call_soon(self._loop_turn)
        try:
            self.loop.run_forever()
            assert self._finishing
            self.loop.run_until_complete(self._finish())
        finally:
            self.idle = False
            self._thread_ident = -1
            asyncio.set_event_loop(None)
            self.loop.close()

    def _loop_turn(self) -> None:
        if self._finishing:
            # A surplus wake-up that was under way when the loop was stopped; stopping it again would break `_finish`.
            return
        self._in_turn = True
        try:
            self._turn()
        except BaseException as error:  # noqa: BLE001
            self._host.dispatcher_died(self.name, error)
            self._closing = True
        self._in_turn = False
        if self._closing and not self.queue:
            self._finishing = True
            self.loop.stop()
        elif self.queue:
            self.loop.call_soon(self._loop_turn)
        else:
            self._set_alarm()
            self.idle = True
            if self.queue:
                self.idle = False
                self.loop.call_soon(self._loop_turn)

    def _rouse_later(self, other: Dispatcher) -> None:
        """At the end of the turn; what a socket brought, when the loop has looked at all sockets that are ready."""
        if not self._in_turn and not self._to_rouse:
            self.loop.call_soon(self._rouse_others)
        super()._rouse_later(other)

    def _set_alarm(self) -> None:
        """Have the loop wake for the next timer. An alarm that comes too early only looks again.

        Loops count in milliseconds: a part of one is rounded up, or a wait of less than half of one would be none, and the loop
        would spin until the timer is due.
        """
        due = self._next_due_nanos()
        if due is None or (self._alarm is not None and self._alarm_due <= due):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_due = due
        milliseconds = -(-max(0, due - time.monotonic_ns()) // _NANOS_PER_MILLI)
        self._alarm = self.loop.call_later(milliseconds / 1e3, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        self.idle = False
        self._loop_turn()

    async def _finish(self) -> None:
        """Cancel what still runs in the loop and let transports close.

        First what has begun goes on for a moment: a socket whose acceptance were cancelled before its first step would be
        closed by nobody.
        """
        for _ in range(_CLOSING_ROUNDS):
            await asyncio.sleep(0)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(_CLOSING_ROUNDS):
            await asyncio.sleep(0)
        await self.loop.shutdown_asyncgens()
        await self.loop.shutdown_default_executor()

    def _on_loop_exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None or isinstance(error, OSError):
            logger.warning("event loop of dispatcher {}: {} ({!r})", self.name, context.get("message"), error)
            return
        self._host.dispatcher_died(self.name, error)
