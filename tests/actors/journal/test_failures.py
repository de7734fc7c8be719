"""A failed append refuses everything behind it until the truncation that is owed for it (design section 3, rule 8)."""

import errno

import pytest

from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.consensus import messages as consensus
from levrier.actors.journal import messages as journal
from levrier.actors.runtime import ExitStatus
from levrier.persistence.journal_format import FILE_HEADER_SIZE, RECORD_HEADER_SIZE
from levrier.persistence.simulated_storage import SimulatedStorage
from tests.actors.journal.rig import SLOTS, WAL, JournalRig, append, ops_on_disk, position


def failed(rig: JournalRig) -> list[consensus.AppendFailed]:
    """The failures that were told, and nothing else."""
    found = []
    for message in rig.consensus.take_all():
        assert isinstance(message, consensus.AppendFailed), message
        found.append(message)
    return found


def fail_next(storage: SimulatedStorage, name: str, error: int = errno.EIO, *, body_size: int = 24) -> None:
    """Have the next call of that name fail, as a dry run on a twin shows its number."""
    twin = JournalRig(storage=storage.copy(storage._random), snapshot_op=0)
    before = twin.storage.calls
    ahead = len(ops_on_disk(storage.copy(storage._random))) + 1
    twin.tell(append(ahead, body_size=body_size))
    number = next(call.number for call in twin.storage.audit if call.number > before and call.name == name)
    storage.faults.fail_at[storage.calls + number - before] = error


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("name", ["write", "datasync"])
def test_a_failed_batch_names_all_of_its_positions(name: str, error: int) -> None:
    rig = JournalRig()
    fail_next(rig.storage, name, error)

    rig.tell(append(1))

    (message,) = failed(rig)
    assert message.positions == (position(1),)
    assert errno.errorcode[error] in message.reason


@pytest.mark.parametrize("seed", range(8))
def test_everything_behind_a_failure_is_refused_until_the_truncation(seed: int) -> None:
    """BR-48: the disk is fine again at once, and no operator is needed."""
    rig = JournalRig(seed=seed)
    rig.tell(append(1))
    assert rig.durable_ops() == [1]
    fail_next(rig.storage, "datasync", errno.EIO)

    rig.tell(append(2), append(3), append(4))
    rig.tell(append(5))

    messages = failed(rig)
    assert [each.op for message in messages for each in message.positions] == [2, 3, 4, 5]
    assert all("EIO" in message.reason for message in messages)
    assert "refused until a truncation from op 2" in messages[-1].reason

    rig.tell(journal.Truncate(from_op=2), append(2), append(3))

    assert rig.consensus.take() == consensus.Truncated(from_op=2)
    assert rig.durable_ops() == [2, 3]
    assert ops_on_disk(rig.storage) == [1, 2, 3]


def test_a_truncation_above_the_failure_does_not_end_the_refusal() -> None:
    rig = JournalRig()
    fail_next(rig.storage, "write")
    rig.tell(append(1))
    assert len(failed(rig)) == 1

    rig.tell(journal.Truncate(from_op=2), append(2))

    assert rig.consensus.take() == consensus.Truncated(from_op=2)
    (message,) = failed(rig)
    assert message.positions == (position(2),)
    assert message.reason.startswith("refused until a truncation from op 1: ")
    assert "EIO" in message.reason


def test_a_failed_truncation_leaves_the_refusal_in_place() -> None:
    rig = JournalRig()
    fail_next(rig.storage, "write")
    rig.tell(append(1))
    assert len(failed(rig)) == 1
    rig.storage.faults.fail_at[rig.storage.calls + 1] = errno.ENOSPC

    rig.tell(journal.Truncate(from_op=1))
    answer = rig.consensus.take()
    rig.tell(append(1))

    assert isinstance(answer, consensus.TruncateFailed)
    assert answer.from_op == 1
    assert "ENOSPC" in answer.reason
    assert [each.positions for each in failed(rig)] == [(position(1),)]

    rig.tell(journal.Truncate(from_op=1), append(1))
    assert rig.consensus.take() == consensus.Truncated(from_op=1)
    assert rig.durable_ops() == [1]


def test_refusals_and_the_truncation_are_answered_in_the_order_they_were_asked() -> None:
    rig = JournalRig()
    fail_next(rig.storage, "write")
    rig.tell(append(1))
    rig.consensus.take()

    rig.tell(append(2), journal.Truncate(from_op=1))

    assert isinstance(rig.consensus.take(), consensus.AppendFailed)
    assert rig.consensus.take() == consensus.Truncated(from_op=1)


def test_a_slot_that_no_snapshot_covers_is_not_overwritten() -> None:
    rig = JournalRig()
    rig.tell(*(append(op) for op in range(1, SLOTS + 1)))
    assert rig.durable_ops() == list(range(1, SLOTS + 1))

    rig.tell(append(SLOTS + 1))

    (message,) = failed(rig)
    assert message.positions == (position(SLOTS + 1),)
    assert "slot collision" in message.reason

    rig.tell(journal.Drain(up_to=8), journal.Truncate(from_op=SLOTS + 1), append(SLOTS + 1))
    assert rig.consensus.take() == consensus.Truncated(from_op=SLOTS + 1)
    assert rig.durable_ops() == [SLOTS + 1]


