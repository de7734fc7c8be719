"""What a drain removes is kept first: its order, its failures, what is read from it, and what goes (acknowledgements 5)."""

import errno
from functools import cache

import pytest
from loguru import logger

from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.consensus import messages as consensus
from levrier.actors.journal import messages as journal
from levrier.persistence.archive import Archive
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.wire.acknowledgement import Frontier
from levrier.wire.prepare import METADATA_GROUP
from tests.actors.journal.rig import DIRECTORY, JournalRig, append, open_journal, ops_on_disk, prepare

ARCHIVE = DIRECTORY / "archive"


@cache
def large(op: int) -> journal.Append:
    """An entry of 30 KB: a step copies two or three."""
    parent = large(op - 1).prepare.header.checksum if op > 1 else 0
    return journal.Append(prepare=prepare(op, body_size=30_000, parent=parent), view=3)


def filled(last: int, *, storage: SimulatedStorage | None = None) -> JournalRig:
    """A log of ops 1 to `last` beside an empty archive."""
    rig = JournalRig(storage=storage, keeps_history=True)
    rig.tell(*(append(op) for op in range(1, last + 1)))
    rig.consensus.take_all()
    rig.acknowledgements.take_all()
    return rig


def reaches(rig: JournalRig) -> list[int]:
    """What Consensus was told of the archive."""
    return [each.first_op for each in rig.consensus.take_all() if isinstance(each, consensus.ArchiveReaches)]


def test_what_leaves_the_log_is_in_the_archive_before_it_is_gone() -> None:
    """Consensus and Acknowledgements are told before the checkpoint is over."""
    rig = filled(10)
    rig.tell(journal.Drain(up_to=6))
    assert reaches(rig) == [1]
    (told,) = rig.acknowledgements.take_all()
    assert (told.first_op, told.last_op, told.segments) == (1, 6, 1)
    assert told.size > 6 * 256
    assert isinstance(rig.checkpoint.take(), checkpoint.Drained)
    assert ops_on_disk(rig.storage) == [7, 8, 9, 10]
    segments = [call.number for call in rig.storage.audit if call.name == "rename" and call.path.parent == ARCHIVE]
    drains = [call.number for call in rig.storage.audit if call.name == "rename" and call.path.parent == DIRECTORY]
    assert segments[-1] < drains[-1]


def test_what_has_left_the_log_is_still_read() -> None:
    rig = filled(10)
    rig.tell(journal.Drain(up_to=6))
    assert rig.read(1, 10) == list(range(1, 11))
    assert rig.read(5, 7) == [5, 6, 7]
    rig.tell(journal.Drain(up_to=8))
    assert rig.read(1, 10) == list(range(1, 11))


def test_appends_go_on_while_it_is_taken_in() -> None:
    rig = JournalRig(pause_milliseconds=1, keeps_history=True)
    rig.tell(*(large(op) for op in range(1, 11)))
    rig.tell(journal.Drain(up_to=8))
    op = 10
    while not rig.checkpoint.count:
        op += 1
        rig.tell(large(op))
        rig.runtime.advance(1)
    assert op > 14
    found: list[int] = []
    while len(found) < op:
        found += rig.read(len(found) + 1, op)
    assert found == list(range(1, op + 1))


def test_a_truncation_meanwhile_changes_nothing_of_what_is_kept() -> None:
    rig = JournalRig(pause_milliseconds=1, keeps_history=True)
    rig.tell(*(large(op) for op in range(1, 11)))
    rig.tell(journal.Drain(up_to=6), journal.Truncate(from_op=9))
    rig.runtime.advance(50)
    assert isinstance(rig.checkpoint.take(), checkpoint.Drained)
    assert rig.read(1, 10) == list(range(1, 9))


@pytest.mark.parametrize("name", ["create", "write", "sync", "rename", "sync_directory"])
def test_a_drain_fails_when_what_it_removes_cannot_be_kept(name: str) -> None:
    """Nothing leaves the log; the next checkpoint drains again."""
    twin = filled(10)
    before = twin.storage.calls
    twin.tell(journal.Drain(up_to=6))
    offset = next(call.number for call in twin.storage.audit if call.number > before and call.name == name) - before
    rig = filled(10)
    rig.storage.faults.fail_at[rig.storage.calls + offset] = errno.ENOSPC
    rig.tell(journal.Drain(up_to=6))
    answer = rig.checkpoint.take()
    assert isinstance(answer, checkpoint.DrainFailed)
    assert "ENOSPC" in answer.reason
    assert ops_on_disk(rig.storage) == list(range(1, 11))
    rig.tell(append(11), journal.Drain(up_to=7))
    assert isinstance(rig.checkpoint.take(), checkpoint.Drained)
    assert rig.read(1, 11) == list(range(1, 12))


