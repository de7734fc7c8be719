"""What the core asks its shell to do, in order. Each is one message to one neighbour, or a line for the log.

`Append`, `Apply` and `Recheck` are on the path of every write.
"""

from dataclasses import dataclass
from enum import IntEnum

from levrier.actors.birth.messages import Standing
from levrier.actors.bus.messages import Leadership, NodeStatus, Ticket
from levrier.actors.client_table.messages import ClientRequest
from levrier.actors.plugins.messages import RoleChanged
from levrier.actors.runtime import ExitStatus
from levrier.actors.state_transfer.messages import ConsensusCommand
from levrier.persistence.snapshot import Snapshot
from levrier.wire.codes import EvictionReason
from levrier.wire.frozen import quick_init
from levrier.wire.prepare import Prepare


class Severity(IntEnum):
    """How loud a note is."""

    DEBUG = 0
    WARNING = 1
    ERROR = 2


@quick_init
@dataclass(frozen=True, slots=True)
class Append:
    """Make the prepare durable; `view` is the view of the moment and comes back with the completion."""

    prepare: Prepare
    view: int


@quick_init
@dataclass(frozen=True, slots=True)
class Apply:
    """The next op of the commit stream."""

    prepare: Prepare
    reply_to: Ticket | None


@quick_init
@dataclass(frozen=True, slots=True)
class Recheck:
    """Ask the client table again about a queued request whose slot is reserved under `token`."""

    token: int
    request: ClientRequest


@quick_init
@dataclass(frozen=True, slots=True)
class Deny:
    """Refuse a request with an error code; `commit` is what is applied here."""

    ticket: Ticket
    code: int
    commit: int


@quick_init
@dataclass(frozen=True, slots=True)
class Send:
    """A whole, sealed frame for one other replica."""

    replica: int
    frame: bytes


@quick_init
@dataclass(frozen=True, slots=True)
class Broadcast:
    """A whole, sealed frame for every other replica."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Flush:
    """What was sent so far goes out now, ahead of the work that the effects behind this one give to others."""


@dataclass(frozen=True, slots=True)
class Read:
    """Read entries from the journal; it answers reads in order."""

    from_op: int
    to_op: int


@dataclass(frozen=True, slots=True)
class TellTransfer:
    """One message for StateTransfer."""

    message: ConsensusCommand


@dataclass(frozen=True, slots=True)
class Install:
    """The install marker, in the place of the commit stream where nothing is under way."""

    attempt: int
    snapshot: Snapshot
    table_frontier: int
    is_ahead: bool


@dataclass(frozen=True, slots=True)
class Preflight:
    """Ask the client table about a request that another replica forwarded."""

    request: ClientRequest


@dataclass(frozen=True, slots=True)
class Answer:
    """The committed reply of a forwarded session operation, as any replica would build it."""

    ticket: Ticket
    frame: bytes


@dataclass(frozen=True, slots=True)
class Evict:
    """Tell a client that its session is over."""

    ticket: Ticket
    reason: EvictionReason


@dataclass(frozen=True, slots=True)
class Truncate:
    """Remove everything from this op on from the log."""

    from_op: int


@dataclass(frozen=True, slots=True)
class Capture:
    """The checkpoint marker, behind the Apply of the same op."""

    op: int


@dataclass(frozen=True, slots=True)
class PersistView:
    """Make the pair durable in the superblock; `settles_cut`: the log counts as cut no longer (D-24)."""

    view: int
    log_view: int
    commit_max: int
    settles_cut: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """Answer a status question."""

    status: NodeStatus


@dataclass(frozen=True, slots=True)
class Publish:
    """Tell the Bus who leads, as far as this replica knows."""

    leadership: Leadership


@dataclass(frozen=True, slots=True)
class TellBirth:
    """Answer the member-state actor."""

    standing: Standing


@dataclass(frozen=True, slots=True)
class TellPlugins:
    """Tell the plugins what this replica is now."""

    role: RoleChanged


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the log."""

    severity: Severity
    text: str


@dataclass(frozen=True, slots=True)
class Fatal:
    """The node must end: recovery derives from the disk what this replica can no longer know."""

    status: ExitStatus
    reason: str


Effect = (
    Append
    | Apply
    | Recheck
    | Deny
    | Send
    | Broadcast
    | Flush
    | Read
    | TellTransfer
    | Install
    | Preflight
    | Answer
    | Evict
    | Truncate
    | Capture
    | PersistView
    | Report
    | Publish
    | TellBirth
    | TellPlugins
    | Note
    | Fatal
)
