"""An acknowledged op whose copy one disk lost: the member that lost it must not help to forget it (D-24, last sentence)."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from loguru import logger

from levrier.cluster.config import METADATA_GROUP
from levrier.persistence.data_dir import GroupPaths
from levrier.persistence.journal_scan import scan
from tests.cluster.cluster_steps import Caller, SteppedCluster

JOURNAL = GroupPaths(Path("/data/metadata")).journal
ELECTION_MILLISECONDS = 8_000
REJOIN_MILLISECONDS = 12_000
SEEDS = (1, 2, 3)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Nobody reads the log of thousands of virtual seconds."""
    logger.disable("levrier")
    yield
    logger.enable("levrier")


class CuttableLinks:
    """Perfect links, but for those to and from the members that were set apart."""

    def __init__(self) -> None:
        self.apart: set[int] = set()

    def is_cut(self, source: int, target: int) -> bool:
        """Whether one of the two is set apart."""
        return source in self.apart or target in self.apart

    def copies(self, source: int, target: int, frame: bytes) -> Sequence[int]:  # noqa: ARG002
        """One copy, at once."""
        return (0,)


def lose_last_entry(cluster: SteppedCluster, replica: int) -> None:
    """The disk of a member that is down spoils the entry it wrote last, which nothing says was durable."""
    storage = cluster.storages[replica]
    file = storage.open(JOURNAL, create=False)
    found = scan(file, path=JOURNAL, group=METADATA_GROUP)
    file.close()
    _, offset = found.entries[-1]
    assert found.durable_offset <= offset
    storage.flip(JOURNAL, offset + 64)


def tear_next_entry(cluster: SteppedCluster, replica: int) -> None:
    """A member that is down had begun to write an entry."""
    storage = cluster.storages[replica]
    file = storage.open(JOURNAL, create=False)
    end = scan(file, path=JOURNAL, group=METADATA_GROUP).end
    file.close()
    storage.flip(JOURNAL, end + 8)


def acknowledged_by_two(seed: int) -> SteppedCluster:
    """Ops that members 0 and 1 committed and member 2 never saw; then 0 and 1 stop, and 1 loses the last one."""
    links = CuttableLinks()
    cluster = SteppedCluster(seed, policy=links)
    for replica in range(3):
        cluster.start(replica)
    cluster.world.advance(1_000)
    assert cluster.voters() == [0, 1, 2]
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    assert caller.create("everywhere")
    cluster.world.advance(500)
    links.apart.add(2)
    assert caller.create("acknowledged")
    cluster.crash(1)
    cluster.crash(0)
    lose_last_entry(cluster, 1)
    links.apart.clear()
    return cluster


@pytest.mark.parametrize("seed", SEEDS)
def test_an_acknowledged_op_outlives_the_disk_that_lost_it(seed: int) -> None:
    """Members 1 and 2 are a quorum, but neither can say that there was no such op: they wait for the one that has it."""
    cluster = acknowledged_by_two(seed)
    cluster.start(1)
    assert cluster.own(1).log_cut
    cluster.world.advance(ELECTION_MILLISECONDS)
    assert not Caller(cluster, 2).connect(2, attempts=5)
    cluster.start(0)
    cluster.world.advance(REJOIN_MILLISECONDS)
    for replica in range(3):
        reader = Caller(cluster, 10 + replica)
        assert reader.connect(replica)
        assert b"acknowledged" in reader.catalogue()
    assert not cluster.own(1).log_cut
    assert cluster.world.failures == []


@pytest.mark.parametrize("seed", SEEDS[:1])
def test_a_second_restart_does_not_make_it_forget_that_it_lost_something(seed: int) -> None:
    """The first boot left zeros behind the log, in which the second one sees nothing wrong."""
    cluster = acknowledged_by_two(seed)
    cluster.start(1)
    cluster.world.advance(300)
    cluster.crash(1)
    cluster.start(1)
    assert cluster.booted[1].journal.cut_bytes == 0
    cluster.world.advance(ELECTION_MILLISECONDS)
    assert not Caller(cluster, 2).connect(2, attempts=5)
    cluster.start(0)
    cluster.world.advance(REJOIN_MILLISECONDS)
    reader = Caller(cluster, 3)
    assert reader.connect(1)
    assert b"acknowledged" in reader.catalogue()


@pytest.mark.parametrize("seed", SEEDS)
def test_logs_that_a_power_failure_tore_everywhere_serve_again(seed: int) -> None:
    """All three are cut: once all have voted, nobody is left who could hold what they miss."""
    cluster = SteppedCluster(seed)
    for replica in range(3):
        cluster.start(replica)
    cluster.world.advance(1_000)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    assert caller.create("first")
    cluster.world.advance(500)
    assert caller.create("second")
    for replica in range(3):
        cluster.crash(replica)
    for replica in range(3):
        tear_next_entry(cluster, replica)
        cluster.start(replica)
        assert cluster.own(replica).log_cut
    cluster.world.advance(ELECTION_MILLISECONDS)
    assert Caller(cluster, 2).connect(1)
    cluster.world.advance(REJOIN_MILLISECONDS)
    assert not any(cluster.own(replica).log_cut for replica in range(3))
    assert cluster.world.failures == []
