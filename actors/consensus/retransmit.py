"""Sending again what was not acknowledged in time (section 3).

The entry goes directly to whoever has not acknowledged it, stamped with the present view, which leaves its identity as it
is. Whoever had to be reminded makes the chain unreliable: until it acknowledges something, the primary sends live prepares
to everybody itself, or one dead link of the chain would cost every write a retransmit.
"""

from levrier.actors.consensus.effects import Send
from levrier.actors.consensus.gate import may_send
from levrier.actors.consensus.state import ReplicaState, Status
from levrier.wire.prepare import restamp_view

BATCH_MAX = 32
"""Entries sent again to one replica at once: the oldest ones, which it can use first."""


def fire_prepare(state: ReplicaState) -> None:
    """Something has been in the pipeline for long: send it again to whoever has not acknowledged, and wait longer."""
    timer = state.timeouts.prepare
    if state.status is not Status.NORMAL or not state.is_acting_primary or state.pipeline.is_empty:
        timer.stop()
        return
    timer.back_off(state.timeouts.jitter)
    if not state.is_alone and may_send(state):
        _send_again(state)


def _send_again(state: ReplicaState) -> None:
    own = state.config.replica
    sent = [0] * state.config.replica_count
    for entry in state.pipeline.prepares:
        if entry.quorum_reached or not entry.durable or entry.prepare.header.op <= state.commit_max:
            continue
        frame = restamp_view(entry.prepare.frame, state.view)
        for replica in range(state.config.replica_count):
            if replica == own or entry.acknowledged >> replica & 1 or sent[replica] >= BATCH_MAX:
                continue
            sent[replica] += 1
            state.suspects |= 1 << replica
            state.effects.append(Send(replica, frame))
