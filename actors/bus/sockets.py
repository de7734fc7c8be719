"""What the real transports of clients and of replicas share: a bound address, and sockets on the event loop of the Bus actor.

The listening socket is bound when the transport is made, in whatever thread wires the node, so that a taken address is
refused before anything starts and port 0 is known at once; nothing is accepted before `start`. Sockets call the sink
directly: they live in the loop's thread, which is the actor's.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import ssl
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar, cast

from levrier.actors.bus.ports import Sink
from levrier.actors.bus.tls_door import TlsDoor

S = TypeVar("S", bound=Sink)

BACKLOG: Final = 1024
WRITE_HIGH: Final = 256 * 1024
WRITE_LOW: Final = 64 * 1024
SETTLING_TURNS: Final = 3
"""Turns of the event loop after which a connection that was accepted before has its transport."""
LINGER_SECONDS: Final = 5.0
"""How long a connection that is being closed may take to read what it is owed."""

assert WRITE_LOW < WRITE_HIGH


class SocketOwner(Protocol):
    """What a socket needs of the transport it belongs to."""

    @property
    def sink(self) -> Sink | None:
        """Whom to tell; nobody after the end."""

    def admit(self, protocol: SocketProtocol) -> int:
        """Number a new socket."""

    def release(self, number: int) -> None:
        """A socket is gone."""

    def after(self, seconds: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        """Do something later."""


class SocketListener(Generic[S]):
    """A bound address, the sockets that belong to it, and their sink. Base of the transports of clients and of replicas."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
        """Bind and listen. Raises OSError when the address cannot be had."""
        self._loop = loop
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._listener.setblocking(False)
        self._host, self._port = self._listener.getsockname()[:2]
        self._numbers = itertools.count(1)
        self._protocols: dict[int, SocketProtocol] = {}
        self._sink: S | None = None
        self._server: asyncio.Server | None = None
        self._door: TlsDoor | None = None
        self._starting: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are listened on."""
        return self._host, self._port

    @property
    def connections(self) -> int:
        """How many sockets are open."""
        return len(self._protocols)

    def start(self, sink: S) -> None:
        """Begin to accept."""
        assert self._sink is None, "a transport starts once"
        self._sink = sink
        self._accept()

    def write(self, number: int, data: bytes, /) -> bool:
        """Send bytes. False while more than WRITE_HIGH waits for the peer."""
        protocol = self._protocols.get(number)
        return protocol is None or protocol.write(data)

    def close(self, number: int, /, *, abort: bool) -> None:
        """Close the socket, after what was written has left unless `abort`."""
        protocol = self._protocols.get(number)
        if protocol is not None:
            protocol.close(abort=abort)

    def stop(self) -> None:
        """Accept no more and close every socket; what was written and cannot leave at once is dropped.

        A transport that was never started may be stopped from any thread.
        """
        if self._stopped:
            return
        self._stopped = True
        self._sink = None
        if self._starting is not None:
            self._starting.cancel()
        self._stop_accepting()
        for protocol in list(self._protocols.values()):
            protocol.end()
        self._protocols.clear()

    # For the protocol objects.

    @property
    def sink(self) -> S | None:
        """Whom to tell; nobody after `stop`."""
        return self._sink

    def admit(self, protocol: SocketProtocol) -> int:
        """Number a new socket."""
        number = next(self._numbers)
        self._protocols[number] = protocol
        return number

    def release(self, number: int) -> None:
        """A socket is gone."""
        self._protocols.pop(number, None)

    def after(self, seconds: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        """Do something later."""
        return self._loop.call_later(seconds, action)

    def _accept(self) -> None:
        self._starting = self._loop.create_task(self._serve())

    def _accept_over_tls(
        self, context: ssl.SSLContext, protocol: Callable[[], SocketProtocol], *, waiting_max: int, seconds: float
    ) -> None:
        """Accept whoever has shaken hands, `waiting_max` at a time, each within so many seconds."""
        self._door = TlsDoor(
            loop=self._loop,
            listener=self._listener,
            context=context,
            protocol=protocol,
            waiting_max=waiting_max,
            handshake_seconds=seconds,
        )
        self._door.open()

    def _stop_accepting(self) -> None:
        if self._door is not None:
            self._door.close()
        stop_listening(self._loop, self._server, self._listener)

    async def _serve(self) -> None:
        """Accept, with the protocol and the TLS of the transport."""
        raise NotImplementedError


def stop_listening(loop: asyncio.AbstractEventLoop, server: asyncio.Server | None, listener: socket.socket) -> None:
    """Accept no more at once, and close the listener when whoever was accepted has his transport.

    A transport that is made for a server already closed is refused by the event loop of Python 3.11, and its socket is then
    closed by nobody.
    """
    if server is None:
        listener.close()
        return
    with contextlib.suppress(RuntimeError, ValueError):
        loop.remove_reader(listener.fileno())  # Of no effect with uvloop, which does not need it.
    _close_listener(loop, server, listener, SETTLING_TURNS)


def _close_listener(
    loop: asyncio.AbstractEventLoop, server: asyncio.Server, listener: socket.socket, turns: int
) -> None:
    if turns:
        loop.call_soon(_close_listener, loop, server, listener, turns - 1)
        return
    server.close()
    listener.close()


class SocketProtocol(asyncio.Protocol):
    """One socket."""

    def __init__(self, owner: SocketOwner) -> None:
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._number = 0
        self._full = False
        self._reading = True
        self._linger: asyncio.TimerHandle | None = None

    # Called by the event loop.

    def connection_made(self, base: asyncio.BaseTransport) -> None:
        transport = self._transport = cast("asyncio.Transport", base)  # uvloop's is no subclass of it.
        sink = self._owner.sink
        if sink is None:
            transport.abort()
            return
        plain = transport.get_extra_info("socket")
        if plain is not None:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=WRITE_HIGH, low=WRITE_LOW)
        self._number = self._owner.admit(self)
        self.announce(self._number, address_of(transport.get_extra_info("peername")))

    def data_received(self, data: bytes) -> None:
        sink = self._owner.sink
        if sink is not None:
            sink.received(self._number, data)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        sink = self._owner.sink
        if sink is not None:
            sink.write_resumed(self._number)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._stop_lingering()
        if not self._number:
            return
        self._owner.release(self._number)
        sink = self._owner.sink
        if sink is not None:
            sink.closed(self._number)

    # Called by the transport.

    def announce(self, number: int, peer: str) -> None:
        """Tell the sink of this socket."""
        sink = self._owner.sink
        assert sink is not None
        sink.opened(number, peer)

    def write(self, data: bytes) -> bool:
        """Send; False while too much waits."""
        if self._transport is not None:
            self._transport.write(data)
        return not self._full

    def pause_reading(self) -> None:
        """Stop taking bytes."""
        if self._transport is not None and self._reading and not self._transport.is_closing():
            self._reading = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes again."""
        if self._transport is not None and not self._reading and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()

    def close(self, *, abort: bool) -> None:
        """Close the socket."""
        if self._transport is None:
            return
        if abort:
            self._transport.abort()
            return
        self._transport.close()
        if self._transport is not None and self._transport.get_write_buffer_size() and self._linger is None:
            self._linger = self._owner.after(LINGER_SECONDS, self._transport.abort)

    def end(self) -> None:
        """Close the socket; nothing may stay behind in the loop."""
        self._stop_lingering()
        transport = self._transport
        if transport is not None:
            # The farewell of TLS waits for the peer's, and the loop does not.
            secure = transport.get_extra_info("ssl_object") is not None
            self.close(abort=secure or transport.get_write_buffer_size() > 0)

    def _stop_lingering(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None


def address_of(name: tuple[str, int] | tuple[str, int, int, int] | None) -> str:
    """`ip:port`, or `?` for a peer that was gone before it was looked at."""
    if name is None:
        return "?"
    host, port = name[0], name[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
