"""The real replica transport: a listener and dials on the event loop of the Bus actor, with or without TLS.

Like the clients' transport it binds when it is made and accepts from `start` on. A name is resolved by each dial, so a
member that moved is found again. A link whose other end is gone without a word is noticed by the kernel: unacknowledged
bytes and unanswered probes end it after about ten seconds.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from levrier.actors.bus.tls_door import TlsDoor
from levrier.actors.bus.transport import BACKLOG, SocketProtocol, stop_listening

if TYPE_CHECKING:
    from collections.abc import Callable

    from levrier.actors.bus.ports import ReplicaSink

DIAL_SECONDS: Final = 2.0
TLS_HANDSHAKE_SECONDS: Final = 3.0
TLS_HANDSHAKES_MAX: Final = 64
"""Sockets whose TLS handshake is not over; one more ends the oldest of them."""
SILENCE_MILLISECONDS: Final = 10_000
"""How long written bytes may stay unacknowledged by the other machine."""

PROBE_AFTER_SECONDS: Final = 4
PROBE_EVERY_SECONDS: Final = 2
PROBES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTls:
    """The contexts of the replica port, for accepting and for dialling; both insist on TLS 1.3.

    Where each side verifies the other's certificate a stranger does not even get to say Hello.
    """

    accepting: ssl.SSLContext
    dialling: ssl.SSLContext

    def __post_init__(self) -> None:
        for context in (self.accepting, self.dialling):
            assert context.minimum_version is ssl.TLSVersion.TLSv1_3, "links speak TLS 1.3"


class ReplicaTcpTransport:
    """Links to other replicas over TCP. Satisfies `ReplicaTransport`."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop, host: str, port: int, tls: ReplicaTls | None = None) -> None:
        """Bind and listen. Raises OSError when the address cannot be had."""
        self._loop = loop
        self._tls = tls
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._listener.setblocking(False)
        self._host, self._port = self._listener.getsockname()[:2]
        self._numbers = itertools.count(1)
        self._protocols: dict[int, SocketProtocol] = {}
        self._dials: dict[int, asyncio.Task[None]] = {}
        self._sink: ReplicaSink | None = None
        self._server: asyncio.Server | None = None
        self._door: TlsDoor | None = None
        self._starting: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are listened on."""
        return self._host, self._port

    @property
    def secure(self) -> bool:
        """Whether links run over TLS."""
        return self._tls is not None

    @property
    def connections(self) -> int:
        """How many sockets are open."""
        return len(self._protocols)

    def start(self, sink: ReplicaSink) -> None:
        """Begin to accept."""
        assert self._sink is None, "a transport starts once"
        self._sink = sink
        if self._tls is None:
            self._starting = self._loop.create_task(self._serve())
            return
        self._door = TlsDoor(
            loop=self._loop,
            listener=self._listener,
            context=self._tls.accepting,
            protocol=lambda: _LinkProtocol(self),
            waiting_max=TLS_HANDSHAKES_MAX,
            handshake_seconds=TLS_HANDSHAKE_SECONDS,
        )
        self._door.open()

    def dial(self, replica: int, host: str, port: int) -> None:
        """Connect to that member."""
        assert replica not in self._dials, "one dial at a time"
        self._dials[replica] = self._loop.create_task(self._connect(replica, host, port))

    def write(self, link: int, data: bytes) -> bool:
        """Send bytes. False while too much waits for the peer."""
        protocol = self._protocols.get(link)
        return protocol is None or protocol.write(data)

    def close(self, link: int, *, abort: bool) -> None:
        """Close the link, after what was written has left unless `abort`."""
        protocol = self._protocols.get(link)
        if protocol is not None:
            protocol.close(abort=abort)

    def stop(self) -> None:
        """Accept and dial no more and close every link. One that was never started may be stopped from any thread."""
        if self._stopped:
            return
        self._stopped = True
        self._sink = None
        if self._starting is not None:
            self._starting.cancel()
        for task in self._dials.values():
            task.cancel()
        if self._door is not None:
            self._door.close()
        stop_listening(self._loop, self._server, self._listener)
        for protocol in list(self._protocols.values()):
            protocol.end()
        self._protocols.clear()

    @property
    def sink(self) -> ReplicaSink | None:
        """Whom to tell; nobody after `stop`."""
        return self._sink

    def admit(self, protocol: SocketProtocol) -> int:
        """Number a new link. For the protocol objects."""
        number = next(self._numbers)
        self._protocols[number] = protocol
        return number

    def release(self, number: int) -> None:
        """A link is gone. For the protocol objects."""
        self._protocols.pop(number, None)

    def after(self, seconds: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        """Do something later. For the protocol objects."""
        return self._loop.call_later(seconds, action)

    def dialled(self, replica: int) -> None:
        """The dial to that member is over, for it has a link. For the protocol objects."""
        self._dials.pop(replica, None)

    async def _serve(self) -> None:
        self._server = await self._loop.create_server(lambda: _LinkProtocol(self), sock=self._listener, backlog=BACKLOG)

    async def _connect(self, replica: int, host: str, port: int) -> None:
        tls = self._tls
        reason = ""
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                await self._loop.create_connection(
                    lambda: _DialledProtocol(self, replica),
                    host,
                    port,
                    ssl=None if tls is None else tls.dialling,
                    server_hostname=None if tls is None else host,
                )
        except TimeoutError:
            reason = f"{host}:{port} does not answer in {DIAL_SECONDS:g} s"
        except OSError as error:
            reason = f"{host}:{port}: {error.strerror or error}"
        except ValueError as error:
            # A name that cannot even be asked for.
            reason = f"{host}:{port}: {error}"
        # Whoever has a link was told of it already, and may be dialling again by now.
        if reason and self._dials.get(replica) is asyncio.current_task():
            del self._dials[replica]
            if self._sink is not None:
                self._sink.dial_failed(replica, reason)


class _LinkProtocol(SocketProtocol):
    """A socket between replicas."""

    def connection_made(self, base: asyncio.BaseTransport) -> None:
        plain = base.get_extra_info("socket")
        if plain is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in (
                ("TCP_KEEPIDLE", PROBE_AFTER_SECONDS),
                ("TCP_KEEPINTVL", PROBE_EVERY_SECONDS),
                ("TCP_KEEPCNT", PROBES),
                ("TCP_USER_TIMEOUT", SILENCE_MILLISECONDS),
            ):
                # Not every system has each of them.
                option = getattr(socket, name, None)
                if option is not None:
                    plain.setsockopt(socket.IPPROTO_TCP, option, value)
        super().connection_made(base)


class _DialledProtocol(_LinkProtocol):
    """A socket that this node dialled."""

    def __init__(self, owner: ReplicaTcpTransport, replica: int) -> None:
        super().__init__(owner)
        self._transport_owner = owner
        self._replica = replica

    def announce(self, number: int, peer: str) -> None:
        """Tell the sink of the link, which is at the same time the answer to the dial."""
        self._transport_owner.dialled(self._replica)
        sink = self._transport_owner.sink
        assert sink is not None
        sink.dialled(number, self._replica, peer)
