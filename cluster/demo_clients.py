"""The clients of `levrier demo`: the official SDK where it is installed, else our own. Each creates streams, one at a time."""

import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from levrier.cluster.address import Address
from levrier.cluster.client import Client, ClientError

USER: Final = "iggy"
CLIENT_ERRORS: Final = (RuntimeError, ClientError)
"""What a refused write, or one whose fate is unknown, is raised as: by the SDK, and by our own client."""

_RECONNECT: Final = timedelta(milliseconds=50)
"""The SDK waits for seconds by default before it comes back."""

Create = Callable[[str], Awaitable[object]]
"""Creates a stream of this name. Raises one of `CLIENT_ERRORS`; the next call goes on with the same login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """One kind of client. `connect` takes `host:port` and logs in."""

    name: str
    connect: Callable[[str], Awaitable[Create]]


def clients() -> Clients:
    """The official SDK if it is there."""
    try:
        sdk: Any = importlib.import_module("apache_iggy")
    except ImportError:
        return Clients(name="levrier's own client (install apache-iggy to use the official SDK)", connect=_own)
    return Clients(name="the official Apache Iggy SDK", connect=lambda address: _official(sdk, address))


async def _own(address: str) -> Create:
    where = Address.parse(address)
    client = await Client.connect(where.host, where.port)
    await client.login(USER, USER)

    async def create(name: str) -> None:
        if not client.connected:
            await client.reconnect()
        await client.create_stream(name)

    return create


async def _official(sdk: Any, address: str) -> Create:
    reconnection = sdk.TcpReconnectionConfig(enabled=True, interval=_RECONNECT, reestablish_after=timedelta(0))
    client = sdk.IggyClient(sdk.TcpConfig(server_address=address, reconnection=reconnection))
    await client.connect()
    await client.login_user(USER, USER)

    async def create(name: str) -> None:
        await client.create_stream(name)

    return create
