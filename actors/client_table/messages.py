"""What the ClientTable accepts.

The table advises, Consensus decides (design section 3, rule 4). A Replay goes straight to the Bus, since what is cached is
committed; everything else goes to Consensus as a `consensus.Verdict`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from levrier.actors.bus.messages import Ticket
from levrier.actors.metadata.messages import CapturedMetadata
from levrier.persistence.snapshot import Snapshot
from levrier.wire.frozen import quick_init
from levrier.wire.headers import PrepareHeader, RequestHeader

SERVER_CLIENT_MIN = (2**64 - 1) << 64
"""Client ids whose high half is all ones, and 0, belong to operations of the node itself (D-10)."""

PLUGIN_CLIENT_MIN = (2**64 - 2) << 64
"""Client ids from here up to `SERVER_CLIENT_MIN` belong to the sessions of plugins: sessions like any other, but no client may
log in under such an id, or it could keep a plugin from its session."""

DISCONNECT_REQUEST = 2**64 - 1
"""Request number of a Logout that the node writes itself for a lost connection (client-table 7)."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest:
    """A request on its way into the log.

    `header` is the client's; its `user_id` is never trusted. `body` is what will be replicated: credentials are already
    replaced. `user_id` is the user whose credentials the gateway verified, for a Register; 0 otherwise. `ticket` is None
    when nobody waits for the answer (a disconnect logout). `refusal` is 0, or the status that admission found by looking at
    replicated state: then the request is not to execute, and the status is its answer if it never did before.
    """

    ticket: Ticket | None
    header: RequestHeader
    body: bytes = field(repr=False)
    user_id: int = 0
    refusal: int = 0


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """May this request execute (client-table 3)? Answered by bus.Reply (replay) or consensus.Verdict."""

    request: ClientRequest


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """The same question for a queued request whose slot is reserved under `token` (rule 5).

    Always answered by a consensus.Verdict that carries the token, a replay included, so that the slot is released.
    """

    token: int
    request: ClientRequest


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Op `header.op` was applied: the next part of the one commit stream (rule 2).

    `reply` is the whole reply frame. `dropped_users` are users that this op deleted: their sessions and fences end with
    it (D-02). `reply_to` is None on a backup, in replay and for operations of the node itself.
    """

    header: PrepareHeader
    reply: bytes
    reply_to: Ticket | None
    dropped_users: tuple[int, ...] = ()


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """The checkpoint marker, behind the Commit of the same op: capture, and hand both parts to the coordinator."""

    op: int
    metadata: CapturedMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """The install marker, behind the machine's part: take the table of the snapshot, which reflects `table_frontier`.

    `snapshot.client_table` is the table as it was received, in its transfer encoding (bytes, client-table 10): it carries
    whole rings, and may be ahead of the snapshot. `applied_op` is the op that the machine stands at now. Commits up to
    `table_frontier` go through without an effect on the table (consensus specification 11); a table that is behind
    `applied_op` is not taken, since its sessions would go back. Answered to Consensus by Installed.
    """

    attempt: int
    snapshot: Snapshot
    table_frontier: int
    applied_op: int


class CapturedClients(Protocol):
    """The client table as it stood at one op, safe to encode in another thread."""

    def chunks(self) -> Iterator[bytes]:
        """The msgpack encoding of the `client_table` snapshot section, in pieces of at most about 64 KiB."""


Command = Preflight | Recheck | Commit | Capture | Install
