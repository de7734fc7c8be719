"""What opening a damaged log does: cut a torn tail, or refuse and leave the file alone (D-24, persistence 2.6)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from xxhash import xxh3_64_intdigest

from levrier.persistence.errors import ForeignJournal, JournalDamaged, StorageError, UnsupportedVersion
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.journal_format import (
    BATCH_SIZE_MAX,
    FILE_HEADER_SIZE,
    KIND_PREPARE,
    RECORD_HEADER_SIZE,
    encode_file_header,
    encode_record_header,
    record_size,
)
from levrier.persistence.journal_scan import scan
from levrier.persistence.simulated_storage import SimulatedFile, SimulatedStorage
from levrier.persistence.storage import DiskStorage
from levrier.wire.prepare import Prepare
from tests.persistence.prepares import GROUP, JOURNAL, chain, frames, open_journal, ops, prepare, unsealed

COMMAND, COMMIT, BODY = 60, 184, 256
EPOCH = 77


def disk() -> SimulatedStorage:
    return SimulatedStorage(Random(1))


def written(batches: list[list[Prepare]], *, mark: bool = False) -> SimulatedStorage:
    """A disk with a log that got these batches."""
    storage = disk()
    journal = open_journal(storage)
    for batch in batches:
        journal.append(batch)
    if mark:
        journal.write_durable_mark()
    journal.close()
    return storage


def offset_of(entries: list[Prepare], index: int) -> int:
    """Where the record of an entry starts, if the entries stand back to back from the beginning."""
    return FILE_HEADER_SIZE + sum(record_size(len(entry.frame)) for entry in entries[:index])


def flip_in(storage: SimulatedStorage, entries: list[Prepare], index: int, at: int) -> None:
    storage.flip(JOURNAL, offset_of(entries, index) + RECORD_HEADER_SIZE + at)


def singles(entries: list[Prepare]) -> list[list[Prepare]]:
    return [[entry] for entry in entries]


def refused(storage: SimulatedStorage) -> JournalDamaged:
    """Opening must refuse and leave every byte alone."""
    before = storage.content(JOURNAL)
    with pytest.raises(JournalDamaged) as caught:
        open_journal(storage)
    assert storage.content(JOURNAL) == before
    text = str(caught.value)
    assert "journal.wal" in text
    assert f"offset {caught.value.offset}" in text
    assert "levrier" in text
    return caught.value


def forged(frames_: list[bytes], *, durable_offset: int = FILE_HEADER_SIZE) -> SimulatedStorage:
    """A log of records whose own checksums are right, whatever the prepares in them and their claims are."""
    content = encode_file_header(group=GROUP, epoch=EPOCH)
    for frame in frames_:
        content += encode_record_header(
            kind=KIND_PREPARE,
            length=len(frame),
            check=xxh3_64_intdigest(frame) & 0xFFFF_FFFF,
            epoch=EPOCH,
            durable_offset=durable_offset,
        )
        content += frame.ljust(record_size(len(frame)) - RECORD_HEADER_SIZE, b"\0")
    storage = disk()
    storage.put(JOURNAL, content.ljust(4 * FILE_HEADER_SIZE, b"\0"))
    return storage


# A damaged tail is cut


@pytest.mark.parametrize(("case", "at"), [("S-128", COMMIT), ("S-132", BODY + 2), ("S-140", COMMAND)])
def test_a_damaged_last_entry_is_cut(case: str, at: int) -> None:
    """S-128 (commit field), S-132 (body), S-140 (command byte): nothing behind it, so it is a tail."""
    entries = chain(1, 2)
    storage = written(singles(entries))
    flip_in(storage, entries, 1, at)
    journal = open_journal(storage)
    assert ops(journal) == [1]
    assert journal.size == journal.cut_offset == offset_of(entries, 1)
    assert 0 < journal.cut_bytes <= record_size(len(entries[1].frame))
    assert not any((storage.content(JOURNAL) or b"")[journal.size :])
    assert storage.is_durable(JOURNAL)


def test_after_a_cut_the_log_goes_on() -> None:
    """S-140, S-142: cut, append, reopen clean."""
    entries = chain(1, 3)
    storage = written(singles(entries[:2]))
    flip_in(storage, entries, 1, BODY)
    journal = open_journal(storage)
    journal.append(entries[1:])
    journal.close()
    journal = open_journal(storage)
    assert (ops(journal), journal.cut_offset, journal.cut_bytes) == ([1, 2, 3], None, 0)


def test_s130_a_last_entry_with_a_wrong_parent_is_cut() -> None:
    """S-130."""
    storage = written([[prepare(1)], [prepare(2, parent=12345)]])
    journal = open_journal(storage)
    assert ops(journal) == [1]


def test_s141_a_last_entry_that_lacks_its_end_is_cut_and_keeps_the_first() -> None:
    """S-141, in spirit: what a torn write leaves of a preallocated file is zeros, not a shorter file (D-24)."""
    entries = chain(1, 2)
    storage = written(singles(entries))
    end = offset_of(entries, 2)
    content = storage.content(JOURNAL) or b""
    storage.put(JOURNAL, content[: end - 10] + bytes(len(content) - end + 10))
    journal = open_journal(storage)
    assert frames(journal) == {1: entries[0].frame}
    journal.append(entries[1:])
    journal.close()
    assert ops(open_journal(storage)) == [1, 2]


def test_s142_junk_behind_the_last_entry_is_cut() -> None:
    """S-142."""
    entries = chain(1, 2)
    storage = written(singles(entries))
    end = offset_of(entries, 2)
    content = bytearray(storage.content(JOURNAL) or b"")
    content[end + 100 : end + 150] = b"j" * 50
    storage.put(JOURNAL, bytes(content))
    journal = open_journal(storage)
    assert (ops(journal), journal.size, journal.cut_bytes) == ([1, 2], end, 150)
    journal.close()
    assert open_journal(storage).cut_bytes == 0


def test_records_of_an_earlier_epoch_behind_the_end_are_junk() -> None:
    """D-24: what an older file left at this place on the disk never becomes an entry or evidence of one."""
    entries = chain(1, 4)
    old = written(singles(entries), mark=True)
    storage = disk()
    journal = open_journal(storage, seed=99)
    journal.append(entries[:2])
    journal.close()
    end = offset_of(entries, 2)
    content = (storage.content(JOURNAL) or b"")[:end] + (old.content(JOURNAL) or b"")[end:]
    storage.put(JOURNAL, content)
    journal = open_journal(storage)
    assert ops(journal) == [1, 2]
    assert journal.cut_bytes > 0


def test_a_record_of_the_log_inside_a_body_is_not_a_record() -> None:
    """A client that could read the log and send it back: its copy has a foreign epoch after any rewrite."""
    entries = chain(1, 3)
    stolen = (written(singles(entries), mark=True).content(JOURNAL) or b"")[
        FILE_HEADER_SIZE : offset_of(entries, 3) + 40
    ]
    journal_disk = disk()
    journal = open_journal(journal_disk, seed=5)
    journal.append([prepare(1)])
    tail = prepare(2, parent=prepare(1).header.checksum, body=b"." * 3 + stolen)
    journal.append([tail])
    journal.close()
    flip_in(journal_disk, [prepare(1), tail], 1, COMMIT)
    assert ops(open_journal(journal_disk)) == [1]


def test_in_a_torn_batch_what_stands_before_the_damage_is_kept() -> None:
    """D-24: several entries may be torn at once; the ones behind the damage go, though their bytes are good."""
    entries = chain(1, 5)
    storage = written([entries[:1], entries[1:]])
    flip_in(storage, entries, 2, BODY)
    journal = open_journal(storage)
    assert ops(journal) == [1, 2]
    assert journal.cut_bytes > 2 * record_size(260)


def test_a_lost_sector_in_a_batch_hides_nothing_behind_it() -> None:
    """A zero header ends the log, yet the rest of the batch stands behind it and must not come back later."""
    entries = chain(1, 4)
    storage = written([entries[:1], entries[1:]])
    start = offset_of(entries, 1)
    content = bytearray(storage.content(JOURNAL) or b"")
    content[start : start + 40] = bytes(40)
    storage.put(JOURNAL, bytes(content))
    journal = open_journal(storage)
    assert ops(journal) == [1]
    assert not any((storage.content(JOURNAL) or b"")[start:])


# Interior damage is refused


@pytest.mark.parametrize(("case", "at"), [("S-129", COMMIT), ("S-133", BODY), ("S-144", COMMAND)])
def test_damage_with_a_later_append_behind_it_is_refused(case: str, at: int) -> None:
    """S-129 (commit field), S-133 (body), S-144 (command byte)."""
    entries = chain(1, 3)
    storage = written(singles(entries))
    flip_in(storage, entries, 1, at)
    error = refused(storage)
    assert (error.op, error.offset) == (2, offset_of(entries, 1))


@pytest.mark.parametrize("at", [COMMAND, COMMIT, BODY])
def test_damage_in_the_last_batch_is_refused_once_a_mark_covers_it(at: int) -> None:
    entries = chain(1, 3)
    storage = written([entries[:1], entries[1:]], mark=True)
    flip_in(storage, entries, 2, at)
    assert refused(storage).op == 3


def test_a_zeroed_record_inside_is_refused() -> None:
    entries = chain(1, 3)
    storage = written(singles(entries))
    start = offset_of(entries, 1)
    content = bytearray(storage.content(JOURNAL) or b"")
    content[start : start + record_size(len(entries[1].frame))] = bytes(record_size(len(entries[1].frame)))
    storage.put(JOURNAL, bytes(content))
    assert refused(storage).offset == start


def test_damage_in_the_first_entry_after_a_rewrite_is_refused() -> None:
    """A rewrite becomes visible only whole: everything in it was durable."""
    storage = disk()
    journal = open_journal(storage)
    entries = chain(1, 4)
    journal.append(entries)
    journal.drain(1)
    journal.close()
    storage.flip(JOURNAL, FILE_HEADER_SIZE + RECORD_HEADER_SIZE + BODY)
    refused(storage)


def test_damage_in_the_last_entry_after_a_rewrite_is_refused() -> None:
    """Nothing was appended behind it, yet the rewrite closed with a durable mark."""
    storage = disk()
    journal = open_journal(storage)
    entries = chain(1, 4)
    journal.append(entries)
    journal.drain(1)
    end = journal.size - RECORD_HEADER_SIZE
    journal.close()
    storage.flip(JOURNAL, end - record_size(len(entries[3].frame)) + RECORD_HEADER_SIZE + BODY)
    assert refused(storage).op == 4


@pytest.mark.parametrize("window_size", [*range(41, 140, 3), 4096])
def test_evidence_is_found_wherever_a_window_ends(window_size: int) -> None:
    """The scan reads in windows: neither an entry nor a header that lies across two of them is missed."""
    entries = chain(1, 3)
    storage = written(singles(entries))
    file = storage.open(JOURNAL, create=False)
    found = scan(file, path=JOURNAL, group=GROUP, window_size=window_size)
    assert [header.op for header, _ in found.entries] == [1, 2, 3]
    flip_in(storage, entries, 1, BODY)
    with pytest.raises(JournalDamaged):
        scan(file, path=JOURNAL, group=GROUP, window_size=window_size)


def test_a_wrong_parent_with_a_later_append_behind_it_is_refused() -> None:
    """Persistence 2.6, the chain row."""
    second = prepare(2, parent=12345)
    storage = written([[prepare(1)], [second], [prepare(3, parent=second.header.checksum)]])
    assert refused(storage).op == 2


def test_s135_a_damaged_body_behind_an_unsealed_entry_is_refused() -> None:
    """S-135."""
    entries = [unsealed(1), prepare(2), prepare(3, parent=prepare(2).header.checksum)]
    storage = written(singles(entries))
    flip_in(storage, entries, 1, BODY)
    assert refused(storage).op == 2


def test_s143_a_tail_longer_than_any_batch_is_refused(tmp_path: Path) -> None:
    """S-143: sparse on a real disk, so that it costs no space."""
    storage, path = DiskStorage(), tmp_path / "journal.wal"
    journal = open_journal(storage, path)
    journal.append(chain(1, 1))
    end = journal.size
    journal.close()
    file = storage.open(path, create=False)
    file.write(end, b"junk")
    file.write(end + BATCH_SIZE_MAX, b"x")
    size = file.size()
    with pytest.raises(JournalDamaged, match="more than one write"):
        open_journal(storage, path)
    assert file.size() == size
    assert file.read(end, 4) == b"junk"
    file.close()


# Seals


def test_s131_entries_without_any_seal_are_kept() -> None:
    """S-131."""
    entries = [unsealed(1), unsealed(2)]
    journal = open_journal(written([entries]))
    assert frames(journal) == {1: entries[0].frame, 2: entries[1].frame}


def test_s134_entries_without_body_checksums_are_kept_and_counted() -> None:
    """S-134."""
    entries = [unsealed(1, identity=True)]
    for op in (2, 3):
        entries.append(unsealed(op, identity=True, parent=entries[-1].header.checksum))
    journal = open_journal(written([entries]))
    assert journal.unsealed_count == 3
    assert journal.last_op == 3


def _with(frame: bytes, at: int, value: int) -> bytes:
    return frame[:at] + bytes((value,)) + frame[at + 1 :]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(_with(prepare(2).frame, COMMIT, 9), id="identity"),
        pytest.param(_with(prepare(2).frame, BODY, 9), id="body"),
        pytest.param(_with(prepare(2).frame, COMMAND, 19), id="repair command"),
        pytest.param(_with(prepare(2).frame, COMMAND, 5), id="other command"),
        pytest.param(_with(prepare(2).frame, 48, 1), id="size"),
        pytest.param(_with(prepare(2).frame, 100, 1), id="reserved"),
        pytest.param(_with(prepare(2).frame, 208, 255), id="operation"),
        pytest.param(bytes(300), id="zeros"),
        pytest.param(bytes(8), id="short"),
    ],
)
def test_a_record_whose_prepare_is_wrong_is_no_entry(bad: bytes) -> None:
    """Persistence 2.6: the seals of the prepare are checked even where the record's own check is right."""
    journal = open_journal(forged([prepare(1).frame, bad]))
    assert ops(journal) == [1]
    assert journal.cut_bytes > 0


