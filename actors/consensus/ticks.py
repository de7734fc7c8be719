"""What the passing of time does (sections 3 and 5.10).

Timers first, in the order of section 3, then what backups do by the tick, then the backstops. A group of one replica has only
two live timers: there is nobody to retransmit to, to send a heartbeat to, or to elect.
"""

from levrier.actors.consensus import (
    digests,
    forwarding,
    probe,
    repair,
    spare_acks,
    spare_forwards,
    transfer,
    view_change,
)
from levrier.actors.consensus.admission import bootstrap_if_blank
from levrier.actors.consensus.checkpoints import capture_if_due
from levrier.actors.consensus.gate import retry_persist
from levrier.actors.consensus.heartbeat import fire_commit_message, fire_normal_heartbeat, note_progress
from levrier.actors.consensus.normal import drive
from levrier.actors.consensus.retransmit import fire_prepare
from levrier.actors.consensus.rollback import retry_truncate
from levrier.actors.consensus.state import ReplicaState, Status, TransferStage


def pass_tick(state: ReplicaState) -> None:
    """One tick has passed."""
    state.ticks += 1
    timeouts = state.timeouts
    timeouts.tick()
    note_progress(state)
    if timeouts.normal_heartbeat.fired:
        fire_normal_heartbeat(state)
    if timeouts.start_view_change.fired:
        _fire_start_view_change(state)
    if timeouts.do_view_change.fired:
        _fire_do_view_change(state)
    if timeouts.prepare.fired:
        fire_prepare(state)
    if timeouts.commit_message.fired:
        fire_commit_message(state)
    if timeouts.request_start_view.fired:
        probe.fire(state)
    if timeouts.view_change_status.fired:
        _fire_view_change_status(state)
    bootstrap_if_blank(state)
    spare_forwards.pass_tick(state)
    spare_acks.pass_tick(state)
    drive(state)
    retry_truncate(state)
    retry_persist(state)
    capture_if_due(state)
    if not state.is_alone:
        _drive_recovery(state)


def _fire_start_view_change(state: ReplicaState) -> None:
    if state.status is Status.VIEW_CHANGE:
        state.timeouts.start_view_change.reset()
        view_change.send_start_view_change(state)
    else:
        state.timeouts.start_view_change.stop()


def _fire_do_view_change(state: ReplicaState) -> None:
    if state.status is Status.VIEW_CHANGE and state.sent_dvc and not (state.is_primary and state.dvc_decided):
        state.timeouts.do_view_change.reset()
        if not state.mirror.outstanding_count and state.truncation is None:
            view_change.send_do_view_change(state, view_change.own_vote(state))


def _fire_view_change_status(state: ReplicaState) -> None:
    if state.status is Status.VIEW_CHANGE:
        state.silent = state.everybody & ~state.start_view_change_votes
        for replica in state.do_view_change_votes:
            state.silent &= ~(1 << replica)
        view_change.enter(state, state.view + 1)


def _drive_recovery(state: ReplicaState) -> None:
    """What a lost frame of a repair or of a transfer left behind."""
    repair.pass_tick(state)
    if state.waiters or state.forwarded:
        forwarding.pass_tick(state)
    digests.pass_tick(state)
    if state.transfer_stage is TransferStage.INSTALLING:
        transfer.try_install(state)
    if (
        state.status is Status.NORMAL
        and not state.is_primary
        and state.apply_sent < max(state.commit_max, state.view_head)
    ):
        repair.request_overdue(state, state.primary)
