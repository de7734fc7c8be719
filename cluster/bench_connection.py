"""One connection of the benchmark: a request, its answer, the next request, without a task or a future in between.

A load generator in Python takes as much of a small machine as the node it loads, so this one is as lean as it can be: the
answer's callback measures and sends the next frame. It speaks the protocol as a client does: a login, request numbers, the
same frame again when the answer is 57 or 58.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol, cast

from levrier.cluster.address import Address
from levrier.cluster.client_errors import ClientError, Disconnected, Evicted, IggyError, ProtocolViolation
from levrier.cluster.client_tls import ClientTls
from levrier.wire.checksums import xxh3
from levrier.wire.codes import RESULT_FRAMED, ErrorCode, EvictionReason, Operation
from levrier.wire.errors import WireError
from levrier.wire.framing import HEADER_SIZE, FrameDecoder
from levrier.wire.protocol_version import CURRENT
from levrier.wire.replies import result_code
from levrier.wire.requests.login import LoginWithPassword
from levrier.wire.responses.login import LoginResponse

RETRY_SECONDS: Final = 0.05

_HEADER: Final = Struct("<48xI8xB67x16sQ16xQB7xQ4xI56x")
_REQUEST: Final = 5
_EVICTION: Final = 13
_NON_REPLICATED: Final = int(Operation.NON_REPLICATED)
_TRANSIENT: Final = frozenset({int(ErrorCode.TRANSIENT_NOT_COMMITTED), int(ErrorCode.TRANSIENT_NOT_ACCEPTED)})

assert _HEADER.size == HEADER_SIZE


class Work(Protocol):
    """What a connection asks its run: the next body, and where a result goes."""

    def next_body(self) -> bytes | None:
        """The body of one more request, None when the run is over."""

    def done(self, began: float, ended: float) -> None:
        """A request succeeded between these two readings of `time.perf_counter`."""

    def failed(self, error: ClientError) -> None:
        """A request was refused for good."""


class BenchConnection(asyncio.Protocol):
    """Made by `open_bench_connection`; after a `login`, `run` works until there is no more."""

    def __init__(self, *, client_id: int, address: str, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client_id.to_bytes(16, "little")
        self._address = address
        self._loop = loop
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._on_frame: Callable[[bytes], None] = self._unexpected
        self._epoch = 0
        self._number = 0
        self._finished: asyncio.Future[None] = loop.create_future()
        self._work: Work | None = None
        self._operation = 0
        self._code = 0
        self._frame = b""
        self._began = 0.0

    def login(self, username: str, password: str) -> asyncio.Future[None]:
        """Log in; the result is there when the session is."""
        body = LoginWithPassword(
            protocol_version=CURRENT,
            sdk_name="levrier",
            sdk_version="bench",
            username=username,
            password=password,
        ).encode()
        self._operation = int(Operation.REGISTER)
        self._on_frame = self._on_login
        self._send_body(body, number=0)
        return self._finished

    def run(self, work: Work, *, operation: int, code: int) -> asyncio.Future[None]:
        """Work until `next_body` gives None. `code` is the command of a NonReplicated operation."""
        self._finished = self._loop.create_future()
        self._work, self._operation, self._code = work, operation, code
        self._on_frame = self._on_answer
        self._next()
        return self._finished

    def close(self) -> None:
        """Close the socket."""
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop.

    def connection_made(self, base: asyncio.BaseTransport) -> None:
        """Connected."""
        transport = self._transport = cast("asyncio.Transport", base)  # uvloop's is no subclass of it.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        """Bytes arrived."""
        try:
            for frame in self._decoder.feed(data):
                self._on_frame(frame)
        except WireError as error:
            self._end(ProtocolViolation(f"a broken frame: {error}", address=self._address))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._transport = None
        self._end(Disconnected(f"the connection broke: {exc or 'closed by the node'}", address=self._address))

    # What frames mean.

    def _on_login(self, frame: bytes) -> None:
        code = self._code_of(frame)
        if code in _TRANSIENT:
            self._loop.call_later(RETRY_SECONDS, self._send)
        elif code:
            self._end(IggyError(code, address=self._address))
        else:
            self._epoch = LoginResponse.decode(frame[HEADER_SIZE + 4 :]).session
            self._finished.set_result(None)

    def _on_answer(self, frame: bytes) -> None:
        ended = time.perf_counter()
        work = self._work
        assert work is not None
        code = self._code_of(frame)
        if code in _TRANSIENT:
            self._loop.call_later(RETRY_SECONDS, self._send)
            return
        if code:
            work.failed(IggyError(code, address=self._address))
        else:
            work.done(self._began, ended)
        self._next()

    def _code_of(self, frame: bytes) -> int:
        if frame[60] == _EVICTION:
            self._end(Evicted(EvictionReason(frame[255]), address=self._address))
            return int(ErrorCode.UNAUTHENTICATED)
        status = int.from_bytes(frame[216:220], "little")
        if status or frame[208] not in RESULT_FRAMED:
            return status
        return result_code(frame[HEADER_SIZE:])

    def _unexpected(self, _frame: bytes) -> None:
        self._end(ProtocolViolation("a frame that nobody asked for", address=self._address))

    def _next(self) -> None:
        assert self._work is not None
        body = self._work.next_body() if not self._finished.done() else None
        if body is not None:
            self._number += 1
            self._began = time.perf_counter()
            self._send_body(body, number=self._number)
        elif not self._finished.done():
            self._finished.set_result(None)

    def _send_body(self, body: bytes, *, number: int) -> None:
        stamp = 0 if self._operation == _NON_REPLICATED else xxh3(body)
        size = HEADER_SIZE + len(body)
        header = _HEADER.pack(size, _REQUEST, self._client, stamp, number, self._operation, self._epoch, self._code)
        self._frame = header + body
        self._send()

    def _send(self) -> None:
        if self._transport is not None:
            self._transport.write(self._frame)

    def _end(self, error: ClientError) -> None:
        if not self._finished.done():
            self._finished.set_exception(error)


async def open_bench_connection(address: Address, *, client_id: int, tls: ClientTls | None = None) -> BenchConnection:
    """Connect. Raises `Disconnected`, `TlsFailed`."""
    loop = asyncio.get_running_loop()
    context, name = (None, None) if tls is None else (tls.context(), tls.server_name or address.host)
    try:
        _, connection = await loop.create_connection(
            lambda: BenchConnection(client_id=client_id, address=str(address), loop=loop),
            address.host,
            address.port,
            ssl=context,
            server_hostname=name,
        )
    except OSError as error:
        failure = None if tls is None else tls.failure(error, host=address.host, address=str(address))
        raise failure or Disconnected(f"cannot connect: {error}", address=str(address)) from error
    return connection
