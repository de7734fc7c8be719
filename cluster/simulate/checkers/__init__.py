"""The checkers of a simulated cluster: plain objects that are told what happened and raise `Violation`."""

from levrier.cluster.simulate.checkers.commits import CommitObserver, Committed
from levrier.cluster.simulate.checkers.history import History
from levrier.cluster.simulate.checkers.violation import Rule, Violation

__all__ = ["CommitObserver", "Committed", "History", "Rule", "Violation"]
