"""One contract, two disks; then what only the simulated one does."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from levrier.persistence.errors import DirectoryInUse, DirectoryUnusable, FileMissing, IoFailed, NotADirectory
from levrier.persistence.simulated_storage import SECTOR_SIZE, Crashed, DiskFaults, SimulatedStorage, Tear
from levrier.persistence.storage import DiskStorage, Storage


@pytest.fixture(params=["disk", "simulated"])
def storage(request: pytest.FixtureRequest) -> Storage:
    return DiskStorage() if request.param == "disk" else SimulatedStorage(Random(1))


@pytest.fixture
def root(storage: Storage, tmp_path: Path) -> Path:
    storage.make_directory(tmp_path / "a" / "b")
    return tmp_path / "a" / "b"


def test_what_is_written_is_read_back(storage: Storage, root: Path) -> None:
    file = storage.open(root / "f", create=True)
    file.write(0, b"hello")
    file.write(3, bytearray(b"p!"))
    file.write(5, memoryview(b" more"))
    file.datasync()
    assert file.read(0, 100) == b"help! more"
    assert file.read(5, 3) == b" mo"
    assert file.read(10, 4) == b""
    assert file.size() == 10
    file.close()
    file.close()
    assert storage.read_all(root / "f") == b"help! more"


def test_a_write_behind_the_end_leaves_zeros(storage: Storage, root: Path) -> None:
    file = storage.open(root / "f", create=True)
    file.write(4, b"x")
    assert file.read(0, 5) == b"\0\0\0\0x"
    file.close()


def test_truncate_cuts_and_extends_with_zeros(storage: Storage, root: Path) -> None:
    file = storage.open(root / "f", create=True)
    file.write(0, b"abcdef")
    file.truncate(2)
    file.truncate(4)
    file.sync()
    assert file.read(0, 10) == b"ab\0\0"
    file.close()


def test_a_missing_file_is_named(storage: Storage, root: Path) -> None:
    for call in (
        lambda: storage.open(root / "f", create=False),
        lambda: storage.read_all(root / "f"),
        lambda: storage.remove(root / "f"),
        lambda: storage.replace(root / "f", root / "g"),
        lambda: storage.list(root / "none"),
    ):
        with pytest.raises(FileMissing) as caught:
            call()
        assert str(root) in str(caught.value)


def test_open_with_create_keeps_what_is_there(storage: Storage, root: Path) -> None:
    file = storage.open(root / "f", create=True)
    file.write(0, b"kept")
    file.close()
    storage.open(root / "f", create=True).close()
    assert storage.read_all(root / "f") == b"kept"


def test_replace_moves_the_file_over_its_target(storage: Storage, root: Path) -> None:
    for name in ("old", "new"):
        file = storage.open(root / name, create=True)
        file.write(0, name.encode())
        file.close()
    storage.replace(root / "new", root / "old")
    storage.sync_directory(root)
    assert storage.read_all(root / "old") == b"new"
    assert storage.list(root) == ("old",)


def test_a_handle_follows_its_file_through_a_rename(storage: Storage, root: Path) -> None:
    file = storage.open(root / "new", create=True)
    storage.replace(root / "new", root / "old")
    file.write(0, b"later")
    assert storage.read_all(root / "old") == b"later"
    file.close()


def test_names_are_listed_sorted_and_removed(storage: Storage, root: Path) -> None:
    for name in ("c", "a", "b"):
        storage.open(root / name, create=True).close()
    storage.remove(root / "b")
    assert storage.list(root) == ("a", "c")
    assert storage.exists(root / "a")
    assert not storage.exists(root / "b")
    assert storage.exists(root)


def test_an_empty_directory_is_removed_and_one_that_holds_something_is_not(storage: Storage, root: Path) -> None:
    storage.make_directory(root / "outer" / "inner")
    assert storage.is_directory(root / "outer")
    with pytest.raises(IoFailed) as caught:
        storage.remove_directory(root / "outer")
    assert caught.value.errno == errno.ENOTEMPTY
    storage.remove_directory(root / "outer" / "inner")
    storage.remove_directory(root / "outer")
    assert not storage.exists(root / "outer")
    with pytest.raises(FileMissing):
        storage.remove_directory(root / "outer")


def test_a_file_is_no_directory(storage: Storage, root: Path) -> None:
    storage.open(root / "file", create=True).close()
    assert not storage.is_directory(root / "file")
    assert not storage.is_directory(root / "absent")


def test_make_directory_may_be_repeated(storage: Storage, root: Path) -> None:
    storage.make_directory(root)
    assert storage.exists(root)


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_file_in_the_way_of_a_directory_is_named(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectory) as caught:
        DiskStorage().make_directory(tmp_path / path)
    assert caught.value.file == str(tmp_path / path)
    assert not DiskStorage().exists(tmp_path / "file" / "below")


def test_a_lock_is_exclusive_until_closed(storage: Storage, root: Path) -> None:
    lock = storage.lock(root / "lock")
    with pytest.raises(DirectoryInUse) as caught:
        storage.lock(root / "lock")
    assert str(root / "lock") in str(caught.value)
    lock.close()
    lock.close()
    storage.lock(root / "lock").close()


def test_a_look_at_a_lock_says_who_has_it_and_takes_nothing(storage: Storage, root: Path) -> None:
    storage.check_unlocked(root / "lock")
    assert not storage.exists(root / "lock")
    lock = storage.lock(root / "lock")
    with pytest.raises(DirectoryInUse, match="lock: held by "):
        storage.check_unlocked(root / "lock")
    lock.close()
    storage.check_unlocked(root / "lock")
    storage.lock(root / "lock").close()


def test_there_is_free_space(storage: Storage, root: Path) -> None:
    assert storage.free_space(root) > 0


def test_a_lock_of_another_process_names_its_pid(tmp_path: Path) -> None:
    path = tmp_path / "node.lock"
    lock = DiskStorage().lock(path)
    script = (
        "import sys; from pathlib import Path\n"
        "from levrier.persistence.storage import DiskStorage\n"
        "from levrier.persistence.errors import DirectoryInUse\n"
        "try: DiskStorage().lock(Path(sys.argv[1]))\n"
        "except DirectoryInUse as error: print(error.pid)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(os.getpid())
    lock.close()


def test_a_look_at_a_lock_names_the_process_that_has_it_and_leaves_its_name_there(tmp_path: Path) -> None:
    path = tmp_path / "node.lock"
    lock = DiskStorage().lock(path)
    for _ in range(2):
        with pytest.raises(DirectoryInUse) as caught:
            DiskStorage().check_unlocked(path)
        assert caught.value.pid == os.getpid()
    lock.close()


def test_the_name_of_a_process_that_is_gone_is_no_lock(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (tmp_path / "node.lock").write_text(f"{gone.pid}\n")
    DiskStorage().check_unlocked(tmp_path / "node.lock")


@pytest.mark.parametrize("path", ["/proc/nope", "/proc/nope/below"])
def test_a_directory_that_cannot_be_there_is_no_fault_of_the_disk(path: str) -> None:
    with pytest.raises(
        DirectoryUnusable, match=r"cannot be made or written to .*; name a directory that this user may"
    ):
        DiskStorage().make_directory(Path(path))


def test_a_directory_that_cannot_be_written_to_is_no_fault_of_the_disk() -> None:
    with pytest.raises(
        DirectoryUnusable, match=r"cannot be made or written to .*; name a directory that this user may"
    ):
        DiskStorage().lock(Path("/proc/lock"))


def test_a_real_error_of_the_system_is_typed(tmp_path: Path) -> None:
    with pytest.raises(IoFailed) as caught:
        DiskStorage().open(tmp_path, create=False)
    assert caught.value.errno == errno.EISDIR


ROOT = Path("/d")
FILE = ROOT / "f"


def disk(faults: DiskFaults | None = None, seed: int = 1) -> SimulatedStorage:
    storage = SimulatedStorage(Random(seed), faults)
    storage.make_directory(ROOT)
    return storage


def test_a_crash_loses_unsynced_bytes_and_keeps_synced_ones() -> None:
    storage = disk()
    file = storage.open(FILE, create=True)
    file.write(0, b"synced")
    file.sync()
    storage.sync_directory(ROOT)
    file.write(6, b" not")
    assert not storage.is_durable(FILE)
    storage.crash(tear=Tear.LOSE)
    assert storage.read_all(FILE) == b"synced"
    with pytest.raises(Crashed):
        file.read(0, 1)


def test_a_synced_file_with_an_unsynced_name_is_lost() -> None:
    storage = disk()
    file = storage.open(FILE, create=True)
    file.write(0, b"x")
    file.sync()
    storage.crash(tear=Tear.LOSE)
    assert not storage.exists(FILE)


def test_an_unsynced_rename_may_come_back_as_the_old_file() -> None:
    storage = disk()
    storage.put(FILE, b"old")
    file = storage.open(ROOT / "new", create=True)
    file.write(0, b"new")
    file.sync()
    storage.replace(ROOT / "new", FILE)
    storage.crash(tear=Tear.LOSE)
    assert storage.read_all(FILE) == b"old"


def test_a_torn_write_keeps_a_prefix_of_the_asked_length() -> None:
    for keep in range(11):
        storage = disk()
        storage.put(FILE, b"")
        storage.open(FILE, create=False).write(0, b"0123456789")
        storage.crash(keep_bytes=keep)
        assert storage.read_all(FILE) == b"0123456789"[:keep]


def test_sectors_of_a_write_survive_independently() -> None:
    seen = set()
    for seed in range(40):
        storage = disk(seed=seed)
        storage.put(FILE, bytes(3 * SECTOR_SIZE))
        storage.open(FILE, create=False).write(0, b"x" * 3 * SECTOR_SIZE)
        storage.crash(tear=Tear.SECTORS)
        content = storage.read_all(FILE)
        seen.add(tuple(content[at * SECTOR_SIZE] for at in range(3)))
        assert all(len(set(content[at : at + SECTOR_SIZE])) == 1 for at in range(0, len(content), SECTOR_SIZE))
    assert len(seen) == 8


def test_a_failed_sync_is_not_mended_by_a_later_one() -> None:
    """The bytes of a failed sync are on the disk or never will be: at least one seed loses them."""
    kept = set()
    for seed in range(20):
        storage = disk(seed=seed)
        storage.put(FILE, b"")
        file = storage.open(FILE, create=False)
        file.write(0, b"x")
        storage.faults.fail_at[storage.calls + 1] = errno.EIO
        with pytest.raises(IoFailed):
            file.datasync()
        assert file.read(0, 1) == b"x"
        file.datasync()
        storage.crash(tear=Tear.KEEP)
        kept.add(storage.read_all(FILE))
    assert kept == {b"", b"x"}


def test_a_failed_write_has_written_a_prefix() -> None:
    storage = disk()
    storage.put(FILE, b"")
    file = storage.open(FILE, create=False)
    storage.faults.fail_at[storage.calls + 1] = errno.EIO
    with pytest.raises(IoFailed) as caught:
        file.write(0, b"0123456789")
    assert caught.value.errno == errno.EIO
    assert b"0123456789".startswith(file.read(0, 10))


def test_a_full_disk_refuses_growth_and_takes_it_again_when_freed() -> None:
    storage = disk(DiskFaults(capacity=8))
    file = storage.open(FILE, create=True)
    file.write(0, b"12345678")
    file.write(0, b"abcdefgh")
    with pytest.raises(IoFailed) as caught:
        file.write(6, b"wxyz")
    assert caught.value.errno == errno.ENOSPC
    assert "free space" in str(caught.value)
    assert file.read(0, 20) == b"abcdefwx"
    assert storage.free_space(ROOT) == 0
    storage.faults.capacity = None
    file.write(6, b"wxyz")


def test_a_write_budget_runs_out_in_the_middle_of_a_write() -> None:
    storage = disk(DiskFaults(write_budget=3))
    storage.put(FILE, bytes(10))
    file = storage.open(FILE, create=False)
    with pytest.raises(IoFailed):
        file.write(0, b"12345")
    assert file.read(0, 5) == b"123\0\0"


@pytest.mark.parametrize("seed", range(10))
def test_calls_that_fail_may_be_told_to_do_nothing(seed: int) -> None:
    """The simulator asks for it where a torn tail would be more damage than a cluster has to bear."""
    storage = disk(DiskFaults(failures_tear=False, write_budget=15), seed=seed)
    storage.put(FILE, bytes(10))
    file = storage.open(FILE, create=False)
    file.write(0, b"abcdefghij")
    storage.faults.fail_at[storage.calls + 1] = errno.EIO
    storage.faults.fail_at[storage.calls + 2] = errno.EIO
    with pytest.raises(IoFailed):
        file.write(0, b"123")
    with pytest.raises(IoFailed):
        file.datasync()
    with pytest.raises(IoFailed):
        file.write(0, b"1234567")
    storage.crash(tear=Tear.KEEP)
    assert storage.read_all(FILE) == b"abcdefghij"


def test_the_world_ends_after_the_nth_call() -> None:
    storage = disk()
    storage.put(FILE, b"")
    file = storage.open(FILE, create=False)
    storage.faults.crash_after = storage.calls + 1
    file.write(0, b"x")
    with pytest.raises(Crashed):
        file.datasync()
    with pytest.raises(Crashed):
        storage.exists(FILE)
    storage.crash()
    assert storage.exists(FILE)


def test_a_crash_releases_locks() -> None:
    storage = disk()
    old = storage.lock(ROOT / "lock")
    storage.crash()
    new = storage.lock(ROOT / "lock")
    old.close()
    with pytest.raises(DirectoryInUse):
        storage.lock(ROOT / "lock")
    new.close()


def test_slow_calls_are_reported_and_not_slept() -> None:
    told: list[tuple[str, int]] = []
    storage = SimulatedStorage(
        Random(1), DiskFaults(sync_delay_us=5_000_000), on_delay=lambda call, _path, delay: told.append((call, delay))
    )
    storage.put(FILE, b"")
    storage.open(FILE, create=False).datasync()
    assert told == [("datasync", 5_000_000)]


def test_random_faults_follow_the_seed() -> None:
    def trace(seed: int) -> list[tuple[str, int]]:
        faults = DiskFaults(error_probability=0.3, delay_probability=0.3, delay_us_max=9, read_flip_probability=0.5)
        storage = SimulatedStorage(Random(seed), faults, on_delay=lambda *_: None)
        storage.put(FILE, bytes(64))
        for _ in range(30):
            try:
                file = storage.open(FILE, create=False)
                file.write(0, file.read(0, 64))
                file.sync()
            except IoFailed:
                continue
        return [(call.name, call.error) for call in storage.audit]

    assert trace(5) == trace(5)
    assert trace(5) != trace(6)


def test_a_flipped_bit_stays_flipped() -> None:
    storage = disk()
    storage.put(FILE, b"\0\0")
    storage.flip(FILE, 1, 3)
    storage.crash()
    assert storage.read_all(FILE) == b"\0\x08"


def test_the_audit_names_call_file_and_range() -> None:
    storage = disk()
    storage.put(FILE, b"")
    storage.open(FILE, create=False).write(4, b"abc")
    last = storage.audit[-1]
    assert (last.name, last.path, last.offset, last.size, last.error) == ("write", FILE, 4, 3, 0)


def test_a_copy_is_another_disk() -> None:
    storage = disk()
    storage.put(FILE, b"1")
    other = storage.copy(Random(2))
    storage.flip(FILE, 0)
    assert other.read_all(FILE) == b"1"
