"""One writer of the record: what it answers, what it never regresses, and how it bears a disk that refuses."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.consensus import messages as consensus
from levrier.actors.runtime import FatalReason, Probe, ThreadedRuntime
from levrier.actors.superblock import messages as superblock
from levrier.persistence.simulated_storage import Tear
from levrier.persistence.storage import DiskStorage
from levrier.persistence.superblock import SuperblockStore
from tests.actors.superblock.rig import DIRECTORY, FIRST, SuperblockRig, new_storage, on_disk, persist, record, start

WRITE_CALLS = ("create", "truncate", "write", "sync", "rename", "sync_directory")


def test_a_view_is_durable_before_it_is_told() -> None:
    rig = SuperblockRig()

    rig.tell(persist(3, 1, 40))

    assert rig.consensus.take() == consensus.ViewPersisted(view=3, log_view=1)
    rig.consensus.assert_silent()
    rig.checkpoint.assert_silent()
    rig.storage.crash(tear=Tear.LOSE)
    assert on_disk(rig.storage) == replace(FIRST, view=3, log_view=1, commit_max=40)


def test_a_checkpoint_is_recorded_beside_the_view() -> None:
    rig = SuperblockRig()
    rig.tell(persist(3, 1, 40))
    rig.consensus.take()

    rig.tell(record(30, 77))

    assert rig.checkpoint.take() == checkpoint.CheckpointRecorded(op=30)
    rig.checkpoint.assert_silent()
    rig.consensus.assert_silent()
    expected = replace(FIRST, view=3, log_view=1, commit_max=40, checkpoint_op=30, checkpoint_checksum=77)
    assert on_disk(rig.storage) == expected


def test_a_view_change_keeps_the_pairing() -> None:
    rig = SuperblockRig()
    rig.tell(record(30, 77))
    rig.tell(persist(4, 4))

    state = on_disk(rig.storage)
    assert (state.checkpoint_op, state.checkpoint_checksum, state.view) == (30, 77, 4)


def test_what_is_durable_already_is_answered_without_a_write() -> None:
    rig = SuperblockRig()
    rig.tell(persist(4, 4, 10), record(8))
    rig.consensus.take()
    rig.checkpoint.take()
    calls = rig.storage.calls

    rig.tell(persist(4, 4, 9), record(8))

    assert rig.storage.calls == calls
    assert rig.consensus.take() == consensus.ViewPersisted(view=4, log_view=4)
    assert rig.checkpoint.take() == checkpoint.CheckpointRecorded(op=8)


def test_the_first_record_is_written_even_when_it_says_nothing_new() -> None:
    storage = new_storage()
    for name in ("superblock.a", "superblock.b"):
        if storage.exists(DIRECTORY / name):
            storage.remove(DIRECTORY / name)
    rig = SuperblockRig(storage=storage)

    rig.tell(persist(0, 0))

    assert rig.consensus.take() == consensus.ViewPersisted(view=0, log_view=0)
    assert on_disk(storage) == FIRST


def test_an_older_checkpoint_is_refused_without_a_write() -> None:
    rig = SuperblockRig()
    rig.tell(record(30, 77))
    rig.checkpoint.take()
    calls = rig.storage.calls

    rig.tell(record(29, 78))

    answer = rig.checkpoint.take()
    assert isinstance(answer, checkpoint.RecordFailed)
    assert (answer.op, answer.reason) == (29, "the record names op 30 already")
    assert rig.storage.calls == calls


def test_what_waits_together_shares_one_write_and_each_is_answered() -> None:
    storage = new_storage()
    failures: list[FatalReason] = []
    runtime = ThreadedRuntime("node", arrangement={"superblock": "superblock"}, on_failure=failures.append)
    views: Probe[consensus.Command] = Probe("consensus")
    checkpoints: Probe[checkpoint.Command] = Probe("checkpoint")
    address = start(runtime, storage, DIRECTORY, consensus_probe=views, checkpoint_probe=checkpoints)
    renames = sum(call.name == "rename" for call in storage.audit)
    commands: list[superblock.Command] = [persist(1, 0), persist(2, 0, 7), record(5), persist(3, 3), persist(3, 3, 9)]
    for command in commands:
        address.tell(command)

    runtime.start()
    views.wait(4)
    checkpoints.wait()
    runtime.stop()

    assert failures == []
    assert sum(call.name == "rename" for call in storage.audit) == renames + 1
    assert views.take_all() == [consensus.ViewPersisted(view=3, log_view=3)] * 4
    assert checkpoints.take_all() == [checkpoint.CheckpointRecorded(op=5)]
    assert on_disk(storage) == replace(FIRST, view=3, log_view=3, commit_max=9, checkpoint_op=5, checkpoint_checksum=5)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("call", range(1, len(WRITE_CALLS) + 1), ids=WRITE_CALLS)
def test_s164_a_write_that_failed_midway_is_followed_by_one_that_is_the_latest(call: int, error: int) -> None:
    """S-164, BR-48: once the disk takes it again, the record is written without anybody's help."""
    rig = SuperblockRig()
    rig.fail(call, error)

    rig.tell(persist(3, 3))

    answer = rig.consensus.take()
    assert isinstance(answer, consensus.ViewPersistFailed)
    assert answer.failures == 1
    assert errno.errorcode[error] in answer.reason
    rig.consensus.assert_silent()

    rig.runtime.advance(20)
    rig.tell(persist(4, 3))
    assert rig.consensus.take() == consensus.ViewPersisted(view=4, log_view=3)
    rig.storage.crash(tear=Tear.LOSE)
    assert on_disk(rig.storage).view == 4


