"""What Consensus accepts: verdicts on requests, completions of what it asked for, and time."""

from dataclasses import dataclass, field
from enum import IntEnum

from levrier.actors.bus.messages import Ticket
from levrier.actors.client_table.messages import ClientRequest
from levrier.actors.journal.messages import Entries
from levrier.persistence.snapshot import Snapshot
from levrier.wire.control import ControlHeader
from levrier.wire.frozen import quick_init
from levrier.wire.prepare import Prepare


class Outcome(IntEnum):
    """What the client table says of a request (client-table 3 and 8)."""

    NEW = 0
    REPLAYED = 1
    """Only in answer to a Recheck: the cached reply has been sent, the reserved slot is free again."""
    TOKEN_EXISTS = 2
    """A replayed CreatePersonalAccessToken that had succeeded: its secret cannot be shown again (code 51)."""
    NO_SESSION = 3
    FENCED = 4
    EPOCH_AHEAD = 5
    CHECKSUM_MISMATCH = 6
    ALREADY_APPLIED = 7
    OWNED_BY_ANOTHER_USER = 8


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The table's advice on one request; Consensus decides (design section 3, rule 4).

    `token` is 0 for a fresh request, else the token of the Recheck. `user_id` is the acting user to stamp: that of the
    session's entry; for a Register the verified one; for a Logout the owner of (client, session) or 0.
    """

    token: int
    request: ClientRequest
    outcome: Outcome
    user_id: int


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """Names one prepare as it was handed to the journal: completions are judged against the state of the moment."""

    op: int
    checksum: int
    view: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """These prepares are durable, in log order; one message for each batch of the journal."""

    positions: tuple[LogPosition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFailed:
    """The batch that began with this prepare is not in the log; the journal refuses everything above until Truncate."""

    positions: tuple[LogPosition, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """Everything from `from_op` on is gone from the log, durably."""

    from_op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateFailed:
    """The suffix could not be removed; the journal stays as it was or is poisoned, as `reason` says."""

    from_op: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Op is applied and its reply is in the client table: the end of the commit stream for it."""

    op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestNoted:
    """What the replicated state came to when `op` was the last one applied (D-17)."""

    op: int
    digest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewPersisted:
    """The pair is durable in the superblock: as written, never re-read."""

    view: int
    log_view: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewPersistFailed:
    """The superblock write failed; `failures` counts consecutive ones. `is_full`: all of them for want of space."""

    failures: int
    reason: str
    is_full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveReaches:
    """The Journal keeps history: everything from this op on can be read, from its archive or its log; 0: only the log can."""

    first_op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDone:
    """Snapshot durable, superblock names it, log drained up to `op - 1`. Sizes in bytes."""

    op: int
    snapshot_size: int
    log_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFailed:
    """The attempt at `op` ended before the superblock named it, or before the drain; retried with back-off (D-27)."""

    op: int
    reason: str


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareReceived:
    """A verified prepare of this cluster and group, passed on by the peer `sender`; `header.replica` built it."""

    prepare: Prepare
    sender: int


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPrepareReceived:
    """A verified entry that was asked for (RepairPrepare), as the prepare it carries."""

    prepare: Prepare
    sender: int


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class FrameReceived:
    """A verified control frame; `header.replica` is `sender`. The body is whole and fits its checksum, if it has one."""

    header: ControlHeader
    body: bytes
    sender: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FramesReceived:
    """Several that came together, in the order of the link: a peer that is loaded sends many at a time."""

    frames: tuple[PrepareReceived | RepairPrepareReceived | FrameReceived, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusQuery:
    """How does this replica stand? Answered by bus.NodeStatus."""

    ticket: Ticket


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One consensus tick (10 ms) has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAccepted:
    """The peer's descriptor was accepted: its chunks are being fetched."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFailed:
    """The attempt ended, at whatever step, and nothing of it was installed.

    `is_refused` says that the peer has nothing to offer; otherwise stalls or damaged bytes used up the budget.
    """

    attempt: int
    reason: str
    is_refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallReady:
    """The state is here: complete, verified, decoded and coherent (`snapshot_op <= table_frontier <= commit_op`)."""

    attempt: int
    snapshot: Snapshot
    snapshot_size: int
    table_frontier: int
    commit_op: int
    commit_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlaced:
    """The received snapshot is durable under its name (answer to PlaceSnapshot)."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """State machine and client table reflect the transfer; `applied_op` is where the commit stream goes on from."""

    attempt: int
    applied_op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferWanted:
    """A peer asks StateTransfer for state. Answered by state_transfer.OfferVerdict with the same token.

    Granted only by a primary past its admission barrier. Without a snapshot, a capture is started first and the answer comes
    when that checkpoint has ended (B-011).
    """

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChanged:
    """Whether this member votes, acknowledges and elects (birth): False for a learner and before birth."""

    voter: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Born:
    """This member is born, durably: it takes part from now on, as a voter or as a learner. Told once, to an unborn one."""

    voter: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstainersChanged:
    """Bit r: replica r is known to be a learner, whose vote a view may start without (birth, two members, B-014)."""

    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingWanted:
    """Where does this replica stand, and does it durably hold that entry? Answered by birth.Standing with the token."""

    token: int
    op: int = 0
    checksum: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOwn:
    """An operation that a part of the node wants in the log (D-10, D-23), as root and without a session.

    `client` is 0, or of the reserved high range: then one at a time. Decided at once, never queued: answered under the ticket
    by bus.Reply when it is applied, by bus.Deny with 58 where nothing was started (this replica does not lead, has not applied
    what it inherited, or has no room) and with 57 where a view change leaves the outcome open, and by bus.Evict for a body
    that cannot be projected.
    """

    ticket: Ticket
    operation: int
    client: int
    request: int
    body: bytes = field(repr=False)


Command = (
    Verdict
    | Appended
    | AppendFailed
    | Truncated
    | TruncateFailed
    | Applied
    | DigestNoted
    | ViewPersisted
    | ViewPersistFailed
    | CheckpointDone
    | CheckpointFailed
    | StatusQuery
    | Tick
    | PrepareReceived
    | RepairPrepareReceived
    | FrameReceived
    | FramesReceived
    | Entries
    | TransferAccepted
    | TransferFailed
    | InstallReady
    | SnapshotPlaced
    | Installed
    | OfferWanted
    | VoterChanged
    | Born
    | AbstainersChanged
    | StandingWanted
    | SubmitOwn
    | ArchiveReaches
)
