"""Ways between the members of a cluster on one machine that can be cut: small TCP proxies, no privileges needed.

The member of the lower id dials (wire 6.3), so a proxy stands in front of the replica port of the higher one, a port of its own
for each pair, and the configuration of the dialling member names that port. Each direction of a pair is open or closed. A
closed direction passes nothing and loses nothing, like a cable that is pulled: neither side hears of it, and what was sent
arrives when it is opened again, if both are still there. `reset` is the other thing that happens to links: both sides hear
that they are gone.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import ExitStack
from typing import Any, Final, TypeVar

from levrier.cluster.background import BackgroundLoop

T = TypeVar("T")

HOST: Final = "127.0.0.1"
CALL_SECONDS: Final = 10.0
_CHUNK: Final = 65_536


class _Way:
    """The proxy of one pair. Lives in the thread of `Links`."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.open = {True: asyncio.Event(), False: asyncio.Event()}
        """Whether bytes pass: True for the direction in which it was dialled."""
        for direction in self.open.values():
            direction.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, listener: socket.socket) -> None:
        """Accept from now on."""
        self._server = await asyncio.start_server(self._accepted, sock=listener)

    async def close(self) -> None:
        """End every link and stop to accept."""
        assert self._server is not None
        self._server.close()
        await self.reset()
        await self._server.wait_closed()

    async def reset(self) -> None:
        """End every link; both sides hear of it."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._link(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One link from its accept to its end. A dial through a closed direction stays unanswered."""
        onward: asyncio.StreamWriter | None = None
        try:
            await self.open[True].wait()
            await self.open[False].wait()
            back, onward = await asyncio.open_connection(HOST, self._target)
            both = [
                asyncio.ensure_future(self._pump(reader, onward, self.open[True])),
                asyncio.ensure_future(self._pump(back, writer, self.open[False])),
            ]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in both:
                    pump.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        except OSError:
            return  # Nobody listens there now: the one who dialled is told by the end of its link.
        finally:
            for each in (writer, onward):
                if each is not None:
                    each.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, is_open: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while True:
                await is_open.wait()
                data = await source.read(_CHUNK)
                await is_open.wait()  # Also the end of a link is heard only where the way is open.
                if not data:
                    return
                sink.write(data)
                await sink.drain()


def _any_listener() -> socket.socket:
    return socket.create_server((HOST, 0))


def listener_apart_from(taken: Collection[int], listen: Callable[[], socket.socket] = _any_listener) -> socket.socket:
    """A listener on a port that is not `taken`: one that somebody will listen on is free for the system until then."""
    with ExitStack() as refused:
        while (listener := listen()).getsockname()[1] in taken:
            refused.enter_context(listener)
        return listener


class Links:
    """The ways between members whose replica ports are `targets`, by id; in a thread of its own until `stop`.

    All are open at first. Nothing has to listen at the targets yet, nor at the ports that are `taken`: no way gets one of them.
    """

    def __init__(self, targets: Sequence[int], *, taken: Collection[int] = ()) -> None:
        self._taken = {*targets, *taken}
        self._background = BackgroundLoop("levrier-links")
        self._ways: dict[tuple[int, int], _Way] = {}
        self._ports: dict[tuple[int, int], int] = {}
        try:
            for high, target in enumerate(targets):
                for low in range(high):
                    self._run(self._make(low, high, target))
        except BaseException:
            self.stop()
            raise

    def port(self, dialling: int, target: int) -> int:
        """Where `dialling` reaches `target`, which has the higher id."""
        return self._ports[dialling, target]

    def cut(self, source: int, target: int) -> None:
        """Nothing that `source` sends reaches `target` any more."""
        self._run(self._set(source, target, is_open=False))

    def mend(self, source: int, target: int) -> None:
        """What `source` sends reaches `target` again."""
        self._run(self._set(source, target, is_open=True))

    def reset(self, one: int, other: int) -> None:
        """Both hear that the link between them is gone; they may dial again at once."""
        self._run(self._way(one, other).reset())

    def stop(self) -> None:
        """Close every port and link, and end the thread. Safe to repeat."""
        if not self._background.running:
            return
        for way in self._ways.values():
            self._run(way.close())
        self._background.stop()

    async def _make(self, low: int, high: int, target: int) -> None:
        listener = listener_apart_from(self._taken)
        way = _Way(target)
        await way.listen(listener)
        self._ways[low, high] = way
        self._ports[low, high] = listener.getsockname()[1]

    def _way(self, one: int, other: int) -> _Way:
        return self._ways[min(one, other), max(one, other)]

    async def _set(self, source: int, target: int, *, is_open: bool) -> None:
        direction = self._way(source, target).open[source < target]
        if is_open:
            direction.set()
        else:
            direction.clear()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._background.run(work, seconds=CALL_SECONDS)