def test_an_op_that_is_there_already_is_refused_and_stays() -> None:
    rig = JournalRig()
    rig.tell(append(1), append(2))
    assert rig.durable_ops() == [1, 2]

    rig.tell(append(2))

    (message,) = failed(rig)
    assert message.positions == (position(2),)
    assert rig.read(1, 9) == [1, 2]


def test_a_truncation_from_op_0_is_refused() -> None:
    rig = JournalRig()
    rig.tell(append(1), journal.Truncate(from_op=0))

    assert rig.consensus.take() == consensus.Appended(positions=(position(1),))
    answer = rig.consensus.take()
    assert isinstance(answer, consensus.TruncateFailed)
    assert rig.read(1, 1) == [1]


def test_br51_no_space_at_any_byte_of_an_append_costs_nothing_that_was_acknowledged() -> None:
    """BR-51, BR-48: the disk is full after each byte in turn. Space is freed: both going on and a restart work."""
    record_size = 40 + len(append(2).prepare.frame)
    for budget in range(record_size):
        rig = JournalRig()
        rig.tell(append(1))
        assert rig.durable_ops() == [1]
        rig.storage.faults.write_budget = budget
        rig.tell(append(2))
        assert [each.positions for each in failed(rig)] == [(position(2),)]
        rig.storage.faults.write_budget = None

        restarted = rig.storage.copy(rig.storage._random)
        assert ops_on_disk(restarted) in ([1], [1, 2])
        rig.tell(journal.Truncate(from_op=2), append(2), append(3))

        assert rig.consensus.take() == consensus.Truncated(from_op=2)
        assert rig.durable_ops() == [2, 3]
        assert ops_on_disk(rig.storage) == [1, 2, 3]


def poisoned() -> JournalRig:
    """A log whose rewrite was renamed into place and then not made durable."""
    rig = JournalRig()
    rig.tell(*(append(op) for op in range(1, 5)))
    assert rig.durable_ops() == [1, 2, 3, 4]
    twin = JournalRig(storage=rig.storage.copy(rig.storage._random))
    before = twin.storage.calls
    twin.tell(journal.Drain(up_to=2))
    number = next(call.number for call in twin.storage.audit if call.number > before and call.name == "sync_directory")
    rig.storage.faults.fail_at[rig.storage.calls + number - before] = errno.EIO
    rig.tell(journal.Drain(up_to=2))
    answer = rig.checkpoint.take()
    assert isinstance(answer, checkpoint.DrainFailed)
    assert answer.up_to == 2
    assert "poisoned" in answer.reason
    return rig


def test_s151_a_poisoned_log_refuses_an_append_with_its_reason() -> None:
    """S-151: the file stays untouched."""
    rig = poisoned()
    content = rig.storage.content(WAL)

    rig.tell(append(5))

    (message,) = failed(rig)
    assert message.positions == (position(5),)
    assert "poisoned" in message.reason
    assert rig.storage.content(WAL) == content


def test_s152_a_poisoned_log_refuses_a_drain_with_its_reason() -> None:
    """S-152: the file stays untouched."""
    rig = poisoned()
    content = rig.storage.content(WAL)

    rig.tell(journal.Drain(up_to=3))

    answer = rig.checkpoint.take()
    assert isinstance(answer, checkpoint.DrainFailed)
    assert "poisoned" in answer.reason
    assert rig.storage.content(WAL) == content


def test_a_poisoned_log_refuses_a_truncation_with_its_reason() -> None:
    rig = poisoned()
    content = rig.storage.content(WAL)

    rig.tell(journal.Truncate(from_op=3))

    answer = rig.consensus.take()
    assert isinstance(answer, consensus.TruncateFailed)
    assert "poisoned" in answer.reason
    assert rig.storage.content(WAL) == content


def test_a_truncation_that_cannot_copy_what_stays_ends_the_node() -> None:
    """No later try could do better, and until one succeeds nothing is appended: a boot has to say what is to be done."""
    rig = JournalRig()
    rig.tell(*(append(op) for op in range(1, 5)))
    assert rig.durable_ops() == [1, 2, 3, 4]
    rig.storage.flip(WAL, FILE_HEADER_SIZE + RECORD_HEADER_SIZE + 70)
    content = rig.storage.content(WAL)

    rig.tell(journal.Truncate(from_op=3))

    (failure,) = rig.runtime.failures
    assert failure.status is ExitStatus.LOG_UNRECONCILABLE
    assert "cannot be cut at op 3" in failure.reason
    assert "(op 1)" in failure.reason
    assert rig.storage.content(WAL) == content
    rig.consensus.assert_silent()


def test_s153_a_poisoned_log_reads_as_nothing() -> None:
    """S-153, S-155: the index still knows op 3, yet its bytes are not vouched for."""
    assert poisoned().read(3, 4) == []


def test_a_poisoned_log_ends_the_node() -> None:
    """Persistence 2.4: only a restart opens it anew, so the node does not go on refusing for ever."""
    rig = poisoned()
    rig.tell(journal.Tick())
    [failure] = rig.runtime.failures
    assert failure.status == ExitStatus.LOG_UNRECONCILABLE
    assert "restart" in failure.reason


def test_a_poisoned_log_is_whole_after_a_restart() -> None:
    rig = poisoned()
    rig.runtime.stop()
    rig.storage.crash()

    assert ops_on_disk(rig.storage, snapshot_op=2) in ([1, 2, 3, 4], [3, 4])