@pytest.mark.parametrize("call", range(1, len(WRITE_CALLS) + 1), ids=WRITE_CALLS)
def test_a_checkpoint_that_was_not_recorded_is_told_as_failed(call: int) -> None:
    rig = SuperblockRig()
    rig.fail(call, errno.EIO)

    rig.tell(record(5))

    answer = rig.checkpoint.take()
    assert isinstance(answer, checkpoint.RecordFailed)
    assert answer.op == 5
    assert "EIO" in answer.reason
    rig.checkpoint.assert_silent()
    rig.consensus.assert_silent()


def test_the_gate_waits_in_memory_and_then_tries_again() -> None:
    """Persistence 3.6: 20 ms after the first failure, 40 ms after the second; the disk is left alone meanwhile."""
    rig = SuperblockRig()
    for number, wait in enumerate((20, 40, 80), start=1):
        rig.fail(1, errno.EIO)
        rig.tell(persist(3, 3))
        answer = rig.consensus.take()
        assert isinstance(answer, consensus.ViewPersistFailed)
        assert answer.failures == number

        rig.runtime.advance(wait - 1)
        calls = rig.storage.calls
        rig.tell(persist(3, 3))

        assert rig.storage.calls == calls
        assert rig.consensus.take() == consensus.ViewPersistFailed(failures=number, reason="not tried for another 1 ms")
        rig.runtime.advance(1)
    rig.tell(persist(3, 3))
    assert rig.consensus.take() == consensus.ViewPersisted(view=3, log_view=3)

    rig.fail(1, errno.EIO)
    rig.tell(persist(4, 4))
    answer = rig.consensus.take()
    assert isinstance(answer, consensus.ViewPersistFailed)
    assert answer.failures == 1


def test_a_checkpoint_does_not_wait_for_the_gate_and_takes_the_view_along() -> None:
    rig = SuperblockRig()
    rig.fail(1, errno.EIO)
    rig.tell(persist(3, 3))
    rig.consensus.take()

    rig.tell(record(5))

    assert rig.checkpoint.take() == checkpoint.CheckpointRecorded(op=5)
    assert on_disk(rig.storage).view == 3
    rig.tell(persist(3, 3))
    assert rig.consensus.take() == consensus.ViewPersisted(view=3, log_view=3)


