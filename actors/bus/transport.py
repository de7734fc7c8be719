"""The real transport of clients: TCP, with or without TLS, on the event loop of the Bus actor."""

import asyncio
import ssl
from typing import Final

from levrier.actors.bus.ports import Sink
from levrier.actors.bus.sockets import BACKLOG, SocketListener, SocketProtocol

TLS_HANDSHAKE_SECONDS: Final = 10.0
TLS_HANDSHAKES_MAX: Final = 1_024
"""Sockets whose TLS handshake is not over; one more ends the oldest of them. Far more than clients that start together need."""


class TcpTransport(SocketListener[Sink]):
    """Accepts connections on one address. Satisfies `Transport`."""

    def __init__(
        self, *, loop: asyncio.AbstractEventLoop, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> None:
        """Bind and listen. Raises OSError when the address cannot be had."""
        super().__init__(loop=loop, host=host, port=port)
        self._tls = tls

    def pause_reading(self, connection: int) -> None:
        """Take no more bytes from the peer."""
        protocol = self._protocols.get(connection)
        if protocol is not None:
            protocol.pause_reading()

    def resume_reading(self, connection: int) -> None:
        """Take bytes again."""
        protocol = self._protocols.get(connection)
        if protocol is not None:
            protocol.resume_reading()

    def _accept(self) -> None:
        if self._tls is None:
            super()._accept()
            return
        self._accept_over_tls(
            self._tls, lambda: SocketProtocol(self), waiting_max=TLS_HANDSHAKES_MAX, seconds=TLS_HANDSHAKE_SECONDS
        )

    async def _serve(self) -> None:
        self._server = await self._loop.create_server(
            lambda: SocketProtocol(self), sock=self._listener, backlog=BACKLOG
        )
