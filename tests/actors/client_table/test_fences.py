"""What is remembered of sessions without a slot: client-table 4 to 7, cases C-178 to C-193, decision D-29."""

import pytest

from levrier.actors.client_table.entries import Fence
from levrier.actors.client_table.fences import Fences
from levrier.actors.client_table.snapshot import restore
from levrier.actors.client_table.table import Answer, Check, ClientTable, CommitResult, Committed, SessionEnd
from levrier.actors.client_table.transfer import decode, encode
from tests.actors.client_table.builders import (
    ALICE,
    BOB,
    ROOT,
    answer,
    cached_commit,
    check,
    commit,
    register,
    reply,
    restored,
    section_of,
    table_of,
)


def evicted_at(watermark: int, *, checksum: int = 0) -> ClientTable:
    """Client 1 registered at op 1, committed `watermark` at op 2, and lost the only slot to client 2 at op 3."""
    table = table_of(1, (1, 1))
    commit(table, 1, watermark, 2, checksum=checksum)
    register(table, 2, 3)
    assert table.entry_of(1) is None
    return table


def fence(client: int, user_id: int, watermark: int = 1) -> Fence:
    return Fence(client, user_id, 10, watermark, 0, None)


def test_a_returning_client_goes_on_at_its_watermark() -> None:
    """C-178."""
    table = evicted_at(1)
    register(table, 1, 4)
    assert cached_commit(check(table, 1, 1)) == 2
    assert answer(table, 1, 2) is Answer.NEW


def test_a_fence_is_used_up_by_its_return() -> None:
    """Client-table 4: it is taken; here the one left is that of the client that made room."""
    table = evicted_at(1)
    register(table, 1, 4)
    assert [left.client for left in table.fences] == [2]


def test_another_user_gets_nothing_of_a_fence() -> None:
    """C-179."""
    table = table_of(2, (1, 1), (2, 2))
    commit(table, 1, 5, 3)
    table.remove_client(1, ALICE, SessionEnd.DISCONNECT_CLEANUP)
    register(table, 1, 4, BOB)
    entry = table.entry_of(1)
    assert entry is not None
    assert entry.watermark == 0
    assert answer(table, 1, 5) is Answer.NEW
    assert [(left.client, left.user_id, left.watermark) for left in table.fences] == [(1, ALICE, 5)]


def test_each_user_takes_its_own_fence() -> None:
    """C-180."""
    first, second = fence(1, ALICE), fence(1, BOB)
    fences = Fences((first, second))
    assert fences.take(1, BOB) is second
    assert fences.all() == (first,)
    assert fences.take(1, BOB) is None


def test_an_explicit_logout_forgets_an_evicted_client() -> None:
    """C-181."""
    table = evicted_at(1)
    assert not table.remove_client(1, ALICE, SessionEnd.EXPLICIT)
    register(table, 1, 4)
    assert answer(table, 1, 1) is Answer.NEW


def test_a_disconnect_of_an_evicted_client_keeps_its_fence() -> None:
    """C-182."""
    table = evicted_at(3)
    assert not table.remove_client(1, ALICE, SessionEnd.DISCONNECT_CLEANUP)
    register(table, 1, 4)
    assert answer(table, 1, 3) is Answer.DUPLICATE


def test_a_disconnect_of_a_live_client_leaves_a_fence() -> None:
    """C-183."""
    table = table_of(4, (1, 1))
    commit(table, 1, 5, 2)
    assert table.remove_client(1, ALICE, SessionEnd.DISCONNECT_CLEANUP)
    register(table, 1, 3)
    assert answer(table, 1, 5) is Answer.DUPLICATE
    assert answer(table, 1, 6) is Answer.NEW


def test_an_explicit_logout_of_a_live_client_leaves_none() -> None:
    """Client-table 7."""
    table = table_of(4, (1, 1))
    commit(table, 1, 5, 2)
    assert table.remove_client(1, ALICE, SessionEnd.EXPLICIT)
    assert table.fences == ()
    assert table.count == 0


