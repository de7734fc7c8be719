"""What the Journal accepts. Its mailbox is the gate: append, truncate and each step of a drain are handled one at a time."""

from dataclasses import dataclass

from levrier.actors.runtime import Recipient
from levrier.wire.acknowledgement import Frontier
from levrier.wire.frozen import quick_init
from levrier.wire.prepare import Prepare


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Make this prepare durable. Answered to Consensus by Appended or AppendFailed, in batches (group commit).

    `view` is the view the sender was in; the completion carries it back.
    """

    prepare: Prepare
    view: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Read the entries from `from_op` to `to_op`, as far as they are there without a gap. Answered by Entries.

    What has left the log and is kept in the archive counts as there.
    """

    from_op: int
    to_op: int
    reply_to: Recipient["Entries"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Remove everything up to and including `up_to`: a checkpoint made it unnecessary.

    Answered to the coordinator by Drained or DrainFailed, after many steps with appends between them.
    """

    up_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinueDrain:
    """The next step of the drain is due. The Journal tells it itself, so that appends come between two steps."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Remove everything from `from_op` on. Answered to Consensus by Truncated or TruncateFailed."""

    from_op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaim:
    """Every replica that is required has durably applied everything that the frontier represents: delete what lies below."""

    frontier: Frontier


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A moment has passed: write a durable mark if the log has been idle since the last batch (D-24)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Answer to Read: consecutive prepares from `from_op`; fewer than asked when one is missing or unreadable."""

    from_op: int
    prepares: tuple[Prepare, ...]


Command = Append | Read | Drain | ContinueDrain | Truncate | Reclaim | Tick
