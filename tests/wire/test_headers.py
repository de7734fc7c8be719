"""The headers of the hot path, bytes by offset, round trips, and the rules of wire specification 4.1 to 4.5."""

from contextlib import suppress
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levrier.wire.codes import OPERATIONS
from levrier.wire.errors import FrameSizeOutOfRange, Truncated, UnexpectedCommand, WireError
from levrier.wire.frozen import quick_init
from levrier.wire.headers import (
    EvictionHeader,
    InvalidRequestHeader,
    PrepareHeader,
    ReplyHeader,
    RequestHeader,
)
from levrier.wire.protocol_version import WINDOW, ProtocolWindow, pack
from levrier.wire.routed import RoutedRequestHeader
from tests.wire.strategies import u8, u32, u64, u128

SETTINGS = settings(max_examples=60, deadline=None, database=None)
sizes = st.integers(256, (1 << 32) - 1)
prefix: dict[str, Any] = {"cluster": u128, "view": u32, "release": u32, "replica": u8, "size": sizes}

requests = st.builds(
    RequestHeader,
    client=st.integers(1, (1 << 128) - 1),
    request=st.integers(1, (1 << 64) - 1),
    operation=st.sampled_from(sorted(OPERATIONS - {1, 2})),
    session=st.integers(1, (1 << 64) - 1),
    request_checksum=u128,
    timestamp=u64,
    user_id=u32,
    **prefix,
)
queries = st.builds(
    RequestHeader,
    client=st.integers(1, (1 << 128) - 1),
    request=u64,
    operation=st.just(2),
    session=u64,
    code=u32,
    **prefix,
)
replies = st.builds(
    ReplyHeader,
    client=u128,
    request=u64,
    operation=u8,
    op=u64,
    commit=u64,
    status=u32,
    request_checksum=u128,
    timestamp=u64,
    context=u128,
    **prefix,
)
prepares = st.builds(
    PrepareHeader,
    op=u64,
    operation=st.sampled_from(sorted(OPERATIONS)),
    client=u128,
    request=u64,
    user_id=u32,
    timestamp=u64,
    commit=u64,
    group=u64,
    checksum=u128,
    checksum_body=u128,
    parent=u128,
    request_checksum=u128,
    command=st.sampled_from((6, 19)),
    **prefix,
)


@SETTINGS
@given(requests | queries)
def test_a_request_header_round_trips(header: RequestHeader) -> None:
    assert RequestHeader.decode(header.encode()) == header


@SETTINGS
@given(replies)
def test_a_reply_header_round_trips(header: ReplyHeader) -> None:
    assert ReplyHeader.decode(header.encode()) == header


@SETTINGS
@given(prepares)
def test_a_prepare_header_round_trips(header: PrepareHeader) -> None:
    assert PrepareHeader.decode(header.encode()) == header


@SETTINGS
@given(requests, u64)
def test_a_routed_request_header_is_a_request_header_and_a_group(request: RequestHeader, group: int) -> None:
    header = RoutedRequestHeader(request=request, group=group)

    assert RoutedRequestHeader.decode(header.encode()) == header
    assert header.encode()[248:] == group.to_bytes(8, "little")
    assert header.encode()[:248] == request.encode()[:248]


def _placed(*fields: tuple[int, int, int]) -> bytes:
    """256 bytes with numbers at offsets: (offset, size, value)."""
    frame = bytearray(256)
    for offset, size, value in fields:
        frame[offset : offset + size] = value.to_bytes(size, "little")
    return bytes(frame)


PREFIX_BYTES = ((32, 16, 3), (48, 4, 300), (52, 4, 5), (56, 4, 6), (61, 1, 7))
PREFIX_FIELDS = {"cluster": 3, "size": 300, "view": 5, "release": 6, "replica": 7}


def test_the_layout_of_a_request_header() -> None:
    header = RequestHeader(
        client=11, request=13, operation=2, session=14, request_checksum=12, code=16, timestamp=17, user_id=15,
        **PREFIX_FIELDS,
    )  # fmt: skip

    assert header.encode() == _placed(
        *PREFIX_BYTES, (60, 1, 5), (128, 16, 11), (144, 16, 12), (160, 8, 17), (168, 8, 13), (176, 1, 2),
        (184, 8, 14), (192, 4, 15), (196, 4, 16),
    )  # fmt: skip


def test_the_layout_of_a_reply_header() -> None:
    header = ReplyHeader(
        client=13, request=17, operation=128, op=14, commit=15, status=18, request_checksum=11, timestamp=16,
        context=12, **PREFIX_FIELDS,
    )  # fmt: skip

    assert header.encode() == _placed(
        *PREFIX_BYTES, (60, 1, 8), (128, 16, 11), (144, 16, 12), (160, 16, 13), (176, 8, 14), (184, 8, 15),
        (192, 8, 16), (200, 8, 17), (208, 1, 128), (216, 4, 18),
    )  # fmt: skip


