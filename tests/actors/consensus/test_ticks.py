"""Timers of a replica as its pipeline moves, and the heartbeat (section 3)."""

from levrier.actors.consensus.effects import Effect
from levrier.actors.consensus.state import Status
from levrier.actors.consensus.timeouts import COMMIT_MESSAGE_TICKS, PREPARE_TICKS
from tests.actors.consensus.builders import (
    admit,
    admit_many,
    append_and_apply,
    config_of,
    position,
    replica_of,
    request_of,
    verdict_on,
    without_notes,
)


def test_the_prepare_timer_ticks_while_the_pipeline_holds_something() -> None:
    """C-025."""
    replica = replica_of()
    timer = replica.state.timeouts.prepare
    assert not timer.ticking
    first, second = admit_many(replica, 2)
    assert timer.ticking
    append_and_apply(replica, first)
    assert timer.ticking
    append_and_apply(replica, second)
    assert not timer.ticking
    assert not timer.fired


def test_a_push_leaves_a_ticking_timer_alone() -> None:
    """Section 3: prepare timer maintenance."""
    replica = replica_of()
    admit(replica, 1)
    replica.on_tick()
    admit(replica, 2)
    assert replica.state.timeouts.prepare.remaining == PREPARE_TICKS - 1


def test_a_popped_head_times_the_new_oldest_from_now() -> None:
    """Section 3."""
    replica = replica_of()
    first, _second = admit_many(replica, 2)
    replica.on_tick()
    append_and_apply(replica, first)
    assert replica.state.timeouts.prepare.remaining == PREPARE_TICKS


def test_the_prepare_timer_stops_with_an_empty_pipeline() -> None:
    """C-026: after the only prepare in flight was taken back."""
    replica = replica_of()
    prepare = admit(replica, 1)
    replica.on_append_failed([position(prepare)], "io")
    assert not replica.state.timeouts.prepare.ticking


def test_a_waiting_request_keeps_the_prepare_timer_ticking() -> None:
    """Invariant I5: the pipeline is both queues."""
    replica = replica_of(config_of(depth=1))
    prepare = admit(replica, 1)
    replica.on_verdict(verdict_on(request_of(2)))
    append_and_apply(replica, prepare)
    assert replica.state.timeouts.prepare.ticking


def test_the_prepare_timer_backs_off_while_nothing_moves() -> None:
    """Section 3: alone there is nobody to retransmit to."""
    replica = replica_of()
    admit(replica, 1)
    effects: list[Effect] = []
    for _ in range(PREPARE_TICKS):
        effects += replica.on_tick()
    timer = replica.state.timeouts.prepare
    assert timer.attempts == 1
    assert 2 * PREPARE_TICKS <= timer.remaining <= 4 * PREPARE_TICKS
    assert without_notes(effects) == []


def test_the_prepare_timer_stops_on_a_replica_that_does_not_lead() -> None:
    """Section 3: on fire."""
    replica = replica_of()
    admit(replica, 1)
    replica.state.status = Status.VIEW_CHANGE
    for _ in range(PREPARE_TICKS):
        replica.on_tick()
    assert not replica.state.timeouts.prepare.ticking


def test_a_primary_counts_its_heartbeats() -> None:
    """Section 3: it stays Normal; alone there is nobody to tell."""
    replica = replica_of()
    for _ in range(2 * COMMIT_MESSAGE_TICKS):
        replica.on_tick()
    assert replica.state.heartbeat_timestamp == 2
    assert replica.state.status is Status.NORMAL


def test_a_primary_that_is_not_normal_sends_no_heartbeat_and_is_not_re_armed() -> None:
    """Section 3."""
    replica = replica_of()
    replica.state.status = Status.VIEW_CHANGE
    for _ in range(2 * COMMIT_MESSAGE_TICKS):
        replica.on_tick()
    assert replica.state.heartbeat_timestamp == 0
    assert replica.state.timeouts.commit_message.fired


def test_an_idle_replica_of_one_does_nothing_for_a_minute() -> None:
    """Section 15: no probe, no heartbeat timer, no view change."""
    replica = replica_of()
    effects: list[Effect] = []
    for _ in range(6000):
        effects += replica.on_tick()
    assert effects == []
    assert (replica.state.view, replica.state.status) == (0, Status.NORMAL)
