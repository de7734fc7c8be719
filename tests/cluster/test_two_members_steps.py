"""A cluster of two: both are needed, for a write and for a view, and a member that is alone says so."""

from collections.abc import Iterator
from typing import Any

import pytest
from loguru import logger

from tests.cluster.cluster_steps import Caller, SteppedCluster

FAILOVER_MILLISECONDS = 12_000
SEEDS = (1, 2, 3)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Nobody reads the log of thousands of virtual seconds."""
    logger.disable("levrier")
    yield
    logger.enable("levrier")


def born(seed: int) -> SteppedCluster:
    """Two members that serve."""
    cluster = SteppedCluster(seed, count=2)
    cluster.start(0)
    cluster.start(1)
    cluster.world.advance(1_000)
    assert cluster.voters() == [0, 1]
    return cluster


def serve_again(cluster: SteppedCluster, number: int) -> Caller:
    """A client that finds who leads now, and creates a stream there."""
    for replica in (0, 1, 0, 1):
        caller = Caller(cluster, number)
        if caller.connect(replica, attempts=20) and caller.leader() == replica:
            assert caller.create(f"again-{number}")
            return caller
    raise AssertionError("nobody leads")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("down", [0, 1])
def test_two_serve_one_does_not_and_both_serve_again(seed: int, down: int) -> None:
    """Nothing is acknowledged by one alone, whichever it is; what was acknowledged before is there afterwards."""
    cluster = born(seed)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    assert caller.create("by both")
    cluster.crash(down)
    alone = 1 - down
    if alone == 0:
        assert not caller.create("by one", attempts=20)
    cluster.world.advance(FAILOVER_MILLISECONDS)
    assert not Caller(cluster, 2).connect(alone, attempts=10)
    cluster.start(down)
    cluster.world.advance(FAILOVER_MILLISECONDS)
    assert b"by both" in serve_again(cluster, 3).catalogue()
    cluster.world.advance(1_000)
    seen = set()
    for replica in (0, 1):
        reader = Caller(cluster, 10 + replica)
        assert reader.connect(replica)
        seen.add(reader.catalogue())
    assert len(seen) == 1
    assert cluster.world.failures == []


@pytest.mark.parametrize("down", [0, 1])
def test_the_one_that_is_left_says_that_it_waits_for_a_quorum(down: int) -> None:
    """A client that was logged in asks for the status: 1 of 2 are there."""
    cluster = born(4)
    reader = Caller(cluster, 1)
    assert reader.connect(1 - down)
    assert not reader.status()["waiting"]
    cluster.crash(down)
    cluster.world.advance(FAILOVER_MILLISECONDS)
    status: dict[str, Any] = reader.status()
    assert status["waiting"] == "waiting for quorum: 1 of 2"
    cluster.start(down)
    cluster.world.advance(FAILOVER_MILLISECONDS)
    again = Caller(cluster, 2)
    assert again.connect(1 - down)
    assert not again.status()["waiting"]
