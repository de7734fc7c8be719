"""Who judges a simulation: one value that hands everything on to the checkers."""

from collections.abc import Iterable, Mapping

from levrier.actors.consensus.state import ReplicaState
from levrier.cluster.simulate.checkers import CommitObserver, History, Rule, Violation


class Judges:
    """`commits` hears what the replicas apply, `history` what the clients see. Each raises `Violation`."""

    def __init__(self, replica_count: int) -> None:
        self.commits = CommitObserver(replica_count)
        self.history = History(self.commits)

    def check_invariants(self, states: Iterable[ReplicaState]) -> None:
        """Look at the live replicas."""
        leads: dict[int, int] = {}
        for state in states:
            replica = state.config.replica
            if state.is_acting_primary and leads.setdefault(state.view, replica) != replica:
                raise Violation(Rule.ONE_PRIMARY, f"view {state.view} is led by {leads[state.view]} and by {replica}")

    def finish(self, ends: Mapping[int, bytes]) -> None:
        """Nothing is under way any more; `ends` is what each member holds."""
        self.history.finish()
        if len(set(ends.values())) > 1:
            raise Violation(Rule.SAME_STATE, f"the members {sorted(ends)} hold different bytes at the same op")