def test_the_failures_of_checkpoints_count() -> None:
    rig = SuperblockRig()
    for _ in range(2):
        rig.fail(1, errno.EIO)
        rig.tell(record(5))
    rig.runtime.advance(40)
    rig.fail(1, errno.EIO)

    rig.tell(persist(3, 3))

    answer = rig.consensus.take()
    assert isinstance(answer, consensus.ViewPersistFailed)
    assert answer.failures == 3


def test_a_damaged_copy_refuses_every_write_and_stays_as_it_is() -> None:
    storage = new_storage()
    SuperblockStore.open(storage, DIRECTORY).write(replace(FIRST, view=1))
    storage.flip(DIRECTORY / "superblock.a", 40)
    contents = [storage.content(DIRECTORY / name) for name in ("superblock.a", "superblock.b")]
    rig = SuperblockRig(storage=storage)

    rig.tell(persist(3, 3))
    rig.tell(record(5))

    assert isinstance(rig.consensus.take(), consensus.ViewPersistFailed)
    assert isinstance(rig.checkpoint.take(), checkpoint.RecordFailed)
    assert [storage.content(DIRECTORY / name) for name in ("superblock.a", "superblock.b")] == contents


@pytest.mark.parametrize("tear", list(Tear))
def test_a_crash_after_any_call_leaves_the_old_record_or_the_new(tear: Tear) -> None:
    """BR-19: never neither, and what was told is never the lost one."""
    first = SuperblockRig().storage.calls
    for crash_after in range(first, first + 2 * len(WRITE_CALLS) + 1):
        rig = SuperblockRig()
        rig.storage.faults.crash_after = crash_after
        rig.tell(persist(1, 1))
        rig.tell(record(7))
        told_view = rig.consensus.count == 1
        told_checkpoint = rig.checkpoint.count == 1

        rig.storage.crash(tear=tear)

        state = on_disk(rig.storage)
        assert (state.view, state.checkpoint_op) in {(0, 0), (1, 0), (1, 7)}
        assert state.view == 1 or not told_view
        assert state.checkpoint_op == 7 or not told_checkpoint
        assert rig.runtime.failures or told_checkpoint


def test_br51_no_space_at_any_byte_of_a_record_is_over_when_space_is_freed() -> None:
    """BR-51, BR-48: the old record stands while the disk is full; then the node goes on, and a restart finds the new."""
    for budget in range(120):
        rig = SuperblockRig()
        rig.storage.faults.write_budget = budget
        rig.tell(persist(3, 3))
        assert isinstance(rig.consensus.take(), consensus.ViewPersistFailed)
        assert on_disk(rig.storage.copy(rig.storage._random)) == FIRST

        rig.storage.faults.write_budget = None
        rig.runtime.advance(20)
        rig.tell(persist(3, 3))

        assert rig.consensus.take() == consensus.ViewPersisted(view=3, log_view=3)
        assert on_disk(rig.storage).view == 3


def test_the_record_lies_in_real_files(tmp_path: Path) -> None:
    failures: list[FatalReason] = []
    runtime = ThreadedRuntime("node", arrangement={"superblock": "superblock"}, on_failure=failures.append)
    views: Probe[consensus.Command] = Probe("consensus")
    checkpoints: Probe[checkpoint.Command] = Probe("checkpoint")
    address = start(runtime, DiskStorage(), tmp_path, consensus_probe=views, checkpoint_probe=checkpoints)
    runtime.start()

    address.tell(persist(2, 1, 3))
    views.wait()
    address.tell(record(3, 2**127))
    checkpoints.wait()
    runtime.stop()

    assert failures == []
    assert views.take() == consensus.ViewPersisted(view=2, log_view=1)
    expected = replace(FIRST, view=2, log_view=1, commit_max=3, checkpoint_op=3, checkpoint_checksum=2**127)
    assert on_disk(DiskStorage(), tmp_path) == expected
    assert sorted(each.name for each in tmp_path.iterdir()) == ["superblock.a", "superblock.b"]
