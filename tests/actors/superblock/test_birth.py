"""Steps of the birth in the superblock: merged with views and checkpoints, answered to whoever asked, never going back."""

import errno
from dataclasses import replace
from random import Random

import pytest

from levrier.actors.birth import messages as birth
from levrier.actors.consensus import messages as consensus
from levrier.actors.runtime import Probe, SteppedRuntime
from levrier.actors.superblock import messages as superblock
from levrier.actors.superblock.actor import SuperblockActor
from levrier.actors.superblock.core import SuperblockCore
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.persistence.superblock import Phase, SuperblockStore, VsrState
from tests.actors.superblock.rig import DIRECTORY, on_disk, persist

BLANK = VsrState(cluster=9, replica_id=2, replica_count=3, phase=Phase.PREPARED, voter=False)
PREPARED = superblock.PersistBirth(birth_id=7, phase=Phase.PREPARED, voter=False)
BORN = superblock.PersistBirth(birth_id=7, phase=Phase.BORN, voter=True)


class Blank:
    """The actor of a member that has no superblock yet."""

    def __init__(self) -> None:
        self.runtime = SteppedRuntime(seed=1)
        self.storage = SimulatedStorage(Random(1))
        self.storage.make_directory(DIRECTORY)
        self.consensus: Probe[consensus.Command] = Probe("consensus")
        self.birth: Probe[birth.SuperblockAnswer] = Probe("birth")
        SuperblockActor.start(
            name="superblock",
            runtime=self.runtime,
            store=SuperblockStore.open(self.storage, DIRECTORY),
            initial=BLANK,
            consensus=self.consensus,
            checkpoint=Probe("checkpoint"),
            birth=self.birth,
        )

    def tell(self, *commands: superblock.Command) -> None:
        """Tell all of them, then deliver."""
        for command in commands:
            self.runtime.address("superblock").tell(command)
        self.runtime.run()


def test_nothing_is_written_before_the_birth_begins() -> None:
    """D-31, B-015: a member that was only started is still blank."""
    blank = Blank()
    blank.runtime.run()
    assert SuperblockStore.open(blank.storage, DIRECTORY).read() is None


def test_the_steps_of_a_birth() -> None:
    blank = Blank()
    blank.tell(PREPARED)
    assert blank.birth.take() == birth.BirthPersisted(birth_id=7, is_born=False, voter=False)
    assert (on_disk(blank.storage).phase, on_disk(blank.storage).voter) == (Phase.PREPARED, False)
    blank.tell(BORN)
    assert blank.birth.take() == birth.BirthPersisted(birth_id=7, is_born=True, voter=True)
    found = on_disk(blank.storage)
    assert (found.birth_id, found.phase, found.voter, found.replica_id) == (7, Phase.BORN, True, 2)
    blank.consensus.assert_silent()


def test_a_learner_that_learned_keeps_its_view() -> None:
    """One record carries both; neither regresses the other."""
    blank = Blank()
    blank.tell(superblock.PersistBirth(birth_id=7, phase=Phase.BORN, voter=False), persist(4, 4, 11))
    blank.tell(BORN)
    found = on_disk(blank.storage)
    assert (found.view, found.log_view, found.commit_max, found.voter) == (4, 4, 11, True)


def test_a_step_that_could_not_be_written_is_told() -> None:
    blank = Blank()
    blank.storage.faults.fail_at[blank.storage.calls + 1] = errno.EIO
    blank.tell(PREPARED)
    answer = blank.birth.take()
    assert isinstance(answer, birth.BirthPersistFailed)
    assert answer.reason
    blank.runtime.advance(2_000)
    blank.tell(PREPARED)
    assert blank.birth.take() == birth.BirthPersisted(birth_id=7, is_born=False, voter=False)


def test_a_step_that_could_not_be_written_binds_nobody() -> None:
    """B-002: the first member of a cluster mints another id when the first one did not become durable."""
    blank = Blank()
    blank.storage.faults.fail_at[blank.storage.calls + 1] = errno.EIO
    blank.tell(PREPARED)
    assert isinstance(blank.birth.take(), birth.BirthPersistFailed)
    blank.runtime.advance(2_000)
    blank.tell(superblock.PersistBirth(birth_id=8, phase=Phase.PREPARED, voter=False))
    assert blank.birth.take() == birth.BirthPersisted(birth_id=8, is_born=False, voter=False)
    assert on_disk(blank.storage).birth_id == 8


def test_a_step_that_was_withheld_binds_nobody() -> None:
    """During the back-off nothing is tried, and what was not tried is not wanted either."""
    blank = Blank()
    blank.storage.faults.fail_at[blank.storage.calls + 1] = errno.EIO
    blank.tell(PREPARED)
    blank.tell(superblock.PersistBirth(birth_id=8, phase=Phase.PREPARED, voter=False))
    assert [answer.__class__ for answer in blank.birth.take_all()] == [birth.BirthPersistFailed] * 2
    blank.runtime.advance(2_000)
    blank.tell(superblock.PersistBirth(birth_id=9, phase=Phase.BORN, voter=False))
    assert blank.birth.take() == birth.BirthPersisted(birth_id=9, is_born=True, voter=False)


def test_a_vote_that_could_not_be_written_does_not_come_with_the_next_view() -> None:
    """B-007: a learner whose last step failed in one view may have to learn a higher one first."""
    blank = Blank()
    blank.tell(superblock.PersistBirth(birth_id=7, phase=Phase.BORN, voter=False))
    blank.storage.faults.fail_at[blank.storage.calls + 1] = errno.EIO
    blank.tell(BORN)
    blank.runtime.advance(2_000)
    blank.tell(persist(5, 5))
    found = on_disk(blank.storage)
    assert (found.view, found.voter) == (5, False)


@pytest.mark.parametrize(
    ("birth_id", "phase", "voter"), [(8, Phase.BORN, True), (7, Phase.PREPARED, True), (7, Phase.BORN, False)]
)
def test_a_birth_never_goes_back(birth_id: int, phase: Phase, voter: bool) -> None:
    """Another id, an earlier phase, a voter that stops voting: our own bug."""
    core = SuperblockCore(state=BLANK, durable=False)
    core.merge_birth(birth_id=7, phase=Phase.BORN, voter=True)
    core.on_written(core.record)
    with pytest.raises(AssertionError):
        core.merge_birth(birth_id=birth_id, phase=phase, voter=voter)


def test_a_birth_that_could_not_be_written_may_be_followed_by_another() -> None:
    """Replica 0 mints a new id when it starts over, and nobody was told of the one that its disk refused."""
    blank = Blank()
    blank.storage.faults.fail_at[blank.storage.calls + 1] = errno.EIO
    blank.tell(PREPARED)
    assert isinstance(blank.birth.take(), birth.BirthPersistFailed)
    blank.runtime.advance(2_000)
    blank.tell(replace(PREPARED, birth_id=8))
    assert blank.birth.take() == birth.BirthPersisted(birth_id=8, is_born=False, voter=False)
