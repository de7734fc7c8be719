"""What the plugin host accepts, and what it tells the actor of one plugin.

The host is the one neighbour that plugins have: commits, roles, ticks and answers go through it, and so do submits and
questions. It hands a plugin one delivery at a time and waits until that was handled, so what waits for a plugin waits here,
where it is bounded.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from levrier.actors.acknowledgements.messages import EvidenceAnswer
from levrier.actors.bus.messages import Deny, Evict, QueryAnswer, Reply, SilentSession, Ticket
from levrier.wire.frozen import quick_init

PLUGIN_CONNECTION: Final = -2
"""The connection that tickets of plugins name; no client and no forwarded operation has it."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class CommitNotice:
    """An operation was committed and applied here, rejected ones included (state-machine 14).

    `code` is 0 or that of the rejection, `timestamp` the moment of the op in microseconds, `revision` the one of the catalogue
    behind it, `request` the request number of `client`. `body` is as it stands in the log; it is empty where it would hold
    the hash of a password or a token.
    """

    op: int
    timestamp: int
    operation: int
    code: int
    user_id: int
    client: int
    request: int
    revision: int
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleChanged:
    """What Consensus says of this replica, each time that it changes.

    `is_leader`: primary, and past its admission barrier (D-28). `is_settled`: in normal status, and everything that the view
    was announced with, and that was found in the own log, is applied here.
    """

    is_leader: bool
    is_settled: bool
    view: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReplaced:
    """A state transfer has replaced the state, which stands at `op` now: there were no notices for what it jumped over."""

    op: int


class CommittedCatalogue(Protocol):
    """The catalogue as it stood at one revision, safe to walk in another thread while the machine goes on."""

    @property
    def revision(self) -> int:
        """The revision it stands at."""
        ...

    def partitions(self) -> Iterator[tuple[int, int, int, int]]:
        """Stream, topic and partition id, and the revision that created this incarnation of it (its epoch)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueAnswer:
    """The answer to metadata.FreezeCatalogue."""

    ticket: Ticket
    catalogue: CommittedCatalogue | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredTokensAnswer:
    """The answer to metadata.FindExpiredTokens: owner and name, in the order of (expiry, owner, name)."""

    ticket: Ticket
    tokens: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRevocation:
    """A partition that a member of a group has to give up, since `created_at` (microseconds)."""

    stream_id: int
    topic_id: int
    group_id: int
    source_client: int
    partition_id: int
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationsAnswer:
    """The answer to metadata.FindRevocations, in the order of the groups, their members and what those give up."""

    ticket: Ticket
    revocations: tuple[PendingRevocation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipsAnswer:
    """The answer to metadata.FindMembers: those of the clients asked about that are members of a group, ascending."""

    ticket: Ticket
    clients: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentAnswer:
    """The answer to bus.FindSilent, in the order of the connections."""

    ticket: Ticket
    sessions: tuple[SilentSession, ...]


Answer = CatalogueAnswer | ExpiredTokensAnswer | RevocationsAnswer | MembershipsAnswer | SilentAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """A plugin wants an operation in the log.

    `number` is the plugin's own, answered by an `Outcome`; `life` says which life of the plugin asks. `key` is 0 for a submit
    that may be decided anew, else the number under which it happens once. `client` is 0 or of the reserved high range.
    """

    plugin: str
    life: int
    number: int
    operation: int
    body: bytes = field(repr=False)
    key: int = 0
    client: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A plugin wants to know something: `question` is one of `levrier.actors.plugins.questions`."""

    plugin: str
    life: int
    number: int
    question: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """The plugin has handled a delivery; `failure` is what it raised, if it did. `metrics` are all it has by now."""

    plugin: str
    delivery: int
    failure: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    is_syncing: bool = False
    """Questions that it asked to look at the whole state are not answered yet: it is told of no commits meanwhile."""
    refused: int = 0
    """Submits and questions that were refused at once since the last time, because there were too many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TickDue:
    """The plugin's interval has passed."""

    plugin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A tenth of a second has passed: look for handlers that take too long, for back-offs and deadlines that are over."""


class Fate(Enum):
    """What became of a submit."""

    COMMITTED = "committed"
    """It is in the log, by this very submit; `code` says whether it was accepted or rejected."""
    ALREADY = "already"
    """Under its key it was committed before, by this node or by another one."""
    NOT_STARTED = "not_started"
    """Nothing happened, and nothing will: this node does not lead, or had no room."""
    UNKNOWN = "unknown"
    """It may have happened. Only without a key: look at the state and decide again."""
    INVALID = "invalid"
    """It can never happen: the request is not allowed, or its key was used for another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a submit. `op` is 0 unless it is known; `code` is 0 or the code of the rejection.

    `reply` is the payload of the committed reply, as the SDKs get it; empty where it is not known any more.
    """

    fate: Fate
    op: int = 0
    code: int = 0
    reply: bytes = field(default=b"", repr=False)

    @property
    def done(self) -> bool:
        """Whether the operation is in the log and was accepted there, now or before."""
        return self.fate in (Fate.COMMITTED, Fate.ALREADY) and not self.code


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The plugin begins, or begins again after it raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """These commits happened, in order."""

    notices: tuple[CommitNotice, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resync:
    """Commits may have happened that there is no notice for: look at the whole state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """The plugin's interval has passed, once or more often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What became of submit `number`."""

    number: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answer to question `number`."""

    number: int
    answer: object = field(repr=False)


Event = Started | RoleChanged | Committed | Resync | Ticked | Settled | Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """What the host tells the actor of a plugin: handle these in order, then say so with `Handled`.

    `life` counts the plugin objects: with a higher one than before, the actor makes a new plugin first.
    """

    delivery: int
    life: int
    events: tuple[Event, ...]


FromNode = CommitNotice | RoleChanged | StateReplaced | Reply | Deny | Evict | QueryAnswer | Answer | EvidenceAnswer
FromPlugin = Submit | Ask | Handled
Command = FromNode | FromPlugin | TickDue | Watch
