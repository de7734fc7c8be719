"""The headers that a view change carries: identity, chain, blanks (wire specification 4.9)."""

from contextlib import suppress
from dataclasses import replace

import pytest

from levrier.wire.errors import ChainBreak, ChecksumMismatch, WireError
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import METADATA_GROUP, Prepare, restamp_view, to_repair
from levrier.wire.suffix import decode_suffix, encode_suffix


def _chain(length: int) -> list[PrepareHeader]:
    """Ops `length` down to 1, each naming the one below it."""
    headers: list[PrepareHeader] = []
    parent = 0
    for op in range(1, length + 1):
        prepare = Prepare.seal(
            PrepareHeader(op=op, operation=128, client=7, request=op, group=METADATA_GROUP, parent=parent), b"body"
        )
        parent = prepare.header.checksum
        headers.insert(0, prepare.header)
    return headers


CHAIN = _chain(4)


def test_a_suffix_round_trips() -> None:
    assert decode_suffix(encode_suffix(CHAIN), op=4) == tuple(CHAIN)


def test_an_empty_suffix_has_no_headers() -> None:
    assert decode_suffix(b"", op=4) == ()


def test_128_headers_are_the_most() -> None:
    headers = _chain(128)
    assert decode_suffix(encode_suffix(headers), op=128) == tuple(headers)

    with pytest.raises(WireError, match="0 to 128"):
        decode_suffix(encode_suffix(headers) + bytes(256), op=128)


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("offset", [16, 40, 61, 130, 150, 180, 190, 200, 217, 225])
def test_a_header_altered_after_sealing_is_refused_at_its_index(index: int, offset: int) -> None:
    """C-097"""
    body = bytearray(encode_suffix(CHAIN))
    body[index * 256 + offset] ^= 0x01

    with pytest.raises(WireError) as caught:
        decode_suffix(bytes(body), op=4)

    assert f"suffix[{index}]" in caught.value.where


def test_an_altered_header_is_a_checksum_mismatch() -> None:
    """C-097"""
    headers = [*CHAIN[:2], replace(CHAIN[2], client=8), CHAIN[3]]

    with pytest.raises(ChecksumMismatch) as caught:
        decode_suffix(encode_suffix(headers), op=4)
    assert caught.value.where == "suffix[2]"


def test_a_resealed_header_with_a_wrong_parent_breaks_the_chain_at_the_lower_index() -> None:
    """C-098"""
    strayed = Prepare.seal(replace(CHAIN[1], parent=12345), b"body").header
    headers = [replace(CHAIN[0], checksum=0), strayed, *CHAIN[2:]]

    with pytest.raises(ChainBreak) as caught:
        decode_suffix(encode_suffix(headers), op=4)
    assert caught.value.where == "suffix[1]"


def test_a_suffix_with_mixed_view_stamps_is_accepted() -> None:
    """C-099"""
    restamped = PrepareHeader.decode(restamp_view(CHAIN[1].encode() + b"body", 9)[:256])
    headers = [CHAIN[0], restamped, *CHAIN[2:]]

    assert decode_suffix(encode_suffix(headers), op=4) == tuple(headers)


def test_a_suffix_of_unsealed_headers_is_accepted() -> None:
    """C-100"""
    headers = [replace(header, checksum=0, parent=77) for header in CHAIN]

    assert decode_suffix(encode_suffix(headers), op=4) == tuple(headers)


def test_a_blank_stands_for_an_op_that_the_sender_does_not_hold() -> None:
    headers = [CHAIN[0], PrepareHeader.blank(3), *CHAIN[2:]]

    assert decode_suffix(encode_suffix(headers), op=4) == tuple(headers)


@pytest.mark.parametrize("op", [3, 5])
def test_the_first_header_is_the_head(op: int) -> None:
    with pytest.raises(WireError, match="op 4"):
        decode_suffix(encode_suffix(CHAIN), op=op)


def test_ops_count_down_without_gaps() -> None:
    with pytest.raises(WireError, match="op 2, not 3"):
        decode_suffix(encode_suffix(CHAIN[:1]) + encode_suffix(CHAIN[2:]), op=4)


def test_a_repair_is_no_header_of_a_suffix() -> None:
    with pytest.raises(WireError, match="command 19"):
        decode_suffix(to_repair(CHAIN[0].encode()), op=4)


def test_a_suffix_is_a_whole_number_of_headers() -> None:
    with pytest.raises(WireError, match="headers"):
        decode_suffix(encode_suffix(CHAIN)[:-1], op=4)


def test_a_damaged_suffix_is_refused_or_another_one() -> None:
    body = encode_suffix(CHAIN)
    for index in range(len(body)):
        damaged = body[:index] + bytes((body[index] ^ 0xFF,)) + body[index + 1 :]
        with suppress(WireError):
            assert decode_suffix(damaged, op=4) != tuple(CHAIN)
