"""Partition directories: their names say everything, what is not ours stays, and a cut-off removal is finished later."""

from pathlib import Path
from random import Random

import pytest

from levrier.persistence.partition_directories import PartitionDirectories, PartitionKey
from levrier.persistence.simulated_storage import Crashed, DiskFaults, SimulatedStorage
from levrier.persistence.storage import DiskStorage, Storage

A = PartitionKey(0, 0, 0, 1)
B = PartitionKey(0, 0, 0, 7)
C = PartitionKey(10, 2, 3, 2**64 - 1)


@pytest.fixture(params=["real", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Storage, Path]:
    """Each kind of disk, and a place on it."""
    if request.param == "real":
        return DiskStorage(), tmp_path / "partitions"
    return SimulatedStorage(Random(1), DiskFaults()), Path("/data/partitions")


def test_there_are_none_at_first(place: tuple[Storage, Path]) -> None:
    assert PartitionDirectories(*place).all() == ()


def test_what_is_made_is_listed_and_what_is_removed_is_not(place: tuple[Storage, Path]) -> None:
    directories = PartitionDirectories(*place)
    for key in (C, B, A, A):
        directories.create(key)
    assert directories.all() == (A, B, C)
    directories.delete(B)
    directories.delete(B)
    assert directories.all() == (A, C)


def test_the_last_partition_takes_the_directories_of_topic_and_stream_along(place: tuple[Storage, Path]) -> None:
    storage, root = place
    directories = PartitionDirectories(storage, root)
    directories.create(A)
    directories.delete(A)
    assert storage.list(root) == ()


def test_whatever_lies_in_a_partition_goes_with_it(place: tuple[Storage, Path]) -> None:
    storage, root = place
    directories = PartitionDirectories(storage, root)
    directories.create(A)
    inner = directories.path(A) / "segments"
    storage.make_directory(inner)
    for path in (directories.path(A) / "offsets", inner / "0.log"):
        storage.open(path, create=True).close()
    directories.delete(A)
    assert directories.all() == ()


@pytest.mark.parametrize("name", ["0", "0.", "a.1", "00.1", "0.1.2", "0.1~", "lost+found"])
def test_other_names_are_neither_listed_nor_touched(place: tuple[Storage, Path], name: str) -> None:
    storage, root = place
    directories = PartitionDirectories(storage, root)
    directories.create(A)
    stranger = directories.path(A).with_name(name)
    storage.make_directory(stranger)
    directories.delete(A)
    assert directories.all() == ()
    assert storage.is_directory(stranger)


def test_a_removal_that_was_cut_off_anywhere_is_finished_by_the_next_one() -> None:
    root = Path("/data/partitions")
    for calls in range(1, 40):
        storage = SimulatedStorage(Random(calls), DiskFaults())
        directories = PartitionDirectories(storage, root)
        directories.create(A)
        storage.open(directories.path(A) / "0.log", create=True).close()
        storage.faults.crash_after = storage.calls + calls
        try:
            directories.delete(A)
        except Crashed:
            storage.crash()
            storage.faults.crash_after = None
            directories.delete(A)
            assert directories.all() == ()
            continue
        assert calls > 5
        return
    raise AssertionError("a removal takes fewer calls")
