"""A drain in steps with appends between them: what is copied, how much at a time, and crashes anywhere (persistence 2.4)."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from random import Random

import pytest

from levrier.persistence.data_dir import temporary
from levrier.persistence.errors import (
    AppendRefused,
    IoFailed,
    JournalBusy,
    JournalDamaged,
    JournalPoisoned,
    StorageError,
)
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.journal_drain import STEP_SIZE, SYNC_SIZE, DrainSession
from levrier.persistence.journal_format import FILE_HEADER_SIZE
from levrier.persistence.journal_rewrite import CHUNK_SIZE
from levrier.persistence.simulated_storage import Crashed, DiskFaults, SimulatedStorage, Tear
from levrier.wire.prepare import Prepare
from tests.persistence.prepares import JOURNAL, chain, frames, open_journal, ops, prepare
from tests.persistence.test_journal_crash import Keeper, goes_on

SLOTS = 32
UP_TO = 2
BODY = b"b" * 25_000
ENTRIES = chain(1, 9, body=BODY)
LATE = chain(10, 24, parent=ENTRIES[-1].header.checksum)


def filled(*, entries: list[Prepare] = ENTRIES, slots: int = SLOTS) -> tuple[SimulatedStorage, PrepareJournal]:
    """A log that takes several steps to drain."""
    storage = SimulatedStorage(Random(1))
    journal = open_journal(storage, slots=slots)
    journal.append(entries)
    return storage, journal


def step_until_ready(session: DrainSession, *, steps_max: int = 100) -> int:
    """The number of steps that it took."""
    for count in range(steps_max):
        if session.ready:
            return count
        session.step()
    raise AssertionError(f"not ready after {steps_max} steps")


def wanted(entries: list[Prepare]) -> dict[int, bytes]:
    return {entry.header.op: entry.frame for entry in entries}


def test_s149_what_is_appended_between_the_steps_is_kept() -> None:
    """S-149: in the old file until the end, in the new one after it; small ones and large ones, read from one window."""
    storage, journal = filled()
    late: Iterator[Prepare] = iter(LATE)
    appended: list[Prepare] = []

    session = journal.begin_drain(UP_TO)
    while not session.ready:
        appended.append(next(late))
        journal.append(appended[-1:])
        assert frames(journal) == wanted([*ENTRIES, *appended])
        session.step()
    appended.append(next(late))
    journal.append(appended[-1:])

    assert session.finish() == UP_TO
    assert len(appended) >= 4
    expected = wanted([*ENTRIES[UP_TO:], *appended])
    assert (frames(journal), journal.last_op, journal.snapshot_op) == (expected, appended[-1].header.op, UP_TO)
    assert storage.is_durable(JOURNAL)
    following = chain(appended[-1].header.op + 1, 26, parent=appended[-1].header.checksum)
    journal.append(following)
    journal.close()
    assert frames(open_journal(storage, slots=SLOTS, snapshot_op=UP_TO)) == expected | wanted(following)


def test_a_step_writes_little_and_leaves_little_unsynced() -> None:
    storage, journal = filled(entries=chain(1, 30, body=BODY))
    session = journal.begin_drain(UP_TO)
    unsynced = 0
    while not session.ready:
        before = storage.calls
        session.step()
        calls = [call for call in storage.audit if call.number > before]
        written = sum(call.size for call in calls if call.name == "write")
        assert written <= STEP_SIZE + len(BODY) + 1024 + SYNC_SIZE
        unsynced = 0 if any(call.name == "sync" for call in calls) else unsynced + written
        assert unsynced < SYNC_SIZE
    assert unsynced == 0


def test_the_last_step_copies_only_what_came_since() -> None:
    storage, journal = filled()
    session = journal.begin_drain(UP_TO)
    step_until_ready(session)
    journal.append(LATE[:1])
    before = storage.calls

    session.finish()

    calls = [(call.name, call.size) for call in storage.audit if call.number > before]
    assert [name for name, _ in calls] == ["read", "write", "datasync", "rename", "sync_directory", "open"]
    assert calls[1][1] < 1024


def test_an_entry_above_the_chunk_takes_a_step_for_each_piece() -> None:
    storage, journal = filled(entries=chain(1, 3, body=b"x" * (4 * CHUNK_SIZE)))
    session = journal.begin_drain(1)
    before = storage.calls
    steps = step_until_ready(session)
    assert steps >= 8
    assert all(call.size <= 2 * CHUNK_SIZE for call in storage.audit if call.number > before)
    session.finish()
    assert sorted(frames(journal)) == [2, 3]


def test_a_drain_ends_though_the_log_grows_faster_than_a_step() -> None:
    _, journal = filled(slots=256)
    session = journal.begin_drain(UP_TO)
    op, parent = 10, ENTRIES[-1].header.checksum
    while not session.ready:
        batch = chain(op, op + 7, parent=parent, body=BODY)
        journal.append(batch)
        op, parent = batch[-1].header.op + 1, batch[-1].header.checksum
        session.step()
        assert op < 100
    session.finish()
    assert sorted(frames(journal)) == list(range(3, op))


def test_a_drain_of_nothing_is_ready_at_once() -> None:
    storage, journal = filled()
    journal.drain(UP_TO)
    before = storage.calls
    session = journal.begin_drain(UP_TO)
    assert session.ready
    journal.append(LATE[:1])
    assert session.finish() == 0
    assert [call.name for call in storage.audit if call.number > before] == ["write", "datasync"]


def test_what_is_drained_may_be_overwritten_while_the_rest_is_copied() -> None:
    """The slot of op 2 is taken by op 10 before the drain has ended."""
    storage, journal = filled(entries=ENTRIES[:8], slots=8)
    session = journal.begin_drain(UP_TO)
    entries = chain(9, 10, parent=ENTRIES[7].header.checksum)
    journal.append(entries)
    step_until_ready(session)
    session.finish()
    expected = wanted([*ENTRIES[2:8], *entries])
    assert frames(journal) == expected
    journal.close()
    assert frames(open_journal(storage, slots=8, snapshot_op=UP_TO)) == expected


def test_a_log_with_wide_gaps_is_drained() -> None:
    _, journal = filled(entries=[prepare(1), prepare(2), prepare(1_000_003), prepare(1 << 40)])
    session = journal.begin_drain(1)
    assert step_until_ready(session) == 1
    assert session.finish() == 1
    assert ops(journal) == [2, 1_000_003, 1 << 40]


def test_s156_one_rewrite_at_a_time() -> None:
    """S-156: busy until the session is over, whichever way."""
    _, journal = filled()
    session = journal.begin_drain(UP_TO)
    session.step()
    for refused in (lambda: journal.begin_drain(4), lambda: journal.drain(4), lambda: journal.truncate_from(9)):
        with pytest.raises(JournalBusy):
            refused()
    step_until_ready(session)
    session.finish()
    assert journal.truncate_from(9) == 1
    journal.begin_drain(4).abort()
    assert journal.drain(4) == 2
    assert ops(journal) == [5, 6, 7, 8]


@pytest.mark.parametrize("steps", range(4))
@pytest.mark.parametrize("close", [False, True])
def test_an_aborted_drain_leaves_the_log_and_no_new_file(steps: int, close: bool) -> None:
    storage, journal = filled()
    content = storage.content(JOURNAL)
    session = journal.begin_drain(UP_TO)
    for _ in range(steps):
        session.step()
    if close:
        journal.close()
        journal = open_journal(storage, slots=SLOTS)
    else:
        session.abort()
        session.abort()
    assert session.over
    assert storage.content(JOURNAL) == content
    assert not storage.exists(temporary(JOURNAL))
    journal.append(LATE[:1])
    assert sorted(frames(journal)) == list(range(1, 11))


def test_a_drain_refuses_to_copy_what_went_bad_and_is_over() -> None:
    storage, journal = filled()
    session = journal.begin_drain(UP_TO)
    storage.flip(JOURNAL, journal.size - 100)
    with pytest.raises(JournalDamaged, match="op 9"):
        step_until_ready(session)
    assert session.over
    assert journal.poisoned is None
    assert ops(journal) == list(range(1, 10))
    assert not storage.exists(temporary(JOURNAL))


def test_a_failed_append_during_a_drain_still_asks_for_its_truncation() -> None:
    """D-25: the unknown bytes stay behind with the old file, the refusal does not."""
    storage, journal = filled()
    session = journal.begin_drain(UP_TO)
    session.step()
    storage.faults.fail_at[storage.calls + 2] = errno.EIO
    with pytest.raises(IoFailed):
        journal.append(LATE[:1])
    step_until_ready(session)
    session.finish()
    with pytest.raises(AppendRefused):
        journal.append(LATE[1:2])
    assert journal.truncate_from(10) == 0
    journal.append(LATE[:1])
    storage.crash()
    assert frames(open_journal(storage, slots=SLOTS)) == wanted([*ENTRIES[UP_TO:], *LATE[:1]])


def test_a_drained_log_has_a_fresh_epoch() -> None:
    """D-24: what the old file left on the disk is no record of the new one."""
    storage, journal = filled()
    epoch = (storage.content(JOURNAL) or b"")[24:32]
    session = journal.begin_drain(UP_TO)
    step_until_ready(session)
    assert (storage.content(JOURNAL) or b"")[24:32] == epoch
    session.finish()
    content = storage.content(JOURNAL) or b""
    assert content[24:32] != epoch
    assert epoch not in content
    first = FILE_HEADER_SIZE
    assert int.from_bytes(content[first + 24 : first + 32], "little") == first


# Crashes and refusals at every call


class Drainer(Keeper):
    """Drains in steps with an append between any two."""

    def story(self) -> None:
        self.append(ENTRIES)
        for op in range(1, UP_TO + 1):
            del self.required[op]
        late = iter(LATE)
        session = self.journal.begin_drain(UP_TO)
        while not session.ready:
            session.step()
            self.append([next(late)])
        session.finish()
        self._forbid(lambda op: op <= UP_TO)
        self.append([next(late)])


class RetryingDrainer(Drainer):
    """As its owner would: an attempt that failed is made again, from the beginning."""

    def drain_in_steps(self, late: Iterator[Prepare]) -> None:
        session = self.journal.begin_drain(UP_TO)
        while not session.ready:
            session.step()
            entry = next(late)
            self.allowed[entry.header.op] = [entry.frame]
            try:
                self.journal.append([entry])
            except IoFailed:
                session.abort()
                self.append([entry])
                raise
            self.required[entry.header.op] = entry.frame
        session.finish()

    def story(self) -> None:
        self.append(ENTRIES)
        late = iter(LATE)
        self._until_done(lambda: self.drain_in_steps(late))
        self.append([next(late)])


def calls_of_story() -> tuple[int, int]:
    """Calls before the drain, and all."""
    storage = SimulatedStorage(Random(1))
    keeper = Drainer(storage)
    keeper.append(ENTRIES)
    before = storage.calls
    storage = SimulatedStorage(Random(1))
    keeper = Drainer(storage)
    keeper.story()
    keeper.check(keeper.journal)
    return before, storage.calls


BEFORE, CALLS = calls_of_story()


@pytest.mark.parametrize("tear", [None, Tear.LOSE, Tear.KEEP, Tear.PREFIX, Tear.SECTORS])
def test_s176_br19_a_crash_behind_any_call_leaves_the_old_log_or_the_new(tear: Tear | None) -> None:
    """S-176, BR-19, BR-52: with everything that was acknowledged, before and between the steps."""
    assert CALLS - BEFORE > 25
    for call in range(BEFORE, CALLS + 1):
        storage = SimulatedStorage(Random(call), DiskFaults(crash_after=call))
        keeper = Drainer(storage)
        with contextlib.suppress(Crashed):
            keeper.story()
        if tear is None:
            storage.kill()
        else:
            storage.crash(tear=tear)
        goes_on(storage, keeper)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_br51_a_refusal_of_any_call_of_a_drain_is_survived(error: int) -> None:
    """BR-51: the attempt is over, the log is as before or poisoned, and the next attempt or restart succeeds."""
    for call in range(BEFORE + 1, CALLS + 1):
        storage = SimulatedStorage(Random(call), DiskFaults(fail_at={call: error}))
        keeper = RetryingDrainer(storage)
        keeper.story()
        storage.faults.fail_at.clear()
        found = frames(keeper.journal)
        assert min(found) == UP_TO + 1
        assert all(found[op] == frame for op, frame in keeper.required.items() if op > UP_TO)
        storage.crash()
        assert frames(open_journal(storage, slots=SLOTS)) == found, call


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_br51_a_restart_after_a_refusal_of_any_call_of_a_drain(error: int) -> None:
    """BR-51: the node dies of it; S-176: nothing acknowledged is lost."""
    for call in range(BEFORE + 1, CALLS + 1):
        storage = SimulatedStorage(Random(call), DiskFaults(fail_at={call: error}))
        keeper = _DyingDrainer(storage)
        with contextlib.suppress(StorageError):
            keeper.story()
        storage.crash()
        storage.faults.fail_at.clear()
        goes_on(storage, keeper)


def test_s176_a_drain_that_failed_behind_its_rename_poisons_the_log() -> None:
    """S-176, persistence 2.4: the directory sync, then the reopening."""
    for behind in (1, 2):
        storage, journal = filled()
        session = journal.begin_drain(UP_TO)
        step_until_ready(session)
        probe = storage.calls
        names = ["write", "datasync", "rename", "sync_directory", "open"]
        storage.faults.fail_at[probe + names.index("rename") + 1 + behind] = errno.EIO
        with pytest.raises(JournalPoisoned):
            session.finish()
        assert [call.name for call in storage.audit if call.number > probe] == names[: 3 + behind]
        with pytest.raises(JournalPoisoned):
            journal.append(LATE[:1])
        with pytest.raises(JournalPoisoned):
            journal.begin_drain(UP_TO)


class _DyingDrainer(Drainer):
    def _until_done(self, call: object) -> None:
        assert callable(call)
        call()
