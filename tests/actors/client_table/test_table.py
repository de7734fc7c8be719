"""Sessions, requests and their replies: client-table 3 to 5, cases C-148 to C-171, C-071 to C-080 on the table's side."""

from typing import Any

import pytest

from levrier.actors.client_table.entries import RING_MAX
from levrier.actors.client_table.messages import DISCONNECT_REQUEST
from levrier.actors.client_table.snapshot import restore
from levrier.actors.client_table.table import Answer, Check, ClientTable, CommitResult, Committed, SessionEnd
from tests.actors.client_table.builders import (
    ALICE,
    BOB,
    answer,
    cached_commit,
    check,
    commit,
    register,
    reply,
    section_of,
    table_of,
)


def test_a_register_makes_an_entry_with_its_op_as_epoch() -> None:
    """C-148, C-072: epoch 42, watermark 0, user kept, count 1."""
    table = table_of(4, (1, 42))
    entry = table.entry_of(1)
    assert entry is not None
    assert (entry.epoch, entry.watermark, entry.user_id, table.count) == (42, 0, ALICE, 1)


def test_a_rebind_keeps_watermark_and_replies() -> None:
    """C-149, C-071."""
    table = table_of(4, (1, 10))
    commit(table, 1, 5, 11)
    register(table, 1, 20)
    entry = table.entry_of(1)
    assert entry is not None
    assert (entry.epoch, entry.watermark) == (20, 5)
    assert cached_commit(check(table, 1, 5)) == 11


def test_a_rebind_keeps_one_register_reply() -> None:
    """The ring holds the newest register's reply only, or each login would push a client's replies out."""
    table = table_of(4, (1, 10))
    commit(table, 1, 1, 11)
    for op in range(20, 30):
        register(table, 1, op)
    entry = table.entry_of(1)
    assert entry is not None
    assert [(cached.request, cached.commit) for cached in entry.ring] == [(1, 11), (0, 29)]


def test_a_rebind_by_another_user_changes_the_user() -> None:
    """C-150."""
    table = table_of(4, (1, 10))
    register(table, 1, 20, BOB)
    assert table.user_of(1) == BOB


def test_each_client_has_its_own_user() -> None:
    """C-151."""
    table = ClientTable(4)
    register(table, 1, 10, ALICE)
    register(table, 2, 11, BOB)
    assert [table.user_of(client) for client in (1, 2, 3)] == [ALICE, BOB, None]
    assert [table.epoch_of(client) for client in (1, 2, 3)] == [10, 11, None]


def test_an_unknown_client_has_no_session() -> None:
    """C-152, C-073."""
    assert answer(ClientTable(4), 1, 1, epoch=5) is Answer.NO_SESSION


def test_an_older_epoch_is_fenced() -> None:
    """C-153, C-074: Fenced(20, 10)."""
    table = table_of(4, (1, 10), (1, 20))
    assert check(table, 1, 1, epoch=10) == Check(Answer.FENCED, 20, 10)


def test_a_newer_epoch_is_ahead() -> None:
    """C-154, C-075."""
    table = table_of(4, (1, 17))
    assert check(table, 1, 1, epoch=18) == Check(Answer.EPOCH_AHEAD, 17, 18)
    assert check(table, 1, 1, epoch=99) == Check(Answer.EPOCH_AHEAD, 17, 99)


def test_the_epoch_is_judged_before_the_request() -> None:
    """Client-table 3: a cached request of another epoch is not replayed."""
    table = table_of(4, (1, 17))
    commit(table, 1, 1, 18)
    assert answer(table, 1, 1, epoch=16) is Answer.FENCED
    assert answer(table, 1, 1, epoch=18) is Answer.EPOCH_AHEAD


def test_the_next_request_is_new() -> None:
    """C-155."""
    table = table_of(4, (1, 10))
    commit(table, 1, 1, 11)
    assert answer(table, 1, 2) is Answer.NEW


def test_any_gap_is_new() -> None:
    """C-156, C-080: request 9 over watermark 1 is new, and its commit moves the watermark to 9."""
    table = table_of(4, (1, 10))
    commit(table, 1, 1, 11)
    assert answer(table, 1, 9) is Answer.NEW
    commit(table, 1, 9, 12)
    entry = table.entry_of(1)
    assert entry is not None
    assert entry.watermark == 9


def test_the_watermark_request_is_a_duplicate() -> None:
    """C-157, C-164."""
    table = table_of(4, (1, 10))
    commit(table, 1, 1, 11)
    assert check(table, 1, 1) == Check(Answer.DUPLICATE, 1, 1, reply(1, 1, 11))


