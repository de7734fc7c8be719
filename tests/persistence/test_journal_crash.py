"""The log under crashes and refusals at every call and every byte: what was acknowledged is there, boot never guesses."""

from __future__ import annotations

import contextlib
import copy
import errno
from collections.abc import Callable, Iterator
from random import Random

import pytest

from levrier.persistence.errors import AppendRefused, IoFailed, JournalPoisoned, StorageError
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.simulated_storage import Crashed, DiskFaults, SimulatedStorage, Tear
from levrier.wire.prepare import Prepare
from tests.persistence.prepares import JOURNAL, STEP, chain, frames, open_journal

SLOTS = 32


class Keeper:
    """Uses a log and notes what it must hold afterwards (`required`) and what else it may hold (`allowed`)."""

    def __init__(self, storage: SimulatedStorage) -> None:
        self.storage = storage
        self.required: dict[int, bytes] = {}
        self.allowed: dict[int, list[bytes]] = {}
        self.journal = self._retrying_open()

    def append(self, entries: list[Prepare]) -> None:
        for entry in entries:
            self.allowed.setdefault(entry.header.op, []).append(entry.frame)
        self._until_done(lambda: self._append(entries))
        for entry in entries:
            self.required[entry.header.op] = entry.frame

    def drain(self, up_to: int) -> None:
        for op in [op for op in self.required if op <= up_to]:
            del self.required[op]
        self._until_done(lambda: self.journal.drain(up_to))
        self._forbid(lambda op: op <= up_to)

    def truncate(self, op: int) -> None:
        for each in [each for each in self.required if each >= op]:
            del self.required[each]
        self._until_done(lambda: self.journal.truncate_from(op))
        self._forbid(lambda each: each >= op)

    def mark(self) -> None:
        self._until_done(self.journal.write_durable_mark)

    def fill_ahead(self) -> None:
        """Often enough to extend the file by a step, if the log has come near its end."""
        for _ in range(4):
            self._until_done(self.journal.fill_ahead)

    def check(self, journal: PrepareJournal) -> None:
        found = frames(journal)
        for op, frame in self.required.items():
            assert found.get(op) == frame, f"op {op} was acknowledged"
        for op, frame in found.items():
            assert frame in self.allowed.get(op, []), f"op {op} was never written like this, or was removed"
        if found:
            assert sorted(found) == list(range(min(found), max(found) + 1))
            assert journal.last_op == max(found)

    def _append(self, entries: list[Prepare]) -> None:
        held = [entry for entry in entries if self.journal.header(entry.header.op) is None]
        self.journal.append(held)

    def _forbid(self, gone: Callable[[int], bool]) -> None:
        for op in [op for op in self.allowed if gone(op)]:
            del self.allowed[op]

    def _retrying_open(self) -> PrepareJournal:
        while True:
            try:
                return open_journal(self.storage, slots=SLOTS, seed=self.storage.calls)
            except (IoFailed, JournalPoisoned):
                continue

    def _until_done(self, call: Callable[[], object]) -> None:
        """As its owner would: truncate after a failed append, reopen a poisoned log, try again."""
        while True:
            try:
                if self.journal.poisoned is not None:
                    self.journal = self._retrying_open()
                if self.journal.failed_from is not None:
                    self.journal.truncate_from(self.journal.failed_from)
                call()
            except (IoFailed, JournalPoisoned, AppendRefused):
                continue
            return


ENTRIES = chain(1, 9, body=b"b" * 30)
OTHERS = chain(6, 7, parent=ENTRIES[4].header.checksum, body=b"other view", view=1)
BIG = chain(8, 9, parent=OTHERS[1].header.checksum, body=b"x" * 3000)


def story(keeper: Keeper) -> None:
    """Append, batch, mark, drain, truncate, append again, grow over the preallocated end, at once and ahead of it."""
    keeper.append(ENTRIES[:1])
    keeper.append(ENTRIES[1:4])
    keeper.mark()
    keeper.append(ENTRIES[4:5])
    keeper.drain(2)
    keeper.append(ENTRIES[5:7])
    keeper.truncate(6)
    keeper.append(OTHERS)
    keeper.append(BIG[:1])
    keeper.fill_ahead()
    keeper.append(BIG[1:])
    keeper.mark()


FINAL = {entry.header.op: entry.frame for entry in [*ENTRIES[2:5], *OTHERS, *BIG]}


def calls_of_story() -> int:
    storage = SimulatedStorage(Random(1))
    keeper = Keeper(storage)
    story(keeper)
    assert frames(keeper.journal) == FINAL
    return storage.calls


CALLS = calls_of_story()
KILL = None
TEARS: list[tuple[Tear | None, int]] = [
    (KILL, 0),
    (Tear.LOSE, 0),
    (Tear.KEEP, 0),
    *((Tear.PREFIX, seed) for seed in range(3)),
    *((Tear.SECTORS, seed) for seed in range(3)),
]