def test_a_record_that_claims_what_comes_after_it_is_neither_entry_nor_evidence() -> None:
    """Nothing behind a record can have been durable when it was written."""
    storage = forged([prepare(1).frame], durable_offset=FILE_HEADER_SIZE + 8)
    journal = open_journal(storage)
    assert ops(journal) == []
    assert journal.cut_offset == FILE_HEADER_SIZE


def test_forged_records_are_read_when_they_are_right() -> None:
    """The helper above makes good logs out of good prepares."""
    entries = chain(1, 2)
    assert ops(open_journal(forged([entry.frame for entry in entries]))) == [1, 2]


# Every byte


def outcome(storage: SimulatedStorage) -> PrepareJournal | StorageError:
    try:
        return open_journal(storage)
    except StorageError as error:
        return error


def test_any_flipped_bit_below_a_durable_mark_is_refused() -> None:
    """Everything acknowledged is covered by the mark, so no bit of it may go unnoticed or be cut."""
    entries = chain(1, 3)
    original = written([entries[:1], entries[1:]], mark=True)
    for offset in (*range(48), *range(FILE_HEADER_SIZE - 9, offset_of(entries, 3))):
        storage = original.copy(Random(1))
        storage.flip(JOURNAL, offset, offset % 8)
        before = storage.content(JOURNAL)
        found = outcome(storage)
        assert isinstance(found, JournalDamaged | UnsupportedVersion | ForeignJournal), offset
        assert storage.content(JOURNAL) == before
        assert "journal.wal" in str(found)


