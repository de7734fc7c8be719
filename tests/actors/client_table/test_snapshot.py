"""The client-table section of a snapshot: client-table 9, D-35, D-05, cases C-190, C-194 to C-203, BR-26."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levrier.actors.client_table.capture import CHUNK_SIZE_MAX
from levrier.actors.client_table.entries import Reply
from levrier.actors.client_table.errors import (
    DuplicateClientId,
    DuplicateFence,
    DuplicateSlot,
    InvalidFenceReply,
    InvalidReply,
    MalformedTable,
    SlotOutOfRange,
)
from levrier.actors.client_table.snapshot import restore
from levrier.actors.client_table.table import Answer, Check, ClientTable, SessionEnd
from levrier.wire.codes import Operation
from levrier.wire.errors import WireError
from tests.actors.client_table.builders import (
    ALICE,
    BOB,
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


def wide(value: int) -> bytes:
    return value.to_bytes(16, "little")


def record(client: int = 1, *, frame: bytes | None = None, watermark: int = 1) -> list[object]:
    """The six fields of an entry or a fence, with a reply to its watermark."""
    if frame is None:
        frame = reply(client, watermark, 11).frame
    return [wide(client), 10, ALICE, watermark, wide(0), frame]


def evicted_by(table: ClientTable, client: int, op: int) -> int:
    victim = register(table, client, op).evicted
    assert victim is not None
    return victim.client


def test_the_layout() -> None:
    """D-35: positional arrays, 128-bit integers as 16-byte little-endian bins, replies as bins."""
    table = ClientTable(3)
    register(table, 5, 1)
    register(table, 6, 2, BOB)
    commit(table, 6, 4, 3, user_id=BOB, checksum=0xAB)
    table.remove_client(5, ALICE, SessionEnd.EXPLICIT)
    register(table, 7, 4)
    commit(table, 7, 2, 5)
    table.remove_client(7, ALICE, SessionEnd.DISCONNECT_CLEANUP)
    assert section_of(table) == [
        [[1, [wide(6), 2, BOB, 4, wide(0xAB), reply(6, 4, 3, checksum=0xAB).frame]]],
        [[wide(7), 4, ALICE, 2, wide(0), reply(7, 2, 5).frame]],
    ]


def test_everything_is_answered_as_before() -> None:
    """C-194."""
    table = table_of(4, (1, 10), (2, 11))
    commit(table, 1, 1, 12, checksum=0xAA)
    register(table, 2, 20, BOB)
    again = restored(table, 4)
    again.verify()
    assert [again.epoch_of(client) for client in (1, 2)] == [10, 20]
    assert [again.user_of(client) for client in (1, 2)] == [ALICE, BOB]
    assert check(again, 1, 1, checksum=0xAA).reply == reply(1, 1, 12, checksum=0xAA)
    assert answer(again, 1, 1, checksum=0xBB) is Answer.CHECKSUM_MISMATCH
    assert answer(again, 2, 1, epoch=11) is Answer.FENCED
    assert answer(again, 3, 1, epoch=1) is Answer.NO_SESSION


def test_older_replies_are_lost_but_never_executed_again() -> None:
    """C-195."""
    table = table_of(4, (1, 10))
    commit(table, 1, 1, 11)
    commit(table, 1, 2, 12)
    again = restored(table, 4)
    assert check(again, 1, 1) == Check(Answer.ALREADY_APPLIED, 2, 1)
    assert cached_commit(check(again, 1, 2)) == 12


def test_the_last_answer_survives_behind_a_login() -> None:
    """A client that logged in again after a crash gets its answer, also when a checkpoint came in between."""
    table = table_of(4, (1, 10))
    commit(table, 1, 1, 11)
    commit(table, 1, 2, 12)
    register(table, 1, 13)
    again = restored(table, 4)
    again.verify()
    assert cached_commit(check(again, 1, 2)) == 12
    assert answer(again, 1, 1) is Answer.ALREADY_APPLIED
    entry = again.entry_of(1)
    assert entry is not None
    assert entry.latest_commit == 13
    assert section_of(again) == section_of(table)


@pytest.mark.parametrize(
    ("surplus", "error"),
    [
        pytest.param([reply(1, 1, 11).frame, b""], MalformedTable, id="eight fields"),
        pytest.param([5], MalformedTable, id="no bin"),
        pytest.param([b"junk"], InvalidReply, id="no reply"),
        pytest.param([reply(1, 0, 11).frame], InvalidReply, id="not the watermark's"),
        pytest.param([reply(1, 1, 11).frame], InvalidReply, id="the newest again"),
    ],
)
def test_an_answer_that_the_entry_cannot_have(surplus: list[object], error: type[WireError]) -> None:
    """The seventh field is the reply to the watermark, where the newest is another."""
    with pytest.raises(error):
        restore([[[0, record(1) + surplus]], []], 8)


def test_a_full_restored_table_evicts_the_same_client() -> None:
    """C-196."""
    table = table_of(3, (1, 10), (2, 11), (3, 12))
    commit(table, 1, 1, 13)
    again = restored(table, 3)
    assert evicted_by(again, 4, 20) == evicted_by(table, 4, 20) == 2


def test_a_lowered_capacity_takes_effect() -> None:
    """C-197."""
    again = restored(table_of(8, (1, 10), (2, 11)), 2)
    assert again.capacity == 2
    assert evicted_by(again, 3, 20) == 1


def test_a_live_slot_above_the_capacity_is_kept() -> None:
    """C-198: slot 5 over capacity 2."""
    table = table_of(8, *((client, client) for client in range(1, 7)))
    for client in range(1, 6):
        table.remove_client(client, ALICE, SessionEnd.EXPLICIT)
    again = restored(table, 2)
    assert again.capacity == 6
    assert again.user_of(6) == ALICE


def test_two_entries_in_one_slot() -> None:
    """C-199."""
    with pytest.raises(DuplicateSlot, match="slot 3"):
        restore([[[3, record(1)], [3, record(2)]], []], 8)


@pytest.mark.parametrize("slot", [65536, 2**32 - 1])
def test_a_slot_above_the_ceiling(slot: int) -> None:
    """C-200: refused before an entry is looked at, so before anything is allocated."""
    with pytest.raises(SlotOutOfRange):
        restore([[[0, record(1, frame=b"junk")], [slot, record(2)]], []], 8)


def test_the_highest_slot_there_is() -> None:
    """C-200 from the other side."""
    assert restore([[[65535, record(1)]], []], 8).capacity == 65536


def test_a_raised_capacity_takes_effect() -> None:
    """C-201."""
    again = restored(table_of(1, (1, 10)), 3)
    assert register(again, 2, 20).evicted is None
    assert register(again, 3, 21).evicted is None
    assert evicted_by(again, 4, 22) == 1


def test_two_entries_of_one_client() -> None:
    """C-202: the error names both slots."""
    with pytest.raises(DuplicateClientId) as caught:
        restore([[[2, record(1)], [5, record(1)]], []], 8)
    assert (caught.value.first, caught.value.second) == (2, 5)


def test_garbage_in_place_of_a_reply() -> None:
    """C-203."""
    with pytest.raises(InvalidReply):
        restore([[[0, record(1, frame=b"garbage" * 50)]], []], 8)


TOKEN = reply(1, 1, 11, operation=Operation.CREATE_PERSONAL_ACCESS_TOKEN, body=b"\x01\x00\x00\x00")


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"", id="empty"),
        pytest.param(reply(1, 1, 11).frame[:255], id="cut header"),
        pytest.param(reply(1, 1, 11).frame[:-1], id="cut body"),
        pytest.param(reply(1, 1, 11).frame + b"\0", id="surplus"),
        pytest.param(reply(2, 1, 11).frame, id="another client"),
        pytest.param(reply(1, 2, 11).frame, id="above the watermark"),
        pytest.param(TOKEN.frame, id="token without a readable result"),
    ],
)
def test_a_reply_that_the_entry_cannot_have(frame: bytes) -> None:
    """Client-table 9: InvalidReply."""
    with pytest.raises(InvalidReply):
        restore([[[0, record(1, frame=frame)]], []], 8)


def test_what_is_checked_first() -> None:
    """Client-table 9: the reply, then the client, then the slot."""
    with pytest.raises(InvalidReply):
        restore([[[0, record(1)], [0, record(1, frame=b"junk")]], []], 8)
    with pytest.raises(DuplicateClientId):
        restore([[[0, record(1)], [0, record(1)]], []], 8)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(record(1, frame=b"junk"), id="junk"),
        pytest.param(record(1, frame=reply(2, 1, 11).frame), id="another client"),
        pytest.param(record(1, watermark=2, frame=reply(1, 1, 11).frame), id="not the watermark's"),
        pytest.param(record(1, watermark=0, frame=reply(1, 0, 11).frame), id="a register's"),
    ],
)
def test_a_reply_that_the_fence_cannot_have(fields: list[object]) -> None:
    """Client-table 9: InvalidFenceReply."""
    with pytest.raises(InvalidFenceReply):
        restore([[], [fields]], 8)


def test_two_fences_of_one_pair() -> None:
    """Client-table 2: at most one fence for each client and user."""
    with pytest.raises(DuplicateFence):
        restore([[], [record(1), record(1)]], 8)


def test_fences_are_trimmed_to_the_restored_table() -> None:
    """Client-table 9: the oldest go."""
    again = restore([[], [record(client) for client in (1, 2, 3)]], 2)
    assert [fence.client for fence in again.fences] == [2, 3]


def test_a_fence_without_a_reply() -> None:
    """Client-table 9: the reply is empty when there is none."""
    again = restore([[], [record(1, frame=b"")]], 2)
    assert again.fences[0].reply is None


def changed(index: int, value: object) -> list[object]:
    fields = record(1)
    fields[index] = value
    return fields


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(None, id="nil"),
        pytest.param({}, id="a map"),
        pytest.param([], id="no parts"),
        pytest.param([[], [], []], id="three parts"),
        pytest.param([5, []], id="slots no array"),
        pytest.param([[], 5], id="fences no array"),
        pytest.param([[5], []], id="entry no array"),
        pytest.param([[[1]], []], id="entry without fields"),
        pytest.param([[[-1, record(1)]], []], id="slot negative"),
        pytest.param([[["0", record(1)]], []], id="slot a string"),
        pytest.param([[[True, record(1)]], []], id="slot a boolean"),
        pytest.param([[[0, record(1)[:5]]], []], id="five fields"),
        pytest.param([[[0, changed(0, 1)]], []], id="client an integer"),
        pytest.param([[[0, changed(0, bytes(15))]], []], id="client too short"),
        pytest.param([[[0, changed(0, bytes(16))]], []], id="client zero"),
        pytest.param([[[0, changed(1, 2**64)]], []], id="epoch too wide"),
        pytest.param([[[0, changed(2, 2**32)]], []], id="user too wide"),
        pytest.param([[[0, changed(3, -1)]], []], id="watermark negative"),
        pytest.param([[[0, changed(4, b"")]], []], id="checksum too short"),
        pytest.param([[[0, changed(5, "text")]], []], id="reply no bin"),
        pytest.param([[], [changed(5, None)]], id="fence reply nil"),
    ],
)
def test_a_section_of_the_wrong_shape(section: object) -> None:
    """Client-table 9, D-35: no other encoding is accepted."""
    with pytest.raises(MalformedTable):
        restore(section, 8)


def test_capacity_follows_the_configuration_at_each_restart() -> None:
    """BR-26: three clients, then capacity 8, 2 and 8 again; the victims are the oldest by commit."""
    table = table_of(8, (1, 10), (2, 11), (3, 12))
    commit(table, 1, 1, 13)
    at_8 = restored(table, 8)
    at_2 = restored(at_8, 2)
    assert (at_8.capacity, at_2.capacity) == (8, 3)
    assert [evicted_by(at_2, client, client) for client in (20, 21, 22)] == [2, 3, 1]
    again = restored(at_2, 8)
    assert again.capacity == 8
    assert register(again, 23, 30).evicted is None


def test_large_tables_come_in_small_chunks() -> None:
    """The coordinator encodes between other work: no piece beyond 64 KiB, also where one reply is larger."""
    table = table_of(64, *((client, client) for client in range(1, 61)))
    table.commit_reply(1, ALICE, reply(1, 1, 100, body=bytes(200_000)))
    chunks = list(table.capture().chunks())
    assert len(chunks) > 3
    assert max(map(len, chunks)) <= CHUNK_SIZE_MAX
    assert restored(table, 64).capture().slots[1:] == table.capture().slots[1:]


def test_a_capture_does_not_follow_the_table() -> None:
    """Design, path of a checkpoint: what is encoded later is what stood at the marker."""
    table = table_of(2, (1, 1), (2, 2))
    captured = table.capture()
    before = b"".join(captured.chunks())
    commit(table, 1, 1, 3)
    register(table, 3, 4)
    assert b"".join(captured.chunks()) == before
    assert b"".join(table.capture().chunks()) != before


OPS = st.lists(
    st.tuples(st.sampled_from(["register", "commit", "logout", "disconnect", "drop"]), st.integers(1, 6)), max_size=60
)


def fed(operations: list[tuple[str, int]], capacity: int = 3) -> ClientTable:
    """A table after these operations, one op each."""
    table = ClientTable(capacity)
    for number, (kind, client) in enumerate(operations, start=1):
        user_id = ALICE if client % 2 else BOB
        if kind == "register":
            register(table, client, number, user_id)
        elif kind == "commit":
            commit(table, client, number, number, user_id=user_id, checksum=number)
        elif kind == "drop":
            table.drop_user(user_id)
        else:
            end = SessionEnd.EXPLICIT if kind == "logout" else SessionEnd.DISCONNECT_CLEANUP
            table.remove_client(client, user_id, end)
    return table


@given(OPS)
@settings(max_examples=60, deadline=None)
def test_two_tables_fed_the_same_commits_encode_the_same_bytes(operations: list[tuple[str, int]]) -> None:
    """D-05."""
    first, second = fed(operations), fed(operations)
    assert b"".join(first.capture().chunks()) == b"".join(second.capture().chunks())


@given(OPS, st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_a_restored_table_encodes_as_the_original(operations: list[tuple[str, int]], min_slots: int) -> None:
    """D-05: what a checkpoint carries survives it, fences up to the bound of the new table."""
    table = fed(operations)
    section: Any = section_of(table)
    again = restored(table, min_slots)
    again.verify()
    kept = section[1][max(0, len(section[1]) - again.capacity) :]
    assert section_of(again) == [section[0], kept]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-1, 2**64) | st.binary(max_size=20) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=6),
        max_leaves=20,
    )
)
@settings(max_examples=150, deadline=None)
def test_nothing_else_is_raised_for_strange_sections(section: object) -> None:
    """Bytes from outside raise WireError or are a table, never anything else."""
    try:
        table = restore(section, 4)
    except WireError:
        return
    assert isinstance(table, ClientTable)
    assert table.count == 0


def test_a_reply_is_read_back_whole() -> None:
    """Client-table 9: what is judged of a reply comes from its frame again."""
    table = table_of(2, (1, 1))
    commit(table, 1, 9, 5, checksum=0xFEED)
    entry = restored(table, 2).entry_of(1)
    assert entry is not None
    assert entry.ring == (Reply(reply(1, 9, 5, checksum=0xFEED).frame, 9, 0xFEED, 5),)
