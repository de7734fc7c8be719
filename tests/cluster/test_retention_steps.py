"""History that is kept until everybody has it: repair from the archive, limits, reclaiming (acknowledgements 5)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from levrier.persistence.data_dir import GroupPaths
from tests.cluster.cluster_steps import Caller, SteppedCluster

PATHS = GroupPaths(Path("/data/metadata"))
SETTLED_MILLISECONDS = 2_000
REJOINED_MILLISECONDS = 30_000
CHECKPOINTS = 20
OPS_PER_CHECKPOINT = 128


@pytest.fixture(autouse=True)
def log() -> Iterator[list[str]]:
    """What was logged."""
    lines: list[str] = []
    logger.disable("levrier")
    logger.enable("levrier.actors")
    number = logger.add(lambda message: lines.append(str(message)), format="{message}", level="INFO")
    yield lines
    logger.remove(number)
    logger.enable("levrier")


def born(seed: int, **settings: Any) -> tuple[SteppedCluster, Caller]:
    """Three members and a client at their first primary."""
    cluster = SteppedCluster(seed, **settings)
    for replica in range(cluster.count):
        cluster.start(replica)
    cluster.world.advance(1_000)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    return cluster, caller


def write(caller: Caller, name: str, count: int) -> None:
    """So many operations; what one makes the next one takes away, so that reads stay short."""
    for number in range(count):
        assert caller.create(f"{name}-{number}")


def status(cluster: SteppedCluster, replica: int) -> dict[str, Any]:
    """What that member tells of itself."""
    reader = Caller(cluster, 70 + replica)
    assert reader.connect(replica)
    found = reader.status()
    assert reader.logout()
    return found


def slept_through_checkpoints(*, retain: bool) -> tuple[SteppedCluster, Caller]:
    """Member 2 sleeps through twenty checkpoints and is back."""
    cluster, caller = born(1, retain_history=retain)
    write(caller, "before", 5)
    cluster.world.advance(SETTLED_MILLISECONDS)
    cluster.crash(2)
    for number in range(CHECKPOINTS + 1):
        write(caller, f"while asleep {number}", OPS_PER_CHECKPOINT)
    cluster.world.advance(SETTLED_MILLISECONDS)
    assert status(cluster, 0)["checkpoints"] >= CHECKPOINTS
    cluster.start(2)
    cluster.world.advance(REJOINED_MILLISECONDS)
    return cluster, caller


def applied(cluster: SteppedCluster) -> list[int]:
    """How far every member is."""
    return [status(cluster, replica)["applied"] for replica in range(3)]


def test_a_member_that_slept_through_twenty_checkpoints_is_repaired_from_the_archive(log: list[str]) -> None:
    """Without a state transfer: nobody asked for one, and every op was applied one by one, with checkpoints of its own."""
    cluster, _ = slept_through_checkpoints(retain=True)
    assert max(applied(cluster)) - min(applied(cluster)) <= 4
    assert not any("state transfer" in line or "keeps nothing below" in line for line in log)
    assert status(cluster, 2)["checkpoints"] >= CHECKPOINTS - 2
    cluster.world.advance(SETTLED_MILLISECONDS)
    for replica in range(3):
        history = status(cluster, replica)["history"]
        assert history["evidence"] == "safe_through"
        assert history["archive"]["segments"] <= 2, "everybody has it: what was kept is gone"
    assert any("segments of history are reclaimed" in line for line in log)
    assert cluster.world.failures == []


def test_without_retention_it_gets_a_state_transfer(log: list[str]) -> None:
    cluster, _ = slept_through_checkpoints(retain=False)
    assert max(applied(cluster)) - min(applied(cluster)) <= 4
    assert any("keeps nothing below op" in line for line in log)
    assert status(cluster, 2)["checkpoints"] < CHECKPOINTS // 2
    assert status(cluster, 0)["history"]["archive"] is None
    assert cluster.world.failures == []