def crashed_at(call: int, tear: Tear | None, seed: int) -> tuple[SimulatedStorage, Keeper | None]:
    """A disk after the story was cut off behind this call, by a crash of the machine or (KILL) of the process."""
    storage = SimulatedStorage(Random(seed), DiskFaults(crash_after=call))
    keeper = None
    with contextlib.suppress(Crashed):
        keeper = Keeper(storage)
        story(keeper)
    if tear is KILL:
        storage.kill()
    else:
        storage.crash(tear=tear)
    return storage, keeper


def goes_on(storage: SimulatedStorage, keeper: Keeper) -> None:
    """The log takes the next entry and has it after another restart."""
    journal = open_journal(storage, slots=SLOTS, seed=1234)
    keeper.check(journal)
    keeper = copy.copy(keeper)  # The caller may go on from another disk.
    keeper.required, keeper.allowed = dict(keeper.required), dict(keeper.allowed)
    head = journal.header(journal.last_op) if journal.last_op is not None else None
    first = 1 if head is None else head.op + 1
    entries = chain(first, first + 1, parent=0 if head is None else head.checksum)
    journal.append(entries)
    for entry in entries:
        keeper.allowed[entry.header.op] = [entry.frame]
        keeper.required[entry.header.op] = entry.frame
    keeper.check(journal)
    storage.crash(tear=Tear.LOSE)
    keeper.check(open_journal(storage, slots=SLOTS))


@pytest.mark.parametrize(("tear", "seed"), TEARS)
def test_br19_br52_a_crash_behind_any_call_loses_nothing_acknowledged(tear: Tear | None, seed: int) -> None:
    """BR-19 and BR-52 at the log: append, batch, mark, drain, truncate, preallocation, creation."""
    for call in range(1, CALLS + 1):
        storage, keeper = crashed_at(call, tear, seed)
        if keeper is None:
            assert open_journal(storage, slots=SLOTS).is_empty
        else:
            goes_on(storage, keeper)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_crash_at_any_byte_of_an_append(batch_size: int) -> None:
    """The unsynced bytes of the batch are cut at every length: a prefix of the batch is there, and all before it."""
    entries = ENTRIES[: 2 + batch_size]
    keep = 0
    while True:
        storage = SimulatedStorage(Random(1))
        keeper = Keeper(storage)
        keeper.append(entries[:2])
        start = keeper.journal.size
        storage.faults.crash_after = storage.calls + 1
        with pytest.raises(Crashed):
            keeper.append(entries[2:])
        storage.crash(keep_bytes=keep)
        journal = open_journal(storage, slots=SLOTS)
        keeper.check(journal)
        complete = journal.last_op == entries[-1].header.op
        assert journal.cut_bytes <= max(0, keep - (journal.size - start))
        if complete or keep % 8 == 0:
            goes_on(storage, keeper)
        if complete and keep > 0:
            break
        keep += 1
    assert keep > batch_size * 300


@pytest.mark.parametrize("seed", range(60))
def test_any_sectors_of_a_torn_batch(seed: int) -> None:
    storage = SimulatedStorage(Random(seed))
    keeper = Keeper(storage)
    keeper.append(ENTRIES[:2])
    storage.faults.crash_after = storage.calls + 1
    with pytest.raises(Crashed):
        keeper.append(ENTRIES[2:])
    storage.crash(tear=Tear.SECTORS)
    goes_on(storage, keeper)


@pytest.mark.parametrize("seed", range(12))
def test_a_crash_while_the_tail_is_being_cut(seed: int) -> None:
    """The boot that cuts may crash itself, at any call, any number of times."""
    original = SimulatedStorage(Random(seed))
    keeper = Keeper(original)
    keeper.append(ENTRIES[:2])
    original.faults.crash_after = original.calls + 1
    with pytest.raises(Crashed):
        keeper.append(ENTRIES[2:])
    original.crash(tear=Tear.SECTORS)
    calls = 1
    while True:
        storage = original.copy(Random(seed))
        storage.faults.crash_after = calls
        try:
            open_journal(storage, slots=SLOTS)
        except Crashed:
            storage.crash(tear=Tear.SECTORS)
            goes_on(storage, keeper)
            calls += 1
            continue
        break
    assert calls > 3


def test_a_failed_append_that_lies_on_the_disk_is_gone_after_the_truncation() -> None:
    """D-25: the bytes of the failed batch were complete; what replaced it must be what a restart finds."""
    for seed in range(10):
        storage = SimulatedStorage(Random(seed))
        keeper = Keeper(storage)
        keeper.append(ENTRIES[:5])
        storage.faults.fail_at[storage.calls + 2] = errno.EIO
        with pytest.raises(IoFailed):
            keeper.journal.append(ENTRIES[5:7])
        keeper.truncate(6)
        keeper.append(OTHERS)
        storage.crash()
        journal = open_journal(storage, slots=SLOTS)
        keeper.check(journal)
        assert journal.last_op == 7


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_br51_a_refusal_of_any_call_is_survived(error: int) -> None:
    """BR-51: each call fails once; its owner retries, and nothing is lost, now and after a restart."""
    for call in range(1, CALLS + 1):
        storage = SimulatedStorage(Random(call), DiskFaults(fail_at={call: error}))
        keeper = Keeper(storage)
        story(keeper)
        storage.faults.fail_at.clear()
        assert frames(keeper.journal) == FINAL, call
        storage.crash()
        journal = open_journal(storage, slots=SLOTS)
        assert frames(journal) == FINAL, call


