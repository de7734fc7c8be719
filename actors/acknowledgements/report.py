"""The evidence as a person reads it: who has applied how much, and who holds reclaiming back from which op. Pure."""

from collections.abc import Mapping, Sequence

from levrier.actors.acknowledgements.evidence import evidence, required_union
from levrier.actors.acknowledgements.messages import SafeThrough
from levrier.actors.bus.messages import HistoryChanged, KeptHistory, ReplicaHistory
from levrier.wire.acknowledgement import Acknowledgement


def report(
    local_required: Sequence[str],
    acknowledgements: Sequence[Acknowledgement],
    *,
    own: str,
    names: Mapping[str, str],
    refused: int,
    kept: KeptHistory | None = None,
) -> HistoryChanged:
    """What is durably known, for status. `names` are the node names of this node's membership, by replica id.

    Whoever said nothing blocks everything, from op 1 on; otherwise the furthest behind of those that are behind `own`, from
    the op that follows its last. While somebody blocks everything, nobody blocks less.
    """
    latest = {each.replica_id: each for each in acknowledgements}
    found = evidence(local_required, acknowledgements)
    safe = found.frontier if isinstance(found, SafeThrough) else None
    applied = latest[own].applied_frontier.highest if own in latest else 0
    replicas = []
    for identity in required_union(local_required, latest):
        said = latest.get(identity)
        highest = said.applied_frontier.highest if said is not None else 0
        if safe is None:
            blocks_from = 0 if said is not None else 1
        else:
            blocks_from = highest + 1 if highest == safe.highest < applied else 0
        replicas.append(
            ReplicaHistory(
                replica_id=identity,
                node=said.node_id if said is not None else names.get(identity, ""),
                acknowledged=said is not None,
                applied=highest,
                produced_at_ms=said.produced_at_ms if said is not None else 0,
                blocks_from=blocks_from,
            )
        )
    return HistoryChanged(
        safe_op=None if safe is None else safe.highest,
        frontier=() if safe is None else safe.positions,
        applied=applied,
        replicas=tuple(replicas),
        frames_refused=refused,
        kept=kept,
    )


def blockers(told: HistoryChanged) -> str:
    """Who holds reclaiming back, and from which op, in words."""
    found = [f"{each.node or each.replica_id} from op {each.blocks_from}" for each in told.replicas if each.blocks_from]
    return ", ".join(found) or "nobody"


def size_text(size: int) -> str:
    """Bytes as people say them."""
    for name, unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"
