"""The log in normal use, and what it refuses (persistence 2, D-24, D-31)."""

from __future__ import annotations

import dataclasses
import errno
from pathlib import Path
from random import Random

import pytest

from levrier.persistence.errors import (
    AppendRefused,
    EntryInvalid,
    ForeignJournal,
    InvalidInput,
    IoFailed,
    SlotCollision,
    StorageError,
)
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.journal_format import BATCH_SIZE_MAX, ENTRY_SIZE_MAX, FILE_HEADER_SIZE, record_size
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.persistence.storage import DiskStorage
from levrier.wire.prepare import Prepare
from tests.persistence.prepares import GROUP, JOURNAL, chain, frames, open_journal, ops, prepare


def disk(seed: int = 1) -> SimulatedStorage:
    return SimulatedStorage(Random(seed))


def test_s136_a_new_journal_is_empty() -> None:
    """S-136."""
    journal = open_journal(disk())
    assert journal.last_op is None
    assert journal.header(0) is None
    assert journal.is_empty
    assert journal.headers_from(0) == []
    assert journal.size == FILE_HEADER_SIZE


def test_a_journal_without_a_record_counts_as_absent_after_a_reopen() -> None:
    """B-015, D-31: preallocated and never written."""
    storage = disk()
    open_journal(storage).close()
    assert open_journal(storage).is_empty


def test_s137_entries_of_different_sizes_are_read_back() -> None:
    """S-137."""
    journal = open_journal(disk())
    journal.append([prepare(1, body=b"short")])
    journal.append([prepare(2, body=b"a longer body")])
    assert journal.header(1) is not None
    assert journal.header(2) is not None
    assert journal.header(3) is None
    bodies = []
    for op in (1, 2):
        entry = journal.entry(op)
        assert entry is not None
        bodies.append(entry.body)
    assert bodies == [b"short", b"a longer body"]


def test_s138_everything_is_there_after_a_reopen() -> None:
    """S-138."""
    storage = disk()
    journal = open_journal(storage)
    entries = chain(1, 3)
    journal.append(entries)
    journal.close()
    journal = open_journal(storage)
    assert journal.last_op == 3
    assert frames(journal) == {entry.header.op: entry.frame for entry in entries}


def test_s139_an_append_after_a_reopen_lands_behind() -> None:
    """S-139."""
    storage = disk()
    entries = chain(1, 3)
    journal = open_journal(storage)
    journal.append(entries[:2])
    journal.close()
    journal = open_journal(storage)
    journal.append(entries[2:])
    assert frames(journal) == {entry.header.op: entry.frame for entry in entries}
    journal.close()
    assert frames(open_journal(storage)) == {entry.header.op: entry.frame for entry in entries}


def test_s127_a_sealed_chain_has_nothing_unsealed() -> None:
    """S-127."""
    storage = disk()
    journal = open_journal(storage)
    journal.append(chain(1, 3))
    journal.close()
    journal = open_journal(storage)
    assert (journal.last_op, journal.unsealed_count, journal.cut_bytes) == (3, 0, 0)


def test_s146_headers_from_an_op_skip_gaps() -> None:
    """S-146."""
    journal = open_journal(disk())
    journal.append([*chain(1, 3), prepare(5)])
    assert [header.op for header in journal.headers_from(2)] == [2, 3, 5]
    assert [header.op for header in journal.headers_from(4)] == [5]
    assert journal.headers_from(10) == []


def test_s147_the_previous_header_of_op_0_is_none() -> None:
    """S-147."""
    journal = open_journal(disk())
    journal.append(chain(0, 1))
    zero, one = journal.header(0), journal.header(1)
    assert zero is not None
    assert one is not None
    assert journal.previous_header(one) == zero
    assert journal.previous_header(zero) is None


def test_a_batch_costs_one_write_and_one_sync() -> None:
    storage = disk()
    journal = open_journal(storage)
    journal.append(chain(1, 2))
    before = storage.calls
    journal.append([prepare(3), prepare(4), prepare(5)])
    assert [call.name for call in storage.audit if call.number > before] == ["write", "datasync"]


def test_no_entries_cost_nothing() -> None:
    storage = disk()
    journal = open_journal(storage)
    before = storage.calls
    journal.append([])
    assert storage.calls == before


def test_br52_every_append_that_returned_was_synced() -> None:
    """BR-52: for every acknowledgement, a sync that covers it ended earlier."""
    storage = disk()
    journal = open_journal(storage)
    for entry in chain(1, 12):
        journal.append([entry])
        assert storage.is_durable(JOURNAL)


def test_preallocation_is_synced_before_an_append_uses_it() -> None:
    storage = disk()
    journal = open_journal(storage)
    allocated = journal.allocated_size
    entries = chain(1, 14, body=b"x" * 300)
    grown = []
    for entry in entries:
        before = storage.calls
        journal.append([entry])
        grown.append([call.name for call in storage.audit if call.number > before])
    assert journal.allocated_size > allocated
    assert sorted({tuple(calls) for calls in grown}) == [("write", "datasync"), ("write", "sync", "write", "datasync")]
    assert len(storage.content(JOURNAL) or b"") == journal.allocated_size
    assert not any((storage.content(JOURNAL) or b"")[journal.size :])


