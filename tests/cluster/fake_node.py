"""A tiny node for client tests: real sockets, frames of the wire, answers by script. No consensus, no disk."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from levrier.wire.codes import CommandCode, Operation
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.headers import PrepareHeader, RequestHeader
from levrier.wire.replies import committed_reply, query_reply, result_success
from levrier.wire.requests.login import LoginWithPassword
from levrier.wire.responses.login import LoginResponse
from levrier.wire.responses.system import ClusterMetadata

CLOSE = b"close"
"""Scripted answer: close the connection."""

SILENCE = b""
"""Scripted answer: none."""


@dataclass
class Asked:
    """One request that arrived."""

    connection: int
    header: RequestHeader
    body: bytes = field(repr=False)
    frame: bytes = field(repr=False)


Script = Callable[[Asked], bytes]


class FakeNode:
    """Answers with what the test queued in `script`, one entry for each request, else with success."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.script: deque[Script | bytes] = deque()
        self.password = "iggy"
        self.op = 100
        self.port = 0
        self.server: asyncio.Server | None = None
        self.cluster = ClusterMetadata(name="alone", nodes=())
        """Whom it lists to a client that asks who leads; the question is in no script and no list of what was asked."""
        self._connections = 0
        self._arrived = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def operations(self) -> list[int]:
        """The operations of all requests, in order."""
        return [asked.header.operation for asked in self.asked]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self._connections += 1
        connection = self._connections
        self._writers.append(writer)
        try:
            while True:
                head = await reader.readexactly(HEADER_SIZE)
                body = await reader.readexactly(int.from_bytes(head[48:52], "little") - HEADER_SIZE)
                asked = Asked(connection, RequestHeader.decode(head), body, head + body)
                if asked.header.code == CommandCode.GET_CLUSTER_METADATA:
                    writer.write(self.success(asked, self.cluster.encode()))
                    continue
                async with self._arrived:
                    self.asked.append(asked)
                    self._arrived.notify_all()
                answer = self._answer(asked)
                if answer == CLOSE:
                    return
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def wait(self, count: int) -> None:
        """Until that many requests have arrived."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.asked) >= count)

    async def stop_listening(self) -> None:
        """Nobody can connect any more."""
        assert self.server is not None
        self.server.close()
        self.close_connections()
        await self.server.wait_closed()

    def close_connections(self) -> None:
        """Drop every client."""
        for writer in self._writers:
            writer.close()

    def _answer(self, asked: Asked) -> bytes:
        if self.script:
            scripted = self.script.popleft()
            return scripted if isinstance(scripted, bytes) else scripted(asked)
        return self.success(asked)

    def success(self, asked: Asked, payload: bytes = b"") -> bytes:
        """What a node answers when all is well."""
        header = asked.header
        if header.operation == Operation.NON_REPLICATED:
            return query_reply(header, payload, session=header.session, commit=self.op)
        self.op += 1
        if header.operation == Operation.LOGOUT:
            return query_reply(header, b"", session=header.session, commit=self.op)
        if header.operation == Operation.REGISTER:
            login = LoginWithPassword.decode(asked.body)
            assert login.password == self.password
            response = LoginResponse(user_id=0, session=self.op, server_version="0.1.0").encode()
            return query_reply(header, result_success(response), session=self.op, commit=self.op)
        prepare = PrepareHeader(op=self.op, operation=header.operation, client=header.client, request=header.request)
        return committed_reply(prepare, result_success(payload))


@asynccontextmanager
async def fake_node() -> AsyncIterator[FakeNode]:
    """A node on a free port of this machine."""
    node = FakeNode()
    server = node.server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    node.port = server.sockets[0].getsockname()[1]
    try:
        yield node
    finally:
        server.close()
        node.close_connections()
        await server.wait_closed()
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*pending, return_exceptions=True)
