"""A core of members that must make progress on its own, and what the others suffer meanwhile, for good.

A core is a quorum for a view change of members that have kept all they promised: who is outside may stay away for ever.

What makes progress impossible by the rules is not demanded: a core has no member that lost something or does not vote yet, none
whose log was cut at a boot (what it lacks it cannot deny, so one more vote is needed, D-24), and no more members stay outside
than a view change can do without.

A backup that is heard and hears nobody asks for one view after the other, and a core bears it: each view is started within
milliseconds and lasts until the next timeout. A primary like that falls silent, since no quorum acknowledges what it prepares
(`actors/consensus/heartbeat.py`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from levrier.actors.consensus.quorum import quorums_of
from levrier.cluster.boot import BootRefused, boot
from levrier.cluster.simulate.cluster import SimulatedCluster, cheap_hash
from levrier.cluster.simulate.faults import Fault
from levrier.persistence.superblock import Phase

NOBODY_OUTSIDE_ODDS: Final = 0.15


class Suffering(StrEnum):
    """What keeps a member away from the core."""

    DOWN = "is down"
    CUT_OFF = "neither hears nor is heard"
    DEAF = "is heard and hears nobody"
    MUTE = "hears and is not heard"
    PAUSED = "stands still"
    HUNG = "has a disk that hangs"
    FULL = "has a full disk"
    FAILING = "has a disk that fails"


_CAUSES: Final = (
    (Fault.CRASH, Suffering.DOWN),
    (Fault.PARTITION, Suffering.CUT_OFF),
    (Fault.ONE_WAY, Suffering.DEAF),
    (Fault.ONE_WAY, Suffering.MUTE),
    (Fault.PAUSE, Suffering.PAUSED),
    (Fault.HUNG_DISK, Suffering.HUNG),
    (Fault.ENOSPC, Suffering.FULL),
    (Fault.EIO, Suffering.FAILING),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """Who must make progress, and what each of the others suffers."""

    members: tuple[int, ...]
    outsiders: dict[int, Suffering]

    def __str__(self) -> str:
        others = ", ".join(f"node-{replica} {suffering}" for replica, suffering in sorted(self.outsiders.items()))
        return f"the core of {', '.join(f'node-{replica}' for replica in self.members)} while {others}"


def draw_core(
    random: Random,
    cluster: SimulatedCluster,
    *,
    whole: Collection[int],
    down: Collection[int],
    faults: Sequence[Fault],
) -> Core | None:
    """The core of a story whose `whole` members kept all they promised; None when everybody is to be healed at once.

    Outsiders suffer what one of the `faults` does. Who is `down` stays down.
    """
    count = cluster.count
    broken = [replica for replica in range(count) if replica not in whole]
    outside_max = count - quorums_of(count).view_change
    kinds = [suffering for fault, suffering in _CAUSES if fault in faults]
    if not kinds or outside_max < max(1, len(broken)) or random.random() < NOBODY_OUTSIDE_ODDS:
        return None
    outside = random.randint(max(1, len(broken)), outside_max)
    chosen = sorted([*broken, *random.sample(sorted(whole), outside - len(broken))])
    members = tuple(replica for replica in range(count) if replica not in chosen)
    assert len(members) >= quorums_of(count).view_change
    outsiders = {}
    for replica in chosen:
        suffering = random.choice(kinds)
        outsiders[replica] = Suffering.DOWN if replica in down else suffering
    return Core(members=members, outsiders=outsiders)


def is_whole_on_disk(cluster: SimulatedCluster, replica: int) -> bool:
    """Whether a member that is down will boot with all that it promised: looked at on a copy of its disk."""
    copy = cluster.storages[replica].copy(Random(0))
    try:
        booted = boot(cluster.config_of(replica), storage=copy, entropy=bytes, hashing=cheap_hash)
    except BootRefused:
        return False
    durable = booted.durable
    return durable.phase is Phase.BORN and durable.voter and not booted.replica_state().log_cut