def test_s145_an_entry_longer_than_its_header_says_is_refused() -> None:
    """S-145."""
    storage = disk()
    journal = open_journal(storage)
    good = prepare(1)
    before = storage.content(JOURNAL)
    with pytest.raises(EntryInvalid) as caught:
        journal.append([Prepare(good.header, good.body, good.frame + b"slack")])
    assert "op 1" in str(caught.value)
    assert storage.content(JOURNAL) == before


def test_an_entry_above_the_limit_is_refused_unwritten() -> None:
    storage = disk()
    journal = open_journal(storage)
    header = dataclasses.replace(prepare(1).header, size=ENTRY_SIZE_MAX + 1)
    before = storage.content(JOURNAL)
    with pytest.raises(EntryInvalid):
        journal.append([Prepare(header, b"", bytes(ENTRY_SIZE_MAX + 1))])
    assert storage.content(JOURNAL) == before


def test_s148_an_entry_below_the_watermark_is_overwritten() -> None:
    """S-148."""
    journal = open_journal(disk(), slots=8)
    journal.append(chain(1, 3))
    journal.set_snapshot_op(3)
    journal.append([prepare(3 + 8)])
    assert journal.header(3) is None
    assert journal.last_op == 11


def test_s148_after_a_reopen_the_later_entry_of_a_slot_wins() -> None:
    """S-148, persistence 2.6."""
    storage = disk()
    journal = open_journal(storage, slots=8)
    journal.append(chain(1, 3))
    journal.set_snapshot_op(3)
    journal.append([prepare(3 + 8)])
    journal.close()
    journal = open_journal(storage, slots=8, snapshot_op=3)
    assert ops(journal) == [1, 2, 11]


def test_s150_a_slot_collision_is_refused() -> None:
    """S-150."""
    storage = disk()
    journal = open_journal(storage, slots=8)
    journal.append(chain(1, 3))
    before = storage.content(JOURNAL)
    with pytest.raises(SlotCollision) as caught:
        journal.append([prepare(3 + 8)])
    assert (caught.value.op, caught.value.occupant) == (11, 3)
    assert storage.content(JOURNAL) == before
    journal.close()
    assert open_journal(storage, slots=8).header(3) is not None


def test_two_entries_of_one_batch_do_not_share_a_slot() -> None:
    journal = open_journal(disk(), slots=8)
    with pytest.raises(SlotCollision):
        journal.append([prepare(1), prepare(9)])
    assert journal.is_empty


def test_a_refused_duplicate_does_not_ask_for_a_truncation() -> None:
    journal = open_journal(disk())
    entries = chain(1, 4)
    journal.append(entries[:3])
    with pytest.raises(SlotCollision):
        journal.append([entries[1]])
    assert journal.failed_from is None
    journal.append([entries[3]])
    assert journal.last_op == 4


def test_after_a_refused_new_op_nothing_slips_in_above_it() -> None:
    journal = open_journal(disk(), slots=4)
    journal.append(chain(1, 4))
    with pytest.raises(SlotCollision):
        journal.append([prepare(5)])
    journal.set_snapshot_op(4)
    with pytest.raises(AppendRefused) as caught:
        journal.append([prepare(6)])
    assert caught.value.failed_from == 5
    assert journal.truncate_from(5) == 0
    journal.append([prepare(5)])


def test_too_few_slots_for_the_log_are_refused_at_open() -> None:
    storage = disk()
    journal = open_journal(storage, slots=8)
    journal.append(chain(1, 6))
    journal.close()
    before = storage.content(JOURNAL)
    with pytest.raises(InvalidInput, match="journal_slots"):
        open_journal(storage, slots=4)
    assert storage.content(JOURNAL) == before
    assert ops(open_journal(storage, slots=4, snapshot_op=3)) == [3, 4, 5, 6]


def test_no_slots_are_refused() -> None:
    with pytest.raises(InvalidInput):
        open_journal(disk(), slots=0)


def test_another_groups_log_is_refused() -> None:
    storage = disk()
    open_journal(storage).close()
    with pytest.raises(ForeignJournal) as caught:
        open_journal(storage, group=5)
    assert (caught.value.found, caught.value.expected) == (GROUP, 5)


def test_remaining_capacity_counts_op_distance() -> None:
    """Persistence 2.2."""
    journal = open_journal(disk(), slots=8)
    assert journal.remaining_capacity == 8
    journal.append(chain(1, 3))
    assert journal.remaining_capacity == 5
    journal.append([prepare(7)])
    assert journal.remaining_capacity == 1
    journal.set_snapshot_op(6)
    assert journal.remaining_capacity == 7
    journal.set_snapshot_op(7)
    assert journal.remaining_capacity == 8


def test_the_watermark_never_decreases() -> None:
    journal = open_journal(disk())
    journal.set_snapshot_op(3)
    with pytest.raises(AssertionError):
        journal.set_snapshot_op(2)


