"""Stories of whole groups: who dies, what is lost on the way, and what must be true afterwards."""

from itertools import combinations

import pytest

from levrier.actors.consensus.state import Status
from tests.actors.consensus.network import Cluster, Node
from tests.actors.consensus.test_fuzz import heal_and_write


def written(cluster: Cluster, count: int) -> None:
    """Have `count` clients acknowledged, numbered from 1."""
    for client in range(1, count + 1):
        cluster.write(client)


def leader(cluster: Cluster) -> Node:
    return cluster.run_until_led()


def test_the_primary_of_five_crashes() -> None:
    """C-239, C-245: a new one is elected, though the others were behind on the commit point, and answers."""
    cluster = Cluster(5)
    written(cluster, 10)
    assert min(node.frontier[1] for node in cluster.nodes[1:]) < cluster.nodes[0].frontier[1]
    cluster.nodes[0].crash()
    cluster.write(11)
    assert leader(cluster).index == 1
    assert all(cluster.is_acknowledged(client) for client in range(1, 12))
    heal_and_write(cluster, 11)


def test_a_deposed_primary_restarts_behind_its_view() -> None:
    """C-240: same view from the superblock, Recovering and ceded, then a backup of the newer view."""
    cluster = Cluster(5)
    written(cluster, 3)
    first = cluster.nodes[0]
    first.crash()
    cluster.write(4)
    first.boot()
    assert (first.state.status, first.state.ceded_primaryship, first.state.view) == (Status.RECOVERING, True, 0)
    cluster.run(400)
    assert (first.state.status, first.state.view) == (Status.NORMAL, 1)
    heal_and_write(cluster, 4)


def test_a_survivor_that_cannot_write_its_superblock_keeps_the_group_silent() -> None:
    """C-243: its view moves in memory only, nothing is durable, few tries; fixed, the group goes on."""
    cluster = Cluster(3)
    written(cluster, 3)
    cluster.run(60)
    broken = cluster.nodes[2]
    broken.superblock_fails = True
    cluster.nodes[0].crash()
    cluster.run(800)
    assert not any(node.leads for node in cluster.nodes if node.is_up)
    assert (broken.disk.view, broken.state.view > 0) == (0, True)
    assert 0 < broken.persist_attempts < 40
    heal_and_write(cluster, 3)


@pytest.mark.parametrize("count", [3, 5])
def test_any_minority_stops_together_and_comes_back_as_any_majority(count: int) -> None:
    """BR-49: stop any two of three (three of five), start any majority: a primary within the bound."""
    majority = count // 2 + 1
    for stopped in combinations(range(count), majority):
        cluster = Cluster(count, seed=sum(stopped))
        written(cluster, 2)
        cluster.submit(leader(cluster).index, 50)
        cluster.run(stopped[0])
        for index in stopped:
            cluster.nodes[index].crash()
        cluster.run(150)
        running = [node.index for node in cluster.nodes if node.is_up]
        for index in stopped[: majority - len(running)]:
            cluster.nodes[index].boot()
        cluster.write(60)
        heal_and_write(cluster, 60)


def test_everybody_stops_at_once() -> None:
    """BR-49: an acknowledged op survives though nobody's memory does, inherited suffixes included."""
    cluster = Cluster(3)
    written(cluster, 5)
    for _ in range(3):
        for node in cluster.nodes:
            node.crash()
        for node in cluster.nodes:
            node.boot()
        cluster.write(100 + cluster.now)
    heal_and_write(cluster, 10_000_000)
    assert all(cluster.is_acknowledged(client) for client in range(1, 6))


def test_an_isolated_replica_does_not_disturb_the_others_for_long() -> None:
    """BR-11: cut off for many timeouts, then back: at most one view change more, everybody Normal soon."""
    cluster = Cluster(3)
    written(cluster, 3)
    cluster.isolate(1)
    cluster.run(100 * 5)
    before = leader(cluster).state.view
    cluster.cut.clear()
    cluster.run(600)
    views = {node.state.view for node in cluster.nodes}
    assert len(views) == 1
    inflated = max(views)
    assert {node.state.status for node in cluster.nodes} == {Status.NORMAL}
    cluster.run(600)
    assert {node.state.view for node in cluster.nodes} == {inflated}
    assert before < inflated
    heal_and_write(cluster, 3)


def test_a_disk_that_hangs_costs_the_primary_its_place_and_lets_it_back() -> None:
    """BR-46: no error, just no answer: heartbeats stop, another one leads, the first one rejoins as a backup."""
    cluster = Cluster(3, heartbeat_ticks=500)
    written(cluster, 3)
    first = leader(cluster)
    first.is_hung = True
    cluster.submit(first.index, 50)
    cluster.run(1500)
    second = max((node for node in cluster.nodes if node is not first), key=lambda node: node.state.view)
    assert second.leads or leader(cluster) is not first
    cluster.submit(leader(cluster).index, 51)
    cluster.run(50)
    assert cluster.is_acknowledged(51)
    first.is_hung = False
    cluster.run(1500)
    assert (first.state.status, first.state.is_primary) == (Status.NORMAL, False)
    heal_and_write(cluster, 60)


