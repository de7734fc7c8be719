"""What a node answers, byte by byte."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levrier.wire.errors import Truncated, WireError
from levrier.wire.headers import EvictionHeader, PrepareHeader, ReplyHeader, RequestHeader
from levrier.wire.prepare import METADATA_GROUP, Prepare, restamp_view
from levrier.wire.protocol_version import WINDOW
from levrier.wire.replies import (
    committed_reply,
    denial,
    eviction,
    query_reply,
    rejection,
    result_code,
    result_payload,
    result_rejection,
    result_success,
    transient_result,
)
from tests.wire.strategies import QUIET

REQUEST = RequestHeader(
    client=7 << 100,
    request=3,
    operation=128,
    session=2,
    request_checksum=55,
    timestamp=66,
    cluster=9,
    view=1,
    replica=2,
)


def test_a_denied_request_carries_the_code_and_no_body() -> None:
    """C-019"""
    frame = denial(REQUEST, status=41, commit=4)

    header = ReplyHeader.decode(frame)
    assert len(frame) == 256
    assert (header.status, header.op, header.commit) == (41, 0, 4)
    assert (header.client, header.request, header.operation) == (REQUEST.client, REQUEST.request, REQUEST.operation)
    assert header == ReplyHeader(
        client=REQUEST.client, request=3, operation=128, op=0, commit=4, status=41, request_checksum=55, timestamp=66,
        cluster=9, view=1, replica=2,
    )  # fmt: skip


def test_a_committed_reply_comes_from_the_prepare_alone() -> None:
    prepare = Prepare.seal(
        PrepareHeader(
            op=12, operation=64, client=7, request=3, user_id=1, timestamp=77, commit=9, view=2, group=METADATA_GROUP,
            parent=5, request_checksum=55, cluster=8, replica=1,
        ),
        b"prepared",
    )  # fmt: skip

    frame = committed_reply(prepare.header, b"reply")

    assert ReplyHeader.decode(frame) == ReplyHeader(
        client=7, request=3, operation=64, op=12, commit=12, status=0, request_checksum=55, timestamp=77, size=261,
        context=0, cluster=8, view=0, replica=1,
    )  # fmt: skip
    assert frame[256:] == b"reply"


def test_a_committed_reply_is_the_same_when_a_later_view_has_sent_the_entry_again() -> None:
    """Wire 8.1: byte-identical whichever replica builds it. A retransmit renews the view of an entry on one of them only."""
    prepare = Prepare.seal(PrepareHeader(op=12, operation=128, client=7, request=3, view=2, group=METADATA_GROUP), b"")
    again = Prepare.decode(restamp_view(prepare.frame, 5))

    assert again.header.view == 5
    assert committed_reply(again.header, b"reply") == committed_reply(prepare.header, b"reply")


def test_an_answer_to_a_query_echoes_the_request_and_names_the_session() -> None:
    frame = query_reply(replace(REQUEST, operation=2), b"payload", session=5, commit=6)

    header = ReplyHeader.decode(frame)
    assert (header.op, header.commit, header.status, header.operation) == (5, 6, 0, 2)
    assert (header.size, frame[256:]) == (263, b"payload")


def test_a_rejection_stands_at_the_commit_point() -> None:
    frame = rejection(REQUEST, code=51, commit=8)

    header = ReplyHeader.decode(frame)
    assert (header.op, header.commit, header.status) == (8, 8, 0)
    assert result_code(frame[256:]) == 51


@pytest.mark.parametrize("code", [57, 58, 59])
@pytest.mark.parametrize("operation", [1, 64, 128, 149, 161])
def test_a_transient_refusal_of_a_result_framed_operation_is_a_result(operation: int, code: int) -> None:
    frame = transient_result(replace(REQUEST, operation=operation), code=code, commit=4)

    assert ReplyHeader.decode(frame).status == 0
    assert result_code(frame[256:]) == code


@pytest.mark.parametrize("code", [57, 58, 59])
@pytest.mark.parametrize("operation", [2, 3, 138, 160])
def test_a_transient_refusal_of_any_other_operation_is_a_status(operation: int, code: int) -> None:
    frame = transient_result(replace(REQUEST, operation=operation), code=code, commit=4)

    assert ReplyHeader.decode(frame).status == code
    assert len(frame) == 256


def test_an_eviction_names_the_window_with_reason_14_only() -> None:
    assert EvictionHeader.decode(eviction(5, 14, WINDOW)) == EvictionHeader(5, 14, WINDOW)
    assert EvictionHeader.decode(eviction(5, 1)) == EvictionHeader(5, 1)


@pytest.mark.parametrize(("client", "reason", "window"), [(0, 1, None), (5, 14, None), (5, 1, WINDOW), (5, 0, None)])
def test_an_eviction_that_a_client_would_refuse_is_our_own_bug(client: int, reason: int, window: None) -> None:
    with pytest.raises(AssertionError):
        eviction(client, reason, window)


def test_a_success_is_count_0_and_the_payload() -> None:
    """S-013"""
    assert result_success(b"payload") == b"\0\0\0\0payload"
    assert result_success() == b"\0\0\0\0"
    assert result_code(result_success(b"payload")) == 0
    assert result_payload(result_success(b"payload")) == b"payload"


def test_a_rejection_is_exactly_12_bytes() -> None:
    """S-013"""
    assert result_rejection(1012) == bytes.fromhex("0100000000000000f4030000")
    assert result_code(result_rejection(1012)) == 1012


@QUIET
@given(st.integers(1, (1 << 32) - 1))
def test_any_code_comes_back(code: int) -> None:
    """S-013"""
    assert result_code(result_rejection(code)) == code


@pytest.mark.parametrize(
    "body", [b"", b"\0", b"\0\0\0", b"\x01\0\0\0", result_rejection(5)[:11], b"\xff\xff\xff\xff" * 4]
)
def test_a_body_too_short_for_its_claim_is_malformed(body: bytes) -> None:
    """S-014"""
    with pytest.raises(Truncated):
        result_code(body)


def test_a_failed_entry_without_a_code_is_no_success() -> None:
    """S-014"""
    with pytest.raises(WireError, match="code 0"):
        result_code(b"\x01\0\0\0" + bytes(8))


def test_a_rejection_has_no_payload() -> None:
    with pytest.raises(WireError, match="1012"):
        result_payload(result_rejection(1012))


def test_the_first_of_several_entries_counts() -> None:
    assert result_code(b"\x02\0\0\0" + b"\0\0\0\0\x05\0\0\0" + b"\x01\0\0\0\x06\0\0\0") == 5
