"""Drain, truncate, read and the durable mark: each sees the log as its sender left it."""

import errno

import pytest

from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.consensus import messages as consensus
from levrier.actors.journal import messages as journal
from levrier.actors.journal.actor import READ_SIZE_MAX
from levrier.persistence.errors import JournalDamaged
from tests.actors.journal.rig import WAL, JournalRig, append, open_journal, ops_on_disk

MARK_SIZE = 40


def marks(rig: JournalRig) -> int:
    """How many durable marks were written."""
    return sum(call.name == "write" and call.size == MARK_SIZE for call in rig.storage.audit)


def filled(count: int, *, seed: int = 1) -> JournalRig:
    rig = JournalRig(seed=seed)
    rig.tell(*(append(op) for op in range(1, count + 1)))
    assert rig.durable_ops() == list(range(1, count + 1))
    return rig


def test_c145_a_drain_keeps_the_entry_at_the_checkpoint() -> None:
    """C-145, S-177: five ops and a checkpoint at op 3, so 1 and 2 go and 3 stays."""
    rig = filled(5)

    rig.tell(journal.Drain(up_to=2))

    answer = rig.checkpoint.take()
    assert isinstance(answer, checkpoint.Drained)
    assert answer.up_to == 2
    assert rig.read(1, 5) == []
    assert rig.read(3, 9) == [3, 4, 5]
    assert ops_on_disk(rig.storage) == [3, 4, 5]
    rig.consensus.assert_silent()


def test_a_drain_tells_how_much_of_the_log_is_in_use() -> None:
    rig = filled(8)

    rig.tell(journal.Drain(up_to=4), journal.Drain(up_to=6))

    first, second = rig.checkpoint.take_all()
    assert isinstance(first, checkpoint.Drained)
    assert isinstance(second, checkpoint.Drained)
    assert first.log_size > second.log_size == open_journal(rig.storage).size


def test_s156_two_drains_at_once_are_handled_one_behind_the_other() -> None:
    """S-156: the mailbox is the gate, so the second finds nothing to remove; 5 to 8 stay and op 9 can be appended."""
    rig = filled(8)
    renames = rig.calls("rename")

    rig.tell(journal.Drain(up_to=4), journal.Drain(up_to=4), append(9))

    assert [type(answer) for answer in rig.checkpoint.take_all()] == [checkpoint.Drained, checkpoint.Drained]
    assert rig.calls("rename") == renames + 1
    assert rig.durable_ops() == [9]
    assert rig.read(5, 9) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("name", ["create", "write", "sync", "rename"])
def test_a_drain_that_fails_before_its_rename_changes_nothing(name: str) -> None:
    twin = filled(6)
    before = twin.storage.calls
    twin.tell(journal.Drain(up_to=3))
    offset = next(call.number for call in twin.storage.audit if call.number > before and call.name == name) - before
    rig = filled(6)
    content = rig.storage.content(WAL)
    rig.storage.faults.fail_at[rig.storage.calls + offset] = errno.ENOSPC

    rig.tell(journal.Drain(up_to=3))

    answer = rig.checkpoint.take()
    assert isinstance(answer, checkpoint.DrainFailed)
    assert answer.up_to == 3
    assert "ENOSPC" in answer.reason
    assert rig.storage.content(WAL) == content
    rig.tell(append(7))
    assert rig.durable_ops() == [7]
    assert rig.read(1, 7) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("seed", range(10))
def test_a_read_sees_what_was_told_before_it(seed: int) -> None:
    rig = JournalRig(seed=seed)

    rig.tell(append(1), append(2), journal.Read(from_op=1, to_op=9, reply_to=rig.reader), append(3))

    assert [each.header.op for each in rig.reader.take().prepares] == [1, 2]
    assert rig.durable_ops() == [1, 2, 3]


@pytest.mark.parametrize("seed", range(10))
def test_a_truncation_is_behind_the_appends_before_it(seed: int) -> None:
    rig = JournalRig(seed=seed)

    rig.tell(append(1), append(2), append(3), journal.Truncate(from_op=2), append(2))

    told = rig.consensus.take_all()
    at = told.index(consensus.Truncated(from_op=2))
    before = [each.op for message in told[:at] if isinstance(message, consensus.Appended) for each in message.positions]
    behind = [
        each.op for message in told[at + 1 :] if isinstance(message, consensus.Appended) for each in message.positions
    ]
    assert (before, behind) == ([1, 2, 3], [2])
    assert ops_on_disk(rig.storage) == [1, 2]


@pytest.mark.parametrize("seed", range(10))
def test_a_drain_is_behind_the_appends_before_it(seed: int) -> None:
    rig = JournalRig(seed=seed)

    rig.tell(append(1), append(2), append(3), journal.Drain(up_to=2))

    assert isinstance(rig.checkpoint.take(), checkpoint.Drained)
    assert rig.durable_ops() == [1, 2, 3]
    assert ops_on_disk(rig.storage) == [3]


