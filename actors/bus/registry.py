"""Who is connected: what GET_ME, GET_CLIENT and GET_CLIENTS tell, and the commit point that denials name.

One of each per Bus, shared with its gateways; a gateway writes only its own entry.
"""

from dataclasses import dataclass, replace
from typing import Final

SHORT_ID_MASK: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedClient:
    """One connection. `user_id` and `client`, the 128-bit id of the headers, are None before login; `peer` is `ip:port`."""

    connection: int
    peer: str
    user_id: int | None
    client: int | None = None

    @property
    def short_id(self) -> int:
        """The node's own 32-bit id of the connection (requests 2.6), not the client id of the headers."""
        return self.connection & SHORT_ID_MASK


class ClientRegistry:
    """The connections that are open now, in the order they were accepted."""

    __slots__ = ("_clients", "_sessions")

    def __init__(self) -> None:
        self._clients: dict[int, ConnectedClient] = {}
        self._sessions = 0

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def sessions(self) -> int:
        """How many of the connections are logged in."""
        return self._sessions

    def opened(self, connection: int, peer: str) -> None:
        """A connection was accepted."""
        assert connection not in self._clients
        self._clients[connection] = ConnectedClient(connection=connection, peer=peer, user_id=None)

    def bound(self, connection: int, user_id: int | None, client: int | None) -> None:
        """The connection logged in as a user under a client id, or both None: it is logged in no more."""
        before = self._clients[connection]
        self._sessions += (user_id is not None) - (before.user_id is not None)
        assert 0 <= self._sessions <= len(self._clients)
        self._clients[connection] = replace(before, user_id=user_id, client=client)

    def closed(self, connection: int) -> None:
        """The connection is gone."""
        self.bound(connection, None, None)
        del self._clients[connection]

    def client(self, connection: int) -> ConnectedClient:
        """The entry of an open connection."""
        return self._clients[connection]

    def find(self, short_id: int) -> ConnectedClient | None:
        """The connection with that short id."""
        return next((client for client in self._clients.values() if client.short_id == short_id), None)

    def clients(self) -> tuple[ConnectedClient, ...]:
        """All connections, oldest first."""
        return tuple(self._clients.values())


class CommitPoint:
    """The highest op known to be committed: what an answer that was not committed itself names (wire 8.1)."""

    __slots__ = ("op",)

    def __init__(self) -> None:
        self.op = 0

    def raise_to(self, op: int) -> None:
        """An answer named this commit; it never goes back."""
        self.op = max(self.op, op)