def test_a_disconnect_without_a_commit_leaves_none() -> None:
    """Client-table 7: there is nothing to protect, and whatever it had in flight committed before its Logout."""
    table = table_of(4, (1, 1))
    table.remove_client(1, ALICE, SessionEnd.DISCONNECT_CLEANUP)
    assert table.fences == ()


def test_an_explicit_logout_takes_one_users_fence() -> None:
    """C-184."""
    table = table_of(4, (1, 1))
    commit(table, 1, 1, 2)
    table.remove_client(1, ALICE, SessionEnd.DISCONNECT_CLEANUP)
    register(table, 1, 3, BOB)
    commit(table, 1, 1, 4, user_id=BOB)
    table.remove_client(1, BOB, SessionEnd.DISCONNECT_CLEANUP)
    assert [left.user_id for left in table.fences] == [ALICE, BOB]
    table.remove_client(1, BOB, SessionEnd.EXPLICIT)
    assert [left.user_id for left in table.fences] == [ALICE]


@pytest.mark.parametrize("owner", [ALICE, ROOT])
def test_an_explicit_logout_without_an_owner_takes_no_fence(owner: int) -> None:
    """C-185: 0 in a Logout names nobody, not even root, whose id it is."""
    table = ClientTable.rebuild(2, (), Fences((fence(1, owner),)))
    table.remove_client(1, 0, SessionEnd.EXPLICIT)
    assert table.fences == (fence(1, owner),)


def test_the_owner_of_a_session_is_known_live_and_fenced() -> None:
    """C-186."""
    table = table_of(1, (1, 1))
    commit(table, 1, 1, 2)
    assert table.owner_of_session(1, 1) == ALICE
    register(table, 2, 3)
    assert table.owner_of_session(1, 1) == ALICE
    assert table.owner_of_session(1, 2) is None
    assert table.owner_of_session(3, 1) is None


def test_a_commit_behind_an_eviction_advances_the_fence() -> None:
    """C-187."""
    table = evicted_at(1)
    assert commit(table, 1, 2, 4) == Committed(CommitResult.ADVANCED_FENCE)
    register(table, 1, 5)
    assert cached_commit(check(table, 1, 2)) == 4
    assert answer(table, 1, 3) is Answer.NEW


def test_a_fence_advances_only_for_its_user() -> None:
    """Client-table 4: both fields in one predicate."""
    table = evicted_at(1)
    assert commit(table, 1, 2, 4, user_id=BOB) == Committed(CommitResult.NO_ENTRY)


def test_a_fence_does_not_go_back() -> None:
    """C-188."""
    table = evicted_at(3)
    assert commit(table, 1, 2, 4) == Committed(CommitResult.SKIPPED_REGRESSION, 3, 2)


def test_a_fence_outlives_as_many_reclaims_as_there_are_slots() -> None:
    """C-189: retention 2; it survives the first further reclaim and falls to the second."""
    table = table_of(2, (1, 1), (2, 2))
    commit(table, 2, 1, 3)
    register(table, 3, 4)
    assert [left.client for left in table.fences] == [1]
    register(table, 4, 5)
    assert [left.client for left in table.fences] == [1, 2]
    assert [forgotten.client for forgotten in register(table, 5, 6).forgotten] == [1]
    assert [left.client for left in table.fences] == [2, 3]


def test_a_fence_survives_a_checkpoint() -> None:
    """C-190."""
    table = evicted_at(3)
    again = restored(table, 1)
    assert again.fences == table.fences
    register(again, 1, 9)
    assert check(again, 1, 3).reply == reply(1, 3, 2)


def test_a_fence_survives_a_transfer() -> None:
    """C-191."""
    table = evicted_at(3)
    again = decode(encode(table.capture()), 1)
    assert again.fences == table.fences
    register(again, 1, 9)
    assert check(again, 1, 3).reply == reply(1, 3, 2)


