"""Who leaves a full table: client-table 6, cases C-167, C-168, C-172 to C-177."""

import pytest

from levrier.actors.client_table.table import Answer, ClientTable, CommitResult, Committed, Registered, SessionEnd
from tests.actors.client_table.builders import ALICE, answer, commit, register, table_of


def clients_by_slot(table: ClientTable) -> list[int]:
    return [0 if entry is None else entry.client for entry in table.capture().slots]


def evicted(registered: Registered) -> int:
    assert registered.evicted is not None
    return registered.evicted.client


def test_a_recommit_protects_from_eviction() -> None:
    """C-167: client 1 recommits its request at op 40, client 2 at 20; a third evicts client 2."""
    table = table_of(2, (1, 1), (2, 2))
    commit(table, 1, 1, 10)
    commit(table, 2, 1, 20)
    commit(table, 1, 1, 40)
    assert evicted(register(table, 3, 50)) == 2


def test_a_reply_of_an_evicted_client_makes_no_entry() -> None:
    """C-168: once no fence is left either, the commit finds nothing. (By D-29 the eviction itself leaves a fence.)"""
    table = table_of(1, (1, 1))
    register(table, 2, 2)
    register(table, 3, 3)
    assert commit(table, 1, 1, 4) == Committed(CommitResult.NO_ENTRY)
    assert table.entry_of(1) is None
    assert table.count == 1


def test_the_oldest_commit_is_evicted() -> None:
    """C-172."""
    table = table_of(2, (1, 1), (2, 2))
    commit(table, 1, 1, 3)
    assert evicted(register(table, 3, 4)) == 2
    assert clients_by_slot(table) == [1, 3]


def test_equal_commits_evict_the_lower_slot() -> None:
    """C-173."""
    table = table_of(3, (3, 1), (1, 5), (2, 5))
    commit(table, 3, 1, 5)
    assert evicted(register(table, 4, 6)) == 3
    assert evicted(register(table, 5, 7)) == 1


def test_commits_out_of_order_still_evict_the_oldest() -> None:
    """The order of eviction is that of the commits, also when they did not come in that order."""
    table = table_of(3, (1, 30), (2, 10), (3, 20))
    assert [evicted(register(table, client, 40 + client)) for client in (4, 5, 6)] == [2, 3, 1]


def test_one_slot_is_used_again() -> None:
    """C-174."""
    table = table_of(1, (1, 1), (2, 2))
    assert clients_by_slot(table) == [2]
    assert table.count == 1


def test_a_client_with_a_pending_prepare_is_evicted_all_the_same() -> None:
    """C-175: only a primary knows what is pending, so an exemption would split the replicas.

    The request was admitted here, commits behind the eviction, and is remembered by the fence.
    """
    table = table_of(2, (1, 1), (2, 2))
    assert answer(table, 1, 1) is Answer.NEW
    assert evicted(register(table, 3, 3)) == 1
    assert commit(table, 1, 1, 4) == Committed(CommitResult.ADVANCED_FENCE)


def test_the_capacity_of_an_empty_table_can_be_set() -> None:
    """C-176."""
    table = ClientTable(8)
    table.set_capacity(2)
    register(table, 1, 1)
    register(table, 2, 2)
    assert evicted(register(table, 3, 3)) == 1
    assert table.capacity == 2


def test_the_capacity_of_a_used_table_cannot_be_set() -> None:
    """C-177."""
    table = table_of(8, (1, 1))
    with pytest.raises(AssertionError, match="only an empty table"):
        table.set_capacity(2)


def test_free_slots_are_taken_lowest_first() -> None:
    """Client-table 4."""
    table = table_of(4, (1, 1), (2, 2), (3, 3), (4, 4))
    for client in (4, 2, 3):
        table.remove_client(client, ALICE, SessionEnd.EXPLICIT)
    for client in (5, 6, 7):
        register(table, client, client)
    assert clients_by_slot(table) == [1, 5, 6, 7]


@pytest.mark.parametrize("capacity", [0, 65537])
def test_a_capacity_out_of_range_is_our_bug(capacity: int) -> None:
    """Slot indices end at 65535 (client-table 2)."""
    with pytest.raises(AssertionError):
        ClientTable(capacity)
