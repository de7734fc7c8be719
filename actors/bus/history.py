"""What the Acknowledgements actor last said about reclaiming, for the status that clients ask for (acknowledgements 5).

Told on every change and kept here, so that a status never waits for a disk.
"""

from collections.abc import Mapping

from levrier.actors.bus.messages import HistoryChanged, KeptHistory, ReplicaHistory
from levrier.actors.bus.queries import Json


class HistoryBoard:
    """The latest report of one node."""

    __slots__ = ("_latest",)

    def __init__(self) -> None:
        self._latest: HistoryChanged | None = None

    def put(self, report: HistoryChanged) -> None:
        """Something has changed."""
        self._latest = report

    def facts(self) -> Mapping[str, Json] | None:
        """The report as status shows it; None before there is one."""
        report = self._latest
        if report is None:
            return None
        return {
            "evidence": "blocked" if report.safe_op is None else "safe_through",
            "safe_op": report.safe_op,
            "applied": report.applied,
            "frontier": {str(origin): op for origin, op in report.frontier},
            "waiting_on": [each.replica_id for each in report.replicas if not each.acknowledged],
            "blocking": [
                {"replica_id": each.replica_id, "node": each.node, "from_op": each.blocks_from}
                for each in report.replicas
                if each.blocks_from
            ],
            "replicas": [_replica(each) for each in report.replicas],
            "frames_refused": report.frames_refused,
            "retain": "nothing" if report.kept is None else "history",
            "archive": None if report.kept is None else _kept(report.kept),
        }


def _kept(kept: KeptHistory) -> Json:
    return {
        "first_op": kept.first_op,
        "last_op": kept.last_op,
        "segments": kept.segments,
        "bytes": kept.size,
        "limit": kept.limit,
        "over_limit": kept.is_over_limit,
    }


def _replica(each: ReplicaHistory) -> Json:
    return {
        "replica_id": each.replica_id,
        "node": each.node,
        "acknowledged": each.acknowledged,
        "applied": each.applied,
        "produced_at_ms": each.produced_at_ms,
        "blocks_from": each.blocks_from,
    }
