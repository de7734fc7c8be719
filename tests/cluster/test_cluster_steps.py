"""Whole members in one thread, from boot to client: born, followed, left behind, wiped (birth specification, design 3)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from loguru import logger

from levrier.cluster.accept_loss import NothingToRecover, accept_loss
from levrier.cluster.boot import BootRefused
from levrier.cluster.simulate.cluster import DATA
from levrier.persistence.data_dir import GroupPaths
from tests.cluster.cluster_steps import Caller, SteppedCluster

SEEDS = (1, 2, 3)
ELECTION_MILLISECONDS = 8_000
REJOIN_MILLISECONDS = 12_000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Nobody reads the log of thousands of virtual seconds."""
    logger.disable("levrier")
    yield
    logger.enable("levrier")


@pytest.fixture
def log(_quiet: None) -> Iterator[list[str]]:
    """What was logged."""
    logger.enable("levrier")
    lines: list[str] = []
    number = logger.add(lambda message: lines.append(str(message)), format="{message}", level="INFO")
    yield lines
    logger.remove(number)


def born(seed: int, *, count: int = 3) -> SteppedCluster:
    """A cluster that was born a moment ago."""
    cluster = SteppedCluster(seed, count=count)
    for replica in range(count):
        cluster.start(replica)
    cluster.world.advance(1_000)
    assert cluster.voters() == list(range(count))
    return cluster


def caller_at_leader(cluster: SteppedCluster, number: int, first: int) -> Caller:
    """A client that asked one member who leads, as an SDK does, and went there."""
    caller = Caller(cluster, number)
    for _ in range(100):
        assert caller.connect(first)
        leader = caller.leader()
        if leader is not None:
            assert leader == first or caller.connect(leader)
            return caller
        cluster.world.advance(200)
    raise AssertionError("nobody leads")


def assert_alike(cluster: SteppedCluster, number: int = 90) -> None:
    """Every member tells the same catalogue, and no member failed."""
    reader = Caller(cluster, number)
    seen = set()
    for replica in sorted(cluster.booted):
        assert reader.connect(replica)
        seen.add(reader.catalogue())
    assert len(seen) == 1
    assert cluster.world.failures == []


@pytest.mark.parametrize("seed", range(6))
def test_three_blank_members_are_born_and_serve(seed: int) -> None:
    """B-001: in any order, with any delays: one birth id, all voters, a primary."""
    chance = Random(seed)
    order = [0, 1, 2]
    chance.shuffle(order)
    cluster = SteppedCluster(seed)
    for replica in order:
        cluster.start(replica)
        cluster.world.advance(chance.choice((0, 1, 40, 900)))
    cluster.world.advance(1_000)
    assert cluster.voters() == [0, 1, 2]
    assert len({cluster.own(replica).birth_id for replica in range(3)}) == 1
    caller = Caller(cluster, 1)
    assert caller.connect(2)
    assert caller.leader() == 0
    assert caller.connect(0)
    assert caller.create("first")


@pytest.mark.parametrize("seed", range(8))
def test_crashes_during_the_birth_leave_one_birth(seed: int) -> None:
    """B-002 and B-003: whoever crashes at whatever message comes back to the same birth, as a voter."""
    chance = Random(f"birth/{seed}")
    cluster = SteppedCluster(seed)
    for replica in range(3):
        cluster.start(replica)
    for _ in range(3):
        steps = cluster.world.steps + chance.randint(1, 120)
        _run_to(cluster, steps)
        victim = chance.randrange(3)
        cluster.crash(victim)
        cluster.world.advance(chance.choice((0, 20, 300)))
        cluster.start(victim)
    cluster.world.advance(ELECTION_MILLISECONDS + REJOIN_MILLISECONDS)
    assert cluster.voters() == [0, 1, 2]
    assert len({cluster.own(replica).birth_id for replica in range(3)}) == 1
    assert caller_at_leader(cluster, 1, 1).create("first")


def _run_to(cluster: SteppedCluster, steps: int) -> None:
    """Until so many messages were delivered since the start, letting time pass where nothing is under way."""
    for _ in range(10_000):
        if cluster.world.steps >= steps:
            return
        cluster.world.run(until=lambda: cluster.world.steps >= steps)
        if cluster.world.idle:
            cluster.world.advance(1)
    raise AssertionError("the world stands still")


