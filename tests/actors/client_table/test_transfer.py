"""The table as it travels: client-table 10, 11, cases C-191, C-192, C-204 to C-210."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levrier.actors.client_table.errors import (
    BadMagic,
    DuplicateClientId,
    DuplicateFence,
    EmptyRing,
    InvalidFenceReply,
    InvalidReply,
    MalformedTable,
    RingTooLong,
    TooManyEntries,
)
from levrier.actors.client_table.table import Answer, ClientTable, SessionEnd
from levrier.actors.client_table.transfer import decode, encode
from levrier.wire.checksums import xxh3
from levrier.wire.errors import ChecksumMismatch, Truncated, WireError
from tests.actors.client_table.builders import ALICE, BOB, answer, check, commit, register, reply, table_of


def sealed(content: bytes) -> bytes:
    """The content with a trailer that matches."""
    return content + struct.pack("<Q", xxh3(content))


def session(client: int = 1, *, watermark: int = 1) -> bytes:
    return client.to_bytes(16, "little") + struct.pack("<QIQ", 10, ALICE, watermark) + (0xAB).to_bytes(16, "little")


def entry(client: int = 1, *frames: bytes, watermark: int = 1, ring_size: int | None = None) -> bytes:
    """The bytes of an entry, with these frames in its ring."""
    size = len(frames) if ring_size is None else ring_size
    return session(client, watermark=watermark) + bytes([size]) + b"".join(sized(frame) for frame in frames)


def sized(frame: bytes) -> bytes:
    return struct.pack("<I", len(frame)) + frame


def content(*entries: bytes, fences: tuple[bytes, ...] = (), magic: bytes = b"ICT3") -> bytes:
    body = magic + struct.pack("<I", len(entries)) + b"".join(entries)
    if magic == b"ICT3":
        body += struct.pack("<I", len(fences)) + b"".join(fences)
    return body


def busy_table() -> ClientTable:
    """Three live clients with rings, a gap in the slots, rebinds, and two fences."""
    table = table_of(4, (1, 1), (2, 2), (3, 3), (4, 4))
    for request in range(1, 8):
        commit(table, 1, request, 10 + request, checksum=request)
    register(table, 1, 20, BOB)
    commit(table, 2, 1, 21)
    commit(table, 3, 4, 22)
    table.remove_client(2, ALICE, SessionEnd.DISCONNECT_CLEANUP)
    commit(table, 4, 2, 23)
    table.remove_client(4, ALICE, SessionEnd.DISCONNECT_CLEANUP)
    register(table, 5, 24)
    return table


def test_the_layout() -> None:
    """Client-table 10, byte for byte."""
    table = table_of(2, (1, 10))
    table.commit_reply(1, ALICE, reply(1, 1, 11, checksum=0xAB))
    register(table, 2, 12)
    table.commit_reply(2, ALICE, reply(2, 3, 13, checksum=0xAB))
    table.remove_client(2, ALICE, SessionEnd.DISCONNECT_CLEANUP)
    cached = table.capture().slots[0]
    assert cached is not None
    fence = (
        (2).to_bytes(16, "little")
        + struct.pack("<QIQ", 12, ALICE, 3)
        + (0xAB).to_bytes(16, "little")
        + sized(reply(2, 3, 13, checksum=0xAB).frame)
    )
    expected = content(entry(1, *(old.frame for old in cached.ring)), fences=(fence,))
    assert encode(table.capture()) == sealed(expected)


def test_everything_is_answered_as_before() -> None:
    """C-204: the whole ring travels, and what was decoded encodes to the same bytes."""
    table = busy_table()
    data = encode(table.capture())
    again = decode(data, 4)
    again.verify()
    assert encode(again.capture()) == data
    for client in (1, 2, 3, 4, 5, 6):
        for epoch in (1, 2, 3, 4, 20, 24, 25):
            for request in range(1, 9):
                asked = (client, epoch, request, request)
                assert again.check_request(*asked) == table.check_request(*asked)
    assert again.fences == table.fences


def test_slots_are_compacted() -> None:
    """Client-table 10: slots are numbered from 0 on arrival."""
    table = table_of(4, (1, 1), (2, 2), (3, 3))
    table.remove_client(1, ALICE, SessionEnd.EXPLICIT)
    again = decode(encode(table.capture()), 3)
    assert [slot.client for slot in again.capture().slots if slot] == [2, 3]
    assert again.capture().slots[2] is None


def test_a_full_decoded_table_evicts_the_oldest() -> None:
    """C-205."""
    table = table_of(3, (1, 10), (2, 11), (3, 12))
    commit(table, 1, 1, 13)
    again = decode(encode(table.capture()), 1)
    victim = register(again, 4, 20).evicted
    assert victim is not None
    assert victim.client == 2


def test_every_flipped_byte_is_noticed() -> None:
    """C-206: a flipped byte is a mismatch, wherever it is."""
    data = encode(busy_table().capture())
    for offset in range(len(data)):
        flipped = bytearray(data)
        flipped[offset] ^= 0x40
        with pytest.raises(ChecksumMismatch):
            decode(bytes(flipped), 4)


def test_every_cut_is_noticed() -> None:
    """C-206: a cut is a mismatch or, below a trailer, truncated."""
    data = encode(busy_table().capture())
    for size in range(len(data)):
        with pytest.raises(Truncated if size < 8 else ChecksumMismatch):
            decode(data[:size], 4)


def test_every_cut_under_a_matching_trailer_is_truncated() -> None:
    """Client-table 10: a writer that seals too little is caught by the fields themselves."""
    body = encode(busy_table().capture())[:-8]
    for size in range(len(body)):
        with pytest.raises(Truncated):
            decode(sealed(body[:size]), 4)


def test_an_empty_table() -> None:
    """C-206."""
    again = decode(encode(ClientTable(4).capture()), 4)
    assert (again.count, again.capacity, again.fences) == (0, 4, ())


def test_leftover_bytes() -> None:
    """Client-table 10: Truncated."""
    with pytest.raises(Truncated):
        decode(sealed(content(entry(1, reply(1, 1, 11).frame)) + b"\0"), 4)


@pytest.mark.parametrize("magic", [b"ICT1", b"ICT4", b"\0\0\0\0"])
def test_an_unknown_layout(magic: bytes) -> None:
    """Client-table 10: BadMagic."""
    with pytest.raises(BadMagic):
        decode(sealed(magic + bytes(8)), 4)


def test_the_older_layout_has_no_fences() -> None:
    """C-192."""
    again = decode(sealed(content(entry(1, reply(1, 1, 11).frame), magic=b"ICT2")), 4)
    assert answer(again, 1, 1) is Answer.DUPLICATE
    assert again.fences == ()


def test_a_repeated_client() -> None:
    """C-207."""
    frame = reply(1, 1, 11).frame
    with pytest.raises(DuplicateClientId) as caught:
        decode(sealed(content(entry(1, frame), entry(2, reply(2, 1, 12).frame), entry(1, frame))), 4)
    assert (caught.value.first, caught.value.second) == (0, 2)


@pytest.mark.parametrize(("local", "expected"), [(1, 2), (8, 8)])
def test_the_capacity_of_a_decoded_table(local: int, expected: int) -> None:
    """C-208: growing past the local capacity is deliberate."""
    data = encode(table_of(2, (1, 10), (2, 11)).capture())
    assert decode(data, local).capacity == expected


def test_too_many_entries() -> None:
    """C-209: 65537."""
    with pytest.raises(TooManyEntries):
        decode(sealed(b"ICT3" + struct.pack("<I", 65537)), 4)


def test_too_many_fences() -> None:
    """Client-table 10."""
    with pytest.raises(TooManyEntries):
        decode(sealed(b"ICT3" + struct.pack("<II", 0, 65537)), 4)


def test_as_many_entries_as_there_may_be() -> None:
    """C-209 from the other side: the count passes, the missing entries do not."""
    with pytest.raises(Truncated):
        decode(sealed(b"ICT3" + struct.pack("<I", 65536)), 4)


def test_a_ring_too_long() -> None:
    """C-210: 6."""
    with pytest.raises(RingTooLong):
        decode(sealed(content(entry(1, ring_size=6))), 4)


def test_an_empty_ring() -> None:
    """Client-table 10: EmptyRing."""
    with pytest.raises(EmptyRing):
        decode(sealed(content(entry(1))), 4)


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param((b"junk",), id="junk"),
        pytest.param((b"",), id="empty"),
        pytest.param((reply(1, 1, 11).frame[:-1],), id="cut"),
        pytest.param((reply(2, 1, 11).frame,), id="another client"),
        pytest.param((reply(1, 2, 11).frame,), id="above the watermark"),
        pytest.param((reply(1, 1, 11).frame, reply(1, 1, 12).frame), id="one request twice"),
    ],
)
def test_a_reply_that_the_entry_cannot_have(frames: tuple[bytes, ...]) -> None:
    """Client-table 10: InvalidReply."""
    with pytest.raises(InvalidReply):
        decode(sealed(content(entry(1, *frames))), 4)


def test_a_reply_that_the_fence_cannot_have() -> None:
    """Client-table 10: InvalidFenceReply."""
    with pytest.raises(InvalidFenceReply):
        decode(sealed(content(fences=(session(1) + sized(reply(1, 2, 11).frame),))), 4)


def test_two_fences_of_one_pair() -> None:
    """Client-table 2."""
    with pytest.raises(DuplicateFence):
        decode(sealed(content(fences=(session(1) + sized(b""), session(1) + sized(b"")))), 4)


def test_client_zero() -> None:
    """Client-table 1: the id is reserved, in entries and in fences."""
    with pytest.raises(MalformedTable):
        decode(sealed(content(entry(0, reply(0, 1, 11).frame))), 4)
    with pytest.raises(MalformedTable):
        decode(sealed(content(fences=(session(0) + sized(b""),))), 4)


def test_fences_are_trimmed_to_the_decoded_table() -> None:
    """Client-table 10."""
    again = decode(sealed(content(fences=tuple(session(client) + sized(b"") for client in (1, 2, 3)))), 2)
    assert [fence.client for fence in again.fences] == [2, 3]


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_nothing_else_is_raised_for_strange_bytes(data: bytes) -> None:
    """Bytes from outside raise WireError, never anything else, also under a matching trailer."""
    with pytest.raises(WireError):
        decode(sealed(b"ICT3\1\0\0\0" + data), 4)


def test_an_installed_table_is_the_other_and_skips_what_it_reflects() -> None:
    """Client-table 11: replaced wholesale; ops at or below the frontier are reflected already."""
    table = table_of(2, (9, 1))
    other = busy_table()
    data = encode(other.capture())
    table.install(decode(data, 4), 24)
    assert encode(table.capture()) == data
    assert table.entry_of(9) is None
    assert (table.reflects(24), table.reflects(25)) == (True, False)
    commit(table, 5, 1, 25)
    assert check(table, 5, 1).reply == reply(5, 1, 25)
    assert encode(other.capture()) == data


def test_a_table_that_was_never_installed_reflects_nothing() -> None:
    """Client-table 11: the frontier is 0 then."""
    assert not ClientTable(1).reflects(1)
