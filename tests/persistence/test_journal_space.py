"""The zeros behind a log: ready before an append needs them, and a piece of them that a crash left is no harm."""

from __future__ import annotations

import errno
from random import Random

import pytest

from levrier.persistence.errors import IoFailed
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.simulated_storage import DiskFaults, SimulatedStorage
from levrier.wire.prepare import Prepare
from tests.persistence.prepares import JOURNAL, STEP, chain, frames, open_journal, ops

ENTRIES = chain(1, 16, body=b"x" * 300)
PIECES = 4
"""That a step of these tests is filled in."""


def near_its_end(journal: PrepareJournal) -> list[Prepare]:
    """Append until less than half a step is left; gives the entries that are still to come, for which it is too little."""
    rest = list(ENTRIES)
    while journal.allocated_size - journal.size >= STEP // 2:
        journal.append([rest.pop(0)])
    assert journal.allocated_size - journal.size < sum(len(entry.frame) for entry in rest)
    return rest


def disk() -> SimulatedStorage:
    return SimulatedStorage(Random(1))


def test_no_append_waits_for_the_file_to_grow_when_it_is_filled_ahead() -> None:
    storage = disk()
    journal = open_journal(storage)
    before = journal.allocated_size
    for entry in ENTRIES:
        called = storage.calls
        journal.append([entry])
        assert [call.name for call in storage.audit if call.number > called] == ["write", "datasync"]
        for _ in range(PIECES):
            journal.fill_ahead()
    assert journal.allocated_size > before


def test_a_piece_at_a_time_is_filled_and_synced_and_none_before_it_is_near() -> None:
    storage = disk()
    journal = open_journal(storage)
    called = storage.calls
    journal.fill_ahead()
    assert storage.calls == called
    near_its_end(journal)
    before = journal.allocated_size
    for piece in range(1, PIECES + 1):
        assert journal.allocated_size == before
        called = storage.calls
        journal.fill_ahead()
        assert [(call.name, call.size) for call in storage.audit if call.number > called] == [
            ("write", STEP // PIECES),
            ("sync", 0),
        ]
        assert len(storage.content(JOURNAL) or b"") == before + piece * STEP // PIECES
    assert journal.allocated_size == before + STEP
    called = storage.calls
    journal.fill_ahead()
    assert storage.calls == called


@pytest.mark.parametrize("pieces", range(PIECES + 1))
def test_a_step_that_was_filled_in_part_is_completed_before_it_is_used(pieces: int) -> None:
    """By the append that needs it, in this life of the log or in the next."""
    storage = disk()
    journal = open_journal(storage)
    rest = near_its_end(journal)
    for _ in range(pieces):
        journal.fill_ahead()
    other = storage.copy(Random(1))
    later = open_journal(other)
    for log, its_disk in ((later, other), (journal, storage)):
        log.append(rest)
        assert frames(open_journal(its_disk)) == {entry.header.op: entry.frame for entry in ENTRIES}
        assert len(its_disk.content(JOURNAL) or b"") == log.allocated_size


@pytest.mark.parametrize("grown", [1, 7, STEP - 1])
def test_a_log_goes_on_behind_a_step_that_a_crash_left_unfinished(grown: int) -> None:
    """What is written next must not stand in a stretch whose end a later opening would miss."""
    storage = disk()
    journal = open_journal(storage)
    rest = near_its_end(journal)
    storage.put(JOURNAL, (storage.content(JOURNAL) or b"") + bytes(grown))
    for entry in rest:
        journal = open_journal(storage)
        journal.append([entry])
    assert ops(open_journal(storage)) == [entry.header.op for entry in ENTRIES]


@pytest.mark.parametrize("call", [1, 2])
def test_a_failure_ahead_costs_nothing_and_is_not_repeated(call: int) -> None:
    storage = disk()
    journal = open_journal(storage)
    rest = near_its_end(journal)
    storage.faults = DiskFaults(fail_at={storage.calls + call: errno.ENOSPC})
    with pytest.raises(IoFailed):
        journal.fill_ahead()
    called = storage.calls
    journal.fill_ahead()
    assert storage.calls == called
    journal.append(rest)
    assert frames(open_journal(storage)) == {entry.header.op: entry.frame for entry in ENTRIES}
