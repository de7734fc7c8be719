"""Whole cores under loss, reordering, repetition, crashes and partitions, from seeds: safety always, progress once healed."""

import pytest

from tests.actors.consensus.network import Cluster, Faults


def torment(cluster: Cluster, ticks: int, crashes: int) -> int:
    """Fault after fault while clients write. Gives the number of the last client."""
    chance = cluster.random
    client = 0
    waiting: list[int] = []
    for _ in range(ticks):
        cluster.step()
        crashes -= _crash_or_boot(cluster, crashes)
        if chance.random() < 0.004:
            _cut_or_join(cluster)
        if chance.random() < 0.25:
            client += 1
            waiting.append(client)
        if waiting and chance.random() < 0.5:
            asking = waiting.pop(chance.randrange(len(waiting)))
            if _ask(cluster, asking):
                waiting.append(asking)
    return client


def _crash_or_boot(cluster: Cluster, crashes: int) -> int:
    """Never more down at once than the group survives. Gives how many crashed."""
    chance = cluster.random
    down = [node for node in cluster.nodes if not node.is_up]
    crashed = 0
    if crashes and len(down) < (cluster.count - 1) // 2 and chance.random() < 0.006:
        crashed = 1
        chance.choice([node for node in cluster.nodes if node.is_up]).crash()
    if down and chance.random() < 0.01:
        chance.choice(down).boot()
    return crashed


def _cut_or_join(cluster: Cluster) -> None:
    """A partition comes or goes, sometimes in one direction only."""
    chance = cluster.random
    if cluster.cut:
        cluster.cut.clear()
        return
    cluster.isolate(*chance.sample(range(cluster.count), chance.randint(1, cluster.count - 1)))
    if chance.random() < 0.3:
        cluster.cut = {pair for pair in cluster.cut if pair[0] < pair[1]}


def _ask(cluster: Cluster, client: int) -> bool:
    """A client sends its request once more, if nothing of it is open. True while it still waits."""
    chance = cluster.random
    up = [node.index for node in cluster.nodes if node.is_up]
    if not up or any(each == client for _, each in cluster.open.values()):
        return True
    leaders = [node.index for node in cluster.nodes if node.leads]
    target = chance.choice(leaders) if leaders and chance.random() < 0.9 else chance.choice(up)
    if set(cluster.answers.get(client, ())) == {58} and chance.random() < 0.5:
        return False  # Never started: it is given up, and must never appear.
    cluster.submit(target, client)
    return not cluster.is_acknowledged(client)


def heal_and_write(cluster: Cluster, last_client: int) -> None:
    """Once healed, everybody gets everything, and the promises were kept."""
    cluster.heal()
    cluster.write(last_client + 1)
    cluster.write(last_client + 2)
    for _ in range(4000):
        if len({len(node.applied) for node in cluster.nodes}) == 1:
            break
        cluster.step()
    assert len({len(node.applied) for node in cluster.nodes}) == 1, [cluster.describe(node) for node in cluster.nodes]
    cluster.check_promises()
    for node in cluster.nodes:
        node.state.pipeline.verify()
        assert all(0 in cluster.answers[each] for each in (last_client + 1, last_client + 2))


def one_seed(count: int, seed: int) -> None:
    """One life of one cluster."""
    cluster = Cluster(count, seed=seed, slots=40 if seed % 2 else 400)
    chance = cluster.random
    cluster.faults = Faults(
        loss=chance.choice([0.0, 0.02, 0.1, 0.2]),
        repeat=chance.choice([0.0, 0.05, 0.2]),
        delay_max=chance.choice([1, 3, 10, 30]),
        disk_delay_max=chance.choice([0, 1, 5, 20]),
        append_failure=chance.choice([0.0, 0.0, 0.01]),
        persist_failure=chance.choice([0.0, 0.0, 0.3]),
    )
    last = torment(cluster, ticks=900, crashes=chance.choice([0, 2, 6]))
    heal_and_write(cluster, last)


@pytest.mark.parametrize("seed", range(100))
def test_three_cores(seed: int) -> None:
    one_seed(3, seed)


@pytest.mark.parametrize("seed", range(50))
def test_five_cores(seed: int) -> None:
    one_seed(5, 1000 + seed)
