"""The replica: what happened goes in, what has to be done comes out, in order (style, rule 2).

Each public method is one handler: it runs to its end, leaves the invariants true, and hands back its effects. The rules live
in the modules by topic (`admission`, `projection`, `normal`, `rollback`, `checkpoints`, `gate`, `ticks`) over one
`ReplicaState`; this class only decides which of them an event concerns.
"""

from collections.abc import Callable, Sequence

from levrier.actors.bus.messages import NodeStatus, Ticket
from levrier.actors.consensus import admission, checkpoints, gate, normal, rollback, ticks
from levrier.actors.consensus.effects import Effect, Report
from levrier.actors.consensus.messages import LogPosition, Verdict
from levrier.actors.consensus.state import (
    RecoveredState,
    ReplicaConfig,
    ReplicaState,
    assert_invariants,
    recovered_replica,
)


class Replica:
    """One member of one group. `now_micros` is the wall clock, microseconds since 1970."""

    def __init__(self, *, config: ReplicaConfig, recovered: RecoveredState, now_micros: Callable[[], int]) -> None:
        self._state = recovered_replica(config=config, recovered=recovered, now_micros=now_micros)
        assert_invariants(self._state)

    @property
    def state(self) -> ReplicaState:
        """What it knows. To be read."""
        return self._state

    def on_verdict(self, verdict: Verdict) -> list[Effect]:
        """The client table has looked at a request."""
        if verdict.token:
            admission.judge_again(self._state, verdict)
        else:
            admission.judge_fresh(self._state, verdict)
        return self._done()

    def on_appended(self, positions: Sequence[LogPosition]) -> list[Effect]:
        """These prepares are durable."""
        normal.note_appended(self._state, positions)
        return self._done()

    def on_append_failed(self, positions: Sequence[LogPosition], reason: str) -> list[Effect]:
        """This batch is not in the log, and nothing behind it will be before a truncation."""
        rollback.roll_back(self._state, positions, reason)
        return self._done()

    def on_truncated(self, from_op: int) -> list[Effect]:
        """The log is cut, durably."""
        rollback.note_truncated(self._state, from_op)
        return self._done()

    def on_truncate_failed(self, from_op: int, reason: str) -> list[Effect]:
        """The log could not be cut."""
        rollback.note_truncate_failed(self._state, from_op, reason)
        return self._done()

    def on_applied(self, op: int) -> list[Effect]:
        """The op went through the state machine and the client table."""
        normal.note_applied(self._state, op)
        return self._done()

    def on_view_persisted(self, view: int, log_view: int) -> list[Effect]:
        """The pair is durable; sends that waited for it are judged again."""
        gate.note_persisted(self._state, view, log_view)
        normal.acknowledge_durable(self._state)
        return self._done()

    def on_view_persist_failed(self, failures: int, reason: str) -> list[Effect]:
        """The superblock could not be written."""
        gate.note_persist_failed(self._state, failures, reason)
        return self._done()

    def on_checkpoint_done(self, *, op: int, snapshot_size: int, log_size: int) -> list[Effect]:
        """The checkpoint at `op` is complete."""
        checkpoints.note_done(self._state, op=op, snapshot_size=snapshot_size, log_size=log_size)
        admission.promote(self._state)
        return self._done()

    def on_checkpoint_failed(self, *, op: int, reason: str) -> list[Effect]:
        """The checkpoint at `op` ended without effect."""
        checkpoints.note_failed(self._state, op=op, reason=reason)
        return self._done()

    def on_tick(self) -> list[Effect]:
        """Ten milliseconds have passed."""
        ticks.pass_tick(self._state)
        return self._done()

    def on_status_query(self, ticket: Ticket) -> list[Effect]:
        """Somebody asks how this replica stands."""
        state = self._state
        state.effects.append(
            Report(
                NodeStatus(
                    ticket=ticket,
                    replica=state.config.replica,
                    replica_count=state.config.replica_count,
                    is_primary=state.is_acting_primary,
                    state=state.status.name.lower(),
                    view=state.view,
                    log_view=state.log_view,
                    op=state.sequencer,
                    commit=state.commit_max,
                    applied=state.commit_min,
                    checkpoint=state.checkpoint.snapshot_op,
                    checkpoints=state.checkpoint.completed,
                    log_bytes=state.checkpoint.log_size,
                    pipeline=len(state.pipeline.prepares),
                    queued=len(state.pipeline.requests),
                )
            )
        )
        return self._done()

    def _done(self) -> list[Effect]:
        state = self._state
        assert_invariants(state)
        effects = state.effects
        state.effects = []
        return effects
