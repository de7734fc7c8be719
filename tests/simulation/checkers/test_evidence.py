"""The checker of evidence: silent on the truth, and it names every lie (acknowledgements 1 and 3)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from levrier.actors.acknowledgements.evidence import evidence
from levrier.actors.acknowledgements.messages import Blocked, Evidence, SafeThrough
from levrier.cluster.simulate.checkers import Rule, Violation
from levrier.cluster.simulate.checkers.evidence import EvidenceCheck, held_through, kept_from
from levrier.persistence.archive import Archive
from levrier.persistence.data_dir import GroupPaths
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.wire.acknowledgement import Acknowledgement, Frontier, replica_id
from levrier.wire.codes import Operation
from levrier.wire.prepare import METADATA_GROUP
from levrier.wire.requests.partitions import CreatePartitions
from levrier.wire.requests.replicated import CreatePartitionsWithAssignments
from tests.actors.metadata.support import named
from tests.simulation.checkers.story import Story, Watched

CLUSTER = 9
PATHS = GroupPaths(Path("/data/metadata"))
IDS = [replica_id(CLUSTER, each) for each in range(3)]


def story() -> Story:
    """Six ops of two origins; the fourth hands out groups, and is rejected."""
    told = Story()
    told.bootstrap()
    told.login()
    told.create("a", 1)
    body = CreatePartitionsWithAssignments(
        request=CreatePartitions(stream=named(7), topic=named(7), partitions_count=2),
        assignments=((0, 4), (1, 5)),
        created_view=0,
    )
    told.commit(Operation.CREATE_PARTITIONS_WITH_ASSIGNMENTS, body.encode(), client=7, request=2, replica=2)
    told.create("b", 3)
    told.create("c", 4)
    return told


def disk(told: Story, op: int) -> SimulatedStorage:
    """A disk whose log durably ends at an op, with one more entry written and not synced."""
    storage = SimulatedStorage(Random(op))
    storage.make_directory(PATHS.directory)
    log = PrepareJournal.open(
        storage,
        PATHS.journal,
        group=METADATA_GROUP,
        snapshot_op=0,
        slots=64,
        epoch_source=lambda: 5,
        preallocate_step=4096,
    )
    log.append(told.prepares[:op])
    return storage


def says(replica: int, op: int, **fields: object) -> Acknowledgement:
    """The truth about a disk that ends at an op of the story."""
    positions = {0: max([each for each in range(1, op + 1) if each != 4], default=0), 2: 4 if op >= 4 else 0}
    said = Acknowledgement(
        replica_id=IDS[replica],
        node_id="n",
        applied_frontier=Frontier.of(positions),
        origin_sequence_high_water=Frontier.of({2: 5} if op >= 4 else {}),
        membership_view=tuple(IDS),
        produced_at_ms=0,
    )
    return replace(said, **fields)  # type: ignore[arg-type]


class World:
    """Three disks that end at ops 6, 5 and 3, and a checker that has seen all six ops applied."""

    def __init__(self) -> None:
        self.story = story()
        watched = Watched(self.story)
        watched.tell()
        self.check = EvidenceCheck(watched.observer, cluster=CLUSTER, replica_count=3, paths=PATHS.directory)
        self.disks = [disk(self.story, op) for op in (6, 5, 3)]

    def look(self, known: Sequence[Acknowledgement], told: Evidence | None = None, *, observer: int = 0) -> None:
        """A member shows what it knows; by default it makes the right thing of it."""
        self.check.check(observer, known, evidence(IDS, known) if told is None else told, self.check.held(self.disks))


def test_the_truth_is_accepted() -> None:
    world = World()
    world.look([])
    world.look([says(0, 6), says(1, 4)])
    world.look([says(0, 6), says(1, 5), says(2, 3)])
    assert list(world.check.held(world.disks).values()) == [6, 5, 3]


LIES = [
    ("more than its disk holds", says(2, 4)),
    ("an op of another origin", says(1, 5, applied_frontier=Frontier(((0, 4), (2, 4))))),
    ("an op that nobody applied", says(0, 6, applied_frontier=Frontier(((0, 7), (2, 4))))),
    ("no mark of what was handed out", says(1, 5, origin_sequence_high_water=Frontier())),
    ("a mark too high", says(2, 3, origin_sequence_high_water=Frontier(((2, 6),)))),
]


@pytest.mark.parametrize(("name", "lie"), LIES, ids=[row[0] for row in LIES])
def test_a_statement_that_is_not_true_is_a_violation(name: str, lie: Acknowledgement) -> None:
    with pytest.raises(Violation) as caught:
        World().look([lie])
    assert caught.value.rule == Rule.STATEMENT_IS_TRUE


ALL = (says(0, 6), says(1, 5), says(2, 3))
WRONG: list[tuple[str, Sequence[Acknowledgement], Evidence]] = [
    ("safe while one is silent", ALL[:2], SafeThrough(frontier=ALL[1].applied_frontier, covered=tuple(IDS[:2]))),
    ("another one named", ALL[:2], Blocked(waiting_on=(IDS[1],))),
    ("blocked while all have spoken", ALL, Blocked(waiting_on=(IDS[2],))),
    ("beyond the slowest", ALL, SafeThrough(frontier=ALL[1].applied_frontier, covered=tuple(IDS))),
    ("one left out", ALL, SafeThrough(frontier=ALL[2].applied_frontier, covered=tuple(IDS[:2]))),
    (
        "one from another view left out",
        (*ALL[:2], says(2, 3, membership_view=(*IDS, "z"))),
        SafeThrough(frontier=ALL[2].applied_frontier, covered=tuple(IDS)),
    ),
]


@pytest.mark.parametrize(("name", "known", "told"), WRONG, ids=[row[0] for row in WRONG])
def test_evidence_that_does_not_follow_is_a_violation(
    name: str, known: Sequence[Acknowledgement], told: Evidence
) -> None:
    with pytest.raises(Violation) as caught:
        World().look(known, told)
    assert caught.value.rule == Rule.EVIDENCE_IS_TRUE


def test_what_a_lost_disk_said_is_borne_with_until_it_was_forgotten_once() -> None:
    world = World()
    known = [says(0, 6), says(1, 5)]
    world.look(known)
    world.disks[1] = SimulatedStorage(Random(1))
    world.check.wiped(1)
    world.look(known)
    world.look([says(0, 6)])
    with pytest.raises(Violation):
        world.look(known)


def test_what_is_not_synced_or_behind_a_gap_is_not_held() -> None:
    told = story()
    storage = disk(told, 4)
    assert held_through(storage, PATHS) == 4
    empty = SimulatedStorage(Random(1))
    empty.make_directory(PATHS.directory)
    assert held_through(empty, PATHS) == 0
    log = PrepareJournal.open(
        empty,
        PATHS.journal,
        group=METADATA_GROUP,
        snapshot_op=0,
        slots=64,
        epoch_source=lambda: 5,
        preallocate_step=4096,
    )
    log.append([told.prepares[0], told.prepares[2]])
    assert held_through(empty, PATHS) == 1
    storage.flip(PATHS.journal, 9)
    assert held_through(storage, PATHS) is None


def archived(told: Story, op: int, *, reclaimed: bool) -> SimulatedStorage:
    """A disk whose log is drained up to an op, with what left it in the archive, or nowhere."""
    storage = disk(told, 6)
    log = PrepareJournal.open(
        storage,
        PATHS.journal,
        group=METADATA_GROUP,
        snapshot_op=0,
        slots=64,
        epoch_source=lambda: 6,
        preallocate_step=4096,
    )
    archive = Archive.open(storage, PATHS.archive, group=METADATA_GROUP)
    session = archive.begin(log, op)
    while not session.step():
        pass
    log.drain(op)
    if reclaimed:
        archive.reclaim(Frontier(((0, op), (2, op))))
    return storage


def test_what_is_kept_or_what_everybody_has_may_leave_the_log() -> None:
    world = World()
    held = world.check.held(world.disks)
    assert kept_from(archived(world.story, 4, reclaimed=False), PATHS) == 1
    world.check.check_kept(0, archived(world.story, 4, reclaimed=False), held, passed_over=0)
    world.check.check_kept(0, archived(world.story, 3, reclaimed=True), held, passed_over=0)


def test_what_somebody_lacks_must_not_be_reclaimed() -> None:
    """Unless a state transfer spared the member that part of the log, or the other one had it and lost its disk."""
    world = World()
    disk_of = archived(world.story, 4, reclaimed=True)
    held = world.check.held(world.disks)
    with pytest.raises(Violation) as caught:
        world.check.check_kept(0, disk_of, held, passed_over=0)
    assert caught.value.rule == Rule.RECLAIMED_IS_SAFE
    world.check.check_kept(0, disk_of, held, passed_over=4)
    world.check.check_kept(0, disk_of, {**held, IDS[2]: None}, passed_over=0)
    world.check.wiped(2)
    world.check.check_kept(0, disk_of, {**held, IDS[2]: 0}, passed_over=0)


def test_what_is_reclaimed_must_be_on_every_disk_at_that_moment() -> None:
    world = World()
    held = world.check.held(world.disks)
    world.check.check_reclaim(0, says(2, 3).applied_frontier, held)
    with pytest.raises(Violation) as caught:
        world.check.check_reclaim(0, says(1, 5).applied_frontier, held)
    assert caught.value.rule == Rule.RECLAIMED_IS_SAFE
    world.check.wiped(2)
    world.check.check_reclaim(0, says(1, 5).applied_frontier, {**held, IDS[2]: 0})
