"""Identifiers, names and the cursor below them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levrier.wire.errors import TrailingBytes, Truncated, WireError
from levrier.wire.identifiers import Identifier
from levrier.wire.names import is_valid_password, is_valid_username
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer
from tests.wire.strategies import QUIET, identifiers


@QUIET
@given(identifiers)
def test_an_identifier_round_trips(identifier: Identifier) -> None:
    assert Identifier.decode(identifier.encode()) == identifier


def test_the_two_forms_of_an_identifier() -> None:
    assert Identifier("prod").encode() == bytes.fromhex("020470726f64")
    assert Identifier(0).encode() == bytes.fromhex("010400000000")
    assert Identifier("0").encode() == bytes.fromhex("020130")


def test_a_name_that_looks_like_a_number_is_a_name() -> None:
    assert Identifier("7") != Identifier(7)
    assert Identifier.decode(Identifier("7").encode()).value == "7"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x04\0\0\0\0",
        b"\x03\x04\0\0\0\0",
        b"\x01\x03\0\0\0",
        b"\x01\x05\0\0\0\0\0",
        b"\x02\x00",
        b"\x02\x02a",
        b"\x02\x01\xff",
    ],
)
def test_anything_else_is_no_identifier(data: bytes) -> None:
    with pytest.raises(WireError):
        Identifier.decode(data)


def test_nothing_may_follow_an_identifier() -> None:
    with pytest.raises(TrailingBytes):
        Identifier.decode(Identifier(1).encode() + b"\0")


@QUIET
@given(st.binary(max_size=10))
def test_any_bytes_give_an_identifier_or_a_wire_error(data: bytes) -> None:
    with suppress(WireError):
        assert Identifier.decode(data).encode() == data


@pytest.mark.parametrize("value", [-1, 1 << 32, "", "x" * 256, "é" * 128])
def test_an_identifier_that_the_wire_cannot_carry_is_refused(value: int | str) -> None:
    with pytest.raises(WireError):
        Identifier(value).encode()


def test_the_longest_name_is_255_bytes() -> None:
    assert Identifier.decode(Identifier("x" * 255).encode()) == Identifier("x" * 255)


@pytest.mark.parametrize(("username", "valid"), [("ab", False), ("abc", True), ("x" * 50, True), ("x" * 51, False)])
def test_a_username_has_3_to_50_bytes(username: str, valid: bool) -> None:
    assert is_valid_username(username) is valid


@pytest.mark.parametrize(("password", "valid"), [("ab", False), ("abc", True), ("x" * 100, True), ("x" * 101, False)])
def test_a_password_has_3_to_100_bytes(password: str, valid: bool) -> None:
    assert is_valid_password(password) is valid


def test_sizes_are_in_bytes_not_in_characters() -> None:
    assert is_valid_username("éa")
    assert not is_valid_username("é" * 26)


def test_a_short_read_names_the_field_and_the_place() -> None:
    reader = Reader(b"\x01\x02", "Thing")

    with pytest.raises(Truncated) as caught:
        reader.u32("count")
    assert caught.value.where == "Thing.count"
    assert reader.offset == 0


def test_a_reader_ends_where_the_bytes_end() -> None:
    reader = Reader(b"\x01\x02\x03", "Thing")
    assert reader.u8("a") == 1

    with pytest.raises(TrailingBytes):
        reader.finish()
    assert reader.rest() == b"\x02\x03"
    reader.finish()


@pytest.mark.parametrize(("method", "limit"), [("u8", 8), ("u16", 16), ("u32", 32), ("u64", 64), ("u128", 128)])
def test_a_number_out_of_its_width_is_refused(method: str, limit: int) -> None:
    for value in (-1, 1 << limit):
        with pytest.raises(WireError):
            getattr(Writer(), method)(value, "number")


def test_a_float_out_of_its_width_is_refused() -> None:
    with pytest.raises(WireError):
        Writer().f32(1e300, "number")