def test_two_of_three_are_not_born(log: list[str]) -> None:
    """B-004: the log names the missing one; a login is answered transiently; the third arrives and they are born."""
    cluster = SteppedCluster(4)
    cluster.start(0)
    cluster.start(1)
    cluster.world.advance(5_000)
    assert any("2 of 3 members seen (missing: replica 2 at 10.0.0.1:9002)" in line for line in log)
    assert not any(cluster.is_born(replica) for replica in range(3))
    early = Caller(cluster, 1)
    assert not early.connect(0, attempts=5)
    cluster.start(2)
    cluster.world.advance(1_000)
    assert cluster.voters() == [0, 1, 2]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_primary_dies_and_the_others_go_on(seed: int) -> None:
    """What was acknowledged is there on the successor, sessions included; the dead one comes back and catches up."""
    cluster = born(seed)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    for number in range(10):
        assert caller.create(f"before-{number}")
    cluster.crash(0)
    cluster.world.advance(ELECTION_MILLISECONDS)
    caller = caller_at_leader(cluster, 1, 2)
    assert caller.at in (1, 2)
    caller.number = 9
    assert caller.create("before-9"), "asked again, the last request is answered from its session, not executed again"
    names = caller.catalogue()
    assert all(f"before-{number}".encode() in names for number in range(10))
    for number in range(10):
        assert caller.create(f"after-{number}")
    cluster.start(0)
    cluster.world.advance(REJOIN_MILLISECONDS)
    assert_alike(cluster)


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_a_member_whose_log_was_left_behind_fetches_the_state(seed: int) -> None:
    """The others have passed checkpoints meanwhile: repair is not enough, a state transfer is."""
    cluster = born(seed)
    cluster.crash(2)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    for number in range(280):
        assert caller.create(f"s-{number}")
    assert caller.status()["checkpoints"] >= 1
    cluster.start(2)
    cluster.world.advance(REJOIN_MILLISECONDS)
    assert_alike(cluster)
    reader = Caller(cluster, 2)
    assert reader.connect(2)
    assert reader.status()["checkpoint"] > 0


def test_requests_of_a_backup_are_answered_where_they_belong() -> None:
    """Wire 10.1: a login and a logout are decided by the primary, a read by the backup, an operation gets 58."""
    cluster = born(7)
    caller = Caller(cluster, 1)
    assert caller.connect(2)
    assert caller.session > 0
    assert not caller.create("refused", attempts=3)
    assert caller.leader() == 0
    assert b"refused" not in caller.catalogue()
    assert caller.logout()


def test_a_wiped_member_learns_before_it_votes(log: list[str]) -> None:
    """B-005 and B-011: with the primary gone the one voter that is left serves nothing, and nothing is lost.

    There is no snapshot yet: the server captures one if the log does not reach back, else its log is enough.
    """
    cluster = born(8)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    for number in range(100):
        assert caller.create(f"s-{number}")
    cluster.crash(2)
    cluster.wipe(2)
    cluster.crash(0)
    cluster.start(2)
    cluster.world.advance(30_000)
    assert cluster.voters() == [0, 1]
    alone = Caller(cluster, 2)
    assert not alone.connect(1, attempts=3)
    cluster.start(0)
    cluster.world.advance(40_000)
    assert cluster.voters() == [0, 1, 2]
    assert_alike(cluster)
    assert any("a voter again" in line for line in log)
    assert caller_at_leader(cluster, 3, 1).create("served again")


def test_a_wiped_majority_is_not_born_again(log: list[str]) -> None:
    """B-008: both stay learners without a quorum, and say why."""
    cluster = born(9)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    assert caller.create("kept")
    for replica in (1, 2):
        cluster.crash(replica)
        cluster.wipe(replica)
    for replica in (1, 2):
        cluster.start(replica)
    cluster.world.advance(30_000)
    assert cluster.voters() == [0]
    assert any("1 of the 2 voters that have to answer are connected" in line for line in log)
    assert len({cluster.own(replica).birth_id for replica in range(3)}) == 1


def test_a_wiped_majority_goes_on_once_the_loss_is_accepted_on_one_of_its_members() -> None:
    """What the survivor holds is kept, and the other wiped member learns by itself."""
    cluster = born(9)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    assert caller.create("kept")
    for replica in (1, 2):
        cluster.crash(replica)
        cluster.wipe(replica)
    for replica in (1, 2):
        cluster.start(replica)
    cluster.world.advance(5_000)
    cluster.crash(1)
    assert accept_loss(cluster.storages[1], DATA).voter
    cluster.start(1)
    cluster.world.advance(40_000)
    assert cluster.voters() == [0, 1, 2]
    assert_alike(cluster)
    survivor = caller_at_leader(cluster, 2, 1)
    assert b"kept" in survivor.catalogue()
    assert survivor.create("served again")


