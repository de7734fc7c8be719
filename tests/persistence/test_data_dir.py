"""The data directory: what lies where, and that one node at a time holds it (design section 6)."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from levrier.persistence.data_dir import DataDirectory, temporary
from levrier.persistence.errors import DirectoryInUse, IoFailed
from levrier.persistence.simulated_storage import DiskFaults, SimulatedStorage
from levrier.persistence.storage import DiskStorage


def test_the_files_have_the_names_that_operators_know(tmp_path: Path) -> None:
    directory = DataDirectory.open(DiskStorage(), tmp_path / "new" / "data")
    paths = directory.metadata
    names = [
        path.relative_to(directory.root).as_posix()
        for path in (paths.journal, paths.superblock_a, paths.superblock_b, paths.snapshot, paths.acknowledgements)
    ]
    assert names == [
        "metadata/journal.wal",
        "metadata/superblock.a",
        "metadata/superblock.b",
        "metadata/snapshot.bin",
        "metadata/acknowledgements.bin",
    ]
    assert temporary(paths.journal).name == "journal.wal.tmp"
    assert (directory.root / "node.lock").read_text().strip() == str(os.getpid())
    directory.close()


def test_a_second_node_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    storage = DiskStorage()
    first = DataDirectory.open(storage, tmp_path)
    with pytest.raises(DirectoryInUse) as caught:
        DataDirectory.open(storage, tmp_path)
    assert caught.value.pid == os.getpid()
    assert "node.lock" in str(caught.value)
    assert "another data directory" in str(caught.value)
    first.close()
    DataDirectory.open(storage, tmp_path).close()


def test_a_failure_on_the_way_gives_the_lock_back() -> None:
    storage = SimulatedStorage(Random(1))
    DataDirectory.open(storage, Path("/data")).close()
    calls = storage.calls
    failed = 0
    for call in range(1, calls + 1):
        storage = SimulatedStorage(Random(1), DiskFaults(fail_at={call: 5}))
        try:
            DataDirectory.open(storage, Path("/data")).close()
        except IoFailed:
            failed += 1
        DataDirectory.open(storage, Path("/data")).close()
    assert failed == calls
