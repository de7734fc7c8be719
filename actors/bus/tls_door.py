"""A listener whose sockets shake hands over TLS before anybody is told of them, so many at a time and no more.

The event loop's own server keeps every socket that was accepted until its handshake is over or too late. Each costs a descriptor
and about 50 KiB, so whoever only connects, a thousand times, would take both from the node. Here one handshake beyond the
bound ends the oldest: a peer that means it needs milliseconds, and dials again.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

ACCEPTED_MAX: Final = 16
"""Sockets that are accepted in one turn of the event loop; the next turn goes on."""
PAUSE_SECONDS: Final = 1.0
"""How long nothing is accepted when the system has no descriptor left."""


class TlsDoor:
    """Accepts on `listener`, which is non-blocking and stays the caller's. `waiting_max` handshakes at a time."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        context: ssl.SSLContext,
        protocol: Callable[[], asyncio.BaseProtocol],
        waiting_max: int,
        handshake_seconds: float,
    ) -> None:
        assert waiting_max >= ACCEPTED_MAX
        self._loop = loop
        self._listener = listener
        self._context = context
        self._protocol = protocol
        self._waiting_max = waiting_max
        self._handshake_seconds = handshake_seconds
        self._waiting: dict[asyncio.Task[None], bool] = {}
        """In the order of their arrival, and whether each has begun: from then on its socket is the event loop's to close."""
        self._is_open = False
        self._pause: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """How many handshakes are under way."""
        return len(self._waiting)

    def open(self) -> None:
        """Begin to accept."""
        self._pause = None
        self._is_open = True
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more, and end the handshakes that are under way."""
        self._is_open = False
        self._loop.remove_reader(self._listener.fileno())
        if self._pause is not None:
            self._pause.cancel()
        for task, has_begun in self._waiting.items():
            if has_begun:
                task.cancel()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_MAX):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._loop.remove_reader(self._listener.fileno())
                self._pause = self._loop.call_later(PAUSE_SECONDS, self.open)
                return
            accepted.setblocking(False)
            if len(self._waiting) >= self._waiting_max:
                oldest = next(iter(self._waiting))
                if not self._waiting[oldest]:
                    accepted.close()
                    continue
                del self._waiting[oldest]
                oldest.cancel()
            task = self._loop.create_task(self._shake(accepted))
            self._waiting[task] = False
            task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._waiting.pop(task, None)

    async def _shake(self, accepted: socket.socket) -> None:
        """A stranger's handshake may fail in any way: that is nobody's business but his."""
        if not self._is_open:
            accepted.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._waiting[task] = True
        try:
            await self._loop.connect_accepted_socket(
                self._protocol, accepted, ssl=self._context, ssl_handshake_timeout=self._handshake_seconds
            )
        except OSError:
            return
