"""What a checker raises, and the names of the rules and of what they are broken by."""

from enum import StrEnum
from typing import Final

from levrier.wire.codes import Operation

_OPERATIONS: Final = frozenset(Operation)


class Rule(StrEnum):
    """What must hold, one name a rule. The table in `levrier.cluster.simulate.checkers` says which checker proves it."""

    APPLIED_IN_ORDER = "applied in order"
    COMMITTED_STAYS = "what is committed stays"
    HASH_CHAIN = "hash chain"
    TIME_RISES = "time rises"
    EXACTLY_ONCE = "exactly once"
    SAME_REPLY = "same reply everywhere"
    REPLY_OF_MODEL = "replies are those of the model"
    ACKNOWLEDGED_IS_COMMITTED = "what is acknowledged is committed"
    REPLAY_IS_EQUAL = "a replayed answer is the first one"
    REAL_TIME = "writes in the order of real time"
    NEVER_STARTED = "never started means never started"
    REFUSED_IS_NOT_COMMITTED = "what is refused is not committed"
    READ_OF_MODEL = "reads are monotonic and those of the model"
    INVARIANT = "invariant of a replica"
    ONE_PRIMARY = "one primary a view"
    VIEW_IS_DURABLE = "a view is durable before it is sent"
    SAME_DIGEST = "same state at the same op"
    SAME_STATE = "same bytes in the end"
    NOTHING_LOST = "nothing acknowledged is lost"
    STATEMENT_IS_TRUE = "what a member says that it has durably applied is on its disk"
    RECLAIMED_IS_SAFE = "nothing is reclaimed that a member lacks"
    HANDED_OVER_IN_TIME = "a partition stays with who polled it until the time is over"
    DIRECTORY_STAYS = "the directory of a partition that exists stays"
    SWEPT_IS_STALE = "only silent members of groups are logged out"
    EVERY_REQUEST_IS_ANSWERED = "every request is answered"
    HOUSEKEEPING = "what the plugins are for is done"
    DISK_IS_BOUNDED = "the disk of a member is bounded"
    PROGRESS_OF_A_CORE = "progress of a core"
    EVIDENCE_IS_TRUE = "evidence never exceeds what the disks hold, and names who is missing"


class Violation(Exception):
    """A rule does not hold. `text` says what was expected, what was found, and where."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule
        self.text = text


def operation_name(operation: int) -> str:
    """An operation as a person reads it; a number that stands for none is called by itself."""
    return Operation(operation).name.lower() if operation in _OPERATIONS else f"operation {operation}"
