"""The benchmark when the node does not go along: refusals are counted, silence and a broken connection end the run."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from levrier.cluster.address import Address
from levrier.cluster.bench import BenchFailed, BenchReport, BenchSettings, Load, run_bench
from levrier.cluster.client import DeadlineExceeded, Disconnected, IggyError
from levrier.cluster.testing import Server
from levrier.wire.codes import Operation
from tests.cluster.raw_client import RawClient, code, delete_stream

TIMEOUT = 1.0
TEST_SECONDS = 30.0


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as node:
        yield node


def settings(address: Address, *, load: Load = Load.UPDATE_STREAM, operations: int | None = 20) -> BenchSettings:
    return BenchSettings(
        address=address,
        username="iggy",
        password="iggy",
        load=load,
        concurrency=2,
        operations=operations,
        streams=2,
        timeout=TIMEOUT,
    )


def address_of(server: Server) -> Address:
    return Address(host=server.host, port=server.port)


class Relay:
    """Passes bytes on between the benchmark and a node, until it is told not to."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._writers: list[asyncio.StreamWriter] = []
        self.passes = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        to_node = await asyncio.open_connection(self._target.host, self._target.port)
        self._writers += [writer, to_node[1]]
        await asyncio.gather(self._pass(reader, to_node[1]), self._pass(to_node[0], writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if self.passes:
                writer.write(data)
        writer.close()

    def close(self) -> None:
        """Close every connection."""
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def relay_to(server: Server) -> AsyncIterator[tuple[Relay, Address]]:
    relay = Relay(address_of(server))
    listener = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    try:
        yield relay, Address(port=listener.sockets[0].getsockname()[1])
    finally:
        listener.close()
        relay.close()
        await listener.wait_closed()


def test_refusals_are_counted_and_the_first_is_told(server: Server) -> None:
    """Every second operation names a stream that was deleted behind the back of the benchmark."""

    def tell(line: str) -> None:
        if line.startswith("loading "):
            with RawClient(server.host, server.port, client=5) as client:
                client.register()
                stream = client.streams()[0][0]
                assert code(client.call(Operation.DELETE_STREAM, delete_stream(stream), number=1)) == 0

    report = asyncio.run(run_bench(settings(address_of(server)), tell=tell))
    assert (report.operations, report.errors) == (10, 10)
    assert report.first_error is not None
    assert "STREAM_ID_NOT_FOUND" in report.first_error


def test_a_run_without_one_success_is_no_measurement(server: Server) -> None:
    def tell(line: str) -> None:
        if line.startswith("loading "):
            with RawClient(server.host, server.port, client=5) as client:
                client.register()
                for number, (stream, _) in enumerate(client.streams(), 1):
                    client.call(Operation.DELETE_STREAM, delete_stream(stream), number=number)

    with pytest.raises(BenchFailed, match=r"no operation succeeded, 20 failed; the first: .*STREAM_ID_NOT_FOUND"):
        asyncio.run(run_bench(settings(address_of(server)), tell=tell))


def test_a_node_that_falls_silent_ends_the_run(server: Server) -> None:
    async def body() -> BenchReport:
        async with asyncio.timeout(TEST_SECONDS), relay_to(server) as (relay, address):

            def tell(line: str) -> None:
                relay.passes = relay.passes and not line.startswith("loading ")

            return await run_bench(settings(address, load=Load.PING), tell=tell)

    with pytest.raises(DeadlineExceeded, match="no answer for 1 s"):
        asyncio.run(body())


def test_a_broken_connection_ends_the_run(server: Server) -> None:
    async def body() -> BenchReport:
        async with asyncio.timeout(TEST_SECONDS), relay_to(server) as (relay, address):

            def tell(line: str) -> None:
                if line.endswith(" operations"):
                    relay.close()

            return await run_bench(settings(address, load=Load.PING, operations=None), tell=tell)

    with pytest.raises(Disconnected, match=r"^127\.0\.0\.1:\d+: "):
        asyncio.run(body())


def test_a_refused_login_leaves_no_connection(server: Server) -> None:
    """The warnings of an unclosed socket are errors here."""
    wrong = BenchSettings(address=address_of(server), username="iggy", password="another", load=Load.PING)
    with pytest.raises(IggyError):
        asyncio.run(run_bench(wrong))
