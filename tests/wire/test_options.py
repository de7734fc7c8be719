"""Options blocks: strict and lenient reading, and the limits."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levrier.wire.errors import InvalidOptionValue, OptionsBlockTooLarge, Truncated, UnsupportedOption, WireError
from levrier.wire.options import (
    OptionEntry,
    decode_block,
    decode_committed_block,
    encode_block,
    refuse_options,
)
from tests.wire.strategies import QUIET, option_lists


@QUIET
@given(option_lists)
def test_a_block_round_trips_in_key_order(entries: list[OptionEntry]) -> None:
    block = encode_block(entries)

    assert decode_block(block) == tuple(sorted(entries, key=lambda entry: entry.key.encode()))
    assert encode_block(decode_block(block)) == block


@QUIET
@given(st.binary(max_size=40))
def test_any_bytes_give_entries_or_a_wire_error(data: bytes) -> None:
    with suppress(WireError):
        decode_block(data)
        decode_committed_block(data)


def test_the_bytes_of_one_entry() -> None:
    assert encode_block([OptionEntry("k", 2, b"v")]) == bytes.fromhex("02010000006b020100000076")


def test_an_empty_block_has_no_entries() -> None:
    assert decode_block(b"") == ()
    assert encode_block([]) == b""


def test_entries_keep_the_order_they_were_sent_in() -> None:
    block = encode_block([OptionEntry("b", 2, b"1")]) + encode_block([OptionEntry("a", 2, b"2")])

    assert [entry.key for entry in decode_block(block)] == ["b", "a"]


@pytest.mark.parametrize(
    "block",
    [
        bytes.fromhex("00010000006b020100000076"),
        bytes.fromhex("01010000006b020100000076"),
        bytes.fromhex("0200000000020100000076"),
        bytes.fromhex("0201000000ff020100000076"),
        bytes.fromhex("02010000006b000100000076"),
        bytes.fromhex("02010000006b0200000000"),
        bytes.fromhex("0200010000") + b"k" * 256 + bytes.fromhex("020100000076"),
        bytes.fromhex("02010000006b0200010000") + b"v" * 256,
        encode_block([OptionEntry("k", 2, b"v")]) * 2,
    ],
    ids=[
        "kind 0",
        "raw key",
        "empty key",
        "key not UTF-8",
        "value kind 0",
        "empty value",
        "long key",
        "long value",
        "twice",
    ],
)
def test_a_structural_fault_is_refused(block: bytes) -> None:
    with pytest.raises(WireError):
        decode_block(block)


def test_a_block_cut_at_any_byte_is_refused() -> None:
    block = encode_block([OptionEntry("key", 2, b"value")])

    for end in range(1, len(block)):
        with pytest.raises(Truncated):
            decode_block(block[:end])


def test_kinds_above_the_known_ones_are_passed_on() -> None:
    entry = OptionEntry("k", 200, b"v")

    assert decode_block(encode_block([entry])) == (entry,)


def test_too_many_entries_are_refused() -> None:
    entries = [OptionEntry(f"{index:04}", 2, b"v") for index in range(1025)]
    assert len(decode_block(encode_block(entries[:1024]))) == 1024

    with pytest.raises(OptionsBlockTooLarge):
        encode_block(entries)
    with pytest.raises(OptionsBlockTooLarge):
        decode_block(encode_block(entries[:1024]) + encode_block(entries[1024:]))


def test_too_large_a_block_is_refused() -> None:
    entries = [OptionEntry(f"{index:04}", 2, b"v" * 255) for index in range(400)]

    with pytest.raises(OptionsBlockTooLarge):
        encode_block(entries)
    with pytest.raises(OptionsBlockTooLarge):
        decode_block(encode_block(entries[:200]) + encode_block(entries[200:]))


@pytest.mark.parametrize(
    "entry",
    [OptionEntry("", 2, b"v"), OptionEntry("k" * 256, 2, b"v"), OptionEntry("k", 2, b""), OptionEntry("k", 0, b"v")],
)
def test_an_entry_that_the_wire_cannot_carry_is_refused(entry: OptionEntry) -> None:
    with pytest.raises(WireError):
        encode_block([entry])


def test_two_entries_of_one_key_are_refused() -> None:
    with pytest.raises(WireError, match="twice"):
        encode_block([OptionEntry("k", 2, b"v"), OptionEntry("k", 2, b"w")])


def test_entries_of_an_unknown_kind_are_dropped_from_a_committed_block() -> None:
    block = encode_block([OptionEntry("a", 16, b"v"), OptionEntry("b", 15, b"12345678")])

    assert [entry.key for entry in decode_committed_block(block)] == ["b"]


@pytest.mark.parametrize(
    ("kind", "size"),
    [(3, 1), (4, 1), (5, 2), (6, 4), (7, 8), (8, 16), (9, 1), (10, 2), (11, 4), (12, 8), (13, 16), (14, 4), (15, 8)],
)
def test_a_value_that_does_not_fit_its_kind_fails_the_committed_block(kind: int, size: int) -> None:
    right = OptionEntry("k", kind, bytes(size))
    wrong = OptionEntry("k", kind, bytes(size + 1))

    assert decode_committed_block(encode_block([right])) == (right,)
    with pytest.raises(InvalidOptionValue):
        decode_committed_block(encode_block([wrong]))


def test_streams_and_users_have_no_options() -> None:
    refuse_options(b"")
    with pytest.raises(UnsupportedOption) as caught:
        refuse_options(encode_block([OptionEntry("k", 2, b"v")]))
    assert caught.value.where == "k"
