"""What the Metadata actor accepts: the commit stream, and reads of applied state."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from levrier.actors.bus.messages import Ticket
from levrier.actors.runtime import Recipient
from levrier.persistence.snapshot import Snapshot
from levrier.wire.frozen import quick_init
from levrier.wire.identifiers import Identifier
from levrier.wire.prepare import Prepare


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Apply the committed prepare; ops arrive in order without a gap (rule 2). Passed on as client_table.Commit."""

    prepare: Prepare
    reply_to: Ticket | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A read by a logged-in user, answered from applied state (D-19) by bus.QueryAnswer.

    `code` is the command code (wire 12.1), `client` the 128-bit client id of the connection's session.
    """

    ticket: Ticket
    user_id: int
    client: int
    code: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCredentials:
    """Who is this user name? Answered by bus.Credentials."""

    ticket: Ticket
    username: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FindPasswordHash:
    """The stored password hash of this user, for the admission of a change (11.2). Answered by bus.Credentials."""

    ticket: Ticket
    user: Identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class FindToken:
    """Whose token has this hash? Answered by bus.TokenOwner."""

    ticket: Ticket
    token_hash: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTokens:
    """How many tokens has this user? Answered by bus.TokenCount."""

    ticket: Ticket
    user_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FindSegmentSize:
    """Stored segment size of a topic, for the admission of an update (state-machine 9.6). Answered by bus.SegmentSize."""

    ticket: Ticket
    stream: Identifier
    topic: Identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """How much is there, and which groups are these clients members of? Answered by bus.Surveyed.

    `restricted` asks for the right to read servers (state-machine 10.2); otherwise every user who exists may ask.
    """

    ticket: Ticket
    user_id: int
    restricted: bool
    clients: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """The checkpoint marker: op equals the last applied one. Passed on as client_table.Capture."""

    op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """The install marker of a state transfer: nothing told before it is still under way (rule 2).

    `is_ahead` says that the snapshot replaces the machine, which then stands at the snapshot's op; otherwise the machine
    stays as it is. Passed on as client_table.Install either way.
    """

    attempt: int
    snapshot: Snapshot
    table_frontier: int
    is_ahead: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierApplied:
    """What is applied, of each origin: everything up to `op`. Positions and identities ascend by origin, none is 0.

    Applied is only what is durable in this log or in the snapshot that was installed (design section 3), so this is also
    what is durably applied.
    """

    op: int
    positions: tuple[tuple[int, int], ...]
    identities: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierWanted:
    """How far is the state applied? Answered by FrontierApplied."""

    reply_to: Recipient[FrontierApplied]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindExpiredTokens:
    """Which tokens are expired at `now` (microseconds), at most `limit`? Answered by plugins.ExpiredTokensAnswer."""

    ticket: Ticket
    now: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FindRevocations:
    """Which partitions are still to be given up, at most `limit`? Answered by plugins.RevocationsAnswer."""

    ticket: Ticket
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FindMembers:
    """Which of these clients are members of a group? Answered by plugins.MembershipsAnswer."""

    ticket: Ticket
    clients: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeCatalogue:
    """Every partition that there is, to be walked in another thread. Answered by plugins.CatalogueAnswer.

    Nothing is frozen while the catalogue stands at `unless_revision`.
    """

    ticket: Ticket
    unless_revision: int


class CapturedMetadata(Protocol):
    """The replicated state as it stood at one op, safe to encode in another thread while the machine goes on.

    Capturing costs at most a copy of the top-level maps; the encodings come in pieces of at most about 64 KiB.
    """

    @property
    def op(self) -> int:
        """The op this state reflects."""

    @property
    def timestamp(self) -> int:
        """Timestamp of that op, microseconds: `created_at` of the snapshot."""

    @property
    def consensus_group_high(self) -> int:
        """Highest consensus-group id ever handed out (D-07)."""

    @property
    def next_user_id(self) -> int:
        """The next user id; user ids are never reused (D-02)."""

    @property
    def frontier(self) -> tuple[tuple[int, int], ...]:
        """The highest applied op of each origin, ascending by origin (acknowledgements 1)."""

    @property
    def high_water(self) -> tuple[tuple[int, int], ...]:
        """The highest identity that ops of each origin handed out, ascending by origin."""

    def users(self) -> Iterator[bytes]:
        """The msgpack encoding of the `users` snapshot section."""

    def streams(self) -> Iterator[bytes]:
        """The msgpack encoding of the `streams` snapshot section."""


Question = Query | FindCredentials | FindPasswordHash | FindToken | CountTokens | FindSegmentSize | Survey
"""What the Bus asks."""

PluginQuestion = FindExpiredTokens | FindRevocations | FindMembers | FreezeCatalogue
"""What only plugins ask."""

Command = Apply | Question | PluginQuestion | Capture | Install | FrontierWanted
