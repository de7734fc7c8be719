"""Evidence in whole clusters in one thread: dead, lagging, restarted, transferred and wiped members (acknowledgements 3 and 5).

Each time the evidence is compared with what the disks hold: an op is durably applied where the log or the snapshot has it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from levrier.cluster.simulate.checkers.evidence import held_through
from levrier.cluster.simulate.frames import code, request
from levrier.persistence.data_dir import GroupPaths
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.persistence.snapshot import read_snapshot
from levrier.wire.acknowledgement import replica_id
from levrier.wire.codes import Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.topics import CreateTopic
from tests.cluster.cluster_steps import Caller, SteppedCluster

PATHS = GroupPaths(Path("/data/metadata"))
SETTLED_MILLISECONDS = 2_000
REPEATED_MILLISECONDS = 15_000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Nobody reads the log of thousands of virtual seconds."""
    logger.disable("levrier")
    yield
    logger.enable("levrier")


def born(seed: int, *, count: int = 3) -> tuple[SteppedCluster, Caller]:
    """A cluster with a client at its first primary."""
    cluster = SteppedCluster(seed, count=count)
    for replica in range(count):
        cluster.start(replica)
    cluster.world.advance(1_000)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    return cluster, caller


def write(caller: Caller, name: str, count: int) -> None:
    """So many operations."""
    for number in range(count):
        assert caller.create(f"{name}-{number}")


def ids(cluster: SteppedCluster, *replicas: int) -> list[str]:
    """Their identities."""
    return [replica_id(cluster.config.cluster_id, replica) for replica in replicas]


def held(storage: SimulatedStorage) -> int:
    """The op up to which this disk durably has everything."""
    op = held_through(storage, PATHS)
    assert op is not None
    return op


def history(cluster: SteppedCluster, replica: int) -> dict[str, Any]:
    """What that member tells of its evidence; never more than the disks hold."""
    reader = Caller(cluster, 70 + replica)
    assert reader.connect(replica)
    found: dict[str, Any] = reader.status()["history"]
    assert reader.logout()
    if found["safe_op"] is not None:
        assert found["safe_op"] <= min(held(storage) for storage in cluster.storages)
    return found


def test_members_that_are_up_to_date_are_safe_through_what_they_applied() -> None:
    cluster, caller = born(1)
    write(caller, "s", 20)
    cluster.world.advance(SETTLED_MILLISECONDS)
    for replica in range(3):
        found = history(cluster, replica)
        assert found["evidence"] == "safe_through"
        assert found["safe_op"] >= 21
        assert [each["node"] for each in found["replicas"]] == ["node-0", "node-1", "node-2"]
        assert found["waiting_on"] == []


def test_a_node_of_its_own_has_evidence_too() -> None:
    cluster, caller = born(2, count=1)
    write(caller, "s", 5)
    cluster.world.advance(SETTLED_MILLISECONDS)
    found = history(cluster, 0)
    assert (found["evidence"], found["blocking"]) == ("safe_through", [])
    assert found["safe_op"] >= 6
    cluster.crash(0)
    cluster.start(0)
    again = history(cluster, 0)
    assert again["safe_op"] >= found["safe_op"]


def test_a_member_that_never_spoke_blocks_by_name() -> None:
    """The store of a member that was away for all of its life: two of three go on, nothing is safe."""
    cluster, caller = born(3)
    cluster.crash(2)
    cluster.wipe(2)
    for replica in (1, 0):
        cluster.crash(replica)
        cluster.storages[replica].remove(PATHS.acknowledgements)
        cluster.start(replica)
    cluster.world.advance(20_000)
    caller = Caller(cluster, 2)
    assert caller.connect(1)
    found = history(cluster, 1)
    assert (found["evidence"], found["safe_op"]) == ("blocked", None)
    assert found["waiting_on"] == ids(cluster, 2)
    assert found["blocking"] == [{"replica_id": ids(cluster, 2)[0], "node": "node-2", "from_op": 1}]


