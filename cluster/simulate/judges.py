"""Who judges a simulation: one value that hands everything on to the checkers."""

from collections.abc import Mapping

from levrier.cluster.simulate.checkers import (
    CommitObserver,
    EncodedState,
    History,
    InvariantChecker,
    StateChecker,
)


class Judges:
    """`commits` hears what the replicas apply, `history` what the clients see, `invariants` looks at the live replicas,
    `states` at what they encode. Each raises `Violation`.
    """

    def __init__(self, replica_count: int) -> None:
        self.commits = CommitObserver(replica_count)
        self.history = History(self.commits)
        self.invariants = InvariantChecker(self.commits, replica_count)
        self.states = StateChecker(self.commits)

    def finish(self, ends: Mapping[int, EncodedState]) -> None:
        """Nothing is under way any more; `ends` is what each member holds."""
        self.history.finish()
        self.states.final_check(ends, self.history.acknowledged)
