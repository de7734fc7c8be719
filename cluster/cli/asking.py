"""Asking a running node: the options that every such command shares, and one connection for its length.

A command that asks is written with an `Asking` as its first parameter and registered with `asks`; the shared options are
added to what a user may type.
"""

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar

import typer

from levrier.cluster.address import Address
from levrier.cluster.cli.output import CommandFailed, Exit
from levrier.cluster.cli.secrets_given import SecretSource
from levrier.cluster.client import Client, ClientError, ClientTls, Evicted, IggyError

T = TypeVar("T")

CALL_SECONDS = 10.0
NO_WORDS: Final[Mapping[int, str]] = MappingProxyType({})

_PASSWORD_HELP: Final = "Its password; a file, the variable or the prompt keep it from other users of this machine."


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Whom to ask, as whom, for how long, and in which form to answer."""

    connect: str
    username: str
    password: str = field(repr=False)
    timeout: float
    as_json: bool
    token: str | None = field(default=None, repr=False)
    """A personal access token to log in with, instead of name and password."""
    tls: ClientTls | None = None
    """How the node is known; None for plain TCP."""
    typed: frozenset[str] = frozenset()
    """The parameters that stand on the command line; the others come from the environment or are defaults."""

    @property
    def address(self) -> Address:
        """The node to ask. Raises `ConfigError` when it is no address."""
        return Address.parse(self.connect)

    def run(self, question: Callable[[Client], Awaitable[T]], *, refused: Mapping[int, str] = NO_WORDS) -> T:
        """Connect, log in, ask, log out. Raises `ClientError`, which names the address.

        `refused` says what a refusal of the question means here, for codes that mean different things to commands: then
        `CommandFailed` is raised.
        """
        return asyncio.run(self._run(question, refused))

    async def log_in(self, client: Client) -> None:
        """Log in as the command line says. Raises `ClientError`."""
        if self.token is None:
            await client.login(self.username, self.password)
        else:
            await client.login_with_token(self.token)

    async def _run(self, question: Callable[[Client], Awaitable[T]], refused: Mapping[int, str]) -> T:
        address = self.address
        client = await Client.connect(address.host, address.port, deadline_seconds=self.timeout, tls=self.tls)
        async with client:
            await self.log_in(client)
            try:
                answer = await question(client)
            except IggyError as error:
                words = None if isinstance(error, Evicted) else refused.get(error.code)
                if words is None:
                    raise
                raise CommandFailed(f"{error.address} refused: {words} (code {error.code})") from error
            with contextlib.suppress(ClientError):  # Who deletes itself has no session left to end; it was answered.
                await client.logout()
        return answer


_ROOT: Final = "iggy"
_PASSWORD: Final = SecretSource(what="password", option="--password", variable="LEVRIER_PASSWORD")


def _shared(
    *,
    connect: Annotated[
        str, typer.Option("--connect", "-c", metavar="HOST:PORT", envvar="LEVRIER_CONNECT", help="The node to ask.")
    ] = "127.0.0.1:8090",
    username: Annotated[
        str, typer.Option("--username", "-u", metavar="NAME", envvar="LEVRIER_USERNAME", help="Log in as this user.")
    ] = _ROOT,
    password: Annotated[
        str | None,
        typer.Option(
            "--password", "-p", metavar="TEXT", envvar="LEVRIER_PASSWORD", show_default=False, help=_PASSWORD_HELP
        ),
    ] = None,
    password_file: Annotated[
        str | None, typer.Option("--password-file", metavar="FILE", help="A file with its password; - is stdin.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token", metavar="TOKEN", envvar="LEVRIER_TOKEN", show_default=False, help="Log in with a token instead."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long each call may take.")
    ] = CALL_SECONDS,
    tls: Annotated[
        bool,
        typer.Option(
            "--tls", metavar="", envvar="LEVRIER_TLS", help="Connect over TLS; the next two options imply it."
        ),
    ] = False,
    tls_ca: Annotated[
        Path | None,
        typer.Option(
            "--tls-ca",
            metavar="FILE",
            envvar="LEVRIER_TLS_CA",
            show_default=False,
            help="Trust what these PEM certificates signed, not the authorities of this system.",
        ),
    ] = None,
    tls_server_name: Annotated[
        str | None,
        typer.Option(
            "--tls-server-name",
            metavar="NAME",
            envvar="LEVRIER_TLS_SERVER_NAME",
            show_default=False,
            help="The name that its certificate is for, if that is not the host.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print JSON.")] = False,
    typed: frozenset[str] = frozenset(),
) -> Asking:
    token = _chosen_token(token, typed)
    secret = "" if token is not None else _login_password(username, password, password_file, typed)
    return Asking(
        connect=connect,
        username=username,
        password=secret,
        timeout=timeout,
        as_json=as_json,
        token=token,
        tls=_chosen_tls(tls, tls_ca, tls_server_name),
        typed=typed,
    )


def _chosen_tls(wanted: bool, authority: Path | None, server_name: str | None) -> ClientTls | None:
    """None for plain TCP. Raises `ConfigError` for a file that does not do, before anybody is asked."""
    if not wanted and authority is None and server_name is None:
        return None
    chosen = ClientTls(authority=authority, server_name=server_name)
    chosen.context()
    return chosen


def _chosen_token(token: str | None, typed: frozenset[str]) -> str | None:
    """What is typed goes before the environment: `--username` makes LEVRIER_TOKEN void. Raises `CommandFailed`."""
    named = typed & {"username", "password", "password_file"}
    if token is None or not named:
        return token
    if "token" in typed:
        raise CommandFailed("--token logs in by itself: leave out --username and --password", Exit.COULD_NOT_ASK)
    return None


def _login_password(username: str, password: str | None, file: str | None, typed: frozenset[str]) -> str:
    """The password to log in with: that of a node as it is installed where nobody says anything else."""
    found = _PASSWORD.find(password, file, typed=typed)
    if found is not None:
        return found
    if username == _ROOT:
        return "iggy"
    return replace(_PASSWORD, what=f"password of {username}").read(None, None, typed=typed)


_SHARED = {name: shared for name, shared in inspect.signature(_shared).parameters.items() if name != "typed"}


def asks(
    app: typer.Typer, name: str, *, hidden: bool = False, with_token: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command whose first parameter is an `Asking`.

    A hidden one works and is not listed. Without `with_token` the command knows passwords only.
    """
    offered = {key: value for key, value in _SHARED.items() if with_token or key != "token"}

    def register(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command).parameters.values())[1:]

        @functools.wraps(command)
        def with_options(context: typer.Context, **values: Any) -> None:
            typed = frozenset(key for key in context.params if _is_typed(context, key))
            shared = {key: values.pop(key) for key in offered}
            command(_shared(**shared, typed=typed), **values)

        parameters = [
            inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
            *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *offered.values())),
        ]
        with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(name, hidden=hidden)(with_options)
        return command

    return register


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
