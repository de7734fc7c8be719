"""The state of a replica that begins, and the edges of its stages (sections 2, 11, 12)."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levrier.actors.bus.messages import Ticket
from levrier.actors.consensus.effects import Report
from levrier.actors.consensus.state import (
    RecoveredState,
    Status,
    TransferStage,
    assert_invariants,
    is_transfer_edge,
)
from tests.actors.consensus.builders import (
    admit,
    append_and_apply,
    config_of,
    replica_of,
    request_of,
    sealed_headers,
    verdict_on,
    without_notes,
)


def test_seven_edges_of_the_transfer_stage_are_legal() -> None:
    """C-034."""
    legal = {pair for pair in itertools.product(TransferStage, repeat=2) if is_transfer_edge(*pair)}
    idle, awaiting, fetching, installing = TransferStage
    assert legal == {
        (idle, awaiting),
        (awaiting, fetching),
        (awaiting, idle),
        (fetching, installing),
        (fetching, awaiting),
        (fetching, idle),
        (installing, idle),
    }


def test_a_replica_is_transferring_in_all_stages_but_idle() -> None:
    """C-035."""
    state = replica_of().state
    seen = []
    for stage in (
        TransferStage.AWAITING_TARGET,
        TransferStage.FETCHING,
        TransferStage.INSTALLING,
        TransferStage.IDLE,
    ):
        state.set_transfer_stage(stage)
        seen.append(state.is_transferring)
    assert seen == [True, True, True, False]


def test_an_illegal_stage_is_our_bug() -> None:
    """Invariant I13."""
    with pytest.raises(AssertionError):
        replica_of().state.set_transfer_stage(TransferStage.INSTALLING)


def test_a_blank_replica() -> None:
    """Section 2: the initial column."""
    state = replica_of().state
    assert (state.view, state.log_view, state.status) == (0, 0, Status.NORMAL)
    assert (state.commit_min, state.apply_sent, state.commit_max, state.sequencer) == (0, 0, 0, 0)
    assert (state.last_prepare_checksum, state.last_timestamp, state.recovery_barrier) == (0, 0, 0)
    assert state.is_past_barrier
    assert state.timeouts.commit_message.ticking
    assert not state.timeouts.normal_heartbeat.ticking


def test_a_restarted_single_replica_is_past_its_barrier_at_once() -> None:
    """Section 12 step 5, section 15: the head of its log is its commit point."""
    headers = sealed_headers(from_op=3, to_op=8)
    state = replica_of(
        recovered=RecoveredState(view=2, log_view=2, commit=8, headers=headers, snapshot_op=3, log_size=99)
    ).state
    assert (state.commit_min, state.apply_sent, state.commit_max, state.sequencer) == (8, 8, 8, 8)
    assert state.last_prepare_checksum == headers[-1].checksum
    assert state.last_timestamp == headers[-1].timestamp
    assert state.is_past_barrier
    assert state.checkpoint.log_size == 99


def test_a_snapshot_without_a_log_continues_behind_it() -> None:
    """D-32: a restored member has a snapshot and nothing else."""
    state = replica_of(recovered=RecoveredState(commit=9, snapshot_op=9, timestamp_floor=500)).state
    assert (state.sequencer, state.last_prepare_checksum, state.last_timestamp) == (9, 0, 500)


def test_a_single_replica_with_an_uncommitted_suffix_is_our_bug() -> None:
    """Section 15."""
    with pytest.raises(AssertionError, match="whole log"):
        replica_of(recovered=RecoveredState(commit=1, headers=sealed_headers(from_op=1, to_op=2)))


def test_a_member_with_a_suffix_stands_behind_its_barrier() -> None:
    """Section 12 step 7: recovery_barrier = head."""
    state = replica_of(
        config_of(replica_count=3), recovered=RecoveredState(commit=1, headers=sealed_headers(from_op=1, to_op=2))
    ).state
    assert (state.recovery_barrier, state.admission_barrier) == (2, 2)
    assert not state.is_past_barrier


def test_a_backup_waits_for_heartbeats() -> None:
    """Section 12 step 9."""
    state = replica_of(config_of(replica_count=3, replica=1)).state
    assert not state.is_primary
    assert state.timeouts.normal_heartbeat.ticking
    assert not state.timeouts.commit_message.ticking


@pytest.mark.parametrize(("view", "primary"), [(0, 0), (1, 1), (2, 2), (3, 0), (7, 1)])
def test_the_primary_of_a_view_is_arithmetic(view: int, primary: int) -> None:
    """Section 2."""
    recovered = RecoveredState(view=view, log_view=view)
    leaders = [
        replica
        for replica in range(3)
        if replica_of(config_of(replica_count=3, replica=replica), recovered=recovered).state.is_primary
    ]
    assert leaders == [primary]


def test_the_newest_observed_view_is_kept() -> None:
    """Section 2: 5 then 2."""
    state = replica_of().state
    state.observe_view(5)
    state.observe_view(2)
    assert state.observed_newer_view == 5


@given(head=st.integers(0, 12), snapshot=st.integers(0, 12), ticks=st.integers(1, 120))
def test_no_recovered_frontier_needs_a_repair_or_raises(head: int, snapshot: int, ticks: int) -> None:
    """BR-07: nothing missing is nothing to do, and the next op follows."""
    snapshot = min(snapshot, head)
    headers = sealed_headers(from_op=1, to_op=head)[max(snapshot, 1) - 1 :]
    replica = replica_of(recovered=RecoveredState(commit=head, headers=headers, snapshot_op=snapshot))
    for _ in range(ticks):
        assert without_notes(replica.on_tick()) == []
    append_and_apply(replica, admit(replica, 1))
    assert replica.state.commit_min == head + 1
    assert replica.state.status is Status.NORMAL


@pytest.mark.parametrize("field", ["apply_sent", "log_view"])
def test_the_invariants_notice_a_broken_frontier(field: str) -> None:
    """Section 16, I1 and I2."""
    state = replica_of().state
    setattr(state, field, 1)
    with pytest.raises(AssertionError):
        assert_invariants(state)


def test_the_status_of_a_replica() -> None:
    """Design 9: the consensus part of `levrier status`."""
    headers = sealed_headers(from_op=1, to_op=3)
    replica = replica_of(config_of(depth=1), recovered=RecoveredState(commit=3, headers=headers, snapshot_op=2))
    admit(replica, 1)
    replica.on_verdict(verdict_on(request_of(2)))
    [report] = replica.on_status_query(Ticket(connection=4, number=2))
    assert isinstance(report, Report)
    status = report.status
    assert (status.ticket, status.replica, status.replica_count) == (Ticket(connection=4, number=2), 0, 1)
    assert (status.is_primary, status.state, status.view, status.log_view) == (True, "normal", 0, 0)
    assert (status.op, status.commit, status.applied, status.checkpoint, status.checkpoints) == (4, 3, 3, 2, 0)
    assert (status.pipeline, status.queued) == (1, 1)
    assert status.log_bytes == replica.state.checkpoint.log_size > 256