def test_a_section_without_fences_is_read() -> None:
    """C-192 for a checkpoint; the transfer layouts are in test_transfer."""
    section = section_of(evicted_at(3))
    assert isinstance(section, list)
    again = restore(section[:1], 1)
    assert again.count == 1
    assert again.fences == ()


def test_fences_never_outnumber_slots() -> None:
    """C-193: 20 clients through 2 slots."""
    table = ClientTable(2)
    for client in range(1, 21):
        register(table, client, 2 * client)
        commit(table, client, 1, 2 * client + 1)
    assert [left.client for left in table.fences] == [17, 18]


def test_an_eviction_before_the_first_commit_leaves_a_fence() -> None:
    """D-29: its first request may still be on its way; a resume must not execute it again."""
    table = table_of(1, (1, 1))
    register(table, 2, 2)
    assert [(left.client, left.watermark, left.reply) for left in table.fences] == [(1, 0, None)]
    commit(table, 1, 1, 3)
    register(table, 1, 4)
    assert cached_commit(check(table, 1, 1)) == 3


def test_a_fence_of_nothing_gives_a_ring_with_one_register() -> None:
    """D-29: the register's reply never travels in a fence, or request 0 would stand in the ring twice."""
    table = table_of(1, (1, 1))
    register(table, 2, 2)
    register(table, 1, 3)
    entry = table.entry_of(1)
    assert entry is not None
    assert [cached.commit for cached in entry.ring] == [3]


@pytest.mark.parametrize(
    ("request_number", "checksum", "expected"),
    [
        (4, 0xAA, Answer.NO_SESSION),
        (3, 0xAA, Answer.DUPLICATE),
        (3, 0, Answer.DUPLICATE),
        (3, 0xBB, Answer.CHECKSUM_MISMATCH),
        (2, 0xAA, Answer.ALREADY_APPLIED),
    ],
)
def test_a_fence_is_consulted_before_no_session(request_number: int, checksum: int, expected: Answer) -> None:
    """D-29: at the watermark the reply, below it already applied, above it the session is gone."""
    table = evicted_at(3, checksum=0xAA)
    assert answer(table, 1, request_number, epoch=1, checksum=checksum) is expected


def test_a_fence_without_a_reply_answers_already_applied() -> None:
    """D-29: at the watermark 59 when the reply has aged out."""
    table = ClientTable.rebuild(2, (), Fences((fence(1, ALICE, watermark=3),)))
    assert check(table, 1, 3, epoch=10) == Check(Answer.ALREADY_APPLIED, 3, 3)


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_fence_of_another_epoch_is_not_consulted(epoch: int) -> None:
    """D-29: same client and same epoch."""
    assert answer(evicted_at(3), 1, 3, epoch=epoch) is Answer.NO_SESSION


def test_a_newer_fence_of_a_pair_replaces_the_older() -> None:
    """Client-table 7, remember: one fence for each pair, and it is the youngest then."""
    fences = Fences((fence(1, ALICE), fence(2, ALICE)))
    fences.remember(fence(1, ALICE, watermark=9))
    assert [(left.client, left.watermark) for left in fences.all()] == [(2, 1), (1, 9)]


def test_the_oldest_of_equal_epochs_is_found() -> None:
    """Client-table 7: the first fence with that client and epoch."""
    fences = Fences((fence(1, BOB), fence(1, ALICE)))
    found = fences.find_session(1, 10)
    assert found is not None
    assert found.user_id == BOB


def test_a_register_at_or_below_its_fence_is_our_bug() -> None:
    """Client-table 4 asserts that an epoch never regresses, also through a fence."""
    table = ClientTable.rebuild(2, (), Fences((fence(1, ALICE),)))
    with pytest.raises(AssertionError, match="only rises"):
        register(table, 1, 10)
