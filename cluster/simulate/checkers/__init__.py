"""The checkers of a simulated cluster: plain objects that are told what happened and raise `Violation`.

They know nothing of scheduling, faults or seeds; whoever steps the cluster tells them. The committed log of `CommitObserver`
is what all the others compare with, and the reference model in `model` is the only judge of what an operation should do.

===================================================  ====================  =====================================================
rule                                                 checker               what it compares
===================================================  ====================  =====================================================
applied in order                                     `CommitObserver`      each replica's ops, across installs and boots
what is committed stays                              `CommitObserver`      every entry applied at an op, by anybody, in any life
hash chain, time rises                               `CommitObserver`      every entry with the one below it
exactly once                                         `CommitObserver`      request numbers with the sessions of the log
replies are those of the model                       `CommitObserver`      the first reply at an op with the model's
same reply everywhere                                `CommitObserver`      every later reply at that op, in another replica too
what is acknowledged is committed                    `History`             an answer's op, client, number, body, bytes
a replayed answer is the first one                   `History`             all answers with one op
writes in the order of real time                     `History`             ops of writes of which one was answered first
never started means never started                    `History`             code 58 with the log, then and in the end
what is refused is not committed                     `History`             a refusal before the log with the log
reads are monotonic and those of the model           `History`             each read with the model at some op that is allowed
invariant of a replica                               `InvariantChecker`    I1 to I3, I5 to I7, I9, I10, I14, I15 of section 16
one primary a view                                   `InvariantChecker`    who leads a view, over all lives
a view is durable before it is sent                  `InvariantChecker`    the view of each frame with the superblock, then and after a boot
every request is answered                            `AnswerCheck`         what a member took with what it wrote, in time
same state at the same op                            `StateChecker`        encoded sections at an op, and with the model
same bytes in the end, nothing acknowledged is lost  `StateChecker`        every member's sections at the end, and the log's end
what a member says that it has applied is on disk    `EvidenceCheck`       durable statements with the log and the disks
evidence never exceeds the disks, names the missing  `EvidenceCheck`       the evidence with the statements and the disks
nothing is reclaimed that a member lacks             `EvidenceCheck`       the lowest op on a disk with the heads of all others
a partition stays with who polled it                 `Housekeeping`        completions in the log with the time of the model
the directory of a partition that exists stays       `Housekeeping`        each removal on a disk with the model's catalogue
what the plugins are for is done                     `Housekeeping`        tokens, groups, directories, with the model, when all is well
===================================================  ====================  =====================================================
"""

from levrier.cluster.simulate.checkers.answers import AnswerCheck, answer_bound_ms
from levrier.cluster.simulate.checkers.commits import CommitObserver, Committed
from levrier.cluster.simulate.checkers.evidence import EvidenceCheck
from levrier.cluster.simulate.checkers.history import History
from levrier.cluster.simulate.checkers.housekeeping import Duties, Housekeeping
from levrier.cluster.simulate.checkers.invariants import InvariantChecker, LiveReplica
from levrier.cluster.simulate.checkers.states import CAPTURE_EVERY, EncodedState, StateChecker
from levrier.cluster.simulate.checkers.violation import Rule, Violation, operation_name

__all__ = [
    "CAPTURE_EVERY",
    "AnswerCheck",
    "CommitObserver",
    "Committed",
    "Duties",
    "EncodedState",
    "EvidenceCheck",
    "History",
    "Housekeeping",
    "InvariantChecker",
    "LiveReplica",
    "Rule",
    "StateChecker",
    "Violation",
    "answer_bound_ms",
    "operation_name",
]
