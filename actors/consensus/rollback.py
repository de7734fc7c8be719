"""A failed append on the replica that pushed it (section 7, BR-05, D-25).

The journal writes several prepares with one sync, and refuses everything behind a failure until it is truncated. So when op
n fails, everything from n to the head has failed or will: nothing of it is durable, acknowledged or forwarded, because all
three happen only after its completion. The whole tail is therefore unwound in one handler, as one prepare is in the
specification. Four things keep this honest:

* A sibling in the tail that is durable or acknowledged proves that the premise is wrong: Overtaken, the node ends, and op
  numbers are never handed out twice (C-084, BR-05).
* A backup may have more above a hole that a boot has found (D-06), acknowledged, and a repair of the hole may fail. What it
  acknowledged it must not deny afterwards, so it is not cut: the node ends, and has it again when it starts.
* The bytes of a failed write may still be on the disk. The log is cut, durably, before any number is used again: while the
  Truncate is outstanding no Append is told.
* A crash before the cut could bring an unwound request back to life at boot. Its client is told 57, and until the cut its
  retransmits get 57 too: it is unsettled (rule 6). Requests that were only queued stay queued, or get 58.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from levrier.actors.consensus.admission import bootstrap_if_blank, deny_queued, promote, resync_prepare_timer
from levrier.actors.consensus.answers import NOT_COMMITTED, deny
from levrier.actors.consensus.cutting import cut
from levrier.actors.consensus.effects import Fatal, Note, Severity, Truncate
from levrier.actors.consensus.gate import note_disk_progress
from levrier.actors.consensus.messages import LogPosition
from levrier.actors.consensus.projection import RECORD_OVERHEAD
from levrier.actors.consensus.state import ReplicaState, Status, Unsettled
from levrier.actors.runtime import ExitStatus

RETRY_TICKS: Final = 10
"""Wait before a failed cut is tried again; doubled for each further failure."""

RETRY_SHIFT_MAX: Final = 4


class Rollback(IntEnum):
    """What a failed append means here and now. The tests of section 7, in order."""

    STALE = 0
    """It was unwound with an op below it; the cut that is outstanding covers it."""
    NOT_PRE_ADVANCED = 1
    """A backup moves its head only after a completed append: there is nothing to take back but the log."""
    SUPERSEDED = 2
    """The view has changed since: another primary may count on this op."""
    OVERTAKEN = 3
    """A later op got further than this one, or the head was rewound beneath it."""
    TAIL_MISMATCH = 4
    """Another prepare stands at this op."""
    UNWOUND = 5
    """Nothing outside this replica knows of it."""


_FATAL: Final = frozenset({Rollback.SUPERSEDED, Rollback.OVERTAKEN, Rollback.TAIL_MISMATCH})


def judge(state: ReplicaState, positions: Sequence[LogPosition]) -> Rollback:
    """Compare a failed batch with the state of the moment. Changes nothing."""
    first = positions[0]
    if state.truncation is not None and state.truncation.from_op <= first.op:
        return Rollback.STALE
    if not state.is_primary or _was_repaired(state, first):
        return Rollback.NOT_PRE_ADVANCED
    if first.view != state.view or state.status is not Status.NORMAL:
        return Rollback.SUPERSEDED
    return _judge_tail(state, positions)


def _was_repaired(state: ReplicaState, first: LogPosition) -> bool:
    """Whether a primary got this entry from a peer, as a primary-elect does: its head never went ahead for it."""
    header = state.mirror.header(first.op)
    if header is None or header.checksum != first.checksum:
        return False
    return header.view != first.view or header.replica != state.config.replica


def _judge_tail(state: ReplicaState, positions: Sequence[LogPosition]) -> Rollback:
    first = positions[0]
    if state.sequencer < first.op:
        return Rollback.OVERTAKEN
    for position in positions:
        entry = state.pipeline.prepare_at(position.op)
        if entry is None or entry.prepare.header.checksum != position.checksum:
            return Rollback.TAIL_MISMATCH
    for op in range(first.op, state.sequencer + 1):
        entry = state.pipeline.prepare_at(op)
        if entry is None or entry.durable or entry.acknowledged:
            return Rollback.OVERTAKEN
    return Rollback.UNWOUND


def roll_back(state: ReplicaState, positions: Sequence[LogPosition], reason: str) -> Rollback:
    """Act on a failed batch."""
    verdict = judge(state, positions)
    first = positions[0]
    if verdict is Rollback.STALE:
        return verdict
    state.effects.append(Note(Severity.ERROR, f"appending op {first.op} failed, {verdict.name.lower()}: {reason}"))
    if verdict in _FATAL:
        _end(state, first, verdict)
    elif verdict is Rollback.UNWOUND:
        _unwind(state, first.op)
        cut(state, first.op)
    elif state.mirror.has_durable_above(first.op):
        _end(state, first, Rollback.OVERTAKEN)
    elif state.mirror.header(first.op) is not None:
        cut(state, first.op)
        if state.status is Status.VIEW_CHANGE and not state.adopted:
            state.sequencer = min(state.sequencer, max(state.mirror.last_op, state.commit_min))
    return verdict


def note_truncated(state: ReplicaState, from_op: int) -> None:
    """The log is cut: what was unwound has never happened, its numbers are free, and appends go on."""
    truncation = state.truncation
    if truncation is None or truncation.from_op != from_op:
        state.effects.append(Note(Severity.DEBUG, f"the log was cut at op {from_op}, which nobody waits for"))
        return
    state.truncation = None
    if truncation.settles:
        for key in [key for key, fate in state.unsettled.items() if fate.op >= from_op]:
            del state.unsettled[key]
    note_disk_progress(state)
    bootstrap_if_blank(state)
    promote(state)


def note_truncate_failed(state: ReplicaState, from_op: int, reason: str) -> None:
    """The log could not be cut. It is tried again; whoever is queued is told that nothing was started."""
    truncation = state.truncation
    if truncation is None or truncation.from_op != from_op:
        return
    truncation.failures += 1
    truncation.retry_tick = state.ticks + (RETRY_TICKS << min(truncation.failures - 1, RETRY_SHIFT_MAX))
    state.effects.append(
        Note(Severity.ERROR, f"cutting the log at op {from_op} failed {truncation.failures} times: {reason}")
    )
    deny_queued(state)


def retry_truncate(state: ReplicaState) -> None:
    """At a tick: try the cut again when its back-off is over."""
    truncation = state.truncation
    if truncation is None or truncation.retry_tick is None or state.ticks < truncation.retry_tick:
        return
    truncation.retry_tick = None
    state.effects.append(Truncate(truncation.from_op))


def _unwind(state: ReplicaState, from_op: int) -> None:
    """Take every prepare from the head down to `from_op` back. The floor of the timestamps stays where it is."""
    pipeline = state.pipeline
    pipeline.void_tokens()
    while state.sequencer >= from_op:
        header = pipeline.prepares[-1].prepare.header
        entry = pipeline.remove_tail(state.sequencer, header.checksum)
        assert entry is not None, "the tail of the pipeline is the head of the log"
        state.sequencer = header.op - 1
        state.last_prepare_checksum = header.parent
        state.checkpoint.log_size = max(0, state.checkpoint.log_size - header.size - RECORD_OVERHEAD)
        if header.client:
            state.unsettled[header.client, header.request] = Unsettled(header.op, header.checksum)
        deny(state, entry.reply_to, NOT_COMMITTED)
    assert state.sequencer >= state.commit_max, "nothing committed is ever taken back"
    resync_prepare_timer(state)


def _end(state: ReplicaState, first: LogPosition, verdict: Rollback) -> None:
    if state.failed:
        return
    state.failed = True
    state.effects.append(
        Fatal(
            ExitStatus.LOG_UNRECONCILABLE,
            f"op {first.op} of view {first.view} failed to append and cannot be taken back "
            f"({verdict.name.lower()}; view {state.view}, head {state.sequencer})",
        )
    )
