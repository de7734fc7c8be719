"""Who judges a simulation: one value that hands everything on to the checkers."""

from collections.abc import Mapping

from levrier.actors.acknowledgements.evidence import evidence
from levrier.cluster.config import NodeConfig
from levrier.cluster.simulate.checkers import (
    AnswerCheck,
    CommitObserver,
    EncodedState,
    EvidenceCheck,
    History,
    InvariantChecker,
    StateChecker,
    answer_bound_ms,
)
from levrier.cluster.simulate.cluster import METADATA, SimulatedCluster
from levrier.wire.acknowledgement import Frontier, replica_id


class Judges:
    """`commits` hears what the replicas apply, `history` what the clients see, `invariants` looks at the live replicas,
    `states` at what they encode, `evidence` at what they know of each other's history, `answers` at what they leave open. Each
    raises `Violation`.
    """

    def __init__(self, config: NodeConfig, *, tick_milliseconds: int) -> None:
        replica_count = config.replica_count
        self.commits = CommitObserver(replica_count)
        self.history = History(self.commits)
        self.invariants = InvariantChecker(self.commits, replica_count)
        self.states = StateChecker(self.commits)
        self.evidence = EvidenceCheck(
            self.commits, cluster=config.cluster_id, replica_count=replica_count, paths=METADATA
        )
        self.answers = AnswerCheck(
            answer_bound_ms(
                heartbeat_ticks=config.heartbeat_ticks,
                view_change_ticks=config.view_change_ticks,
                tick_milliseconds=tick_milliseconds,
            )
        )
        self._keeps_history = config.retain_history

    def wiped(self, replica: int) -> None:
        """The disk of a member was replaced by an empty one."""
        self.invariants.wiped(replica)
        self.evidence.wiped(replica)

    def reclaims(self, replica: int, frontier: Frontier, cluster: SimulatedCluster, *, impaired: int | None) -> None:
        """A member deletes what it thinks that everybody has."""
        self.evidence.check_reclaim(replica, frontier, self._held(cluster, impaired))

    def _held(self, cluster: SimulatedCluster, impaired: int | None) -> dict[str, int | None]:
        held = self.evidence.held(cluster.storages)
        if impaired is not None:
            held[replica_id(cluster.config.cluster_id, impaired)] = None
        return held

    def check_evidence(
        self, cluster: SimulatedCluster, *, impaired: int | None, passed_over: Mapping[int, int], is_settled: bool
    ) -> None:
        """Compare what the members know of each other's history with what their disks hold, but that of the `impaired` one."""
        held = self._held(cluster, impaired)
        for replica, booted in sorted(cluster.booted.items()):
            known = booted.acknowledgements.all()
            told = evidence(self.evidence.membership, known)
            self.evidence.check(replica, known, told, held, is_settled=is_settled)
            if self._keeps_history and replica != impaired:
                disk, spared = cluster.storages[replica], passed_over.get(replica, 0)
                self.evidence.check_kept(replica, disk, held, passed_over=spared)

    def finish(self, ends: Mapping[int, EncodedState]) -> None:
        """Nothing is under way any more; `ends` is what each member holds."""
        self.history.finish()
        self.states.final_check(ends, self.history.acknowledged)
