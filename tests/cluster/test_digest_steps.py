"""A member whose state drifted: found out by the others' digests, silenced and refilled (D-17)."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from loguru import logger

from levrier.actors.metadata.actor import MetadataActor
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.streams import CreateStream
from levrier.wire.requests.users import UpdateUser
from tests.cluster.cluster_steps import Caller, SteppedCluster

INTERVAL = 10
SEEDS = (1, 2, 3)
SETTLE_MILLISECONDS = 12_000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Nobody reads the log of thousands of virtual seconds."""
    logger.disable("levrier")
    yield
    logger.enable("levrier")


def serving(seed: int, *, count: int = 3) -> SteppedCluster:
    """A cluster that compares its state every `INTERVAL` ops and has made a few."""
    cluster = SteppedCluster(seed, count=count)
    cluster.config = replace(cluster.config, digest_interval=INTERVAL)
    for replica in range(count):
        cluster.start(replica)
    cluster.world.advance(1_000)
    assert cluster.voters() == list(range(count))
    return cluster


def load(caller: Caller, prefix: str, count: int = 2 * INTERVAL) -> None:
    """Ops enough for a comparison."""
    for number in range(count):
        assert caller.create(f"{prefix}-{number}")


def drift(cluster: SteppedCluster, replica: int, name: str = "drifted") -> None:
    """The state of a member changes without an op."""
    made = cluster.booted[replica].recovered.machine.streams.create_stream(CreateStream(name=name), 1)
    assert not isinstance(made, int)


def drift_user(cluster: SteppedCluster, replica: int) -> None:
    """A user of a member changes without an op."""
    changed = cluster.booted[replica].recovered.machine.users.update(UpdateUser(user=Identifier(0), username="drifted"))
    assert changed == 0


def catalogues(cluster: SteppedCluster, number: int) -> set[bytes]:
    """What the members tell."""
    reader = Caller(cluster, number)
    seen = set()
    for replica in sorted(cluster.booted):
        assert reader.connect(replica)
        seen.add(reader.catalogue())
    return seen


def alarm(cluster: SteppedCluster, replica: int, number: int) -> str | None:
    """What the status of a member says."""
    reader = Caller(cluster, number)
    assert reader.connect(replica)
    text = reader.status()["alarm"]
    assert text is None or isinstance(text, str)
    return text


@pytest.mark.parametrize("seed", SEEDS)
def test_equal_members_raise_no_alarm(seed: int) -> None:
    """Users, streams and the frontier are the same on all."""
    cluster = serving(seed)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    load(caller, "s")
    cluster.world.advance(SETTLE_MILLISECONDS)
    assert [alarm(cluster, replica, 20 + replica) for replica in range(3)] == [None] * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_backup_that_drifted_is_refilled(seed: int) -> None:
    """Two of three agree against it: it fetches the primary's state, and goes on as an equal member."""
    cluster = serving(seed)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    load(caller, "before")
    drift(cluster, 1)
    load(caller, "after")
    cluster.world.advance(SETTLE_MILLISECONDS)
    assert len(catalogues(cluster, 30)) == 1
    assert b"drifted" not in catalogues(cluster, 31).pop()
    load(caller, "then")
    cluster.world.advance(1_000)
    assert len(catalogues(cluster, 32)) == 1
    assert alarm(cluster, 1, 33) is None
    assert cluster.world.failures == []


def test_a_backup_with_another_user_is_refilled() -> None:
    """BR-50: one user altered behind the node's back; it says so, and has the right one again."""
    cluster = serving(1)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    load(caller, "before")
    drift_user(cluster, 2)
    assert user_name(cluster, 2) == "drifted"
    load(caller, "after")
    cluster.world.advance(SETTLE_MILLISECONDS)
    assert [user_name(cluster, replica) for replica in range(3)] == ["iggy"] * 3
    load(caller, "then")
    cluster.world.advance(1_000)
    assert alarm(cluster, 2, 20) is None
    assert cluster.world.failures == []


def user_name(cluster: SteppedCluster, replica: int) -> str:
    """What a member calls root."""
    actor = cluster.node(replica).actor("metadata")
    assert isinstance(actor, MetadataActor)
    root = actor.machine.users.get(0)
    assert root is not None
    return root.username


@pytest.mark.parametrize("seed", SEEDS)
def test_a_primary_that_drifted_leaves_the_lead_and_is_refilled(seed: int) -> None:
    """It may not answer from a state that is known to be wrong; its successor is one of those who agree."""
    cluster = serving(seed)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    load(caller, "before", 3)
    drift(cluster, 0)
    for number in range(2 * INTERVAL):
        if not caller.create(f"after-{number}", attempts=3):
            break
    cluster.world.advance(SETTLE_MILLISECONDS)
    reader = Caller(cluster, 2)
    assert reader.connect(0)
    assert reader.leader() in {1, 2}
    assert reader.status()["view"] >= 1
    seen = catalogues(cluster, 30)
    assert len(seen) == 1
    assert b"drifted" not in seen.pop()
    assert cluster.world.failures == []


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_two_of_five_are_refilled(seed: int) -> None:
    """Three of five agree; the two need not even agree with each other."""
    cluster = serving(seed, count=5)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    load(caller, "before", 3)
    drift(cluster, 3)
    drift(cluster, 4, "elsewhere")
    load(caller, "after")
    cluster.world.advance(SETTLE_MILLISECONDS)
    seen = catalogues(cluster, 30)
    assert len(seen) == 1
    assert not any(name in seen.copy().pop() for name in (b"drifted", b"elsewhere"))
    assert cluster.world.failures == []


@pytest.mark.parametrize("count", [2, 3])
def test_a_split_without_a_majority_raises_the_alarm_and_stops_nobody(count: int) -> None:
    """All differ, so nobody can say who is right: every member says so, and operations are acknowledged as before."""
    cluster = serving(4, count=count)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    load(caller, "before", 3)
    for replica in range(1, count):
        drift(cluster, replica, f"drifted-{replica}")
    load(caller, "after")
    cluster.world.advance(SETTLE_MILLISECONDS)
    load(caller, "on", 3)
    for replica in range(count):
        text = alarm(cluster, replica, 20 + replica)
        assert text is not None
        assert "no majority says who is right" in text
    assert len(catalogues(cluster, 30)) == count
    assert cluster.world.failures == []


def test_one_of_two_that_can_still_decide_is_awaited_and_then_reported() -> None:
    """The third member is down: the difference is first undecided, then told to whoever watches."""
    cluster = serving(5)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    load(caller, "before", 3)
    cluster.crash(2)
    drift(cluster, 1)
    load(caller, "after")
    cluster.world.advance(SETTLE_MILLISECONDS)
    assert "no majority" in (alarm(cluster, 0, 20) or "")
    assert caller.create("still served")
    cluster.start(2)
    cluster.world.advance(SETTLE_MILLISECONDS)
    load(caller, "decided")
    cluster.world.advance(SETTLE_MILLISECONDS)
    assert len(catalogues(cluster, 30)) == 1


def test_memory_that_changed_by_itself_ends_the_node_at_its_checkpoint_and_not_its_disk() -> None:
    """The kept digest knows nothing of such a change; what a checkpoint encodes is counted again and does not fit."""
    cluster = serving(6)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    load(caller, "s", 3)
    users = cluster.booted[1].recovered.machine.users
    users._by_id[0] = users._by_id[0]._replace(username="flipped")
    load(caller, "more", 140)
    cluster.world.advance(2_000)
    [(node, failure)] = [(each.actor, each.reason) for each in cluster.world.failures]
    assert "memory is corrupt" in failure
    assert node == "checkpoint"
