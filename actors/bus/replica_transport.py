"""The real replica transport: a listener and dials on the event loop of the Bus actor, with or without TLS.

Like the clients' transport it binds when it is made and accepts from `start` on. A name is resolved by each dial, so a
member that moved is found again. A link whose other end is gone without a word is noticed by the kernel: unacknowledged
bytes and unanswered probes end it after about ten seconds.
"""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import Final

from levrier.actors.bus.ports import ReplicaSink
from levrier.actors.bus.sockets import BACKLOG, SocketListener, SocketProtocol

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


class ReplicaTcpTransport(SocketListener[ReplicaSink]):
    """Links to other replicas over TCP. Satisfies `ReplicaTransport`."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop, host: str, port: int, tls: ReplicaTls | None = None) -> None:
        """Bind and listen. Raises OSError when the address cannot be had."""
        super().__init__(loop=loop, host=host, port=port)
        self._tls = tls
        self._dials: dict[int, asyncio.Task[None]] = {}

    def dial(self, replica: int, host: str, port: int) -> None:
        """Connect to that member."""
        assert replica not in self._dials, "one dial at a time"
        self._dials[replica] = self._loop.create_task(self._connect(replica, host, port))

    def dialled(self, replica: int) -> None:
        """The dial to that member is over, for it has a link. For the protocol objects."""
        self._dials.pop(replica, None)

    def _accept(self) -> None:
        if self._tls is None:
            super()._accept()
            return
        self._accept_over_tls(
            self._tls.accepting,
            lambda: _LinkProtocol(self),
            waiting_max=TLS_HANDSHAKES_MAX,
            seconds=TLS_HANDSHAKE_SECONDS,
        )

    def _stop_accepting(self) -> None:
        """Nor dial any more."""
        for task in self._dials.values():
            task.cancel()
        super()._stop_accepting()

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