def test_any_flipped_bit_from_the_mark_on_costs_nothing() -> None:
    entries = chain(1, 3)
    original = written([entries], mark=True)
    end = offset_of(entries, 3)
    for offset in range(end, end + 80):
        storage = original.copy(Random(1))
        storage.flip(JOURNAL, offset, offset % 8)
        journal = open_journal(storage)
        assert frames(journal) == {entry.header.op: entry.frame for entry in entries}
        assert journal.cut_bytes > 0
        journal.close()
        assert open_journal(storage).cut_bytes == 0


def test_any_flipped_bit_of_an_uncovered_batch_cuts_only_from_there() -> None:
    """The batch could be one that was torn before it was acknowledged; the one before it is never touched."""
    entries = chain(1, 3)
    original = written([entries[:1], entries[1:]])
    first, second = offset_of(entries, 1), offset_of(entries, 2)
    for offset in range(first, offset_of(entries, 3)):
        storage = original.copy(Random(1))
        storage.flip(JOURNAL, offset, offset % 8)
        journal = open_journal(storage)
        assert ops(journal) == ([1] if offset < second else [1, 2]), offset
        assert journal.cut_offset == (first if offset < second else second)


def test_a_log_that_somebody_cut_off_is_refused() -> None:
    """An interrupted copy: no length inside a preallocated step opens as a shorter log."""
    step = 4 * FILE_HEADER_SIZE
    entries = chain(1, 2)
    storage = disk()
    journal = open_journal(storage, step=step)
    journal.append(entries)
    journal.close()
    content = storage.content(JOURNAL) or b""
    for size in (*range(64), *range(FILE_HEADER_SIZE - 2, offset_of(entries, 2) + 2)):
        storage = disk()
        storage.put(JOURNAL, content[:size])
        with pytest.raises(JournalDamaged):
            open_journal(storage, step=step)
        assert storage.content(JOURNAL) == content[:size]