def test_the_layout_of_a_prepare_header() -> None:
    header = PrepareHeader(
        op=14, operation=64, client=11, request=17, user_id=19, timestamp=16, commit=15, group=18, checksum=1,
        checksum_body=2, parent=12, request_checksum=13, **PREFIX_FIELDS,
    )  # fmt: skip

    assert header.encode() == _placed(
        (0, 16, 1), (16, 16, 2), *PREFIX_BYTES, (60, 1, 6), (128, 16, 11), (144, 16, 12), (160, 16, 13),
        (176, 8, 14), (184, 8, 15), (192, 8, 16), (200, 8, 17), (208, 1, 64), (216, 8, 18), (224, 4, 19),
    )  # fmt: skip


def test_the_layout_of_an_eviction_header() -> None:
    header = EvictionHeader(11, 14, ProtocolWindow(oldest=12, newest=13), view=5, release=6, replica=7)

    assert header.encode() == _placed(
        (48, 4, 256), (52, 4, 5), (56, 4, 6), (60, 1, 13), (61, 1, 7), (128, 16, 11), (144, 4, 13), (148, 4, 12),
        (255, 1, 14),
    )  # fmt: skip


@pytest.mark.parametrize("form", [RequestHeader, ReplyHeader, PrepareHeader, EvictionHeader])
def test_a_buffer_shorter_than_a_header_is_refused(form: type[Any]) -> None:
    """C-008"""
    for size in range(256):
        with pytest.raises(Truncated):
            form.decode(bytes(size))


@pytest.mark.parametrize("form", [RequestHeader, ReplyHeader, PrepareHeader, EvictionHeader])
def test_another_command_is_refused(form: type[Any]) -> None:
    with pytest.raises(UnexpectedCommand):
        form.decode(_placed((48, 4, 256), (60, 1, 9)))


@pytest.mark.parametrize(
    ("form", "frame"),
    [
        (RequestHeader, RequestHeader(client=1, request=1, operation=128, session=1).encode()),
        (ReplyHeader, ReplyHeader(client=1, request=1, operation=128).encode()),
        (PrepareHeader, PrepareHeader(op=1, operation=128).encode()),
        (EvictionHeader, EvictionHeader(1, 14, WINDOW).encode()),
    ],
)
def test_a_damaged_header_is_refused_or_another_value(form: type[Any], frame: bytes) -> None:
    for index in range(256):
        for mask in (0x01, 0x80, 0xFF):
            damaged = bytearray(frame)
            damaged[index] ^= mask
            with suppress(WireError):
                form.decode(bytes(damaged)).encode()


GOOD = RequestHeader(client=1, request=2, operation=128, session=3)


@pytest.mark.parametrize(
    ("header", "where"),
    [
        (replace(GOOD, client=0), "client"),
        (replace(GOOD, operation=0), "operation"),
        (replace(GOOD, operation=4), "operation"),
        (replace(GOOD, operation=255), "operation"),
        (replace(GOOD, session=0), "session"),
        (replace(GOOD, request=0), "request"),
        (replace(GOOD, operation=1), "session"),
        (replace(GOOD, operation=1, session=0), "session"),
        (replace(GOOD, operation=1, request=0), "session"),
        (replace(GOOD, operation=2, client=0), "client"),
        (replace(GOOD, operation=3, session=0), "session"),
        (replace(GOOD, operation=160, request=0), "request"),
    ],
)
def test_a_request_header_that_breaks_a_rule_can_still_be_answered(header: RequestHeader, where: str) -> None:
    """Decision D-30."""
    with pytest.raises(InvalidRequestHeader) as caught:
        RequestHeader.decode(header.encode())

    assert caught.value.where == where
    assert caught.value.header == header
    assert (caught.value.client, caught.value.request) == (header.client, header.request)


@pytest.mark.parametrize(
    "header",
    [
        GOOD,
        replace(GOOD, operation=1, session=0, request=0),
        replace(GOOD, operation=2, session=0, request=0, code=1),
        replace(GOOD, operation=2, session=9, request=0, code=9999),
        replace(GOOD, operation=3),
        replace(GOOD, operation=69),
    ],
)
def test_a_request_header_within_the_rules_is_accepted(header: RequestHeader) -> None:
    assert RequestHeader.decode(header.encode()) == header


