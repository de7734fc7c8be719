"""When the marker goes into the commit stream, and what a full log does (design, the path of a checkpoint)."""

import pytest

from levrier.actors.consensus.checkpoints import RETRY_TICKS
from levrier.actors.consensus.effects import Append, Apply, Capture, Effect
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.state import RecoveredState, Status
from tests.actors.consensus.builders import (
    admit,
    append_and_apply,
    config_of,
    denials,
    of_type,
    position,
    rechecks,
    replica_of,
    request_of,
    sealed_headers,
    verdict_on,
    without_notes,
)

SLOTS = 12


def small(ops: int = 0) -> Replica:
    """A replica with a dozen slots that has committed some ops since its last checkpoint."""
    replica = replica_of(config_of(depth=4, slots=SLOTS))
    for client in range(1, ops + 1):
        append_and_apply(replica, admit(replica, client))
    return replica


def done(replica: Replica, op: int) -> list[Effect]:
    return replica.on_checkpoint_done(op=op, snapshot_size=100, log_size=10)


def test_half_of_the_slots_make_a_checkpoint_due() -> None:
    """C-144: the marker comes right behind the op that it captures (rule 2)."""
    replica = small(5)
    assert replica.state.checkpoint.in_flight is None
    prepare = admit(replica, 6)
    effects = without_notes(replica.on_appended([position(prepare)]))
    assert [type(effect) for effect in effects] == [Apply, Capture]
    assert of_type(effects, Capture) == [Capture(6)]


def test_three_submits_across_the_boundary_make_one_checkpoint() -> None:
    """C-144: all three journaled, one marker, all commit."""
    replica = small(4)
    prepares = [admit(replica, client) for client in (11, 12, 13)]
    effects = append_and_apply(replica, *prepares)
    assert [apply.prepare.header.op for apply in of_type(effects, Apply)] == [5, 6, 7]
    assert of_type(effects, Capture) == [Capture(7)]
    assert replica.state.commit_min == 7
    done(replica, 7)
    assert (replica.state.checkpoint.snapshot_op, replica.state.mirror.snapshot_op) == (7, 7)
    assert len(replica.state.mirror) == 1


def test_one_checkpoint_at_a_time() -> None:
    """Design, the path of a checkpoint."""
    replica = small(6)
    effects = append_and_apply(replica, admit(replica, 7))
    assert of_type(effects, Capture) == []
    assert of_type(replica.on_tick(), Capture) == []


@pytest.mark.parametrize(("snapshot_size", "expected"), [(0, True), (250, True), (301, False)])
def test_the_size_of_the_log_makes_a_checkpoint_due(snapshot_size: int, expected: bool) -> None:
    """Design: the larger of the floor and twice the last snapshot; one op of 300 bytes and some overhead here."""
    recovered = RecoveredState(
        commit=1, snapshot_op=1, headers=sealed_headers(from_op=1, to_op=1), snapshot_size=snapshot_size, log_size=290
    )
    replica = replica_of(config_of(growth_min=512), recovered=recovered)
    effects = append_and_apply(replica, admit(replica, 1))
    assert bool(of_type(effects, Capture)) is expected


def test_a_log_below_the_floor_is_left_alone() -> None:
    """Design: max(64 MiB, ...)."""
    replica = replica_of(config_of(growth_min=100_000))
    assert of_type(append_and_apply(replica, admit(replica, 1)), Capture) == []


def test_a_failed_checkpoint_is_tried_again_on_ticks() -> None:
    """D-27: with back-off, without any further prepare."""
    replica = small(6)
    waits = []
    for _ in range(3):
        replica.on_checkpoint_failed(op=6, reason="no space left")
        waits.append(next(tick for tick in range(1, 500) if of_type(replica.on_tick(), Capture)))
    assert waits == [RETRY_TICKS, 2 * RETRY_TICKS, 4 * RETRY_TICKS]


@pytest.mark.parametrize("status", list(Status))
def test_a_failed_checkpoint_is_tried_again_in_every_status(status: Status) -> None:
    """D-27."""
    replica = small(6)
    replica.on_checkpoint_failed(op=6, reason="no space left")
    replica.state.status = status
    assert any(of_type(replica.on_tick(), Capture) for _ in range(RETRY_TICKS))


def test_a_retry_captures_what_is_applied_by_then() -> None:
    """Design: the marker stands at apply_sent."""
    replica = small(6)
    replica.on_checkpoint_failed(op=6, reason="no space left")
    append_and_apply(replica, admit(replica, 7))
    captures = [capture for _ in range(RETRY_TICKS) for capture in of_type(replica.on_tick(), Capture)]
    assert captures == [Capture(7)]


def test_nobody_waits_for_a_full_log_whose_checkpoint_fails() -> None:
    """BR-48, rule 10: who is queued and who comes gets 58; once there is room, requests are admitted again."""
    replica = small(SLOTS - 1)
    assert without_notes(replica.on_verdict(verdict_on(request_of(50)))) == []
    failed = replica.on_checkpoint_failed(op=6, reason="no space left")
    assert denials(failed) == [(50, 58)]
    assert denials(replica.on_verdict(verdict_on(request_of(51)))) == [(51, 58)]
    while not (captures := of_type(replica.on_tick(), Capture)):
        pass
    done(replica, captures[0].op)
    assert admit(replica, 52).header.op == SLOTS


def test_a_success_forgets_the_failures() -> None:
    """D-27."""
    replica = small(6)
    replica.on_checkpoint_failed(op=6, reason="no space left")
    while not of_type(replica.on_tick(), Capture):
        pass
    done(replica, 6)
    checkpoint = replica.state.checkpoint
    assert (checkpoint.failures, checkpoint.completed, checkpoint.log_size) == (0, 1, 10)


def test_a_full_log_queues_instead_of_projecting() -> None:
    """Rule 10: no free slot is no failure. The op whose number would reach the slots is not minted."""
    replica = small(SLOTS - 1)
    assert replica.state.sequencer == SLOTS - 1
    assert without_notes(replica.on_verdict(verdict_on(request_of(50)))) == []
    [recheck] = rechecks(done(replica, 6))
    assert of_type(replica.on_verdict(verdict_on(recheck.request, token=recheck.token)), Append)


def test_reserved_slots_count_against_the_log() -> None:
    """Rule 5: a request that is looked at again must find its place in the log."""
    replica = small(SLOTS - 2)
    replica.state.pipeline.push_request(request_of(50), 0)
    replica.state.pipeline.push_request(request_of(51), 0)
    assert len(rechecks(replica.on_tick())) == 1


def test_a_full_log_and_a_full_queue_refuse() -> None:
    """Section 6.1: 58."""
    replica = small(SLOTS - 1)
    answers = [denials(replica.on_verdict(verdict_on(request_of(client)))) for client in range(50, 59)]
    assert answers == [[]] * 8 + [[(58, 58)]]


def test_a_checkpoint_of_another_op_than_the_one_under_way_is_our_bug() -> None:
    replica = small(6)
    with pytest.raises(AssertionError):
        done(replica, 5)
