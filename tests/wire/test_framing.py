"""Cutting a stream into frames."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levrier.wire.errors import FrameSizeOutOfRange
from levrier.wire.framing import FRAME_SIZE_MAX, HEADER_SIZE, FrameDecoder
from levrier.wire.headers import RequestHeader


def _frame(body: bytes, request: int = 1) -> bytes:
    header = RequestHeader(client=7, request=request, operation=128, session=1, size=HEADER_SIZE + len(body))
    return header.encode() + body


STREAM_FRAMES = [_frame(b"", 1), _frame(b"a", 2), _frame(b"b" * 300, 3)]
STREAM = b"".join(STREAM_FRAMES)


def test_two_pieces_cut_anywhere_give_the_same_frames() -> None:
    for cut in range(len(STREAM) + 1):
        decoder = FrameDecoder()

        assert decoder.feed(STREAM[:cut]) + decoder.feed(STREAM[cut:]) == STREAM_FRAMES, cut
        assert decoder.buffered == 0, cut


def test_single_bytes_give_the_same_frames() -> None:
    decoder = FrameDecoder()

    frames = [frame for byte in STREAM for frame in decoder.feed(bytes((byte,)))]

    assert frames == STREAM_FRAMES


@settings(max_examples=50, deadline=None, database=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_any_pieces_give_the_same_frames(cuts: list[int]) -> None:
    decoder = FrameDecoder()
    edges = [0, *sorted(cuts), len(STREAM)]

    frames = [frame for start, end in pairwise(edges) for frame in decoder.feed(STREAM[start:end])]

    assert frames == STREAM_FRAMES


def test_a_feed_of_exactly_one_frame_is_handed_on_without_a_copy() -> None:
    frame = _frame(b"body")

    assert FrameDecoder().feed(frame)[0] is frame


def test_nothing_gives_nothing() -> None:
    assert FrameDecoder().feed(b"") == []


@pytest.mark.parametrize("size", [0, 1, 255, FRAME_SIZE_MAX + 1, 0xFFFFFFFF])
def test_a_size_out_of_range_is_refused_as_soon_as_it_is_readable(size: int) -> None:
    decoder = FrameDecoder()
    head = bytes(48) + size.to_bytes(4, "little")

    assert decoder.feed(head[:51]) == []
    with pytest.raises(FrameSizeOutOfRange) as caught:
        decoder.feed(head[51:])
    assert caught.value.where == "size"


@pytest.mark.parametrize("size", [HEADER_SIZE, 1000])
def test_the_limits_themselves_are_accepted(size: int) -> None:
    frame = _frame(bytes(size - HEADER_SIZE))

    assert FrameDecoder(max_size=1000).feed(frame) == [frame]


def test_a_whole_frame_above_the_limit_is_refused() -> None:
    with pytest.raises(FrameSizeOutOfRange):
        FrameDecoder(max_size=1000).feed(_frame(bytes(1001 - HEADER_SIZE)))


def test_frames_before_the_damage_are_not_lost() -> None:
    with pytest.raises(FrameSizeOutOfRange) as caught:
        FrameDecoder().feed(STREAM_FRAMES[0] + STREAM_FRAMES[1] + bytes(60))

    assert caught.value.frames == (STREAM_FRAMES[0], STREAM_FRAMES[1])


def test_a_damaged_stream_stays_refused() -> None:
    decoder = FrameDecoder()
    with pytest.raises(FrameSizeOutOfRange):
        decoder.feed(bytes(60))

    with pytest.raises(FrameSizeOutOfRange):
        decoder.feed(STREAM_FRAMES[0])
    assert decoder.buffered == 0


def test_no_more_than_the_incomplete_frame_is_held_back() -> None:
    decoder = FrameDecoder()

    decoder.feed(STREAM + STREAM_FRAMES[2][:300])

    assert decoder.buffered == 300
