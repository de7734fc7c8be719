"""What the Bus accepts: answers for clients, and what happened on its connections.

The Bus owns sockets, framing and one gateway object per connection. The gateway owes exactly one frame for each request
of a connection (design section 3, rule 7): an answer whose ticket is no longer open is dropped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from levrier.wire.codes import EvictionReason
from levrier.wire.control import ControlHeader
from levrier.wire.frozen import quick_init


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """One request of one connection, as the gateway that owes its answer numbers it.

    `connection` is never reused within the life of a node; `number` counts the requests of that connection from 1.
    """

    connection: int
    number: int


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A committed reply, fresh or from the client table's ring: the frame as every replica would build it.

    `body_checksum` is that of the body that has just committed, 0 for a reply from the ring: a secret is shown with the
    reply of its own body only (rule 7).
    """

    ticket: Ticket
    frame: bytes
    body_checksum: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """The request was refused with an Iggy error code; the gateway chooses the channel (wire 8.2, 8.4)."""

    ticket: Ticket
    code: int
    commit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """The session of the request is over: an Eviction frame answers it (wire 7)."""

    ticket: Ticket
    reason: EvictionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswer:
    """The answer of a read: `status` 0 and the plain body, or an error code and no body. `commit` is the applied op."""

    ticket: Ticket
    status: int
    body: bytes
    commit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What the replicated state knows of a user, by the name of a login or by the identifier of a password change.

    `user_id` is None for an unknown user. `bootstrapped` is False until the root user exists (D-01): logins then get
    code 57. The hash is a secret: it never shows in a repr.
    """

    ticket: Ticket
    bootstrapped: bool
    user_id: int | None
    active: bool
    password_hash: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordVerified:
    """The worker thread has compared a password with a hash; `matches` is None when it could not (no memory, a queue)."""

    ticket: Ticket
    matches: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordHashed:
    """The worker thread has hashed a new password: its PHC string, a secret; empty when that failed."""

    ticket: Ticket
    password_hash: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOwner:
    """What the replicated state knows of a token hash: `user_id` is None for an unknown one.

    `expires_at` in microseconds, None for never; whoever asked compares it with the clock.
    """

    ticket: Ticket
    bootstrapped: bool
    user_id: int | None
    active: bool
    expires_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount:
    """How many tokens a user has by now, expired ones included (the cap of state-machine 11.3)."""

    ticket: Ticket
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSize:
    """The stored segment size of a topic in bytes, or None when the topic does not exist (update admission)."""

    ticket: Ticket
    segment_size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """What commands about the node need of the replicated state: how much there is, and who is a member where.

    `permitted` is False for a user without the right to ask. `memberships` holds the clients that were asked about and are
    members of a group, each with (stream, topic, group), ascending.
    """

    ticket: Ticket
    permitted: bool
    streams: int
    topics: int
    partitions: int
    groups: int
    memberships: Mapping[int, tuple[tuple[int, int, int], ...]]
    commit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveBuilt:
    """The worker thread has packed the diagnostics archive, or None: that failed."""

    ticket: Ticket
    archive: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """How this replica stands: the consensus part of `levrier status`. Ops are numbers of prepares; 0 means none yet."""

    ticket: Ticket
    replica: int
    replica_count: int
    is_primary: bool
    state: str
    view: int
    log_view: int
    op: int
    commit: int
    applied: int
    checkpoint: int
    checkpoints: int
    log_bytes: int
    pipeline: int
    queued: int
    member: str = "voter"
    """`unborn`, `learner` or `voter` (birth)."""
    alarm: str = ""
    """How the state of a member differs from that of others, in words; empty when nothing is known of that (D-17)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentSession:
    """A session on this node whose client sent nothing for long. `client` is its 128-bit id."""

    connection: int
    client: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FindSilent:
    """Which sessions were not heard of for more than `seconds`? Answered by plugins.SilentAnswer."""

    ticket: Ticket
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSilent:
    """Log these sessions out as stale, as far as they are still silent for more than `seconds` (maintenance 4).

    Answered by plugins.SilentAnswer with those that it was done to; their connections stay.
    """

    ticket: Ticket
    sessions: tuple[SilentSession, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The transport accepted a connection. `peer` is its address as `ip:port`."""

    connection: int
    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """Bytes arrived on a connection, cut anywhere. They may hold a password."""

    connection: int
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A connection is gone, whoever closed it. Nothing more comes from it."""

    connection: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResumed:
    """The peer of a connection reads again: what it is owed may be written, and reading may go on."""

    connection: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A second has passed: retries of disconnect logouts, login deadlines."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class SendToReplica:
    """Send one whole, sealed frame to a peer. Dropped when there is no link or its queue is full; never to oneself."""

    replica: int
    frame: bytes = field(repr=False)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast:
    """Send one whole, sealed frame to every peer that there is a link to, in the order of their ids."""

    frame: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushLinks:
    """Write what waits for peers now, not only when the mailbox has run empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPeer:
    """End the link to a peer that turned out to be no member of this cluster; the next dial waits the longest pause."""

    replica: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDialPace:
    """`hurried`: the cluster is not born yet, so dials are repeated at the shortest pause, without doubling it."""

    hurried: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitPeer:
    """The peer proved to be a member of this very cluster: frames other than MemberState of its link are passed on.

    Told again when it becomes a voter (`voter` False: a learner). Forgotten when the link ends.
    """

    replica: int
    voter: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Consensus says who leads, each time that changes.

    `leader` is the primary of `view` as far as this replica is Normal in that view, None otherwise. `serves` is False while
    that primary has not applied yet what it inherited, and on itself while it can commit nothing. `unheard` are members that
    this replica waits for, whether they are connected or not: they do not acknowledge, or do not vote.
    """

    view: int
    leader: int | None
    serves: bool
    unheard: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipNote:
    """What this member waits for before it takes part, in words; empty when it does."""

    waiting: str


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFrame:
    """What the Bus tells whoever takes `command`: a verified frame of the peer `sender`, of this cluster and group."""

    command: int
    header: ControlHeader
    body: bytes = field(repr=False)
    sender: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerUp:
    """What the Bus tells whoever watches the links: there is one to this replica now."""

    replica: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerDown:
    """What the Bus tells whoever watches the links: the one to this replica has ended."""

    replica: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAdmitted:
    """What the Bus tells whoever asked for it, before any frame of the peer: it is a member of this very cluster.

    `voter` is False for a learner, whose disk was lost; told again when it votes.
    """

    replica: int
    voter: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaHistory:
    """What is known of how far one required replica has durably applied; `applied` is 0 when it has said nothing.

    `blocks_from` is the first op that may not be reclaimed because of it, 0 when it holds nothing back.
    """

    replica_id: str
    node: str
    acknowledged: bool
    applied: int
    produced_at_ms: int
    blocks_from: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptHistory:
    """What has left the log and is kept until everybody has it; sizes in bytes, a `limit` of 0 is none."""

    first_op: int
    last_op: int
    segments: int
    size: int
    limit: int

    @property
    def is_over_limit(self) -> bool:
        """Whether more is kept than the limit; it is kept all the same."""
        return 0 < self.limit < self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryChanged:
    """What the durable statements of all replicas permit now (acknowledgements 3), for status.

    `safe_op`: every required replica has durably applied everything up to it; None while some have said nothing. `kept` is
    None on a node that keeps no history.
    """

    safe_op: int | None
    frontier: tuple[tuple[int, int], ...]
    applied: int
    replicas: tuple[ReplicaHistory, ...]
    frames_refused: int
    kept: KeptHistory | None = None


Answer = (
    Reply
    | Deny
    | Evict
    | QueryAnswer
    | Credentials
    | PasswordVerified
    | PasswordHashed
    | TokenOwner
    | TokenCount
    | SegmentSize
    | Surveyed
    | ArchiveBuilt
    | NodeStatus
)
PluginCommand = FindSilent | EndSilent
Command = Answer | Opened | Received | Closed | WriteResumed | Tick | PluginCommand | HistoryChanged
ReplicaCommand = (
    SendToReplica | Broadcast | FlushLinks | DropPeer | SetDialPace | AdmitPeer | Leadership | MembershipNote
)
PeerEvent = PeerUp | PeerDown
