"""Connections and logins through the official SDK."""

import asyncio
import contextlib
import time

import pytest
from apache_iggy import IggyClient

from levrier.cluster.testing import Server
from tests.sdk.running import logged_in, never_reconnecting, reconnecting, run

pytestmark = pytest.mark.sdk

REFUSED_SECONDS = 5.0
"""The SDK repeats what it takes for transient for 30 s: a refusal within this was taken for final."""


def test_it_connects_pings_and_logs_in(server: Server) -> None:
    """A ping needs no login (wire 11)."""

    async def body() -> None:
        client = never_reconnecting(server.address)
        await client.connect()
        await client.ping()
        await client.login_user("iggy", "iggy")
        assert isinstance(await client.get_streams(), list)

    run(body)


def test_a_connection_string_carries_the_login(server: Server, stream: str) -> None:
    async def body() -> None:
        client = IggyClient.from_connection_string(server.connection_string)
        await client.connect()
        await client.create_stream(stream)
        assert await client.get_stream(stream) is not None

    run(body)


@pytest.mark.parametrize(("username", "password"), [("iggy", "not-this-one"), ("nobody", "iggy"), ("nobody", "none")])
def test_a_wrong_login_is_refused_at_once(server: Server, username: str, password: str) -> None:
    """Both halves are refused alike, and not repeated by the SDK; the connection can still log in."""

    async def body() -> None:
        client = never_reconnecting(server.address)
        await client.connect()
        began = time.monotonic()
        with pytest.raises(RuntimeError, match=r"(?i)invalid credentials"):
            await client.login_user(username, password)
        assert time.monotonic() - began < REFUSED_SECONDS
        await client.ping()
        await client.login_user("iggy", "iggy")
        await client.get_streams()

    run(body)


def test_nothing_is_served_before_the_login(server: Server, stream: str) -> None:
    async def body() -> None:
        client = never_reconnecting(server.address)
        await client.connect()
        with pytest.raises(RuntimeError, match=r"(?i)unauthenticated"):
            await client.get_streams()
        with pytest.raises(RuntimeError):
            await client.create_stream(stream)
        await client.login_user("iggy", "iggy")
        assert await client.get_stream(stream) is None

    run(body)


def test_a_client_logs_out_and_in_again(server: Server, stream: str) -> None:
    async def body() -> None:
        client = never_reconnecting(server.address)
        await client.connect()
        await client.login_user("iggy", "iggy")
        await client.logout_user()
        with pytest.raises(RuntimeError):
            await client.create_stream(stream)
        await client.login_user("iggy", "iggy")
        await client.create_stream(stream)
        assert await client.get_stream(stream) is not None

    run(body)


def test_two_clients_work_at_once(server: Server, stream: str) -> None:
    """Their writes interleave, each sees its own and the other's, and no name is won twice."""

    async def work(client: IggyClient, who: str) -> int:
        won = 0
        for number in range(20):
            await client.create_topic(stream, f"{who}-{number}", 1)
            with contextlib.suppress(RuntimeError):
                await client.create_topic(stream, f"contested-{number}", 1)
                won += 1
        return won

    async def body() -> None:
        async with logged_in(server.address) as first, logged_in(server.address) as second:
            await first.create_stream(stream)
            won = await asyncio.gather(work(first, "first"), work(second, "second"))
            assert sum(won) == 20
            names = sorted(topic.name for topic in await first.get_topics(stream))
            assert names == sorted(
                f"{who}-{number}" for who in ("first", "second", "contested") for number in range(20)
            )
            assert [topic.name for topic in await second.get_topics(stream)] == [
                topic.name for topic in await first.get_topics(stream)
            ]

    run(body)


def test_a_client_comes_back_after_a_restart_of_the_node() -> None:
    """What it had written is there, and it goes on writing under a login that it repeats by itself."""
    with Server() as node:

        async def body() -> None:
            client = reconnecting(node.address)
            await client.connect()
            await client.login_user("iggy", "iggy")
            await client.create_stream("before")
            await asyncio.to_thread(node.restart)
            names = [found.name for found in await client.get_streams()]
            assert names == ["before"]
            await client.create_stream("after")
            assert [found.name for found in await client.get_streams()] == ["before", "after"]

        run(body)