def test_the_code_counts_only_in_a_non_replicated_request() -> None:
    frame = bytearray(GOOD.encode())
    frame[196:200] = b"\x01\0\0\0"

    assert RequestHeader.decode(bytes(frame)).code == 0


@pytest.mark.parametrize("size", [0, 255])
def test_a_size_below_a_header_breaks_the_framing(size: int) -> None:
    with pytest.raises(FrameSizeOutOfRange):
        RequestHeader.decode(replace(GOOD, size=size).encode())


@pytest.mark.parametrize("offset", [62, 127, 209, 215, 228, 255])
def test_a_reserved_byte_of_a_prepare_must_be_zero(offset: int) -> None:
    frame = bytearray(PrepareHeader(op=1, operation=128).encode())
    frame[offset] = 1

    with pytest.raises(WireError, match="reserved"):
        PrepareHeader.decode(bytes(frame))


def test_a_prepare_of_an_unknown_operation_is_refused() -> None:
    with pytest.raises(WireError, match="70 is not an operation"):
        PrepareHeader.decode(PrepareHeader(op=1, operation=70).encode())


def test_a_blank_header_is_zero_but_for_command_and_op() -> None:
    blank = PrepareHeader.blank(9)

    assert blank.encode() == _placed((60, 1, 6), (176, 8, 9))
    assert PrepareHeader.decode(blank.encode()) == blank
    assert blank.is_blank


def test_a_header_of_size_zero_that_is_not_blank_is_refused() -> None:
    with pytest.raises(FrameSizeOutOfRange):
        PrepareHeader.decode(replace(PrepareHeader.blank(9), view=1).encode())


@pytest.mark.parametrize("reason", range(1, 16))
def test_an_eviction_round_trips_for_every_reason(reason: int) -> None:
    header = EvictionHeader(5, reason, WINDOW if reason == 14 else None)

    assert EvictionHeader.decode(header.encode()) == header


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (((48, 4, 257), (128, 16, 1), (255, 1, 1)), "257"),
        (((48, 4, 256), (255, 1, 1)), "client"),
        (((48, 4, 256), (128, 16, 1)), "reason"),
        (((48, 4, 256), (128, 16, 1), (255, 1, 16)), "reason"),
        (((48, 4, 256), (128, 16, 1), (255, 1, 14)), "range of versions"),
        (((48, 4, 256), (128, 16, 1), (255, 1, 14), (144, 4, 1), (148, 4, 2)), "range of versions"),
        (((48, 4, 256), (128, 16, 1), (255, 1, 1), (144, 4, 1)), "reason 14 only"),
        (((48, 4, 256), (128, 16, 1), (255, 1, 1), (200, 1, 1)), "reserved"),
        (((48, 4, 256), (128, 16, 1), (255, 1, 1), (100, 1, 1)), "reserved"),
    ],
)
def test_an_eviction_that_breaks_a_rule_is_refused(fields: tuple[tuple[int, int, int], ...], problem: str) -> None:
    with pytest.raises(WireError, match=problem):
        EvictionHeader.decode(_placed((60, 1, 13), *fields))


def test_a_header_is_immutable_hashable_and_replaceable() -> None:
    header = PrepareHeader(op=1, operation=128)

    with pytest.raises(FrozenInstanceError):
        header.op = 2  # type: ignore[misc]
    assert replace(header, op=2) == PrepareHeader(op=2, operation=128)
    assert len({header, PrepareHeader(op=1, operation=128)}) == 1
    assert not hasattr(header, "__dict__")


def test_a_class_with_a_quick_constructor_keeps_its_signature() -> None:
    with pytest.raises(TypeError):
        RequestHeader(client=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        RequestHeader(client=1, request=1, operation=1, nothing=1)  # type: ignore[call-arg]
    assert quick_init.__doc__


def test_versions_pack_into_one_number() -> None:
    assert pack(0, 11, 0) == 11264
    assert pack(1, 2, 3) == (1 << 20) + (2 << 10) + 3


@pytest.mark.parametrize("parts", [(-1, 0, 0), (0, 1024, 0), (0, 0, 1024), (4096, 0, 0)])
def test_a_version_that_does_not_fit_is_refused(parts: tuple[int, int, int]) -> None:
    with pytest.raises(WireError):
        pack(*parts)


@pytest.mark.parametrize(
    ("version", "accepted"),
    [((0, 11, 0), True), ((0, 11, 9), True), ((0, 10, 0), False), ((0, 12, 0), False), ((1, 0, 0), False)],
)
def test_any_patch_of_the_newest_version_is_let_in(version: tuple[int, int, int], accepted: bool) -> None:
    assert WINDOW.accepts(pack(*version)) is accepted
