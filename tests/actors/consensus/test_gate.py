"""The superblock gate (section 9) and the watch over the disk (D-15)."""

from dataclasses import replace

import pytest

from levrier.actors.consensus.effects import Apply, Fatal, PersistView
from levrier.actors.consensus.gate import is_disk_silent, may_send, needs_persist
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.state import RecoveredState
from levrier.actors.consensus.timeouts import NORMAL_HEARTBEAT_TICKS
from levrier.actors.runtime import ExitStatus
from levrier.wire.prepare import Prepare, restamp_view
from tests.actors.consensus.builders import (
    admit,
    append_and_apply,
    config_of,
    of_type,
    position,
    replica_of,
    sealed_chain,
)
from tests.actors.consensus.peers import acknowledged, member, persists, settle_disk, start_view, ticks

SILENCE_TICKS = NORMAL_HEARTBEAT_TICKS // 2


def moved_to_view_1(failures_max: int = 120) -> Replica:
    replica = replica_of(config_of(superblock_failures_max=failures_max))
    replica.state.view = 1
    replica.state.log_view = 1
    return replica


def test_a_view_or_a_log_view_alone_needs_a_write() -> None:
    """C-033."""
    state = replica_of().state
    assert not needs_persist(state)
    state.view = 1
    assert needs_persist(state)
    state.gate.view_durable = 1
    assert not needs_persist(state)
    state.log_view = 1
    assert needs_persist(state)
    state.gate.log_view_durable = 1
    assert not needs_persist(state)


def test_a_recovered_view_is_durable_and_the_gate_is_open() -> None:
    """Section 12."""
    state = replica_of(recovered=RecoveredState(view=4, log_view=3)).state
    assert (state.view, state.log_view) == (4, 3)
    assert may_send(state)
    assert state.effects == []


def test_what_carries_the_view_waits_for_one_write() -> None:
    """Section 9, D-11: an acknowledgement too; one write at a time."""
    replica = moved_to_view_1()
    prepare = admit(replica, 1)
    effects = replica.on_appended([position(prepare)])
    assert of_type(effects, PersistView) == [PersistView(1, 1, 0)]
    assert of_type(effects, Apply) == []
    assert of_type(replica.on_tick(), PersistView) == []


def test_what_waited_is_judged_again_when_the_view_is_durable() -> None:
    """Design, the superblock: re-judged, not replayed."""
    replica = moved_to_view_1()
    replica.on_appended([position(admit(replica, 1))])
    effects = replica.on_view_persisted(1, 1)
    assert [apply.prepare.header.op for apply in of_type(effects, Apply)] == [1]


def test_only_the_written_pair_becomes_durable() -> None:
    """Section 9: never re-read; a pair that moved on during the write is asked for again."""
    replica = moved_to_view_1()
    replica.on_tick()
    replica.state.view = 2
    effects = replica.on_view_persisted(1, 1)
    assert (replica.state.gate.view_durable, replica.state.gate.log_view_durable) == (1, 1)
    assert of_type(effects, PersistView) == [PersistView(2, 1, 0)]


def test_a_failed_write_is_tried_again_with_back_off() -> None:
    """Section 9: 20 ms after the first failure, twice as long after each, a second at most."""
    replica = moved_to_view_1()
    replica.on_tick()
    waits = []
    for failures in range(1, 10):
        replica.on_view_persist_failed(failures, "io")
        waits.append(next(tick for tick in range(1, 500) if of_type(replica.on_tick(), PersistView)))
    assert waits == [2, 4, 8, 16, 32, 64, 100, 100, 100]


def test_a_wedged_superblock_ends_the_node_once() -> None:
    """Sections 1 and 9: exit status 11 on the tick after the bound is reached."""
    replica = moved_to_view_1(failures_max=3)
    replica.on_tick()
    assert of_type(replica.on_view_persist_failed(3, "io"), Fatal) == []
    [fatal] = of_type(replica.on_tick(), Fatal)
    assert fatal.status is ExitStatus.SUPERBLOCK_WEDGED
    assert of_type(replica.on_tick(), Fatal) == []