def test_a_truncation_of_nothing_is_answered_too() -> None:
    rig = filled(2)
    content = rig.storage.content(WAL)

    rig.tell(journal.Truncate(from_op=3))

    assert rig.consensus.take() == consensus.Truncated(from_op=3)
    assert rig.storage.content(WAL) == content


def test_a_read_ends_at_the_first_gap() -> None:
    rig = JournalRig()
    rig.tell(append(1), append(2), append(4))

    assert rig.read(1, 4) == [1, 2]
    assert rig.read(3, 4) == []
    assert rig.read(4, 4) == [4]
    assert rig.read(4, 3) == []


def test_s154_a_read_ends_at_an_entry_that_went_bad() -> None:
    """S-154: the error of the log is not answered with wrong bytes."""
    rig = filled(3)
    content = rig.storage.content(WAL)
    assert content is not None
    rig.storage.flip(WAL, content.rindex(append(2).prepare.body) + 3)

    assert rig.read(1, 3) == [1]
    assert rig.read(3, 3) == [3]


def test_an_answer_to_read_is_bounded_but_never_empty_for_its_size() -> None:
    rig = JournalRig()
    half = READ_SIZE_MAX * 5 // 8
    rig.tell(append(1), append(2, body_size=half), append(3, body_size=half), append(4))

    assert rig.read(1, 4) == [1, 2]
    assert rig.read(3, 4) == [3, 4]
    rig.tell(append(5, body_size=READ_SIZE_MAX))
    assert rig.read(5, 5) == [5]


def test_an_idle_log_is_marked_once() -> None:
    """D-24: not at the tick behind an append but at the next, and never twice for the same log."""
    rig = filled(2)
    written = marks(rig)

    rig.tell(journal.Tick())
    assert marks(rig) == written
    rig.tell(journal.Tick())
    assert marks(rig) == written + 1
    calls = rig.storage.calls
    rig.tell(journal.Tick(), journal.Tick(), journal.Tick())

    assert rig.storage.calls == calls
    rig.consensus.assert_silent()
    rig.checkpoint.assert_silent()


def test_a_busy_log_is_not_marked() -> None:
    rig = filled(1)
    written = marks(rig)

    for op in range(2, 12):
        rig.tell(append(op))
        rig.tell(journal.Tick())

    assert marks(rig) == written


@pytest.mark.parametrize("seed", range(5))
def test_a_tick_between_an_append_and_its_write_marks_nothing(seed: int) -> None:
    rig = filled(2, seed=seed)
    rig.tell(journal.Tick())
    written = marks(rig)

    rig.tell(append(3), journal.Tick())

    assert marks(rig) == written


def damaged_tail_after(rig: JournalRig) -> list[int]:
    """The ops a boot finds once the last entry has lost a bit."""
    content = rig.storage.content(WAL)
    assert content is not None
    rig.storage.flip(WAL, content.rindex(append(3).prepare.body) + 3)
    return ops_on_disk(rig.storage)


def test_damage_behind_a_mark_is_never_taken_for_a_torn_tail() -> None:
    """D-24: without the mark the last entry is cut, with it the boot is refused."""
    rig = filled(3)
    assert damaged_tail_after(rig) == [1, 2]

    marked = filled(3)
    marked.tell(journal.Tick())
    marked.tell(journal.Tick())
    with pytest.raises(JournalDamaged):
        damaged_tail_after(marked)


def test_a_stop_marks_the_log_and_closes_it() -> None:
    """D-24: an orderly end leaves nothing that could pass for a torn tail."""
    rig = filled(3)
    written = marks(rig)

    rig.runtime.stop()

    assert marks(rig) == written + 1
    with pytest.raises(JournalDamaged):
        damaged_tail_after(rig)


def test_appends_that_wait_at_a_stop_are_written_first() -> None:
    rig = JournalRig()
    for op in (1, 2, 3):
        rig.address.tell(append(op))

    rig.runtime.stop()

    assert rig.durable_ops() == [1, 2, 3]
    assert ops_on_disk(rig.storage) == [1, 2, 3]


def test_a_mark_that_fails_is_tried_again_and_stops_nobody() -> None:
    rig = filled(2)
    rig.storage.faults.fail_at[rig.storage.calls + 1] = errno.EIO

    rig.tell(journal.Tick())
    rig.tell(journal.Tick())
    failed_calls = rig.storage.calls
    rig.tell(journal.Tick())

    assert rig.storage.calls > failed_calls
    rig.tell(append(3))
    assert rig.durable_ops() == [3]
    assert rig.runtime.failures == []
    assert ops_on_disk(rig.storage) == [1, 2, 3]
