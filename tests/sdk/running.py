"""How a test talks through the official SDK. No plugin for asynchronous tests: each test runs a loop of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypeVar

from apache_iggy import IggyClient, TcpConfig, TcpReconnectionConfig

R = TypeVar("R")

TEST_SECONDS = 60.0


def run(body: Callable[[], Awaitable[R]]) -> R:
    """Run the asynchronous body of a test, with a deadline."""

    async def bounded() -> R:
        async with asyncio.timeout(TEST_SECONDS):
            return await body()

    return asyncio.run(bounded())


def never_reconnecting(address: str) -> IggyClient:
    """A client that tells of a broken connection at once."""
    return IggyClient(TcpConfig(server_address=address, reconnection=TcpReconnectionConfig(enabled=False)))


def reconnecting(address: str) -> IggyClient:
    """A client that comes back by itself, without the pause of five seconds that is the SDK's default."""
    return IggyClient(
        TcpConfig(
            server_address=address,
            reconnection=TcpReconnectionConfig(
                enabled=True, interval=timedelta(milliseconds=50), reestablish_after=timedelta(0)
            ),
        )
    )


@asynccontextmanager
async def logged_in(address: str) -> AsyncIterator[IggyClient]:
    """A client as root."""
    client = never_reconnecting(address)
    await client.connect()
    await client.login_user("iggy", "iggy")
    yield client
    await client.logout_user()