def test_an_entry_is_given_only_for_its_own_header() -> None:
    journal = open_journal(disk())
    journal.append([prepare(1, body=b"mine")])
    assert journal.entry_at(prepare(1, body=b"mine").header) is not None
    assert journal.entry_at(prepare(1, body=b"other").header) is None
    assert journal.entry_at(prepare(2).header) is None
    assert journal.entry(2) is None


def test_an_entry_that_went_bad_is_none_or_an_error() -> None:
    storage = disk()
    journal = open_journal(storage)
    journal.append(chain(1, 2))
    storage.flip(JOURNAL, journal.size - 12)
    header = journal.header(2)
    assert header is not None
    assert journal.entry(2) is None
    with pytest.raises(StorageError, match=r"op 2") as caught:
        journal.entry_at(header)
    assert "journal.wal" in str(caught.value)


def test_the_view_of_an_entry_is_stored_as_it_was_appended() -> None:
    storage = disk()
    journal = open_journal(storage)
    journal.append([prepare(1, view=9)])
    journal.close()
    header = open_journal(storage).header(1)
    assert header is not None
    assert header.view == 9


# Durable marks


def test_a_durable_mark_is_written_once_per_idle_time() -> None:
    storage = disk()
    journal = open_journal(storage)
    before = storage.calls
    journal.write_durable_mark()
    assert storage.calls == before
    journal.append(chain(1, 2))
    journal.write_durable_mark()
    size = journal.size
    journal.write_durable_mark()
    assert journal.size == size
    journal.close()
    journal = open_journal(storage)
    assert (journal.size, journal.last_op, journal.cut_bytes) == (size, 2, 0)
    journal.write_durable_mark()
    assert journal.size == size


def test_a_failed_durable_mark_leaves_the_log_usable() -> None:
    for call in (1, 2):
        storage = disk()
        journal = open_journal(storage)
        entries = chain(1, 3)
        journal.append(entries[:2])
        storage.faults.fail_at[storage.calls + call] = errno.EIO
        with pytest.raises(IoFailed):
            journal.write_durable_mark()
        journal.append(entries[2:])
        journal.close()
        assert ops(open_journal(storage)) == [1, 2, 3]


# On the real disk


def test_a_batch_above_the_limit_is_written_in_parts(tmp_path: Path) -> None:
    """No write is longer than the longest tail that a boot would cut; all of the batch counts, or nothing."""
    storage, path = DiskStorage(), tmp_path / "journal.wal"
    entries = chain(1, 3, body=bytes(BATCH_SIZE_MAX // 2))
    journal = open_journal(storage, path)
    journal.append(entries)
    assert journal.last_op == 3
    file = storage.open(path, create=False)
    claims = [
        int.from_bytes(file.read(FILE_HEADER_SIZE + index * record_size(entries[0].header.size) + 24, 8), "little")
        for index in range(2)
    ]
    assert claims == [FILE_HEADER_SIZE, FILE_HEADER_SIZE + record_size(entries[0].header.size)]
    file.close()
    journal.close()
    journal = open_journal(storage, path)
    assert (ops(journal), journal.cut_bytes) == ([1, 2, 3], 0)
    journal.close()


def test_the_real_disk_keeps_a_log(tmp_path: Path) -> None:
    storage, path = DiskStorage(), tmp_path / "journal.wal"
    entries = chain(1, 40, body=b"x" * 500)
    journal = open_journal(storage, path, slots=64)
    journal.append(entries[:30])
    journal.drain(10)
    journal.append(entries[30:])
    journal.truncate_from(36)
    journal.write_durable_mark()
    journal.close()
    journal = open_journal(storage, path, slots=64)
    assert frames(journal) == {entry.header.op: entry.frame for entry in entries[10:35]}
    assert storage.list(tmp_path) == ("journal.wal",)
    journal.close()


def test_sixteen_thousand_entries_open_in_few_reads() -> None:
    """All 16384 slots in a few reads: the number of calls is what is counted, not the time."""
    storage = disk()
    storage.make_directory(JOURNAL.parent)
    numbers = Random(1)
    entries = chain(1, 16384, body=b"x" * 200)

    def opened() -> PrepareJournal:
        return PrepareJournal.open(
            storage, JOURNAL, group=GROUP, snapshot_op=0, slots=16384, epoch_source=lambda: numbers.getrandbits(64)
        )

    journal = opened()
    for at in range(0, 16384, 1024):
        journal.append(entries[at : at + 1024])
    journal.close()
    before = storage.calls
    journal = opened()
    assert journal.last_op == 16384
    assert journal.remaining_capacity == 0
    assert storage.calls - before < 40


def test_an_end_beyond_the_prepared_space_is_found() -> None:
    journal = open_journal(disk())
    journal.append([prepare(1)])
    journal._space.reset(0)
    with pytest.raises(AssertionError):
        journal.set_snapshot_op(1)


def test_a_last_op_that_is_not_indexed_is_found() -> None:
    journal = open_journal(disk())
    journal.append(chain(1, 3))
    journal._last_op = 4
    with pytest.raises(AssertionError):
        journal.truncate_from(9)
