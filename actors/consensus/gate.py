"""The superblock gate: nothing that carries a view leaves before that view is durable (section 9, D-11).

The gate fences the *send*, not the act: state has moved in memory already. What it withheld is judged again when the write
completes, never replayed. The same place keeps watch over the disk's progress (D-15).
"""

from typing import Final

from levrier.actors.consensus.effects import Fatal, Note, PersistView, Severity
from levrier.actors.consensus.state import ReplicaState, Status
from levrier.actors.runtime import ExitStatus

_BACKOFF_SHIFT_MAX: Final = 8
BACKOFF_TICKS_MAX: Final = 100
"""A failed superblock write is tried again after at most a second."""


def needs_persist(state: ReplicaState) -> bool:
    """Whether what may be written differs from what is durable. `commit_max` alone never needs a write."""
    gate = state.gate
    return (state.view, _log_view_held(state)) != (gate.view_durable, gate.log_view_durable) or _settles_cut(state)


def holds_announced(state: ReplicaState) -> bool:
    """Whether the log that the view was announced with is durably here, all of it up to its head.

    Until then the log_view is not written. Section 8.9 writes it at adoption, and a restart loses what the view named: the
    replica would vote with the rank of a log that it does not have, and a merge takes what the highest rank does not hold
    for left out by that view (8.5). This order keeps what a merge needs of every voter, that *an op acknowledged in a view
    up to its durable log_view is in its log or its snapshot*:

    * An acknowledgement waits for the durable log_view (`may_send`, D-11). So whoever acknowledged in view v has rank v
      after any restart, and a quorum that committed in v meets every quorum of votes in a member that has the op and the
      rank. One that crashes before has rank u < v, and acknowledged nothing in between.
    * Adoption cuts only what the announced log contradicts (8.8), never a committed op. So with rank u it still holds
      what it acknowledged up to u; with rank v it holds the log of v, which contains whatever was committed before.
    * A vote before the log has come carries rank v from memory, with the announced headers, absent and not nacked. That
      is true now and stays true of view v; after a crash the replica votes in a later view only, with rank u.
    * All of it, not the head alone: a log with a hole from an earlier disk may hold the head already. A snapshot counts
      for everything it covers (11), and so it ends the wait of a replica that was left behind.
    """
    head = state.view_head
    if head <= state.commit_min:
        return True
    mirror, unverified = state.mirror, state.unverified
    if head in unverified or not mirror.is_durable(head):
        return False  # Repair comes from below, so this answers for a log that is far behind.
    return all(op not in unverified and mirror.is_durable(op) for op in range(state.commit_min + 1, head))


def _log_view_held(state: ReplicaState) -> int:
    gate = state.gate
    if state.log_view == gate.log_view_durable or holds_announced(state):
        return state.log_view
    return gate.log_view_durable


def _settles_cut(state: ReplicaState) -> bool:
    """Whether the mark of a cut log may go: a view told what its log is, and that is held.

    Not before it is held. A restart forgets what the view named, and would then deny what it names and this disk lacks.
    """
    return state.gate.cut_durable and not state.log_cut and state.truncation is None and holds_announced(state)


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
    settles_cut = _settles_cut(state)
    is_durable = (state.view, log_view) == (gate.view_durable, gate.log_view_durable)
    if is_durable and state.commit_max <= gate.commit_durable and not settles_cut:
        return
    gate.in_flight = (state.view, log_view)
    gate.commit_in_flight = state.commit_max
    gate.cut_in_flight = settles_cut
    await_disk(state)
    state.effects.append(PersistView(state.view, log_view, state.commit_max, settles_cut))


def note_persisted(state: ReplicaState, view: int, log_view: int) -> None:
    """The pair is durable as it was written; a pair that moved on meanwhile is asked for again."""
    gate = state.gate
    assert gate.in_flight == (view, log_view), "one superblock write at a time"
    gate.in_flight = None
    gate.commit_durable = max(gate.commit_durable, gate.commit_in_flight)
    gate.cut_durable = gate.cut_durable and not gate.cut_in_flight
    gate.failures = 0
    gate.is_full = False
    gate.retry_tick = 0
    gate.view_durable = max(gate.view_durable, view)
    gate.log_view_durable = max(gate.log_view_durable, log_view)
    note_disk_progress(state)
    may_send(state)  # A pair that moved on meanwhile is asked for again.


def note_persist_failed(state: ReplicaState, failures: int, reason: str, *, is_full: bool) -> None:
    """The write failed: wait longer each time. The next send, or the next tick, tries again.

    A disk that is only full is tried for ever: freeing some of it is enough (BR-51), and until then nothing that needs the
    write is said.
    """
    gate = state.gate
    assert gate.in_flight is not None
    gate.in_flight = None
    gate.failures = failures
    gate.is_full = is_full
    gate.retry_tick = state.ticks + min(1 << min(failures, _BACKOFF_SHIFT_MAX), BACKOFF_TICKS_MAX)
    if failures & (failures - 1) == 0:
        state.effects.append(Note(Severity.ERROR, f"superblock write failed {failures} times in a row: {reason}"))


def retry_persist(state: ReplicaState) -> None:
    """At a tick: write what is not durable yet, and end the node when the superblock is wedged."""
    failures_max = state.config.superblock_failures_max
    if failures_max and state.gate.failures >= failures_max and not state.gate.is_full and not state.failed:
        state.failed = True
        state.effects.append(
            Fatal(ExitStatus.SUPERBLOCK_WEDGED, f"the superblock could not be written {state.gate.failures} times")
        )
        return
    if needs_persist(state):
        _persist(state)


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
    return since is not None and state.ticks - since > state.config.silence_ticks


def is_unheeded(state: ReplicaState) -> bool:
    """Whether what a primary of several has prepared has waited for a quorum for too long: then it does not serve."""
    return state.ticks - state.progress_tick > state.config.silence_ticks and not state.is_alone
