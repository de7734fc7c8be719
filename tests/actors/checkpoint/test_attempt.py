"""One attempt, step by step: each step only when the one before is durable, any failure ends it, stale answers are dropped."""

import errno

import pytest

from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.checkpoint.core import CheckpointCore, Phase
from levrier.actors.consensus import messages as consensus
from levrier.actors.journal import messages as journal
from levrier.actors.runtime import ExitStatus
from levrier.actors.superblock import messages as superblock
from levrier.persistence.simulated_storage import Tear
from tests.actors.checkpoint.rig import (
    DIRECTORY,
    SNAPSHOT,
    TEMPORARY,
    CheckpointRig,
    captured,
    file_content,
    info,
    new_storage,
    payload,
)
from tests.actors.journal.rig import Witness

WRITE_CALLS = ("create", "truncate", "write", "write trailer", "sync", "rename", "sync_directory")


def test_an_attempt_goes_snapshot_superblock_drain() -> None:
    rig = CheckpointRig()

    rig.tell(captured(9))
    assert rig.superblock.take() == superblock.RecordCheckpoint(op=9, checksum=info(9).checksum)
    rig.assert_silent()

    rig.tell(checkpoint.CheckpointRecorded(op=9))
    assert rig.journal.take() == journal.Drain(up_to=8)
    rig.assert_silent()

    rig.tell(checkpoint.Drained(up_to=8, log_size=5000))
    assert rig.consensus.take() == consensus.CheckpointDone(op=9, snapshot_size=len(payload(9)), log_size=5000)
    rig.assert_silent()


def test_the_file_has_the_layout_of_a_snapshot() -> None:
    rig = CheckpointRig()

    rig.tell(captured(9))

    assert rig.storage.content(SNAPSHOT) == file_content(9)
    assert not rig.storage.exists(TEMPORARY)


@pytest.mark.parametrize("stream_size", [100, 1_000_000])
def test_the_superblock_hears_of_a_snapshot_only_when_it_is_durable(stream_size: int) -> None:
    """BR-19: file and directory were synced at the moment it is told."""
    storage = new_storage()
    witness = Witness(lambda: storage.is_durable(SNAPSHOT))
    rig = CheckpointRig(storage=storage, superblock_recipient=witness)

    rig.tell(captured(9, stream_size=stream_size))

    assert witness.seen == [True]
    storage.crash(tear=Tear.LOSE)
    assert storage.content(SNAPSHOT) == file_content(9, stream_size=stream_size)


def test_one_attempt_follows_another() -> None:
    rig = CheckpointRig()
    for op in (3, 9, 27):
        rig.tell(captured(op))
        rig.finish(op)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("call", range(1, len(WRITE_CALLS) + 1), ids=WRITE_CALLS)
def test_a_snapshot_that_is_not_written_ends_the_attempt_and_the_next_one_is_good(call: int, error: int) -> None:
    """BR-48, D-27: nothing was named or drained, no half-written file stays, and freeing the disk is enough."""
    rig = CheckpointRig()
    rig.tell(captured(3))
    rig.finish(3)
    rig.fail(call, error)

    rig.tell(captured(9))

    assert errno.errorcode[error] in rig.failed(9)
    assert not rig.storage.exists(TEMPORARY)
    renamed = WRITE_CALLS[call - 1] == "sync_directory"
    assert rig.storage.content(SNAPSHOT) == file_content(9 if renamed else 3)
    rig.tell(captured(9))
    rig.finish(9)


def test_a_temporary_file_that_stays_is_overwritten_by_the_next_attempt() -> None:
    rig = CheckpointRig()
    rig.fail(3, errno.EIO)
    rig.fail(4, errno.EIO)
    rig.tell(captured(9))
    assert "EIO" in rig.failed(9)
    assert rig.storage.exists(TEMPORARY)

    rig.tell(captured(10))

    rig.finish(10)
    assert not rig.storage.exists(TEMPORARY)


def test_br51_no_space_at_any_byte_of_a_snapshot_keeps_the_one_before() -> None:
    """BR-51, BR-48: and the next attempt is good once space is freed."""
    for budget in range(0, len(file_content(9)), 3):
        rig = CheckpointRig()
        rig.tell(captured(3))
        rig.finish(3)
        rig.storage.faults.write_budget = budget
        rig.tell(captured(9))
        assert "ENOSPC" in rig.failed(9)
        assert rig.storage.content(SNAPSHOT) == file_content(3)

        rig.storage.faults.write_budget = None
        rig.tell(captured(9))

        rig.finish(9)


