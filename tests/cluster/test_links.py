"""The proxies between members: each direction opens and closes, nothing is lost by closing, a reset is heard by both."""

import asyncio
import gc
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest

from levrier.cluster.links import HOST, Links, listener_apart_from
from levrier.cluster.local_cluster import free_ports

SOON = 0.2
"""How long nothing has to arrive, to say that nothing passes."""

DEADLINE = 10.0


@pytest.fixture
def ports() -> list[int]:
    """Of three members."""
    return free_ports(3)


@pytest.fixture
def links(ports: list[int]) -> Iterator[Links]:
    """Between them; nothing is left behind."""
    before = threading.active_count()
    made = Links(ports)
    yield made
    made.stop()
    made.stop()
    gc.collect()
    assert threading.active_count() == before


class Pair:
    """Both ends of a link from member 0 to member 1."""

    def __init__(self) -> None:
        self.accepted: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def open(self, port: int) -> None:
        """Dial, and take what was accepted."""
        self.reader, self.writer = await asyncio.open_connection(HOST, port)
        self.far_reader, self.far_writer = await self.accepted.get()


def over_a_link(links: Links, ports: list[int], story: Callable[[Pair], Awaitable[None]]) -> None:
    async def body() -> None:
        pair = Pair()
        async with asyncio.timeout(DEADLINE):
            server = await asyncio.start_server(lambda *ends: pair.accepted.put_nowait(ends), HOST, ports[1])
            await pair.open(links.port(0, 1))
            await story(pair)
            for writer in (pair.writer, pair.far_writer):
                writer.transport.abort()
            server.close()
            await server.wait_closed()
            await asyncio.sleep(0)

    asyncio.run(body())


async def arrives(reader: asyncio.StreamReader, data: bytes) -> None:
    assert await reader.readexactly(len(data)) == data


async def nothing_arrives(reader: asyncio.StreamReader) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), SOON)


def test_bytes_pass_both_ways(links: Links, ports: list[int]) -> None:
    async def story(pair: Pair) -> None:
        pair.writer.write(b"there")
        await arrives(pair.far_reader, b"there")
        pair.far_writer.write(b"back")
        await arrives(pair.reader, b"back")

    over_a_link(links, ports, story)


def test_a_closed_direction_passes_nothing_and_loses_nothing(links: Links, ports: list[int]) -> None:
    async def story(pair: Pair) -> None:
        links.cut(0, 1)
        pair.writer.write(b"later")
        await nothing_arrives(pair.far_reader)
        pair.far_writer.write(b"other way")
        await arrives(pair.reader, b"other way")
        links.mend(0, 1)
        await arrives(pair.far_reader, b"later")

    over_a_link(links, ports, story)


def test_the_end_of_a_link_is_not_heard_through_a_closed_direction(links: Links, ports: list[int]) -> None:
    async def story(pair: Pair) -> None:
        links.cut(1, 0)
        pair.far_writer.close()
        await nothing_arrives(pair.reader)
        links.mend(1, 0)
        assert await pair.reader.read() == b""

    over_a_link(links, ports, story)


def test_a_reset_is_heard_by_both_and_one_may_dial_again(links: Links, ports: list[int]) -> None:
    async def story(pair: Pair) -> None:
        links.reset(0, 1)
        assert await pair.reader.read() == b""
        assert await pair.far_reader.read() == b""
        old = (pair.writer, pair.far_writer)
        await pair.open(links.port(0, 1))
        pair.writer.write(b"again")
        await arrives(pair.far_reader, b"again")
        for writer in old:
            writer.close()

    over_a_link(links, ports, story)


def test_a_dial_through_a_cut_waits_until_it_is_healed(links: Links, ports: list[int]) -> None:
    async def story(pair: Pair) -> None:
        links.cut(1, 0)
        reader, writer = await asyncio.open_connection(HOST, links.port(0, 1))
        await nothing_arrives(reader)
        assert pair.accepted.empty()
        links.mend(1, 0)
        _, far_writer = await pair.accepted.get()
        far_writer.write(b"hello")
        await arrives(reader, b"hello")
        writer.transport.abort()
        far_writer.transport.abort()

    over_a_link(links, ports, story)


def test_a_dial_to_nobody_ends(links: Links) -> None:
    async def body() -> bytes:
        reader, writer = await asyncio.open_connection(HOST, links.port(1, 2))
        said = await asyncio.wait_for(reader.read(), DEADLINE)
        writer.close()
        return said

    assert asyncio.run(body()) == b""


def test_a_way_gets_no_port_that_somebody_will_listen_on() -> None:
    first, second = (socket.create_server((HOST, 0)) for _ in range(2))
    ports = first.getsockname()[1], second.getsockname()[1]
    offered = iter((first, second))
    with listener_apart_from({ports[0]}, lambda: next(offered)) as found:
        assert found.getsockname()[1] == ports[1]
    assert first.fileno() == -1
