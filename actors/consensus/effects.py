"""What the core asks its shell to do, in order. Each is one message to one neighbour, or a line for the log.

`Append`, `Apply` and `Recheck` are on the path of every write.
"""

from dataclasses import dataclass
from enum import IntEnum

from levrier.actors.bus.messages import NodeStatus, Ticket
from levrier.actors.client_table.messages import ClientRequest
from levrier.actors.runtime import ExitStatus
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
    """Make the pair durable in the superblock."""

    view: int
    log_view: int
    commit_max: int


@dataclass(frozen=True, slots=True)
class Report:
    """Answer a status question."""

    status: NodeStatus


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


Effect = Append | Apply | Recheck | Deny | Evict | Truncate | Capture | PersistView | Report | Note | Fatal
