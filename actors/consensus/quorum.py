"""How many replicas must agree (consensus specification 2.1).

The replication quorum of an even cluster is exactly half of it, not a majority: intersection comes from the larger
view-change quorum. Refuses to know anything but the size of the cluster.
"""

from dataclasses import dataclass
from typing import Final

REPLICAS_MAX: Final = 32
"""Largest cluster: the vote arrays have this many slots."""

QUORUM_REPLICATION_MAX: Final = 3
"""No write waits for more acknowledgements than this, however large the cluster is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorums:
    """The thresholds of one cluster size, each a count of replicas.

    `faulty_max` is how many *other* StartViewChange votes trigger a DoViewChange.
    """

    replication: int
    view_change: int
    nack: int
    faulty_max: int


def quorums_of(replica_count: int) -> Quorums:
    """The thresholds of a cluster of `replica_count`, 1 to 32."""
    assert 1 <= replica_count <= REPLICAS_MAX
    if replica_count == 2:
        replication, view_change = 2, 2
    else:
        replication = min((replica_count + 1) // 2, QUORUM_REPLICATION_MAX)
        view_change = replica_count - replication + 1
    nack = replica_count - replication + 1
    assert replication + view_change > replica_count
    assert nack + replication > replica_count
    return Quorums(replication=replication, view_change=view_change, nack=nack, faulty_max=(replica_count - 1) // 2)