def test_a_superblock_that_refuses_ends_the_attempt_undrained() -> None:
    rig = CheckpointRig()
    rig.tell(captured(9))
    rig.superblock.take()

    rig.tell(checkpoint.RecordFailed(op=9, reason="the disk says no"))

    assert rig.failed(9) == "the disk says no"
    rig.tell(captured(12))
    rig.finish(12)


def test_a_log_that_refuses_ends_the_attempt() -> None:
    rig = CheckpointRig()
    rig.tell(captured(9))
    rig.superblock.take()
    rig.tell(checkpoint.CheckpointRecorded(op=9))
    rig.journal.take()

    rig.tell(checkpoint.DrainFailed(up_to=8, reason="poisoned"))

    assert rig.failed(9) == "poisoned"
    rig.tell(captured(12))
    rig.finish(12)


def test_a_retry_at_the_same_op_does_not_write_the_snapshot_again() -> None:
    """The superblock may name it already: other bytes at the same op, and a crash, would be refused at boot."""
    rig = CheckpointRig()
    rig.tell(captured(9))
    rig.superblock.take()
    rig.tell(checkpoint.RecordFailed(op=9, reason="no"))
    rig.consensus.take()
    calls = rig.storage.calls

    rig.tell(captured(9, stream_size=7))

    assert rig.storage.calls == calls
    rig.finish(9)


def test_the_snapshot_that_boot_found_is_not_written_again_either() -> None:
    rig = CheckpointRig(last=info(9))
    calls = rig.storage.calls

    rig.tell(captured(9))

    assert rig.storage.calls == calls
    rig.finish(9)


def test_a_snapshot_whose_name_may_be_lost_is_written_again() -> None:
    rig = CheckpointRig()
    rig.fail(len(WRITE_CALLS), errno.EIO)
    rig.tell(captured(9))
    assert "sync-directory" in rig.failed(9)

    rig.tell(captured(9))

    assert rig.storage.is_durable(SNAPSHOT)
    rig.finish(9)


def test_the_op_of_the_snapshot_file_never_decreases() -> None:
    """D-26."""
    rig = CheckpointRig(last=info(20))

    rig.tell(captured(19))

    assert rig.failed(19) == "the snapshot file holds op 20, which is newer"
    assert not rig.storage.exists(SNAPSHOT)
    rig.tell(captured(21))
    rig.finish(21)


def test_a_file_that_was_renamed_but_not_synced_counts_as_the_newest() -> None:
    rig = CheckpointRig()
    rig.fail(len(WRITE_CALLS), errno.EIO)
    rig.tell(captured(9))
    rig.failed(9)

    rig.tell(captured(8))

    assert "holds op 9" in rig.failed(8)


def test_a_snapshot_that_never_took_its_place_stands_in_nobodys_way() -> None:
    rig = CheckpointRig()
    rig.fail(3, errno.EIO)
    rig.tell(captured(9))
    rig.failed(9)

    rig.tell(captured(8))

    rig.finish(8)


def test_nothing_is_written_before_the_first_op() -> None:
    """The superblock says op 0 for "no snapshot", so a file at op 0 could not be paired."""
    rig = CheckpointRig()
    calls = rig.storage.calls

    rig.tell(captured(0))

    assert rig.failed(0) == "nothing was applied yet"
    assert rig.storage.calls == calls


def test_at_op_1_everything_below_it_goes() -> None:
    rig = CheckpointRig()
    rig.tell(captured(1))
    rig.superblock.take()
    rig.tell(checkpoint.CheckpointRecorded(op=1))
    assert rig.journal.take() == journal.Drain(up_to=0)


STALE: tuple[checkpoint.Command, ...] = (
    checkpoint.Continue(attempt=99),
    checkpoint.CheckpointRecorded(op=8),
    checkpoint.RecordFailed(op=8, reason="stale"),
    checkpoint.Drained(up_to=7, log_size=1),
    checkpoint.DrainFailed(up_to=7, reason="stale"),
)