def test_what_everybody_has_is_deleted_and_no_more() -> None:
    rig = filled(12)
    for up_to in (3, 6, 9):
        rig.tell(journal.Drain(up_to=up_to))
    rig.acknowledgements.take_all()
    reaches(rig)
    rig.tell(journal.Reclaim(frontier=Frontier(((0, 5),))))
    assert reaches(rig) == [4]
    (told,) = rig.acknowledgements.take_all()
    assert (told.first_op, told.last_op, told.segments) == (4, 9, 2)
    assert rig.read(1, 12) == []
    assert rig.read(4, 12) == list(range(4, 13))
    rig.tell(journal.Reclaim(frontier=Frontier(((0, 5),))))
    rig.acknowledgements.assert_silent()
    rig.tell(journal.Reclaim(frontier=Frontier(((0, 99),))))
    assert reaches(rig) == [10], "the log holds the entry at the snapshot's op, and serves it"
    assert rig.acknowledgements.take_all()[-1].segments == 0


def test_a_deletion_that_fails_is_no_end() -> None:
    rig = filled(12)
    rig.tell(journal.Drain(up_to=6))
    rig.storage.faults.fail_at[rig.storage.calls + 1] = errno.EIO
    rig.tell(journal.Reclaim(frontier=Frontier(((0, 99),))))
    assert rig.read(1, 12) == list(range(1, 13))
    rig.tell(journal.Reclaim(frontier=Frontier(((0, 99),))))
    assert rig.read(7, 12) == list(range(7, 13))
    assert rig.storage.list(ARCHIVE) == ()


def test_after_a_restart_it_says_what_it_keeps() -> None:
    rig = filled(10)
    rig.tell(journal.Drain(up_to=6))
    rig.runtime.stop(order=("journal",))
    again = JournalRig(storage=rig.storage, snapshot_op=7, keeps_history=True)
    again.runtime.run()
    assert reaches(again) == [1]
    assert again.acknowledgements.take().last_op == 6
    assert again.read(1, 10) == list(range(1, 11))
    again.checkpoint.assert_silent()


def test_a_drain_that_a_crash_left_undone_is_done_at_the_next_start() -> None:
    """The snapshot of op 7 is named, the log still holds everything: it is kept before a slot of it is used again."""
    rig = filled(10)
    rig.storage.crash()
    again = JournalRig(storage=rig.storage, snapshot_op=7, keeps_history=True)
    again.runtime.run()
    assert ops_on_disk(again.storage, snapshot_op=7) == [7, 8, 9, 10]
    assert again.read(1, 10) == list(range(1, 11))


def test_behind_a_snapshot_from_a_peer_the_archive_reaches_nowhere_until_the_next_checkpoint() -> None:
    rig = filled(4)
    rig.tell(journal.Drain(up_to=2))
    reaches(rig)
    rig.tell(journal.Drain(up_to=19))
    assert reaches(rig) == [0]
    assert rig.read(1, 30) == []
    rig.tell(*(append(op) for op in range(21, 31)), journal.Drain(up_to=25))
    assert reaches(rig) == [21]
    assert rig.read(21, 30) == list(range(21, 31))
    assert rig.read(1, 30) == []


def test_a_damaged_entry_is_not_served_and_the_archive_reaches_less_far() -> None:
    rig = filled(12)
    for up_to in (3, 6, 9):
        rig.tell(journal.Drain(up_to=up_to))
    reaches(rig)
    segment = ARCHIVE / rig.storage.list(ARCHIVE)[1]
    rig.storage.flip(segment, 300)
    assert rig.read(1, 12) == [1, 2, 3, 4]
    assert reaches(rig) == [7]
    assert rig.read(7, 12) == list(range(7, 13))
    rig.runtime.stop(order=("journal",))
    assert Archive.open(rig.storage, ARCHIVE, group=METADATA_GROUP).entry(8) == prepare(8)
    open_journal(rig.storage, snapshot_op=10).close()


@pytest.mark.parametrize(
    ("replica", "bound"),
    [(None, {"actor": "journal"}), (2, {"actor": "journal", "replica": 2})],
    ids=["alone", "member"],
)
def test_what_is_logged_says_whose_it_is(replica: int | None, bound: dict[str, object]) -> None:
    """By actor and, in a cluster, by replica; the archive's lines like the log's own."""
    rig = JournalRig(keeps_history=True, replica=replica)
    rig.tell(*(append(op) for op in range(1, 8)), journal.Drain(up_to=3))
    rig.storage.flip(ARCHIVE / rig.storage.list(ARCHIVE)[0], 300)
    seen: list[tuple[str | None, dict[str, object]]] = []
    sink = logger.add(lambda line: seen.append((line.record["name"], line.record["extra"])))
    try:
        rig.read(1, 3)
        rig.tell(journal.Truncate(from_op=6))
    finally:
        logger.remove(sink)
    assert {name for name, _ in seen} == {"levrier.actors.journal.archiving", "levrier.actors.journal.actor"}
    assert [extra for _, extra in seen] == [bound] * len(seen)
