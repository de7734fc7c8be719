"""The superblock gate: nothing that carries a view leaves before that view is durable (section 9, D-11).

The gate fences the *send*, not the act: state has moved in memory already. What it withheld is judged again when the write
completes, never replayed. The same place keeps watch over the disk's progress (D-15).
"""

from typing import Final

from levrier.actors.consensus.effects import Fatal, Note, PersistView, Severity
from levrier.actors.consensus.state import DISK_SILENCE_TICKS, ReplicaState, Status
from levrier.actors.runtime import ExitStatus

_BACKOFF_SHIFT_MAX: Final = 8
BACKOFF_TICKS_MAX: Final = 100
"""A failed superblock write is tried again after at most a second."""


def needs_persist(state: ReplicaState) -> bool:
    """Whether what may be written differs from the durable pair. `commit_max` alone never needs a write."""
    gate = state.gate
    return (state.view, _log_view_held(state)) != (gate.view_durable, gate.log_view_durable)


def holds_announced(state: ReplicaState) -> bool:
    """Whether the log that the view was announced with is durably here, up to its head.

    Until then the log_view is not written: after a restart this replica would vote with the rank of a log that it does not
    have, and its vote would leave out what that log holds and others acknowledged.
    """
    op = state.view_head
    return op <= state.commit_min or (op not in state.unverified and state.mirror.is_durable(op))


def _log_view_held(state: ReplicaState) -> int:
    gate = state.gate
    if state.log_view == gate.log_view_durable or holds_announced(state):
        return state.log_view
    return gate.log_view_durable


def may_send(state: ReplicaState) -> bool:
    """Whether what carries the view may leave now. If not, a write is under way or waits for its back-off.

    An acknowledgement says that the log of the view is here. A vote does not: what it says of an announced log is true
    whether that log has come or not, so it only waits for the view.
    """
    gate = state.gate
    if state.view == gate.view_durable:
        if state.log_view == gate.log_view_durable:
            return True
        if state.status is not Status.NORMAL and not holds_announced(state):
            return True
    _persist(state)
    return False


def may_append_unproven(state: ReplicaState, op: int) -> bool:
    """Whether the superblock names a commit point at or above this op. If not, a write that says so is under way.

    At boot, what lies above that point counts as the log of the durable view (D-16); so an entry that only its number makes
    a committed one must not get there before the point has moved.
    """
    if op <= state.gate.commit_durable:
        return True
    if op <= state.commit_max:
        _persist(state)
    return False


def _persist(state: ReplicaState) -> None:
    """Write the pair, one write at a time. A new log_view only when the log was reconciled with it, durably (D-16)."""
    gate = state.gate
    if gate.in_flight is not None or state.ticks < gate.retry_tick:
        return
    if state.truncation is not None and state.log_view != gate.log_view_durable:
        return
    log_view = _log_view_held(state)
    if (state.view, log_view) == (gate.view_durable, gate.log_view_durable) and state.commit_max <= gate.commit_durable:
        return
    gate.in_flight = (state.view, log_view)
    gate.commit_in_flight = state.commit_max
    await_disk(state)
    state.effects.append(PersistView(state.view, log_view, state.commit_max))


def note_persisted(state: ReplicaState, view: int, log_view: int) -> None:
    """The pair is durable as it was written; a pair that moved on meanwhile is asked for again."""
    gate = state.gate
    assert gate.in_flight == (view, log_view), "one superblock write at a time"
    gate.in_flight = None
    gate.commit_durable = max(gate.commit_durable, gate.commit_in_flight)
    gate.failures = 0
    gate.retry_tick = 0
    gate.view_durable = max(gate.view_durable, view)
    gate.log_view_durable = max(gate.log_view_durable, log_view)
    note_disk_progress(state)
    may_send(state)  # A pair that moved on meanwhile is asked for again.


def note_persist_failed(state: ReplicaState, failures: int, reason: str) -> None:
    """The write failed: wait longer each time. The next send, or the next tick, tries again."""
    gate = state.gate
    assert gate.in_flight is not None
    gate.in_flight = None
    gate.failures = failures
    gate.retry_tick = state.ticks + min(1 << min(failures, _BACKOFF_SHIFT_MAX), BACKOFF_TICKS_MAX)
    state.effects.append(Note(Severity.ERROR, f"superblock write failed {failures} times in a row: {reason}"))


def retry_persist(state: ReplicaState) -> None:
    """At a tick: write what is not durable yet, and end the node when the superblock is wedged."""
    failures_max = state.config.superblock_failures_max
    if failures_max and state.gate.failures >= failures_max and not state.failed:
        state.failed = True
        state.effects.append(
            Fatal(ExitStatus.SUPERBLOCK_WEDGED, f"the superblock could not be written {state.gate.failures} times")
        )
        return
    if needs_persist(state):
        may_send(state)


def await_disk(state: ReplicaState) -> None:
    """Something has been asked of the disk."""
    if state.disk_waiting_since is None:
        state.disk_waiting_since = state.ticks


def note_disk_progress(state: ReplicaState) -> None:
    """The disk made something durable: its clock starts again, or stops when nothing is owed."""
    owed = state.mirror.outstanding_count or state.gate.in_flight is not None or state.truncation is not None
    state.disk_waiting_since = state.ticks if owed else None


def is_disk_silent(state: ReplicaState) -> bool:
    """Whether the disk owes something and has made no progress for too long: such a primary stops its heartbeat (D-15)."""
    since = state.disk_waiting_since
    return since is not None and state.ticks - since > DISK_SILENCE_TICKS
