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


def at_leader(cluster: SteppedCluster, number: int) -> tuple[Caller, int]:
    """A client that went where it is served, and where that is."""
    caller = Caller(cluster, number)
    for _ in range(100):
        for replica in sorted(cluster.booted):
            if caller.connect(replica, attempts=2) and caller.leader() == replica:
                return caller, replica
        cluster.world.advance(500)
    raise AssertionError("nobody leads")


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


def test_above_the_limit_the_node_warns_by_name_keeps_serving_and_deletes_nothing(log: list[str]) -> None:
    cluster, caller = born(2, retain_history=True, archive_limit=64 * 1024)
    write(caller, "before", 5)
    cluster.world.advance(SETTLED_MILLISECONDS)
    cluster.crash(2)
    for number in range(4):
        write(caller, f"asleep {number}", OPS_PER_CHECKPOINT)
    cluster.world.advance(2 * SETTLED_MILLISECONDS)
    history = status(cluster, 0)["history"]
    assert history["archive"]["over_limit"]
    assert history["archive"]["first_op"] == 1
    assert history["archive"]["bytes"] > 64 * 1024
    [blocking] = history["blocking"]
    assert (blocking["node"], blocking["from_op"]) == ("node-2", history["safe_op"] + 1)
    warnings = [line for line in log if "more than acknowledgements.archive_limit (64.0 KiB)" in line]
    assert f"blocked by node-2 from op {blocking['from_op']}" in warnings[0]
    assert len(warnings) == 2, "once on each member that is up"
    cluster.start(2)
    cluster.world.advance(REJOINED_MILLISECONDS)
    assert not any("keeps nothing below" in line for line in log)
    assert not status(cluster, 0)["history"]["archive"]["over_limit"]
    assert any("within acknowledgements.archive_limit again" in line for line in log)
    assert caller.create("served all the time")


def test_nothing_is_deleted_while_a_member_has_said_nothing(log: list[str]) -> None:
    """Its disk was lost: what it said counts no more, and no time after which it would."""
    cluster, caller = born(3, retain_history=True)
    write(caller, "before", 5)
    cluster.world.advance(SETTLED_MILLISECONDS)
    for replica in (2, 1, 0):
        cluster.crash(replica)
        cluster.storages[replica].remove(PATHS.acknowledgements)
    for replica in (0, 1):
        cluster.start(replica)
    caller, leader = at_leader(cluster, 2)
    for number in range(3):
        write(caller, f"later {number}", OPS_PER_CHECKPOINT)
    cluster.world.advance(60_000)
    history = status(cluster, leader)["history"]
    assert history["evidence"] == "blocked"
    assert [each["node"] for each in history["blocking"]] == ["node-2"]
    assert history["archive"]["first_op"] == 1
    assert not any("reclaimed" in line for line in log)
    cluster.start(2)
    cluster.world.advance(REJOINED_MILLISECONDS)
    assert status(cluster, leader)["history"]["evidence"] == "safe_through"
    assert any("reclaimed" in line for line in log)


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_crashes_of_all_members_between_checkpoints_lose_no_history(seed: int, log: list[str]) -> None:
    """Whoever comes back last is repaired by the others, however often they crashed while it slept."""
    cluster, caller = born(seed, retain_history=True)
    write(caller, "before", 5)
    cluster.world.advance(SETTLED_MILLISECONDS)
    cluster.crash(2)
    for number in range(3):
        write(caller, f"asleep {number}", 70 + 13 * number)
        for replica in (0, 1):
            cluster.crash(replica)
        for replica in (0, 1):
            cluster.start(replica)
        caller, _ = at_leader(cluster, 2 + number)
    cluster.start(2)
    cluster.world.advance(REJOINED_MILLISECONDS)
    assert max(applied(cluster)) - min(applied(cluster)) <= 4
    assert not any("keeps nothing below" in line for line in log)
    assert cluster.world.failures == []


def test_a_node_of_its_own_keeps_nothing_for_long() -> None:
    """It is the only one that is required, and it has applied what it checkpoints."""
    cluster, caller = born(7, count=1, retain_history=True)
    write(caller, "s", 3 * OPS_PER_CHECKPOINT)
    cluster.world.advance(SETTLED_MILLISECONDS)
    assert status(cluster, 0)["history"]["archive"]["segments"] <= 1
    assert status(cluster, 0)["checkpoints"] == 3
