"""The archive: what is taken in, what is read back, what may go, and what a crash leaves (acknowledgements 5)."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from levrier.persistence.archive import Archive
from levrier.persistence.archive_format import is_segment_name, segment_name
from levrier.persistence.data_dir import GroupPaths
from levrier.persistence.errors import ArchiveDamaged, StorageError
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.simulated_storage import Crashed, SimulatedStorage, Tear
from levrier.persistence.storage import DiskStorage
from levrier.wire.acknowledgement import Frontier
from levrier.wire.prepare import Prepare
from tests.persistence.prepares import GROUP, JOURNAL, chain, open_journal, prepare

DIRECTORY = GroupPaths(JOURNAL.parent).archive
ENTRIES = chain(1, 60)


def disk(seed: int = 1) -> SimulatedStorage:
    storage = SimulatedStorage(Random(seed))
    storage.make_directory(JOURNAL.parent)
    return storage


def opened(storage: SimulatedStorage, **sizes: int) -> Archive:
    return Archive.open(storage, DIRECTORY, group=GROUP, **sizes)


def log_of(storage: SimulatedStorage, entries: Sequence[Prepare], *, snapshot_op: int = 0) -> PrepareJournal:
    journal = open_journal(storage, slots=128, snapshot_op=snapshot_op)
    journal.append(entries)
    return journal


def take_in(archive: Archive, journal: PrepareJournal, up_to: int) -> None:
    session = archive.begin(journal, up_to)
    while not session.step():
        pass


def kept(archive: Archive) -> list[int]:
    """The ops that can be read back, each the very entry that left the log."""
    found = []
    for op in range(1, len(ENTRIES) + 1):
        entry = archive.entry(op)
        if entry is not None:
            assert entry.frame == ENTRIES[op - 1].frame
            found.append(op)
    return found


def test_what_a_drain_will_remove_is_kept_and_read_back() -> None:
    storage = disk()
    journal, archive = log_of(storage, ENTRIES[:20]), opened(storage)
    assert (archive.first_op, archive.last_op, archive.size, kept(archive)) == (0, 0, 0, [])
    take_in(archive, journal, 9)
    journal.drain(9)
    assert (archive.first_op, archive.last_op) == (1, 9)
    assert kept(archive) == list(range(1, 10))
    take_in(archive, journal, 15)
    journal.drain(15)
    assert [(each.first_op, each.last_op, each.count) for each in archive.segments] == [(1, 9, 9), (10, 15, 6)]
    again = opened(storage)
    assert kept(again) == list(range(1, 16))
    assert again.size == archive.size == sum(each.size for each in again.segments)
    assert again.segments == archive.segments


def test_the_real_disk_keeps_it_too(tmp_path: Path) -> None:
    storage = DiskStorage()
    journal = open_journal(storage, tmp_path / "journal.wal", slots=128)
    journal.append(ENTRIES[:20])
    archive = Archive.open(storage, tmp_path / "archive", group=GROUP)
    take_in(archive, journal, 9)
    assert kept(archive) == list(range(1, 10))
    archive.close()
    journal.close()
    assert [each.name for each in (tmp_path / "archive").iterdir()] == [segment_name(1)]
    again = Archive.open(storage, tmp_path / "archive", group=GROUP)
    assert kept(again) == list(range(1, 10))
    again.close()


def test_what_is_kept_already_is_not_taken_in_again() -> None:
    storage = disk()
    journal, archive = log_of(storage, ENTRIES[:20]), opened(storage)
    take_in(archive, journal, 9)
    calls = storage.calls
    take_in(archive, journal, 9)
    assert storage.calls == calls


def test_the_log_may_grow_and_be_truncated_between_two_steps() -> None:
    storage = disk()
    journal, archive = log_of(storage, ENTRIES[:30]), opened(storage, step_size=300)
    session = archive.begin(journal, 19)
    steps = 1
    while not session.step():
        steps += 1
        if steps == 5:
            journal.append(ENTRIES[30:33])
        if steps == 9:
            journal.truncate_from(25)
    assert steps > 9
    assert kept(archive) == list(range(1, 20))


def test_a_segment_ends_at_its_limit() -> None:
    storage = disk()
    journal, archive = log_of(storage, ENTRIES[:20]), opened(storage, segment_size_max=1_000)
    take_in(archive, journal, 19)
    assert len(archive.segments) > 4
    assert kept(archive) == list(range(1, 20))
    assert kept(opened(storage)) == list(range(1, 20))


def test_only_what_the_applied_entry_descends_from_gets_in() -> None:
    """An entry that a view change reassigned and a snapshot passed over lies in the log: it is never taken for history."""
    storage = disk()
    other = chain(1, 12, body=b"another story")
    journal, archive = log_of(storage, [*other[:10], *ENTRIES[10:20]]), opened(storage)
    take_in(archive, journal, 15)
    assert [(each.first_op, each.last_op) for each in archive.segments] == [(11, 15)]


def test_nothing_gets_in_below_a_snapshot_that_came_from_a_peer() -> None:
    """The log does not hold the entry at its op, so nothing proves what lies below."""
    storage = disk()
    journal, archive = log_of(storage, ENTRIES[:10]), opened(storage)
    take_in(archive, journal, 29)
    assert archive.segments == ()


def test_an_entry_without_an_identity_proves_nothing_below() -> None:
    storage = disk()
    blank = dataclasses.replace(ENTRIES[4].header, checksum=0)
    unsealed = Prepare(blank, ENTRIES[4].body, blank.encode() + ENTRIES[4].body)
    journal, archive = log_of(storage, [*ENTRIES[:4], unsealed, *ENTRIES[5:10]]), opened(storage)
    take_in(archive, journal, 8)
    assert [(each.first_op, each.last_op) for each in archive.segments] == [(6, 8)]


def test_behind_a_gap_a_new_run_begins_and_the_older_one_serves_no_more() -> None:
    storage = disk()
    journal, archive = log_of(storage, ENTRIES[:10]), opened(storage)
    take_in(archive, journal, 7)
    journal.drain(9)
    journal.append(ENTRIES[30:40])
    take_in(archive, journal, 38)
    for each in (archive, opened(storage)):
        assert (each.first_op, each.last_op) == (31, 38)
        assert kept(each) == list(range(31, 39))
        assert [segment.first_op for segment in each.segments] == [1, 31]


def test_an_entry_that_the_log_lost_ends_the_run_below_it() -> None:
    storage = disk()
    journal, archive = log_of(storage, ENTRIES[:20]), opened(storage)
    content = storage.content(JOURNAL)
    assert content is not None
    storage.flip(JOURNAL, content.index(ENTRIES[5].frame) + 258)
    session = archive.begin(journal, 12)
    while not session.step():
        pass
    (text,) = session.take_lost()
    assert text.startswith("op 6 is lost to the archive")
    assert session.take_lost() == []
    assert kept(archive) == list(range(7, 13))


# Reclaiming


def of(op: int, origin: int, parent: int) -> Prepare:
    header = dataclasses.replace(prepare(op).header, replica=origin, parent=parent)
    return Prepare.seal(header, b"body")


def test_only_segments_that_lie_wholly_below_the_frontier_go_the_lowest_first() -> None:
    """For every origin: one replica that lacks a single op of a segment keeps all of it."""
    storage = disk()
    entries: list[Prepare] = []
    for op in range(1, 21):
        entries.append(of(op, 1 if op in (8, 15) else 0, entries[-1].header.checksum if entries else 0))
    journal, archive = log_of(storage, entries), opened(storage)
    for up_to in (5, 10, 15):
        take_in(archive, journal, up_to)
    assert archive.reclaim(Frontier()) == 0
    assert archive.reclaim(Frontier(((0, 4), (1, 99)))) == 0
    assert archive.reclaim(Frontier(((0, 99),))) == 1, "the second has an op of origin 1"
    assert archive.first_op == 6
    assert archive.reclaim(Frontier(((0, 14), (1, 14)))) == 1
    assert archive.reclaim(Frontier(((0, 14), (1, 14)))) == 0
    assert [each.first_op for each in opened(storage).segments] == [11]
    assert archive.reclaim(Frontier(((0, 14), (1, 15)))) == 1
    assert (archive.first_op, archive.last_op, archive.size) == (0, 0, 0)
    take_in(archive, journal, 17)
    assert [(each.first_op, each.last_op) for each in archive.segments] == [(1, 17)], "the log still held them"


def test_a_deletion_that_fails_is_told_and_can_be_repeated() -> None:
    storage = disk()
    journal, archive = log_of(storage, ENTRIES[:20]), opened(storage)
    for up_to in (5, 10):
        take_in(archive, journal, up_to)
    storage.faults.fail_at[storage.calls + 2] = errno.EIO
    with pytest.raises(StorageError):
        archive.reclaim(Frontier(((0, 10),)))
    assert [each.first_op for each in archive.segments] == [6]
    assert archive.reclaim(Frontier(((0, 10),))) == 1
    assert opened(storage).segments == ()


# Damage


@pytest.mark.parametrize("place", ["footer", "length", "trailer", "cut", "empty"])
def test_a_damaged_segment_is_named_left_alone_and_ends_the_run(place: str) -> None:
    storage = disk()
    journal, archive = log_of(storage, ENTRIES[:20]), opened(storage)
    for up_to in (5, 10, 15):
        take_in(archive, journal, up_to)
    path = DIRECTORY / segment_name(6)
    size = archive.segments[1].size
    if place in ("cut", "empty"):
        storage.open(path, create=False).truncate(size - 7 if place == "cut" else 0)
    else:
        storage.flip(path, {"footer": size - 40, "length": size - 22, "trailer": size - 3}[place])
    again = opened(storage)
    (text,) = again.damaged
    assert str(path) in text
    assert kept(again) == list(range(11, 16))
    assert storage.exists(path)


def test_a_damaged_entry_is_told_once_and_ends_the_run() -> None:
    storage = disk()
    journal, archive = log_of(storage, ENTRIES[:20]), opened(storage)
    for up_to in (5, 10, 15):
        take_in(archive, journal, up_to)
    storage.flip(DIRECTORY / segment_name(6), 300)
    assert archive.first_op == 1
    assert archive.entry(6) is not None
    with pytest.raises(ArchiveDamaged, match="op 7"):
        archive.entry(7)
    assert archive.first_op == 11
    assert archive.entry(6) is None
    assert kept(archive) == list(range(11, 16))


def test_a_segment_of_another_group_is_not_ours() -> None:
    storage = disk()
    journal, archive = log_of(storage, ENTRIES[:20]), opened(storage)
    take_in(archive, journal, 5)
    (text,) = Archive.open(storage, DIRECTORY, group=GROUP + 1).damaged
    assert "belongs to group" in text


def test_names_of_segments() -> None:
    assert segment_name(31) == "00000000000000000031.segment"
    assert is_segment_name(segment_name(2**63))
    assert not any(is_segment_name(name) for name in ("1.segment", "x" * 20 + ".segment", segment_name(1) + ".tmp", ""))


# Crashes


def moved(storage: SimulatedStorage) -> None:
    """Two checkpoints: what each drain removes is in the archive before."""
    journal = log_of(storage, ENTRIES[:20])
    archive = opened(storage)
    for snapshot_op in (8, 16):
        take_in(archive, journal, snapshot_op - 1)
        journal.drain(snapshot_op - 1)


def everything(storage: SimulatedStorage, snapshot_op: int) -> set[int]:
    """The ops that log and archive hold together, after a restart that owes the drain up to `snapshot_op - 1`."""
    journal = open_journal(storage, slots=128, snapshot_op=snapshot_op)
    archive = opened(storage)
    assert archive.damaged == ()
    found = {header.op for header in journal.headers_from(1)} | set(kept(archive))
    take_in(archive, journal, snapshot_op - 1)
    journal.drain(snapshot_op - 1)
    assert {header.op for header in journal.headers_from(1)} | set(kept(archive)) == found
    assert not any(name.endswith(".tmp") for name in storage.list(DIRECTORY))
    return found


@pytest.mark.parametrize("tear", list(Tear))
def test_a_crash_at_every_call_loses_nothing_between_log_and_archive(tear: Tear) -> None:
    whole = disk()
    journal = log_of(whole, ENTRIES[:20])
    written = whole.calls
    journal.close()
    moved(total := disk())
    assert total.calls - written > 30
    for after in range(written, total.calls + 1):
        storage = disk(after)
        storage.faults.crash_after = after
        with contextlib.suppress(Crashed):
            moved(storage)
        storage.crash(tear=tear)
        assert everything(storage, 8) == set(range(1, 21))


def test_a_call_that_fails_fails_the_taking_in_and_the_next_one_succeeds() -> None:
    reference = disk()
    journal, archive = log_of(reference, ENTRIES[:20]), opened(reference)
    first = reference.calls
    take_in(archive, journal, 12)
    for call in range(first + 1, reference.calls + 1):
        storage = disk()
        journal, archive = log_of(storage, ENTRIES[:20]), opened(storage)
        storage.faults.fail_at[call] = errno.ENOSPC
        with contextlib.suppress(StorageError):
            take_in(archive, journal, 12)
            assert archive.last_op == 12, "nothing is said to be kept that is not"
        take_in(archive, journal, 12)
        assert kept(archive) == kept(opened(storage)) == list(range(1, 13))
        assert [name for name in storage.list(DIRECTORY) if name.endswith(".tmp")] == []


def test_a_crash_while_segments_are_deleted_leaves_an_upper_part() -> None:
    for after in range(6):
        storage = disk()
        journal, archive = log_of(storage, ENTRIES[:20]), opened(storage)
        for up_to in (5, 10, 15):
            take_in(archive, journal, up_to)
        storage.faults.crash_after = storage.calls + after
        with contextlib.suppress(Crashed):
            archive.reclaim(Frontier(((0, 10),)))
        storage.crash()
        found = kept(opened(storage))
        assert found == list(range(found[0], 16))
        assert found[0] in (1, 6, 11)
