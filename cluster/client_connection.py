"""One connection of our own client: a frame out, the next frame in (wire 1). Lean, for the benchmark's sake.

One request is in flight at a time. One timer serves all requests of a connection: it is moved only when it fires.
"""

import asyncio
import socket
from typing import Final, cast

from levrier.cluster.client_errors import ClientError, ClosedUnheard, DeadlineExceeded, Disconnected, ProtocolViolation
from levrier.cluster.client_tls import ClientTls
from levrier.wire.errors import WireError
from levrier.wire.framing import HEADER_SIZE, FrameDecoder

_TLS_ALERT: Final = b"\x15\x03"
"""How the answer of a TLS server to plain bytes begins; a frame begins with a checksum, but has 256 bytes at least."""


class ClientConnection(asyncio.Protocol):
    """A socket to one node. Made by `open_connection`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: str) -> None:
        self.address = address
        self._loop = loop
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bytes] | None = None
        self._deadline = 0.0
        self._watchdog: asyncio.TimerHandle | None = None
        self._lost: ClientError | None = None
        self._is_plain = True
        self._heard = False
        self._gone: asyncio.Future[None] = loop.create_future()

    @property
    def is_open(self) -> bool:
        """Whether a request may be sent."""
        given_up = self._answer is not None and self._answer.cancelled()
        return self._transport is not None and self._lost is None and not given_up

    def exchange(self, frame: bytes, deadline: float) -> asyncio.Future[bytes]:
        """Send a frame; the next frame that arrives is the result. `deadline` is a time of the event loop.

        Raises `Disconnected`, at once or as the result. Whoever cancels the future gives the connection up: the late
        answer would be taken for that of the next request.
        """
        if self._answer is not None:
            assert self._answer.cancelled(), "one request at a time"
            self._fail(Disconnected("a caller gave up waiting", address=self.address))
        if self._lost is not None or self._transport is None:
            raise self._lost or Disconnected("not connected", address=self.address)
        answer = self._answer = self._loop.create_future()
        self._deadline = deadline
        if self._watchdog is None:
            self._watchdog = self._loop.call_at(deadline, self._on_watchdog)
        elif deadline < self._watchdog.when():
            self._watchdog.cancel()
            self._watchdog = self._loop.call_at(deadline, self._on_watchdog)
        self._transport.write(frame)
        return answer

    def give_up(self, error: ClientError) -> None:
        """Close the socket at once: nothing that comes from it can be trusted any more."""
        self._fail(error)

    async def close(self) -> None:
        """Close the socket and wait until it is gone."""
        self._fail(Disconnected("the connection was closed", address=self.address))
        if self._transport is not None:
            await self._gone

    # Called by the event loop.

    def connection_made(self, base: asyncio.BaseTransport) -> None:
        """Connected."""
        transport = self._transport = cast("asyncio.Transport", base)  # uvloop's is no subclass of it.
        self._is_plain = transport.get_extra_info("ssl_object") is None
        plain = transport.get_extra_info("socket")
        if plain is not None:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        """Bytes arrived."""
        self._heard = True
        if data.startswith(_TLS_ALERT) and len(data) < HEADER_SIZE:
            self._fail(ProtocolViolation("it speaks TLS, and this connection does not", address=self.address))
            return
        try:
            frames = self._decoder.feed(data)
        except WireError as error:
            self._fail(ProtocolViolation(f"a broken frame: {error}", address=self.address))
            return
        for frame in frames:
            answer = self._answer
            if answer is None or answer.done():
                self._fail(ProtocolViolation("a frame that nobody asked for", address=self.address))
                return
            self._answer = None
            answer.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        reason = "the connection was closed by the node" if exc is None else f"the connection broke: {exc}"
        kind = ClosedUnheard if exc is None and self._is_plain and not self._heard else Disconnected
        self._fail(kind(reason, address=self.address))
        self._transport = None
        if not self._gone.done():
            self._gone.set_result(None)

    def _on_watchdog(self) -> None:
        self._watchdog = None
        if self._answer is None:
            return
        if self._answer.cancelled():
            self._fail(Disconnected("a caller gave up waiting", address=self.address))
        elif self._loop.time() >= self._deadline:
            self._fail(DeadlineExceeded("no answer in time", address=self.address))
        else:
            self._watchdog = self._loop.call_at(self._deadline, self._on_watchdog)

    def _fail(self, error: ClientError) -> None:
        """End the connection; the first error counts."""
        if self._lost is None:
            self._lost = error
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(self._lost)
        if self._transport is not None:
            self._transport.abort()


async def open_connection(
    host: str, port: int, *, deadline_seconds: float, tls: ClientTls | None = None
) -> ClientConnection:
    """Connect. Raises `Disconnected` when nobody listens, `DeadlineExceeded` when nobody answers, `TlsFailed`."""
    loop = asyncio.get_running_loop()
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    context, name = (None, None) if tls is None else (tls.context(), tls.server_name or host)
    try:
        async with asyncio.timeout(deadline_seconds):
            _, connection = await loop.create_connection(
                lambda: ClientConnection(loop, address), host, port, ssl=context, server_hostname=name
            )
    except TimeoutError as error:
        raise DeadlineExceeded("no connection in time", address=address) from error
    except OSError as error:
        failure = None if tls is None else tls.failure(error, host=host, address=address)
        raise failure or Disconnected(f"cannot connect: {error}", address=address) from error
    return connection
