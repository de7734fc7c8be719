"""An entry on the disk that bears the number of a view which its superblock never heard of."""

from levrier.actors.consensus.state import Status
from tests.actors.consensus.network import Cluster

PREPARE_OK = 7
REPAIR_PREPARE = 19


def only(cluster: Cluster, *pairs: tuple[int, int]) -> None:
    """Cut everything but these ways, both directions."""
    open_ways = {*pairs, *((b, a) for a, b in pairs)}
    count = cluster.count
    cluster.cut = {(a, b) for a in range(count) for b in range(count) if a != b and (a, b) not in open_ways}


def test_a_stamp_of_a_later_view_does_not_end_a_member() -> None:
    """Member 0 leads view 0 and is cut off; 2, 3 and 4 go on in view 2 with an op of it. Member 1 has that op from there, with the
    stamp of view 2, but its superblock fails and it ends. Started again it hears member 0 alone.
    """
    cluster = Cluster(5, heartbeat_ticks=400)
    leader = cluster.run_until_led()
    assert leader.index == 0
    cluster.write(1)
    cluster.run(60)
    only(cluster, (0, 3))
    cluster.submit(0, 2)
    cluster.run(120)
    op = max(cluster.nodes[3].disk.log)
    assert op == max(cluster.nodes[0].disk.log) > cluster.nodes[0].state.commit_max
    cluster.nodes[1].crash()
    only(cluster, (2, 3), (3, 4), (2, 4))
    for _ in range(3_000):
        if cluster.nodes[2].state.is_acting_primary and cluster.nodes[2].state.view == 2:
            break
        cluster.step()
        if cluster.nodes[2].state.view == 2:
            cluster.dropped_commands = {PREPARE_OK}
    assert cluster.nodes[2].state.is_acting_primary
    assert cluster.nodes[0].state.is_acting_primary
    cluster.dropped_commands = {PREPARE_OK, REPAIR_PREPARE}
    cluster.nodes[1].superblock_fails = True
    cluster.nodes[1].boot()
    only(cluster, (2, 3), (3, 4), (2, 4), (1, 2))
    for _ in range(900):
        if op in cluster.nodes[1].disk.log:
            break
        cluster.step()
    assert cluster.nodes[1].disk.log[op].header.view == 2, cluster.describe(cluster.nodes[1])
    assert cluster.nodes[1].disk.view == 0
    cluster.nodes[1].crash()
    cluster.dropped_commands = set()
    cluster.nodes[1].superblock_fails = False
    cluster.nodes[1].boot()
    only(cluster, (2, 3), (3, 4), (2, 4), (0, 1))
    cluster.run(300)
    assert cluster.nodes[1].state.status is Status.NORMAL
    cluster.heal()
    cluster.run(2_000)
    cluster.write(3)
    cluster.check_promises()
