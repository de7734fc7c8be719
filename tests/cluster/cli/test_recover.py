"""`levrier recover`: a learner is made a voter, and nobody else is; nothing happens unasked."""

from pathlib import Path

import pytest

from levrier.persistence.data_dir import DataDirectory
from levrier.persistence.storage import DiskStorage
from levrier.persistence.superblock import Phase, SuperblockStore, VsrState
from tests.cluster.cli.running import CommandLine


@pytest.fixture
def member(tmp_path: Path) -> Path:
    """The directory of a member that learns."""
    data = tmp_path / "data"
    write(data, voter=False)
    return data


def write(data: Path, *, voter: bool, phase: Phase = Phase.BORN, count: int = 3) -> None:
    directory = DataDirectory.open(DiskStorage(), data)
    record = VsrState(
        cluster=7, replica_id=1, replica_count=count, view=4, log_view=3, birth_id=9, phase=phase, voter=voter
    )
    SuperblockStore.open(DiskStorage(), directory.metadata.directory).write(record)
    directory.close()


def record_of(data: Path) -> VsrState:
    record = SuperblockStore.open(DiskStorage(), data / "metadata").read()
    assert record is not None
    return record


def test_a_learner_votes_from_its_next_start_on(levrier: CommandLine, member: Path) -> None:
    """It has no part in the views before, which it might lead with an empty log."""
    ran = levrier("recover", "--accept-loss", str(member))
    assert (ran.status, ran.out) == (0, "")
    assert f"replica 1 of birth {9:032x} votes from its next start on" in ran.err
    found = record_of(member)
    assert (found.voter, found.view, found.log_view) == (True, 5, 3)


def test_nothing_happens_unless_the_loss_is_accepted(levrier: CommandLine, member: Path) -> None:
    ran = levrier("recover", str(member))
    assert ran.status == 2
    assert "say --accept-loss" in ran.complaint
    assert not record_of(member).voter


def test_a_member_that_runs_is_left_alone(levrier: CommandLine, member: Path) -> None:
    held = DataDirectory.open(DiskStorage(), member)
    try:
        ran = levrier("recover", "--accept-loss", str(member))
    finally:
        held.close()
    assert ran.status == 2
    assert "held by process" in ran.complaint
    assert not record_of(member).voter


@pytest.mark.parametrize(
    ("voter", "phase", "reason"), [(True, Phase.BORN, "votes already"), (False, Phase.PREPARED, "knows of no birth")]
)
def test_whoever_does_not_learn_has_nothing_to_give_up(
    levrier: CommandLine, tmp_path: Path, voter: bool, phase: Phase, reason: str
) -> None:
    data = tmp_path / "other"
    write(data, voter=voter, phase=phase)
    ran = levrier("recover", "--accept-loss", str(data))
    assert ran.status == 1
    assert reason in ran.complaint


def test_of_two_members_none_is_made_a_voter(levrier: CommandLine, tmp_path: Path) -> None:
    """The survivor starts a view alone (B-014), and a vote without a log could deny what it holds."""
    write(tmp_path / "two", voter=False, count=2)
    ran = levrier("recover", "--accept-loss", str(tmp_path / "two"))
    assert ran.status == 1
    assert "of two members" in ran.complaint


def test_a_directory_that_is_not_there_is_not_made(levrier: CommandLine, tmp_path: Path) -> None:
    ran = levrier("recover", "--accept-loss", str(tmp_path / "nowhere"))
    assert ran.status == 1
    assert "start the member first" in ran.complaint
    assert not (tmp_path / "nowhere").exists()
