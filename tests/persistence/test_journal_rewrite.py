"""Truncation and drain in one go: what they remove, keep and refuse (persistence 2.4, 2.5)."""

from __future__ import annotations

from random import Random

import pytest

from levrier.persistence.errors import (
    InvalidInput,
    JournalBusy,
    StorageError,
)
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.journal_format import FILE_HEADER_SIZE, record_size
from levrier.persistence.journal_rewrite import CHUNK_SIZE
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.wire.prepare import Prepare
from tests.persistence.prepares import GROUP, JOURNAL, chain, frames, open_journal, ops, prepare


def disk(seed: int = 1) -> SimulatedStorage:
    return SimulatedStorage(Random(seed))


# Truncation


def test_s124_truncating_removes_the_suffix() -> None:
    """S-124."""
    journal = open_journal(disk())
    journal.append(chain(1, 5))
    assert journal.truncate_from(3) == 3
    assert (journal.snapshot_op, journal.last_op, ops(journal)) == (0, 2, [1, 2])
    assert sorted(frames(journal)) == [1, 2]


def test_s125_what_was_truncated_can_be_appended_again() -> None:
    """S-125."""
    journal = open_journal(disk())
    entries = chain(1, 4)
    journal.append(entries)
    journal.truncate_from(3)
    journal.append([entries[2]])
    journal.append([entries[3]])
    assert journal.last_op == 4


def test_s126_a_truncation_survives_a_reopen() -> None:
    """S-126."""
    storage = disk()
    journal = open_journal(storage)
    journal.append(chain(1, 4))
    journal.truncate_from(3)
    journal.close()
    journal = open_journal(storage)
    assert (journal.last_op, ops(journal)) == (2, [1, 2])


def test_truncating_nothing_leaves_the_file() -> None:
    storage = disk()
    journal = open_journal(storage)
    journal.append(chain(1, 2))
    before = storage.calls
    assert journal.truncate_from(3) == 0
    assert storage.calls == before


def test_truncating_everything_leaves_an_empty_log() -> None:
    storage = disk()
    journal = open_journal(storage)
    journal.append(chain(1, 2))
    assert journal.truncate_from(1) == 2
    assert journal.last_op is None
    journal.close()
    assert open_journal(storage).is_empty


def test_truncating_from_op_0_is_refused() -> None:
    journal = open_journal(disk())
    with pytest.raises(InvalidInput):
        journal.truncate_from(0)


def test_every_rewrite_has_a_fresh_epoch() -> None:
    """D-24: even when the source of epochs repeats itself or gives zero."""
    storage = disk()
    storage.make_directory(JOURNAL.parent)
    numbers = iter([0, 5, 5, 0, 6])
    journal = PrepareJournal.open(
        storage, JOURNAL, group=GROUP, snapshot_op=0, slots=8, epoch_source=lambda: next(numbers), preallocate_step=4096
    )
    first = storage.content(JOURNAL)
    journal.append(chain(1, 2))
    journal.truncate_from(2)
    second = storage.content(JOURNAL)
    assert first is not None
    assert second is not None
    assert (first[24], second[24]) == (5, 6)


# Drain


def test_s149_draining_gives_the_entries_and_shrinks_the_log() -> None:
    """S-149."""
    storage = disk()
    journal = open_journal(storage)
    entries = chain(1, 5)
    journal.append(entries)
    size = journal.size
    drained: list[Prepare] = []
    assert journal.drain(3, drained.append) == 3
    assert drained == entries[:3]
    assert journal.size < size
    assert (journal.snapshot_op, journal.last_op) == (3, 5)
    assert frames(journal) == {4: entries[3].frame, 5: entries[4].frame}
    journal.close()
    assert frames(open_journal(storage, snapshot_op=3)) == {4: entries[3].frame, 5: entries[4].frame}


def test_c145_a_drain_below_op_3_keeps_op_3() -> None:
    """C-145: the entry at the snapshot op stays."""
    journal = open_journal(disk())
    journal.append(chain(1, 5))
    snapshot_op = 3
    assert journal.drain(snapshot_op - 1) == 2
    assert ops(journal) == [3, 4, 5]


def test_draining_keeps_last_op_and_takes_further_entries() -> None:
    journal = open_journal(disk())
    entries = chain(1, 6)
    journal.append(entries[:5])
    assert journal.drain(5) == 5
    assert (journal.last_op, journal.is_empty) == (5, True)
    journal.append(entries[5:])
    assert ops(journal) == [6]


def test_draining_nothing_raises_the_watermark_only() -> None:
    storage = disk()
    journal = open_journal(storage)
    journal.append([prepare(5)])
    before = storage.calls
    assert journal.drain(4) == 0
    assert storage.calls == before
    assert journal.snapshot_op == 4


def test_a_drain_does_not_read_the_bodies_it_removes() -> None:
    """The first record that is read is the first survivor."""
    storage = disk()
    journal = open_journal(storage)
    entries = chain(1, 5)
    journal.append(entries)
    before = storage.calls
    journal.drain(3)
    reads = [call for call in storage.audit if call.number > before and call.name == "read"]
    survivor = FILE_HEADER_SIZE + sum(record_size(entry.header.size) for entry in entries[:3])
    assert [call.offset for call in reads] == [survivor]


def test_entries_above_the_chunk_are_copied_in_pieces() -> None:
    storage = disk()
    journal = open_journal(storage)
    entries = chain(1, 3, body=b"x" * (2 * CHUNK_SIZE + 17))
    for entry in entries:
        journal.append([entry])
    before = storage.calls
    journal.drain(1)
    assert all(call.size <= 2 * CHUNK_SIZE for call in storage.audit if call.number > before)
    assert frames(journal) == {entry.header.op: entry.frame for entry in entries[1:]}
    journal.close()
    assert frames(open_journal(storage)) == {entry.header.op: entry.frame for entry in entries[1:]}


@pytest.mark.parametrize("body_size", [10, CHUNK_SIZE + 100])
def test_a_drain_refuses_to_copy_what_went_bad(body_size: int) -> None:
    storage = disk()
    journal = open_journal(storage)
    journal.append(chain(1, 2, body=b"x" * body_size))
    storage.flip(JOURNAL, journal.size - 12)
    before = storage.content(JOURNAL)
    with pytest.raises(StorageError, match="op 2"):
        journal.drain(1)
    assert storage.content(JOURNAL) == before
    assert journal.poisoned is None
    assert not storage.exists(JOURNAL.with_name("journal.wal.tmp"))


def test_s156_of_two_drains_at_once_one_is_busy() -> None:
    """S-156: the only overlap that one owner can make is a callback that asks for a second drain."""
    journal = open_journal(disk())
    entries = chain(1, 9)
    journal.append(entries[:8])
    drained: list[Prepare] = []
    refused: list[str] = []

    def again(entry: Prepare) -> None:
        drained.append(entry)
        with pytest.raises(JournalBusy) as caught:
            journal.drain(4)
        refused.append(str(caught.value))

    assert journal.drain(4, again) == 4
    assert drained == entries[:4]
    assert len(refused) == 4
    assert journal.poisoned is None
    assert ops(journal) == [5, 6, 7, 8]
    journal.append(entries[8:])
    assert journal.last_op == 9
