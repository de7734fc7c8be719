"""Asking a running node: the options that every such command shares, and one connection for its length.

A command that asks is written with an `Asking` as its first parameter and registered with `asks`; the shared options are
added to what a user may type.
"""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import typer

from levrier.cluster.client import Client
from levrier.cluster.config import Address

T = TypeVar("T")

CALL_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Whom to ask, as whom, for how long, and in which form to answer."""

    connect: str
    username: str
    password: str = field(repr=False)
    timeout: float
    as_json: bool

    @property
    def address(self) -> Address:
        """The node to ask. Raises `ConfigError` when it is no address."""
        return Address.parse(self.connect)

    def run(self, question: Callable[[Client], Awaitable[T]]) -> T:
        """Connect, log in, ask, log out. Raises `ClientError`, which names the address."""
        return asyncio.run(self._run(question))

    async def _run(self, question: Callable[[Client], Awaitable[T]]) -> T:
        address = self.address
        client = await Client.connect(address.host, address.port, deadline_seconds=self.timeout)
        async with client:
            await client.login(self.username, self.password)
            answer = await question(client)
            await client.logout()
        return answer


def _shared(
    connect: Annotated[
        str, typer.Option("--connect", "-c", metavar="HOST:PORT", envvar="LEVRIER_CONNECT", help="The node to ask.")
    ] = "127.0.0.1:8090",
    username: Annotated[
        str, typer.Option("--username", "-u", envvar="LEVRIER_USERNAME", help="Log in as this user.")
    ] = "iggy",
    password: Annotated[
        str, typer.Option("--password", "-p", envvar="LEVRIER_PASSWORD", show_default=False, help="Its password.")
    ] = "iggy",
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long each call may take.")
    ] = CALL_SECONDS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> Asking:
    return Asking(connect=connect, username=username, password=password, timeout=timeout, as_json=as_json)


_SHARED = inspect.signature(_shared)


def asks(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command whose first parameter is an `Asking`."""

    def register(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command).parameters.values())[1:]

        @functools.wraps(command)
        def with_options(**values: Any) -> None:
            shared = {key: values.pop(key) for key in _SHARED.parameters}
            command(_shared(**shared), **values)

        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *_SHARED.parameters.values())
        ]
        with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(name)(with_options)
        return command

    return register