def test_an_older_request_gets_its_own_reply() -> None:
    """C-158, C-077."""
    table = table_of(4, (1, 10))
    commit(table, 1, 3, 11)
    commit(table, 1, 5, 12)
    assert cached_commit(check(table, 1, 3)) == 11


def test_an_aged_out_request_is_already_applied() -> None:
    """C-159, C-078: of six requests the first has left the ring."""
    table = table_of(4, (1, 10))
    for request in range(1, 7):
        commit(table, 1, request, 10 + request)
    assert check(table, 1, 1) == Check(Answer.ALREADY_APPLIED, 6, 1)
    assert cached_commit(check(table, 1, 2)) == 12


def test_a_retry_after_a_view_change_gets_the_original_bytes() -> None:
    """C-160."""
    table = table_of(4, (1, 10))
    original = reply(1, 1, 11, view=3)
    table.commit_reply(1, ALICE, original)
    table.commit_reply(1, ALICE, reply(1, 2, 12, view=4))
    assert check(table, 1, 1).reply == original


def test_a_reused_watermark_request_is_a_mismatch() -> None:
    """C-161."""
    table = table_of(4, (1, 10))
    commit(table, 1, 1, 11, checksum=0xAA)
    assert check(table, 1, 1, checksum=0xBB) == Check(Answer.CHECKSUM_MISMATCH, 1, 1)
    assert answer(table, 1, 1, checksum=0xAA) is Answer.DUPLICATE


@pytest.mark.parametrize(("stored", "asked"), [(0, 0xAA), (0xAA, 0), (0, 0)])
def test_an_unstamped_side_conflicts_with_nothing(stored: int, asked: int) -> None:
    """C-162."""
    table = table_of(4, (1, 10))
    commit(table, 1, 1, 11, checksum=stored)
    assert answer(table, 1, 1, checksum=asked) is Answer.DUPLICATE


def test_a_reused_older_request_is_a_mismatch() -> None:
    """C-163."""
    table = table_of(4, (1, 10))
    commit(table, 1, 1, 11, checksum=0xAA)
    commit(table, 1, 2, 12, checksum=0xBB)
    assert answer(table, 1, 1, checksum=0xAA) is Answer.DUPLICATE
    assert check(table, 1, 1, checksum=0xCC) == Check(Answer.CHECKSUM_MISMATCH, 2, 1)


def test_a_reused_watermark_is_caught_when_its_reply_is_gone() -> None:
    """Row 5 of client-table 3 comes before the ring: here only the register's reply is in it."""
    table = table_of(4, (1, 10))
    commit(table, 1, 1, 11, checksum=0xAA)
    register(table, 1, 20)
    section: Any = section_of(table)
    section[0][0][1].pop()
    again = restore(section, 4)
    assert check(again, 1, 1, checksum=0xBB) == Check(Answer.CHECKSUM_MISMATCH, 1, 1)
    assert check(again, 1, 1, checksum=0xAA) == Check(Answer.ALREADY_APPLIED, 1, 1)


def test_the_latest_of_two_replies_ranks_the_entry() -> None:
    """C-165."""
    table = table_of(4, (1, 10))
    commit(table, 1, 1, 11)
    commit(table, 1, 2, 12)
    entry = table.entry_of(1)
    assert entry is not None
    assert (entry.latest_commit, entry.ring[-1].request, entry.epoch, table.count) == (12, 2, 10, 1)


def test_a_request_committed_twice_is_cached_once() -> None:
    """C-166."""
    table = table_of(4, (1, 10))
    commit(table, 1, 1, 11)
    assert commit(table, 1, 1, 12) == Committed(CommitResult.CACHED)
    entry = table.entry_of(1)
    assert entry is not None
    assert entry.watermark == 1
    assert [cached.request for cached in entry.ring] == [0, 1]
    assert cached_commit(check(table, 1, 1)) == 12


def test_a_recommit_behind_a_rebind_keeps_the_rank_of_the_ring() -> None:
    """Client-table 5: the latest commit is re-derived from the ring's last, here the register's."""
    table = table_of(2, (1, 10))
    commit(table, 1, 1, 11)
    register(table, 1, 20)
    commit(table, 1, 1, 30)
    entry = table.entry_of(1)
    assert entry is not None
    assert entry.latest_commit == 20
    register(table, 2, 25)
    assert register(table, 3, 40).evicted == entry
    table.verify()


def test_a_commit_without_an_entry_changes_nothing() -> None:
    """C-169."""
    table = ClientTable(4)
    assert commit(table, 1, 1, 11) == Committed(CommitResult.NO_ENTRY)
    assert table.count == 0
    assert table.fences == ()