def test_a_lagging_member_sets_the_frontier_and_catches_up() -> None:
    cluster, caller = born(4)
    write(caller, "s", 10)
    cluster.world.advance(SETTLED_MILLISECONDS)
    safe = history(cluster, 0)["safe_op"]
    cluster.crash(2)
    write(caller, "t", 30)
    cluster.world.advance(REPEATED_MILLISECONDS)
    found = history(cluster, 0)
    assert found["evidence"] == "safe_through"
    assert safe <= found["safe_op"] <= held(cluster.storages[2])
    assert found["blocking"] == [{"replica_id": ids(cluster, 2)[0], "node": "node-2", "from_op": found["safe_op"] + 1}]
    assert found["applied"] >= found["safe_op"] + 30
    cluster.start(2)
    cluster.world.advance(REPEATED_MILLISECONDS)
    assert history(cluster, 0)["safe_op"] >= found["applied"]


@pytest.mark.parametrize("seed", [5, 6, 7, 8])
def test_right_after_a_crash_the_evidence_is_what_it_was(seed: int) -> None:
    """The stored statements answer before anybody has spoken again, and they are true."""
    cluster, caller = born(seed)
    write(caller, "s", 15)
    cluster.world.advance(SETTLED_MILLISECONDS)
    write(caller, "t", 3)
    before = history(cluster, 1)
    for replica in range(3):
        cluster.crash(replica)
    held_then = min(held(storage) for storage in cluster.storages)
    for replica in range(3):
        cluster.start(replica)
    after = history(cluster, 1)
    assert after["evidence"] == "safe_through"
    assert before["safe_op"] <= after["safe_op"]
    assert held_then >= before["safe_op"]


def test_a_state_transfer_brings_the_frontier_along() -> None:
    """A member that was away for a whole log drain is transferred: it has applied what the snapshot reflects."""
    cluster, caller = born(9)
    write(caller, "a", 1)
    cluster.world.advance(SETTLED_MILLISECONDS)
    cluster.crash(2)
    write(caller, "s", 400)
    assert history(cluster, 0)["safe_op"] < 100
    cluster.start(2)
    cluster.world.advance(REPEATED_MILLISECONDS)
    snapshot = read_snapshot(cluster.storages[2], PATHS.snapshot)
    assert snapshot is not None
    assert dict(snapshot.fields.acknowledgement_frontier)[0] == snapshot.op
    for replica in (0, 2):
        assert history(cluster, replica)["safe_op"] >= 400


def test_what_a_wiped_member_said_before_counts_no_more() -> None:
    """Its disk is gone: it blocks by name until it has learned, however much it had applied."""
    cluster, caller = born(10)
    write(caller, "s", 40)
    cluster.world.advance(SETTLED_MILLISECONDS)
    assert history(cluster, 0)["safe_op"] > 40
    cluster.crash(2)
    cluster.wipe(2)
    cluster.start(2)
    store, blank = cluster.booted[0].acknowledgements, ids(cluster, 2)[0]
    assert store.get(blank) is not None
    cluster.world.run_until(lambda: store.get(blank) is None, max_milliseconds=20_000)
    assert store.get(blank) is None
    cluster.world.advance(40_000)
    assert cluster.voters() == [0, 1, 2]
    assert history(cluster, 0)["safe_op"] > 40


def test_the_marks_survive_a_checkpoint_and_a_restart() -> None:
    """A-010, in a whole cluster: what is handed out is known after the log that said so is drained."""
    cluster, caller = born(11, count=1)
    write(caller, "s", 1)
    topic = CreateTopic(stream=Identifier(0), partitions_count=3, name="t").encode()
    caller.number += 1
    frame = request(Operation.CREATE_TOPIC, topic, client=caller.client, session=caller.session, number=caller.number)
    answer = caller.call(frame, milliseconds=2_000)
    assert answer is not None
    assert code(answer) == 0
    write(caller, "then", 300)
    before = cluster.booted[0].recovered.machine.frontier
    assert before.identities() == ((0, 3),), "one for each partition"
    cluster.crash(0)
    cluster.start(0)
    snapshot = read_snapshot(cluster.storages[0], PATHS.snapshot)
    assert snapshot is not None
    assert snapshot.fields.acknowledgement_frontier == ((0, snapshot.op),)
    assert snapshot.fields.acknowledgement_high_water == ((0, 3),)
    restored = cluster.booted[0].recovered.machine.frontier
    assert (restored.positions(), restored.identities()) == (before.positions(), ((0, 3),))