def test_the_next_primary_lost_a_committed_op_that_its_peers_hold() -> None:
    """C-266: head and commit point do not go back; the op is repaired into its log, its suffix stays (D-06)."""
    cluster = Cluster(3)
    written(cluster, 6)
    cluster.run(100)
    heir = cluster.nodes[1]
    heir.crash()
    del heir.disk.log[4]
    heir.boot()
    assert len(heir.applied) == 2
    assert heir.state.mirror.header(6) is not None
    cluster.nodes[0].crash()
    cluster.write(7)
    cluster.run(600)
    assert heir.disk.log[4].header.op == 4
    assert [len(node.applied) for node in cluster.nodes if node.is_up] == [7, 7]
    heal_and_write(cluster, 7)


def test_a_wiped_replica_does_not_help_to_elect() -> None:
    """BR-10: op 5 is on 0 and 2 only; 2 is wiped and joins as a learner, 0 dies: unavailable; 0 returns: op 5 is there."""
    cluster = Cluster(3)
    cluster.isolate(1)
    written(cluster, 5)
    wiped = cluster.nodes[2]
    wiped.crash()
    wiped.disk.log.clear()
    wiped.disk.view = wiped.disk.log_view = wiped.disk.commit = 0
    wiped.disk.is_voter = False
    cluster.nodes[0].crash()
    cluster.cut.clear()
    wiped.boot()
    cluster.run(3000)
    assert not any(node.leads for node in cluster.nodes if node.is_up)
    cluster.nodes[0].boot()
    cluster.write(6)
    cluster.run(600)
    assert {len(node.applied) for node in cluster.nodes} == {6}
    heal_and_write(cluster, 6)


def test_a_single_lost_repair_frame_costs_no_election() -> None:
    """BR-08: no client traffic, one replica behind, its first repair answer lost."""
    cluster = Cluster(3)
    cluster.isolate(2)
    written(cluster, 6)
    cluster.cut.clear()
    cluster.dropped_commands = {19}
    cluster.run(60)
    cluster.dropped_commands = set()
    cluster.run(250)
    assert [len(node.applied) for node in cluster.nodes] == [6, 6, 6]
    assert {node.state.view for node in cluster.nodes} == {0}


def test_a_replica_left_behind_by_the_log_is_brought_back_by_state_transfer() -> None:
    """Section 11: its range is evicted everywhere; it installs a snapshot and repairs the tail."""
    cluster = Cluster(3, slots=40)
    cluster.isolate(2)
    written(cluster, 90)
    assert min(cluster.nodes[0].disk.log) > 20
    cluster.cut.clear()
    cluster.run(600)
    assert {len(node.applied) for node in cluster.nodes} == {90}
    heal_and_write(cluster, 90)


def test_a_stalled_primary_wakes_up_behind_everything() -> None:
    """BR-16: view 1 and 2 have committed and reclaimed past every trace of it; what it tries is refused."""
    cluster = Cluster(3, slots=40)
    written(cluster, 2)
    cluster.isolate(0)
    stalled = cluster.nodes[0]
    cluster.submit(0, 1000)
    cluster.run(5)
    for client in range(3, 80):
        for _ in range(3000):
            if cluster.is_acknowledged(client):
                break
            ready = [node for node in cluster.nodes[1:] if node.leads]
            if ready and not any(each == client for _, each in cluster.open.values()):
                cluster.submit(ready[0].index, client)
            cluster.step()
    assert not cluster.is_acknowledged(1000)
    cluster.cut.clear()
    cluster.run(1500)
    assert len(stalled.applied) == 79
    assert not cluster.is_acknowledged(1000)
    heal_and_write(cluster, 2000)


def test_one_dead_link_of_the_chain_does_not_slow_every_write() -> None:
    """Section 3: once it had to retransmit, the primary goes round the hole."""
    cluster = Cluster(3)
    written(cluster, 3)
    cluster.nodes[1].crash()
    cluster.write(4)
    began = cluster.now
    for client in range(5, 15):
        cluster.write(client)
    assert cluster.now - began < 10 * 8
    heal_and_write(cluster, 20)


def test_the_same_seed_gives_the_same_frames() -> None:
    """Determinism of the core: C-246 in the small."""

    def life() -> list[tuple[int, int, int]]:
        cluster = Cluster(3, seed=5)
        cluster.faults.loss = 0.1
        cluster.faults.delay_max = 5
        for client in range(1, 30):
            cluster.submit(client % 3, client)
            cluster.step()
        cluster.nodes[0].crash()
        cluster.run(400)
        return cluster.seen

    assert life() == life()
