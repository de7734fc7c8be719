"""Statements of replicas by name, as the cases have them; origins A, B and C are numbers."""

from levrier.wire.acknowledgement import Acknowledgement, Frontier

A, B, C = 0, 1, 2


def said(
    replica: str, frontier: dict[int, int], *view: str, at: int = 1, high_water: dict[int, int] | None = None
) -> Acknowledgement:
    """What that replica has durably applied; its membership names `view`."""
    return Acknowledgement(
        replica_id=replica,
        node_id=replica.upper(),
        applied_frontier=Frontier.of(frontier),
        origin_sequence_high_water=Frontier.of(high_water or {}),
        membership_view=view,
        produced_at_ms=at,
    )
