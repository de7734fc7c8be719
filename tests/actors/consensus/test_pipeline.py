"""The two queues by themselves."""

import pytest

from levrier.actors.bus.messages import Ticket
from levrier.actors.consensus.pipeline import PREPARE_QUEUE_CEILING, Pipeline, PrepareEntry
from levrier.wire.prepare import Prepare
from tests.actors.consensus.builders import request_of, sealed_chain


def filled(depth: int, *prepares: Prepare) -> Pipeline:
    pipeline = Pipeline(depth=depth)
    for prepare in prepares:
        pipeline.push_prepare(PrepareEntry(prepare, None))
    return pipeline


def test_a_buffered_request_comes_back_when_it_is_its_turn() -> None:
    """C-039."""
    pipeline, request = Pipeline(depth=4), request_of(1)
    assert pipeline.push_request(request, 5)
    assert len(pipeline.requests) == 1
    entry = pipeline.reserve_next()
    assert entry is not None
    taken = pipeline.take_reserved(entry.token)
    assert taken is not None
    assert taken.request is request
    assert pipeline.is_empty


def test_a_full_request_queue_takes_no_more() -> None:
    """C-040: with the default depth of 32 it holds 64."""
    pipeline = Pipeline(depth=32)
    for client in range(1, 65):
        assert pipeline.push_request(request_of(client), 0)
    assert not pipeline.push_request(request_of(65), 0)
    assert len(pipeline.requests) == 64
    assert 65 not in pipeline.clients


def test_a_client_in_the_request_queue_is_in_flight() -> None:
    """C-041."""
    pipeline = Pipeline(depth=4)
    pipeline.push_request(request_of(1), 0)
    assert 1 in pipeline.clients
    assert 2 not in pipeline.clients


def test_clearing_empties_both_queues() -> None:
    """C-042."""
    pipeline = filled(4, *sealed_chain(from_op=1, to_op=1))
    pipeline.push_request(request_of(1), 0)
    pipeline.push_request(request_of(2), 0)
    assert [entry.request.header.client for entry in pipeline.drop_requests()] == [1, 2]
    assert [entry.op for entry in pipeline.drop_prepares()] == [1]
    assert pipeline.is_empty
    assert pipeline.clients == {}


def test_dropping_requests_keeps_the_prepares() -> None:
    """C-043."""
    [prepare] = sealed_chain(from_op=1, to_op=1)
    pipeline = filled(4, prepare)
    pipeline.push_request(request_of(1), 0)
    pipeline.push_request(request_of(2), 0)
    pipeline.drop_requests()
    assert not pipeline.requests
    assert pipeline.prepares[0].prepare is prepare
    pipeline.verify()


def test_full_means_the_prepare_queue() -> None:
    """C-044."""
    pipeline = Pipeline(depth=1)
    pipeline.push_request(request_of(1), 0)
    pipeline.push_request(request_of(2), 0)
    assert not pipeline.push_request(request_of(3), 0)
    assert not pipeline.is_full


def test_the_entry_gives_back_whom_its_reply_is_for() -> None:
    """C-045, C-048: the ticket travels with the entry, or there is none."""
    first, second = sealed_chain(from_op=1, to_op=2)
    pipeline = Pipeline(depth=4)
    pipeline.push_prepare(PrepareEntry(first, Ticket(connection=3, number=9)))
    pipeline.push_prepare(PrepareEntry(second, None))
    assert pipeline.pop_head().reply_to == Ticket(connection=3, number=9)
    assert pipeline.pop_head().reply_to is None


def test_a_deep_and_full_pipeline_keeps_its_invariants() -> None:
    """C-049."""
    pipeline = filled(64, *sealed_chain(from_op=1, to_op=64))
    assert pipeline.is_full
    pipeline.verify()
    with pytest.raises(AssertionError):
        pipeline.push_prepare(PrepareEntry(sealed_chain(from_op=1, to_op=65)[-1], None))


@pytest.mark.parametrize("depth", [0, PREPARE_QUEUE_CEILING + 1])
def test_a_depth_out_of_bounds_is_refused(depth: int) -> None:
    """Section 2.2."""
    with pytest.raises(AssertionError):
        Pipeline(depth=depth)


def test_only_the_next_chained_op_can_be_pushed() -> None:
    """Section 2.2, invariant I3: op, parent and view."""
    first, second, third = sealed_chain(from_op=1, to_op=3)
    with pytest.raises(AssertionError):
        filled(4, first, third)
    [stranger] = sealed_chain(from_op=2, to_op=2, parent=first.header.checksum + 1)
    with pytest.raises(AssertionError):
        filled(4, first, stranger)
    assert filled(4, first, second).prepare_at(2) is not None


def test_an_older_view_cannot_follow_a_newer_one() -> None:
    """Section 2.2: views do not fall along the queue."""
    [first] = sealed_chain(from_op=1, to_op=1, view=3)
    [older] = sealed_chain(from_op=2, to_op=2, parent=first.header.checksum, view=2)
    with pytest.raises(AssertionError):
        filled(4, first, older)


def test_lookup_is_by_distance_from_the_head() -> None:
    """Section 2.2."""
    pipeline = filled(8, *sealed_chain(from_op=5, to_op=7))
    assert [entry.op if entry else None for entry in map(pipeline.prepare_at, (4, 5, 6, 7, 8))] == [None, 5, 6, 7, None]
    assert Pipeline(depth=1).prepare_at(1) is None


def test_only_the_tail_itself_can_be_removed() -> None:
    """Section 2.2: op and checksum must both match."""
    first, second = sealed_chain(from_op=1, to_op=2)
    pipeline = filled(4, first, second)
    assert pipeline.remove_tail(1, first.header.checksum) is None
    assert pipeline.remove_tail(2, first.header.checksum) is None
    removed = pipeline.remove_tail(2, second.header.checksum)
    assert removed is not None
    assert removed.prepare is second
    assert len(pipeline.prepares) == 1


def test_a_reserved_slot_is_not_free() -> None:
    """Rule 5: what waits for its second look holds a slot."""
    pipeline = filled(2, *sealed_chain(from_op=1, to_op=1))
    pipeline.push_request(request_of(1), 0)
    pipeline.push_request(request_of(2), 0)
    assert pipeline.reserve_next() is not None
    assert not pipeline.has_free_slot
    assert pipeline.reserve_next() is None
    pipeline.verify()


def test_a_voided_token_says_nothing_and_the_request_keeps_its_place() -> None:
    """Rule 5: the request is asked about again, under a new token."""
    pipeline = Pipeline(depth=2)
    pipeline.push_request(request_of(1), 0)
    before = pipeline.reserve_next()
    assert before is not None
    token = before.token
    pipeline.void_tokens()
    assert pipeline.take_reserved(token) is None
    after = pipeline.reserve_next()
    assert after is before
    assert after.token > token


def test_waiting_time_does_not_go_below_zero() -> None:
    """Section 2.2: the clock may go backwards."""
    pipeline = Pipeline(depth=1)
    pipeline.push_request(request_of(1), 100)
    entry = pipeline.requests[0]
    assert (entry.waited(130), entry.waited(70)) == (30, 0)
