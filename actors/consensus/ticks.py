"""What the passing of time does (sections 3 and 5.10).

Timers first, in the order of section 3, then the backstops. A group of one replica has only two live timers: there is
nobody to retransmit to, to send a heartbeat to, or to elect.
"""

from levrier.actors.consensus.admission import bootstrap_if_blank
from levrier.actors.consensus.checkpoints import capture_if_due
from levrier.actors.consensus.gate import is_disk_silent, retry_persist
from levrier.actors.consensus.normal import drive
from levrier.actors.consensus.rollback import retry_truncate
from levrier.actors.consensus.state import ReplicaState, Status


def pass_tick(state: ReplicaState) -> None:
    """One tick has passed."""
    state.ticks += 1
    timeouts = state.timeouts
    timeouts.tick()
    if timeouts.prepare.fired:
        fire_prepare(state)
    if timeouts.commit_message.fired:
        fire_commit_message(state)
    bootstrap_if_blank(state)
    drive(state)
    retry_truncate(state)
    retry_persist(state)
    capture_if_due(state)


def fire_prepare(state: ReplicaState) -> None:
    """Something has been in the pipeline for long: retransmit it to whoever has not acknowledged, and wait longer.

    A send to oneself is a no-op (section 3), so alone this only backs off.
    """
    timer = state.timeouts.prepare
    if state.status is not Status.NORMAL or not state.is_acting_primary or state.pipeline.is_empty:
        timer.stop()
        return
    timer.back_off(state.timeouts.jitter)


def fire_commit_message(state: ReplicaState) -> None:
    """The heartbeat of a primary is due; a primary whose disk is silent misses it (D-15)."""
    if not state.is_primary or state.status is not Status.NORMAL:
        return
    state.timeouts.commit_message.reset()
    if not is_disk_silent(state):
        state.heartbeat_timestamp += 1