def test_a_disk_that_is_only_full_never_ends_the_node() -> None:
    """BR-51: freeing some of it is enough, however long that takes."""
    replica = moved_to_view_1(failures_max=3)
    replica.on_tick()
    replica.on_view_persist_failed(500, "ENOSPC", is_full=True)
    assert of_type(ticks(replica, 100), Fatal) == []
    replica.on_view_persisted(1, 1)
    assert not needs_persist(replica.state)


def test_a_bound_of_zero_never_ends_the_node() -> None:
    """Section 1: 0 disables."""
    replica = moved_to_view_1(failures_max=0)
    replica.on_tick()
    replica.on_view_persist_failed(10_000, "io")
    assert of_type(replica.on_tick(), Fatal) == []


def test_a_success_forgets_the_failures() -> None:
    """Section 9."""
    replica = moved_to_view_1()
    replica.on_tick()
    replica.on_view_persist_failed(5, "io")
    while not of_type(replica.on_tick(), PersistView):
        pass
    replica.on_view_persisted(1, 1)
    assert replica.state.gate.failures == 0


@pytest.mark.parametrize("heartbeat_ticks", [NORMAL_HEARTBEAT_TICKS, 200])
def test_a_disk_that_never_answers_silences_the_primary(heartbeat_ticks: int) -> None:
    """D-15: half of the heartbeat timeout without progress, whatever that timeout is."""
    replica = replica_of(replace(config_of(), heartbeat_ticks=heartbeat_ticks))
    prepare = admit(replica, 1)
    for _ in range(heartbeat_ticks // 2):
        replica.on_tick()
    assert not is_disk_silent(replica.state)
    replica.on_tick()
    assert is_disk_silent(replica.state)
    heartbeats = replica.state.heartbeat_timestamp
    for _ in range(200):
        replica.on_tick()
    assert replica.state.heartbeat_timestamp == heartbeats
    append_and_apply(replica, prepare)
    assert not is_disk_silent(replica.state)


def test_an_idle_disk_is_not_silent() -> None:
    """D-15: nothing is owed."""
    replica = replica_of()
    append_and_apply(replica, admit(replica, 1))
    for _ in range(2 * SILENCE_TICKS):
        replica.on_tick()
    assert not is_disk_silent(replica.state)


def test_slow_progress_is_progress() -> None:
    """D-15: each completion starts the clock again while more is owed."""
    replica = replica_of()
    first, _second = admit(replica, 1), admit(replica, 2)
    for _ in range(SILENCE_TICKS):
        replica.on_tick()
    append_and_apply(replica, first)
    for _ in range(SILENCE_TICKS):
        replica.on_tick()
    assert not is_disk_silent(replica.state)
    replica.on_tick()
    assert is_disk_silent(replica.state)


def test_a_failing_disk_makes_no_progress() -> None:
    """D-15: failing without a success since."""
    replica = replica_of()
    prepare = admit(replica, 1)
    for _ in range(SILENCE_TICKS):
        replica.on_tick()
    replica.on_append_failed([position(prepare)], "io")
    replica.on_truncate_failed(1, "io")
    replica.on_tick()
    assert is_disk_silent(replica.state)
    replica.on_truncated(1)
    assert not is_disk_silent(replica.state)


def test_the_log_view_waits_for_the_whole_announced_log_not_for_its_head() -> None:
    """D-11, D-16: a hole that the disk had is no log of the view, though the head is there and was named."""
    chain = sealed_chain(from_op=1, to_op=6, commit=3)
    held = [prepare for prepare in chain if prepare.header.op != 5]
    replica = member(1, chain=held, commit=3, view=1)
    effects = settle_disk(replica, replica.on_frame(*start_view(2, 2, op=6, commit=3, chain=chain[2:])))
    assert persists(effects) == [(2, 1)]
    assert acknowledged(effects) == []
    effects = settle_disk(replica, replica.on_prepare(Prepare.decode(restamp_view(chain[4].frame, 2))))
    assert persists(effects) == [(2, 2)]
    assert [op for _, op in acknowledged(effects)] == [4, 5, 6]