def test_stale_answers_change_nothing_in_any_phase() -> None:
    rig = CheckpointRig()
    rig.tell(*STALE)
    rig.assert_silent()

    chunks: list[int] = []
    rig.address.tell(captured(9, stream_size=1_000_000, between=lambda: chunks.append(1)))
    rig.runtime.advance(2)
    written = len(chunks)
    assert 0 < written < 10
    for each in STALE:
        rig.address.tell(each)
    rig.runtime.run()
    assert len(chunks) == written
    rig.assert_silent()

    rig.runtime.advance(1000)
    rig.superblock.take()
    rig.tell(*STALE, checkpoint.Continue(attempt=1), checkpoint.Drained(up_to=8, log_size=1))
    rig.assert_silent()

    rig.tell(checkpoint.CheckpointRecorded(op=9))
    rig.journal.take()
    rig.tell(*STALE, checkpoint.CheckpointRecorded(op=9), checkpoint.RecordFailed(op=9, reason="stale"))
    rig.assert_silent()

    rig.tell(checkpoint.Drained(up_to=8, log_size=1))
    assert isinstance(rig.consensus.take(), consensus.CheckpointDone)
    rig.tell(*STALE, checkpoint.Drained(up_to=8, log_size=1), checkpoint.DrainFailed(up_to=8, reason="stale"))
    rig.assert_silent()
    assert rig.runtime.failures == []


@pytest.mark.parametrize("phase", ["writing", "naming", "draining"])
def test_a_second_capture_during_an_attempt_is_our_bug(phase: str) -> None:
    rig = CheckpointRig()
    rig.address.tell(captured(9))
    rig.runtime.run()
    if phase != "writing":
        rig.runtime.advance(1000)
    if phase == "draining":
        rig.tell(checkpoint.CheckpointRecorded(op=9))

    rig.tell(captured(10))

    assert [failure.status for failure in rig.runtime.failures] == [ExitStatus.ACTOR_FAILED]
    assert "during the attempt at op 9" in rig.runtime.failures[0].reason


def test_a_stop_in_the_middle_leaves_no_file_behind() -> None:
    rig = CheckpointRig()
    rig.address.tell(captured(9, stream_size=1_000_000))
    rig.runtime.advance(5)
    assert rig.storage.exists(TEMPORARY)

    rig.runtime.stop()
    rig.runtime.advance(1000)

    assert rig.storage.list(DIRECTORY) == ()
    rig.assert_silent()


def test_a_large_state_is_written_in_bounded_slices_with_pauses() -> None:
    """Each slice is one message: 64 KiB of chunks, then the interpreter is anybody's for a millisecond."""
    rig = CheckpointRig()
    written = []
    rig.address.tell(captured(9, stream_size=1_000_000, chunk_size=10_000, between=lambda: written.append(1)))
    rig.runtime.run()
    assert written == []

    counts = []
    while not rig.superblock.count:
        before = len(written)
        rig.runtime.advance(1)
        counts.append(len(written) - before)

    assert sum(counts) == 101
    assert max(counts) == 7  # 70,000 bytes: the first multiple of a chunk above 64 KiB.
    assert counts.count(7) == 14
    assert rig.storage.content(SNAPSHOT) == file_content(9, stream_size=1_000_000)


def test_a_slice_ends_after_a_millisecond_whatever_it_has() -> None:
    rig = CheckpointRig()
    written = []

    def encode_slowly() -> None:
        written.append(1)
        rig.runtime.now_nanos += 600_000

    rig.address.tell(captured(9, stream_size=5_000, chunk_size=1_000, between=encode_slowly))
    steps = []
    while not rig.superblock.count:
        before = len(written)
        rig.runtime.advance(3)
        steps.append(len(written) - before)

    assert max(steps) <= 4
    assert sum(steps) == 6
    assert len([each for each in steps if each]) >= 2
    assert rig.storage.content(SNAPSHOT) == file_content(9, stream_size=5_000)


def test_an_attempt_that_would_name_what_is_not_durable_is_found() -> None:
    core = CheckpointCore(last=None)
    core.on_captured(9)
    assert core._attempt is not None
    core._attempt.phase = Phase.NAMING
    with pytest.raises(AssertionError):
        core.on_recorded(9)