def test_a_crash_while_the_file_grows_is_no_cut() -> None:
    """The step that was not ready holds nothing yet: any length of it opens, with everything that stood before."""
    entries = chain(1, 2)
    content = written([entries]).content(JOURNAL) or b""
    for grown in (1, 7, 4096):
        storage = disk()
        storage.put(JOURNAL, content + bytes(grown))
        assert ops(open_journal(storage)) == [1, 2]


def test_a_version_from_the_future_is_named() -> None:
    storage = written([chain(1, 1)])
    content = bytearray(storage.content(JOURNAL) or b"")
    content[8] = 2
    block = bytes(content[: FILE_HEADER_SIZE - 8])
    content[FILE_HEADER_SIZE - 8 : FILE_HEADER_SIZE] = xxh3_64_intdigest(block).to_bytes(8, "little")
    storage.put(JOURNAL, bytes(content))
    with pytest.raises(UnsupportedVersion) as caught:
        open_journal(storage)
    assert (caught.value.found, caught.value.expected) == (2, 1)


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_never_become_a_log(seed: int) -> None:
    storage = disk()
    storage.put(JOURNAL, Random(seed).randbytes(3 * FILE_HEADER_SIZE))
    assert isinstance(outcome(storage), JournalDamaged)


class WrongOnce:
    """Has a disk give one wrong bit in the read of that number, from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, read: int, offset: int) -> None:
        self.reads = 0
        right = SimulatedFile.read

        def wrong(file: SimulatedFile, at: int, size: int) -> bytes:
            data = right(file, at, size)
            self.reads += at <= offset < at + size
            if self.reads != read or not at <= offset < at + size:
                return data
            return data[: offset - at] + bytes([data[offset - at] ^ 2]) + data[offset - at + 1 :]

        monkeypatch.setattr(SimulatedFile, "read", wrong)


@pytest.mark.parametrize("read", [1, 2], ids=["in the scan", "when it is written again"])
def test_a_disk_that_gives_other_bits_each_time_loses_nothing(monkeypatch: pytest.MonkeyPatch, read: int) -> None:
    """Neither is the tail cut for it, nor is what was read wrong written in the place of what is right."""
    entries = chain(1, 6)
    storage = written(singles(entries))
    before = storage.content(JOURNAL)
    WrongOnce(monkeypatch, read=read, offset=offset_of(entries, 5) + RECORD_HEADER_SIZE + 70)
    with pytest.raises(JournalDamaged, match="other bits each time"):
        open_journal(storage)
    assert storage.content(JOURNAL) == before
    monkeypatch.undo()
    assert ops(open_journal(storage)) == [entry.header.op for entry in entries]