@pytest.mark.parametrize("survivor", [1, 2])
def test_what_a_backup_alone_still_has_is_kept_by_accepting_the_loss_of_the_others(survivor: int) -> None:
    """The one made a voter led the first view: it does not do so again with an empty log, and denies nothing by itself."""
    cluster = born(9)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    for number in range(20):
        assert caller.create(f"kept-{number}")
    cluster.world.advance(1_000)
    for replica in range(3):
        cluster.crash(replica)
        if replica != survivor:
            cluster.wipe(replica)
    for replica in range(3):
        cluster.start(replica)
    cluster.world.advance(5_000)
    cluster.crash(0)
    assert accept_loss(cluster.storages[0], DATA).voter
    cluster.start(0)
    cluster.world.advance(60_000)
    assert cluster.voters() == [0, 1, 2]
    assert_alike(cluster)
    assert all(f"kept-{number}".encode() in caller_at_leader(cluster, 3, 0).catalogue() for number in range(20))


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda cluster: cluster.crash(0), "votes already"),
        (lambda cluster: (cluster.crash(0), cluster.wipe(0)), "no such directory"),
    ],
    ids=["voter", "blank"],
)
def test_only_a_learner_can_be_made_a_voter(prepare: Callable[[SteppedCluster], object], reason: str) -> None:
    cluster = born(9)
    prepare(cluster)
    with pytest.raises(NothingToRecover, match=reason):
        accept_loss(cluster.storages[0], DATA)


def test_the_survivor_of_two_starts_a_view_with_the_learner_abstaining() -> None:
    """B-014: it becomes primary, the learner catches up and votes."""
    cluster = born(10, count=2)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    for number in range(10):
        assert caller.create(f"s-{number}")
    cluster.crash(1)
    cluster.wipe(1)
    cluster.crash(0)
    cluster.start(1)
    cluster.start(0)
    cluster.world.advance(30_000)
    assert cluster.voters() == [0, 1]
    assert_alike(cluster)
    assert caller_at_leader(cluster, 2, 1).create("both again")


def test_a_member_of_another_birth_is_kept_out(log: list[str]) -> None:
    """B-009: same cluster name, another birth id: refused on both sides, both values printed, nothing of it believed."""
    own, other = born(11), born(12)
    own.crash(2)
    own.storages[2] = other.storages[2]
    other.crash(2)
    own.start(2)
    own.world.advance(20_000)
    mine, theirs = own.own(0).birth_id, own.own(2).birth_id
    assert mine != theirs
    assert any(f"{theirs:032x} there, {mine:032x} here" in line for line in log)
    caller = Caller(own, 1)
    assert caller.connect(0)
    assert caller.create("two are enough")
    assert own.own(2).birth_id == theirs


def test_a_first_start_that_was_cut_off_is_blank_again() -> None:
    """B-015: the log was made and the superblock was not."""
    cluster = SteppedCluster(13)
    cluster.start(0)
    cluster.world.advance(100)
    paths = GroupPaths(Path("/data/metadata"))
    assert cluster.storages[0].exists(paths.journal)
    cluster.crash(0)
    for replica in range(3):
        cluster.start(replica)
    cluster.world.advance(1_000)
    assert cluster.voters() == [0, 1, 2]


def test_a_log_without_a_superblock_is_no_blank_member() -> None:
    """B-010: a member that lost its superblock and has entries is damaged, not new."""
    cluster = born(14)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    assert caller.create("kept")
    cluster.crash(1)
    paths = GroupPaths(Path("/data/metadata"))
    for copy in (paths.superblock_a, paths.superblock_b):
        if cluster.storages[1].exists(copy):
            cluster.storages[1].remove(copy)
    with pytest.raises(BootRefused, match="superblock"):
        cluster.start(1)


def test_a_learner_becomes_a_voter_under_a_load_that_never_pauses() -> None:
    """B-016."""
    cluster = born(15)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    for number in range(50):
        assert caller.create(f"s-{number}")
    cluster.crash(2)
    cluster.wipe(2)
    cluster.start(2)
    for number in range(400):
        assert caller.create(f"t-{number}")
        cluster.world.advance(20)
        if number % 20 == 0 and cluster.voters() == [0, 1, 2]:
            break
    assert cluster.voters() == [0, 1, 2]


def test_one_seed_is_one_story() -> None:
    """Two runs of a seed leave the same trace: nothing in the wiring of several members is left to chance."""
    digests = set()
    for _ in range(2):
        cluster = born(16)
        caller = Caller(cluster, 1)
        assert caller.connect(0)
        assert caller.create("once")
        cluster.crash(0)
        cluster.world.advance(ELECTION_MILLISECONDS)
        digests.add(cluster.world.trace_digest())
    assert len(digests) == 1
