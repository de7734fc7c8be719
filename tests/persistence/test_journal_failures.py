"""The log after a call failed: refused until truncated, or poisoned until reopened (persistence 2.4, D-25)."""

from __future__ import annotations

import errno
from random import Random

import pytest

from levrier.persistence.errors import (
    AppendRefused,
    IoFailed,
    JournalPoisoned,
)
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.simulated_storage import SimulatedStorage
from tests.persistence.prepares import JOURNAL, chain, frames, open_journal, ops, prepare


def disk(seed: int = 1) -> SimulatedStorage:
    return SimulatedStorage(Random(seed))


def fail_call(storage: SimulatedStorage, number: int) -> None:
    """Have the call fail that is this many calls ahead."""
    storage.faults.fail_at[storage.calls + number] = errno.EIO


def poisoned_journal(storage: SimulatedStorage) -> PrepareJournal:
    """Ops 2 and 3, poisoned by the directory sync of a drain."""
    journal = open_journal(storage)
    journal.append(chain(1, 3))
    probe = storage.copy(Random(1))
    other = open_journal(probe)
    before = probe.calls
    other.drain(1)
    fail_call(storage, probe.calls - before - 1)
    with pytest.raises(JournalPoisoned):
        journal.drain(1)
    return journal


def test_s151_a_poisoned_journal_refuses_appends() -> None:
    """S-151."""
    storage = disk()
    journal = poisoned_journal(storage)
    before = storage.content(JOURNAL)
    with pytest.raises(JournalPoisoned, match="before its directory was synced"):
        journal.append([prepare(4)])
    assert storage.content(JOURNAL) == before


def test_s152_a_poisoned_journal_refuses_drains_and_truncations() -> None:
    """S-152."""
    storage = disk()
    journal = poisoned_journal(storage)
    before = storage.content(JOURNAL)
    with pytest.raises(JournalPoisoned, match="before its directory was synced"):
        journal.drain(2)
    with pytest.raises(JournalPoisoned, match="before its directory was synced"):
        journal.truncate_from(2)
    journal.write_durable_mark()
    assert storage.content(JOURNAL) == before


def test_s153_a_poisoned_journal_reads_nothing() -> None:
    """S-153."""
    assert poisoned_journal(disk()).entry(2) is None


def test_s154_a_poisoned_journal_says_why_when_asked() -> None:
    """S-154."""
    journal = poisoned_journal(disk())
    header = journal.header(2)
    assert header is not None
    with pytest.raises(JournalPoisoned, match="before its directory was synced"):
        journal.entry_at(header)


def test_s155_a_poisoned_journal_answers_from_memory() -> None:
    """S-155."""
    journal = poisoned_journal(disk())
    assert journal.last_op == 3
    assert ops(journal) == [2, 3]
    assert journal.poisoned is not None


def test_reopening_clears_the_poison() -> None:
    storage = disk()
    poisoned_journal(storage).close()
    journal = open_journal(storage, snapshot_op=1)
    assert journal.poisoned is None
    journal.append([prepare(4)])


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_after_a_failed_append_everything_is_refused_until_truncated(call: int, error: int) -> None:
    """D-25: a truncation after a failed append rewrites the file, though there is nothing to remove."""
    storage = disk()
    journal = open_journal(storage)
    entries = chain(1, 4)
    journal.append(entries[:2])
    storage.faults.fail_at[storage.calls + call] = error
    with pytest.raises(IoFailed):
        journal.append([entries[2]])
    assert journal.last_op == 2
    assert journal.header(3) is None
    with pytest.raises(AppendRefused):
        journal.append([entries[3]])
    with pytest.raises(AppendRefused):
        journal.append([entries[2]])
    before = storage.calls
    journal.write_durable_mark()
    assert storage.calls == before
    epoch = (storage.content(JOURNAL) or b"")[24:32]
    assert journal.truncate_from(3) == 0
    assert (storage.content(JOURNAL) or b"")[24:32] != epoch
    journal.append(entries[2:])
    journal.close()
    assert frames(open_journal(storage)) == {entry.header.op: entry.frame for entry in entries}


def test_a_truncation_above_the_failed_op_keeps_refusing() -> None:
    """A truncation that was sent before the failure was known must not let op 4 in above a hole at 3."""
    storage = disk()
    journal = open_journal(storage)
    journal.append(chain(1, 2))
    storage.faults.fail_at[storage.calls + 2] = errno.EIO
    with pytest.raises(IoFailed):
        journal.append([prepare(3)])
    journal.truncate_from(4)
    with pytest.raises(AppendRefused):
        journal.append([prepare(4)])
    journal.truncate_from(3)
    journal.append([prepare(3)])


def test_a_failed_repair_below_the_head_does_not_cost_the_head() -> None:
    """The hole at 2 could not be filled: entries 3 and 4 stay, the file is rewritten, the repair is tried again."""
    storage = disk()
    journal = open_journal(storage)
    entries = chain(1, 4)
    journal.append([entries[0], entries[2], entries[3]])
    storage.faults.fail_at[storage.calls + 1] = errno.EIO
    with pytest.raises(IoFailed):
        journal.append([entries[1]])
    assert journal.failed_from == 5
    assert journal.truncate_from(5) == 0
    journal.append([entries[1]])
    journal.close()
    assert ops(open_journal(storage)) == [1, 2, 3, 4]


def test_a_failed_truncation_can_be_tried_again() -> None:
    storage = disk()
    journal = open_journal(storage)
    journal.append(chain(1, 4))
    storage.faults.fail_at[storage.calls + 2] = errno.ENOSPC
    with pytest.raises(IoFailed):
        journal.truncate_from(3)
    assert ops(journal) == [1, 2, 3, 4]
    assert journal.poisoned is None
    assert journal.truncate_from(3) == 2
