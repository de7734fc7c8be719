"""How every node of a cluster stands, asked again and again: behind `levrier status`, `dev`, `demo` and the test fixtures.

Each node is asked on a connection of its own with a deadline, all at the same time. A node that lets nobody in yet tells
without a login; any other is logged in to once, and the session is kept for the next question: a login is an operation in
the log of the cluster that it asks about.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from levrier.cluster.address import Address
from levrier.cluster.client import Client, ClientError, DeadlineExceeded, Disconnected, Evicted, IggyError
from levrier.cluster.client_errors import NotTaken
from levrier.cluster.client_tls import ClientTls
from levrier.wire.codes import ErrorCode

Login = Callable[[Client], Awaitable[object]]
NO_FACTS: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStanding:
    """What one node said of itself. `facts` are those of its status, empty when it said none."""

    address: str
    reachable: bool
    facts: Mapping[str, Any] = field(default_factory=dict)
    error: ClientError | None = None
    """Why there are no facts."""

    @property
    def waiting(self) -> str:
        """What it waits for, in words; empty when it waits for nothing or said nothing."""
        return str(self.facts.get("waiting") or "")

    @property
    def leads(self) -> bool:
        """It says that it is the primary and waits for nothing."""
        return self.facts.get("role") == "primary" and not self.waiting

    @property
    def view(self) -> int:
        """Its view; -1 when it said none."""
        return int(self.facts.get("view", -1))


def serving(standings: Sequence[NodeStanding]) -> int | None:
    """Index of the one that leads. Of several that say so the one of the highest view: the others do not know it yet."""
    leading = [index for index, standing in enumerate(standings) if standing.leads]
    return max(leading, key=lambda index: standings[index].view, default=None)


class NodeWatch:
    """Asks one node. Nothing is connected until `ask`."""

    def __init__(self, address: str, *, login: Login, deadline_seconds: float, tls: ClientTls | None = None) -> None:
        self.address = address
        self._login = login
        self._tls = tls
        self._deadline_seconds = deadline_seconds
        self._client: Client | None = None
        self._answered = False
        """Whether it said anything on the present connection since the last question."""

    async def ask(self) -> NodeStanding:
        """How it stands. A wrong password and the like are in `error` as well: what to make of it is the caller's."""
        for _ in range(2):
            is_kept = self._client is not None
            try:
                return NodeStanding(address=self.address, reachable=True, facts=await self._status())
            except DeadlineExceeded as error:
                answered = self._answered
                await self.close()
                return NodeStanding(address=self.address, reachable=answered, error=error)
            except (Disconnected, Evicted) as error:
                await self.close()
                if not is_kept:
                    return NodeStanding(address=self.address, reachable=isinstance(error, Evicted), error=error)
            except ClientError as error:
                await self.close()
                return NodeStanding(address=self.address, reachable=True, error=error)
        raise AssertionError("a fresh connection either answers or fails")

    async def close(self) -> None:
        """Close the connection; the node ends the session by itself."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _status(self) -> Mapping[str, Any]:
        client = self._client
        self._answered = False
        if client is None:
            where = Address.parse(self.address)
            client = await Client.connect(
                where.host, where.port, deadline_seconds=self._deadline_seconds, tls=self._tls
            )
            self._client = client
        try:
            return await client.status()
        except IggyError as error:
            if isinstance(error, Evicted) or error.code != ErrorCode.UNAUTHENTICATED:
                raise
        self._answered = True
        try:
            await self._login(client)
        except NotTaken:
            return await client.status()  # It may know by now what it waits for, and tells that without a login.
        return await client.status()


class ClusterWatch:
    """Asks several nodes at the same time. `addresses` by replica id, or in any other order that the caller keeps."""

    def __init__(
        self, addresses: Sequence[str], *, login: Login, deadline_seconds: float, tls: ClientTls | None = None
    ) -> None:
        self._nodes = [NodeWatch(each, login=login, deadline_seconds=deadline_seconds, tls=tls) for each in addresses]

    async def ask(self) -> tuple[NodeStanding, ...]:
        """How each stands, in the order of the addresses. Takes as long as the slowest, at most a few deadlines."""
        return tuple(await asyncio.gather(*(node.ask() for node in self._nodes)))

    async def close(self) -> None:
        """Close every connection."""
        await asyncio.gather(*(node.close() for node in self._nodes))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def as_user(username: str, password: str) -> Login:
    """Log in with name and password."""
    return lambda client: client.login(username, password)
