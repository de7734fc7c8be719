"""The power fails everywhere while a new primary writes its first entry: nobody lost anything, and all are back."""

import pytest

from tests.actors.consensus.network import Cluster

PREPARE = 6
HEARTBEAT = 9
START_VIEW = 12


@pytest.mark.parametrize("count", [2, 3])
def test_a_torn_first_write_of_a_view_is_no_deadlock(count: int) -> None:
    """Member 0 alone has ops of view 0, which view 1 leaves out. Its primary, member 1, is the only one that has heard of that
    when the power fails and tears its first write, so its log is cut and denies nothing. Everybody votes again.
    """
    cluster = Cluster(count)
    assert cluster.run_until_led().index == 0
    cluster.write(1)
    cluster.run(60)
    cluster.dropped_commands = {PREPARE, HEARTBEAT, START_VIEW}
    cluster.submit(0, 2)
    cluster.submit(0, 3)
    cluster.run(10)
    assert max(cluster.nodes[0].disk.log) == 3
    if count == 3:
        cluster.cut = {(0, 1), (0, 2)}
    for _ in range(1_000):
        cluster.step()
        if cluster.nodes[1].state.is_acting_primary and cluster.nodes[1].disk.log_view == 1:
            break
    assert cluster.nodes[1].disk.log_view == 1
    assert max(cluster.nodes[1].disk.log) == 1
    for node in cluster.nodes:
        node.crash()
    cluster.flying.clear()
    cluster.heal()
    torn = cluster.nodes[1].state
    torn.log_cut = torn.gate.cut_durable = True
    cluster.write(4, ticks=6_000)
    cluster.check_promises()
