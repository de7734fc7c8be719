"""What a record says and when it may be tried, as tables."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levrier.actors.superblock.core import SuperblockCore
from levrier.persistence.superblock import VsrState

IDENTITY = VsrState(cluster=9, replica_id=2, replica_count=3)
MILLI = 1_000_000


def core(state: VsrState = IDENTITY, *, durable: bool = True) -> SuperblockCore:
    return SuperblockCore(state=state, durable=durable)


def test_a_record_that_was_never_written_is_not_durable() -> None:
    assert core().is_durable
    assert not core(durable=False).is_durable


def test_views_and_checkpoints_are_merged_into_one_record() -> None:
    subject = core()
    subject.merge_view(view=4, log_view=2, commit_max=11)
    assert subject.merge_checkpoint(op=8, checksum=77)
    subject.merge_view(view=5, log_view=5, commit_max=12)

    record = subject.record
    assert (record.view, record.log_view, record.commit_max) == (5, 5, 12)
    assert (record.checkpoint_op, record.checkpoint_checksum) == (8, 77)
    assert (record.cluster, record.replica_id, record.replica_count) == (9, 2, 3)


def test_a_snapshot_vouches_for_its_ops() -> None:
    subject = core()
    subject.merge_checkpoint(op=40, checksum=1)
    assert subject.record.commit_max == 40


def test_a_snapshot_of_the_same_op_takes_the_place_of_the_other() -> None:
    subject = core()
    subject.merge_checkpoint(op=8, checksum=77)
    assert subject.merge_checkpoint(op=8, checksum=78)
    assert subject.record.checkpoint_checksum == 78
    assert not subject.merge_checkpoint(op=7, checksum=79)
    assert (subject.record.checkpoint_op, subject.record.checkpoint_checksum) == (8, 78)


views = st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 500)).map(
    lambda each: (max(each[0], each[1]), min(each[0], each[1]), each[2])
)
checkpoints = st.tuples(st.integers(1, 500), st.integers(0, 2**128 - 1))


@given(st.lists(st.one_of(views, checkpoints)))
def test_no_field_ever_goes_back(asked: list[tuple[int, ...]]) -> None:
    subject = core()
    for each in asked:
        before = subject.record
        if len(each) == 3:
            subject.merge_view(view=each[0], log_view=each[1], commit_max=each[2])
        else:
            subject.merge_checkpoint(op=each[0], checksum=each[1])
        after = subject.record
        assert after.view >= before.view
        assert after.log_view >= before.log_view
        assert after.commit_max >= before.commit_max
        assert after.checkpoint_op >= before.checkpoint_op
        assert after.log_view <= after.view
        if len(each) == 3:
            assert after.checkpoint_checksum == before.checkpoint_checksum
            assert after.view >= each[0]


def test_a_log_view_above_its_view_is_our_bug() -> None:
    with pytest.raises(AssertionError):
        core().merge_view(view=1, log_view=2, commit_max=0)


def test_the_wait_doubles_from_20_ms_up_to_a_second() -> None:
    subject = core()
    waits = []
    for _ in range(12):
        subject.on_failed(5 * MILLI, is_full=False)
        waits.append(subject.gate_wait_nanos(5 * MILLI) // MILLI)
    assert waits == [20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1000, 1000, 1000]


def test_the_wait_ends_with_time_or_with_a_success() -> None:
    subject = core()
    subject.on_failed(0, is_full=False)
    assert subject.gate_wait_nanos(19 * MILLI) == MILLI
    assert subject.gate_wait_nanos(20 * MILLI) == 0

    subject.on_failed(0, is_full=False)
    assert subject.failures == 2
    subject.on_written(subject.record)
    assert (subject.failures, subject.gate_wait_nanos(0)) == (0, 0)


def test_a_disk_that_stays_broken_is_reported_ever_more_rarely() -> None:
    subject = core()
    lines = []
    for number in range(1, 20):
        subject.on_failed(0, is_full=False)
        if subject.is_failure_worth_a_line:
            lines.append(number)
    assert lines == [1, 2, 4, 8, 16]


def test_a_full_disk_and_a_broken_one_are_counted_apart() -> None:
    """BR-51: being full for long is no reason to end at the first other failure."""
    subject = core()
    for _ in range(500):
        subject.on_failed(0, is_full=True)
    assert (subject.failures, subject.is_full) == (500, True)
    subject.on_failed(0, is_full=False)
    assert (subject.failures, subject.is_full) == (1, False)
    subject.on_failed(0, is_full=True)
    subject.on_written(subject.record)
    assert (subject.failures, subject.is_full) == (0, False)


def test_only_a_settled_cut_takes_the_mark_away() -> None:
    """D-24: neither a new view nor a checkpoint does, and settling needs no other news."""
    core = SuperblockCore(state=replace(IDENTITY, log_cut=True), durable=True)
    core.merge_view(view=4, log_view=0, commit_max=0)
    core.merge_checkpoint(op=7, checksum=1)
    assert core.record.log_cut
    core.merge_view(view=4, log_view=0, commit_max=0, settles_cut=True)
    assert not core.record.log_cut
    core.merge_view(view=5, log_view=0, commit_max=0)
    assert not core.record.log_cut


def test_a_record_that_fell_behind_the_durable_one_is_found() -> None:
    subject = core(replace(IDENTITY, view=4, log_view=4))
    subject._record = IDENTITY
    with pytest.raises(AssertionError):
        subject.on_failed(0, is_full=False)