def test_a_lower_request_is_skipped() -> None:
    """C-170: SkippedRegression(5, 3); watermark and reply stay."""
    table = table_of(4, (1, 10))
    commit(table, 1, 5, 11)
    assert commit(table, 1, 3, 12) == Committed(CommitResult.SKIPPED_REGRESSION, 5, 3)
    assert cached_commit(check(table, 1, 5)) == 11


def test_an_older_commit_is_skipped() -> None:
    """Client-table 5: a reply older than the latest is no news, whatever its request number."""
    table = table_of(4, (1, 10))
    assert commit(table, 1, 5, 9) == Committed(CommitResult.SKIPPED_REGRESSION, 10, 9)
    assert answer(table, 1, 5) is Answer.NEW


def test_epochs_of_two_clients_are_independent() -> None:
    """C-171."""
    table = table_of(4, (1, 10), (2, 11), (1, 20))
    assert answer(table, 1, 1, epoch=10) is Answer.FENCED
    assert answer(table, 1, 1, epoch=20) is Answer.NEW
    assert answer(table, 2, 1, epoch=11) is Answer.NEW


def test_the_ring_holds_the_newest_replies() -> None:
    """Client-table 2: at most five, the oldest leaves first."""
    table = table_of(4, (1, 10))
    for request in range(1, 9):
        commit(table, 1, request, 10 + request)
    entry = table.entry_of(1)
    assert entry is not None
    assert [cached.request for cached in entry.ring] == [4, 5, 6, 7, 8]
    assert len(entry.ring) == RING_MAX


@pytest.mark.parametrize("epoch", [10, 9])
def test_an_epoch_that_does_not_rise_is_our_bug(epoch: int) -> None:
    """Client-table 4 asserts it for a rebind."""
    table = table_of(4, (1, 10))
    with pytest.raises(AssertionError, match="only rises"):
        register(table, 1, epoch)


def test_client_zero_is_refused() -> None:
    """Client-table 1: the id is reserved; three calls assert it."""
    table = ClientTable(4)
    with pytest.raises(AssertionError):
        register(table, 0, 1)
    with pytest.raises(AssertionError):
        commit(table, 0, 1, 1)
    with pytest.raises(AssertionError):
        table.check_request(0, 1, 1, 0)


def test_a_stale_disconnect_does_not_match_the_live_session() -> None:
    """BR-29: A registers twice; only the second session's end is let through."""
    table = table_of(4, (1, 10), (1, 20))
    assert table.check_epoch(1, 10) == Check(Answer.FENCED, 20, 10)
    assert table.check_epoch(1, 20).answer is Answer.NEW
    assert table.check_epoch(1, 21) == Check(Answer.EPOCH_AHEAD, 20, 21)
    assert table.check_epoch(2, 20).answer is Answer.NO_SESSION


def test_logouts_free_their_slots() -> None:
    """BR-25: fifty others come and go through capacity 4; A stays, and its retry gets the same bytes."""
    table = table_of(4, (1, 10))
    last = reply(1, 1, 11)
    table.commit_reply(1, ALICE, last)
    before = table.entry_of(1)
    for number in range(50):
        client, op = 100 + number, 20 + 3 * number
        assert register(table, client, op, BOB).evicted is None
        commit(table, client, 1, op + 1, user_id=BOB)
        assert table.remove_client(client, BOB, SessionEnd.DISCONNECT_CLEANUP)
    assert check(table, 1, 1).reply == last
    assert table.entry_of(1) == before
    assert table.count == 1


def test_the_request_number_tells_the_kind_of_end() -> None:
    """Client-table 7."""
    assert SessionEnd.of_request(DISCONNECT_REQUEST) is SessionEnd.DISCONNECT_CLEANUP
    assert SessionEnd.of_request(DISCONNECT_REQUEST - 1) is SessionEnd.EXPLICIT
    assert SessionEnd.of_request(1) is SessionEnd.EXPLICIT


def test_a_deleted_user_takes_sessions_and_fences_with_it() -> None:
    """D-02: the user's sessions and fences go, others stay, and the slots are free again, lowest first."""
    table = ClientTable(3)
    register(table, 1, 10, BOB)
    commit(table, 1, 1, 11, user_id=BOB)
    table.remove_client(1, BOB, SessionEnd.DISCONNECT_CLEANUP)
    register(table, 2, 12, BOB)
    register(table, 3, 13, ALICE)
    register(table, 4, 14, BOB)
    assert table.drop_user(BOB) == (2, 4)
    assert table.fences == ()
    assert answer(table, 2, 1, epoch=12) is Answer.NO_SESSION
    assert answer(table, 3, 1) is Answer.NEW
    register(table, 5, 15)
    captured = table.capture()
    assert captured.slots[0] is not None
    assert captured.slots[0].client == 5
    table.verify()