def test_an_entry_that_only_the_cache_holds_is_on_the_disk_once_it_was_read() -> None:
    """The sync of op 2 failed and the process was killed: what the next one reads must survive a loss of power."""
    for seed in range(10):
        storage = SimulatedStorage(Random(seed))
        journal = open_journal(storage)
        journal.append(ENTRIES[:1])
        storage.faults.fail_at[storage.calls + 2] = errno.EIO
        with pytest.raises(IoFailed):
            journal.append(ENTRIES[1:2])
        storage.kill()
        read = frames(open_journal(storage))
        storage.crash(tear=Tear.LOSE)
        assert frames(open_journal(storage)) == read


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_br51_a_restart_after_a_refusal_of_any_call(error: int) -> None:
    """BR-51: each call fails once and the node dies of it."""
    for call in range(2, CALLS + 1):
        storage = SimulatedStorage(Random(call), DiskFaults(fail_at={call: error}))
        keeper = None
        try:
            keeper = _Dying(storage)
            story(keeper)
        except StorageError:
            storage.crash()
        storage.faults.fail_at.clear()
        if keeper is not None:
            goes_on(storage, keeper)


class _Dying(Keeper):
    def _until_done(self, call: Callable[[], object]) -> None:
        call()

    def _retrying_open(self) -> PrepareJournal:
        return open_journal(self.storage, slots=SLOTS)


def budgets() -> Iterator[int]:
    """Every byte of a batch of two entries, and a while into the rewrite that follows its failure."""
    size = sum(len(entry.frame) + 48 for entry in OTHERS)
    yield from range(0, size, 1)
    yield from range(size, size + 3 * STEP, 97)


def test_br51_no_space_at_any_byte_of_an_append() -> None:
    """BR-51: the disk is full after so many bytes, is freed, and the node restarts or goes on: no manual step."""
    for budget in budgets():
        for restart in (True,) if budget % 4 else (True, False):
            storage = SimulatedStorage(Random(budget))
            keeper = Keeper(storage)
            keeper.append(ENTRIES[:5])
            storage.faults.write_budget = budget
            try:
                keeper.journal.append(OTHERS)
                keeper.journal.drain(1)
            except IoFailed as failure:
                assert failure.errno == errno.ENOSPC  # noqa: PT017 - not every budget fails.
            for entry in OTHERS:
                keeper.allowed[entry.header.op] = [entry.frame]
            storage.faults.write_budget = None
            if restart:
                storage.crash()
                keeper.journal = open_journal(storage, slots=SLOTS, seed=budget)
            keeper.drain(1)
            keeper.append(OTHERS)
            keeper.check(keeper.journal)
            storage.crash()
            keeper.check(open_journal(storage, slots=SLOTS))


@pytest.mark.parametrize("seed", range(40))
def test_many_faults_and_crashes_by_seed(seed: int) -> None:
    random = Random(seed)
    storage = SimulatedStorage(random)
    keeper = Keeper(storage)
    op, parent = 1, 0
    for _ in range(12):
        storage.faults.error_probability = 0.05
        storage.faults.crash_after = storage.calls + random.randint(1, 40)
        try:
            while True:
                entries = chain(
                    op, op + random.randint(0, 3), parent=parent, body=random.randbytes(random.randint(0, 900))
                )
                keeper.append(entries)
                op, parent = entries[-1].header.op + 1, entries[-1].header.checksum
                if random.random() < 0.2:
                    keeper.mark()
                if op > 12:
                    keeper.drain(op - random.randint(2, 10))
        except Crashed:
            storage.crash()
            keeper.journal = keeper._retrying_open()
            storage.faults.error_probability = 0
            keeper.check(keeper.journal)
            last = keeper.journal.last_op
            head = keeper.journal.header(last) if last is not None else None
            op, parent = (1, 0) if head is None else (head.op + 1, head.checksum)
            keeper._forbid(lambda each, head=op: each >= head)  # type: ignore[misc]
            for header in keeper.journal.headers_from(0):
                entry = keeper.journal.entry_at(header)
                assert entry is not None
                keeper.required[header.op] = entry.frame
    assert keeper.required


def test_the_story_touches_the_file_of_the_log_only() -> None:
    storage = SimulatedStorage(Random(1))
    story(Keeper(storage))
    assert storage.list(JOURNAL.parent) == ("journal.wal",)
