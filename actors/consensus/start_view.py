"""Starting a view and adopting one (sections 8.6 to 8.9).

A primary-elect first holds the whole merged log, bodies of the uncommitted part included, and then starts the view in one
step, its pipeline rebuilt (rule 9). A backup adopts in one step too. Both reconcile their log with the view first, and both
have the journal do its part, behind every append, before the new log_view may become durable (D-16).

Deviation: a StartView of the view that a replica is in already, or was in when it restarted, takes nothing proven away. In
one view the log only grows, so a delayed or repeated StartView can only be shorter.
"""

from levrier.actors.consensus.acks import acknowledge_suffix
from levrier.actors.consensus.commits import is_reading, read, stream_commits
from levrier.actors.consensus.cutting import cut
from levrier.actors.consensus.effects import Broadcast, Note, Severity
from levrier.actors.consensus.frames import send, start_view
from levrier.actors.consensus.gate import may_send
from levrier.actors.consensus.merge import Vote
from levrier.actors.consensus.pipeline import PrepareEntry
from levrier.actors.consensus.projection import observe_timestamp
from levrier.actors.consensus.repair import first_uncovered, maybe_request_repair, open_session
from levrier.actors.consensus.state import (
    Owed,
    PendingLog,
    PendingRead,
    ReadPurpose,
    ReplicaState,
    Status,
    TransferStage,
)
from levrier.actors.consensus.suffix import DVC_HEADERS_MAX
from levrier.actors.consensus.transfer import request_fetch
from levrier.actors.consensus.verified import distrust, verify
from levrier.actors.consensus.view_change import reset
from levrier.wire.errors import WireError
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import Prepare
from levrier.wire.replica_headers import StartViewHeader
from levrier.wire.suffix import decode_suffix


def drive_parked(state: ReplicaState) -> None:
    """On the view's primary-elect: bring the merged log here, then start the view (8.6)."""
    pending = state.pending
    if pending is None or state.status is not Status.VIEW_CHANGE or not state.is_primary or state.is_transferring:
        return
    if not pending.reconciled:
        pending.reconciled = True
        reconcile(state, pending.named, head=pending.head, keep_proven=False)
    if state.truncation is not None:
        return
    missing = first_uncovered(state, pending)
    if missing is not None:
        if state.repair is None:
            _ask_for(state, pending, missing)
        return
    if state.mirror.outstanding_count:
        return
    bodies = _bodies(state, pending)
    if bodies is not None:
        _start(state, pending, bodies)


def _ask_for(state: ReplicaState, pending: PendingLog, missing: int) -> None:
    """From the first replica that offers the body, newest log first; below every suffix, from the one that is furthest."""
    others = [vote for vote in pending.votes if vote.replica != state.config.replica]
    offers = [vote for vote in others if vote.suffix.offers(missing)]
    lower = [vote for vote in others if vote.suffix.headers and missing < vote.suffix.floor]
    candidates = offers or lower
    if not candidates:
        state.effects.append(Note(Severity.WARNING, f"nobody offers op {missing} of view {state.view}"))
        return
    best = max(candidates, key=_freshness)
    open_session(state, peer=best.replica, from_op=missing, to_op=pending.head)


def _freshness(vote: Vote) -> tuple[int, int, int]:
    return vote.log_view, vote.commit, -vote.replica


def _bodies(state: ReplicaState, pending: PendingLog) -> list[Prepare] | None:
    """The uncommitted entries of the merged log; those that are only on the disk are read first."""
    found: list[Prepare] = []
    for op in range(state.commit_max + 1, pending.head + 1):
        header = state.mirror.header(op)
        prepare = state.bodies.get(op)
        assert header is not None
        if prepare is None or prepare.header.checksum != header.checksum:
            if state.ticks >= pending.read_not_before and not is_reading(state, ReadPurpose.VIEW_START):
                read(state, PendingRead(purpose=ReadPurpose.VIEW_START, from_op=op, to_op=pending.head))
            return None
        found.append(prepare)
    return found


def _start(state: ReplicaState, pending: PendingLog, bodies: list[Prepare]) -> None:
    """Be the primary of the view (8.7). Atomic; only what is sent waits for the disk."""
    head = pending.head
    verify(state, head)
    state.pending = None
    state.do_view_change_votes.clear()
    state.unverified.clear()
    state.unpromised.clear()
    state.adopted = {}
    state.repair = None
    state.suspects = 0
    state.status = Status.NORMAL
    state.ceded_primaryship = False
    state.sequencer = head
    top = state.mirror.header(head)
    if top is not None:
        state.last_prepare_checksum = top.checksum
    elif pending.headers:
        state.last_prepare_checksum = pending.headers[0].checksum
    for header in pending.headers:
        observe_timestamp(state, header.timestamp)
    state.log_view = state.view
    state.view_head = 0
    state.log_cut = False
    state.heartbeat_timestamp = 0
    timeouts = state.timeouts
    for timer in (
        timeouts.view_change_status,
        timeouts.do_view_change,
        timeouts.start_view_change,
        timeouts.request_start_view,
        timeouts.normal_heartbeat,
    ):
        timer.stop()
    timeouts.commit_message.start()
    state.recovery_barrier = min(state.recovery_barrier, head)
    state.admission_barrier = head
    _rebuild_pipeline(state, bodies)
    settle_excluded(state, head)
    send_start_view(state)
    stream_commits(state)


def _rebuild_pipeline(state: ReplicaState, bodies: list[Prepare]) -> None:
    pipeline = state.pipeline
    assert pipeline.is_empty
    for prepare in bodies:
        entry = PrepareEntry(prepare, None)
        entry.durable = True
        if state.voter:
            entry.acknowledged = 1 << state.config.replica
            entry.quorum_reached = state.quorums.replication == 1
        pipeline.push_prepare(entry, is_inherited=True)
        observe_timestamp(state, prepare.header.timestamp)
        state.bodies.pop(prepare.header.op, None)
    if bodies:
        state.timeouts.prepare.start()


def settle_excluded(state: ReplicaState, head: int) -> None:
    """A request whose entry the log of a started view leaves out has not happened and will not (D-29)."""
    mirror = state.mirror
    for key, fate in list(state.unsettled.items()):
        held = mirror.header(fate.op)
        named = state.adopted.get(fate.op, held)
        if fate.op > head or (named is not None and named.checksum not in (0, fate.checksum)):
            del state.unsettled[key]


def durable_head(state: ReplicaState) -> int:
    """The head of what a primary durably holds: an entry that may still fail to append is announced to nobody."""
    mirror = state.mirror
    op = state.sequencer
    while op > state.commit_max and not mirror.is_durable(op):
        op -= 1
    return op


def view_headers(state: ReplicaState, head: int) -> tuple[PrepareHeader, ...]:
    """The headers that name the log of the view, from `head` down to the commit point, as far as they are held."""
    headers: list[PrepareHeader] = []
    for op in range(head, max(min(state.commit_max, head), 1) - 1, -1):
        header = state.mirror.header(op)
        if header is None or len(headers) == DVC_HEADERS_MAX:
            break
        headers.append(header)
    return tuple(headers)


def send_start_view(state: ReplicaState, *, replica: int | None = None, incarnation: int = 0) -> None:
    """Announce the view, to everybody or to the one that asked, once it is durable."""
    if not may_send(state):
        if replica is None:
            state.owed |= Owed.START_VIEW
        return
    head = durable_head(state)
    header, body = start_view(state, view_headers(state, head), op=head, incarnation=incarnation)
    if replica is None:
        state.effects.append(Broadcast(header.encode(body)))
    else:
        send(state, replica, header, body)


def receive_start_view(state: ReplicaState, header: StartViewHeader, body: bytes) -> None:
    """The log of a view, from its primary (8.9)."""
    if not _is_acceptable(state, header):
        return
    try:
        headers = decode_suffix(body, op=header.op)
    except WireError as error:
        state.effects.append(Note(Severity.WARNING, f"the StartView of view {header.view} names nothing: {error}"))
        headers = ()
    names = {entry.op: entry for entry in headers if not entry.is_blank}
    if state.status is Status.NORMAL and header.view == state.view:
        _learn(state, header, names)
    else:
        _adopt(state, header, names)
    if state.is_transferring:
        if state.transfer_stage is TransferStage.AWAITING_TARGET:
            request_fetch(state, header.replica)
        return
    stream_commits(state)
    maybe_request_repair(state, header.replica)


def _is_acceptable(state: ReplicaState, header: StartViewHeader) -> bool:
    config = state.config
    if header.replica != header.view % config.replica_count or header.replica == config.replica:
        return False
    if header.view < state.view or (header.view == state.view and state.is_primary):
        return False
    if header.view == state.log_view and header.op < state.commit_min:
        return False
    if state.log_cut and header.view == state.log_view and header.incarnation != config.incarnation:
        return False  # It may be older than what was cut, and says then that there was nothing (D-24).
    return not (
        state.status is Status.RECOVERING
        and header.incarnation
        and header.incarnation != config.incarnation
        and header.view <= state.view
        and header.op < state.sequencer
    )


def _learn(state: ReplicaState, header: StartViewHeader, names: dict[int, PrepareHeader]) -> None:
    """The view that this replica is Normal in: its names prove entries, nothing else changes."""
    state.commit_max = max(state.commit_max, header.commit)
    state.view_commit = header.commit
    state.adopted.update(names)
    for op in sorted(names):
        held = state.mirror.header(op)
        if held is not None and held.checksum == names[op].checksum:
            verify(state, op)
    acknowledge_suffix(state)


def _adopt(state: ReplicaState, header: StartViewHeader, names: dict[int, PrepareHeader]) -> None:
    same_log = header.view == state.log_view
    state.view = state.log_view = header.view
    state.status = Status.NORMAL
    state.ceded_primaryship = False
    reset(state)
    state.commit_max = max(state.commit_max, header.commit)
    state.view_commit = header.commit
    state.adopted = names
    state.unpromised.clear()
    if state.log_cut:
        # Of the view that it was in already, only the answer to this boot's own question gets here.
        state.log_cut = False
        state.view_head = header.op
    if not same_log:
        state.view_head = header.op
        state.heartbeat_timestamp = 0
        distrust(state)
    timeouts = state.timeouts
    timeouts.view_change_status.stop()
    timeouts.do_view_change.stop()
    timeouts.request_start_view.stop()
    timeouts.commit_message.stop()
    timeouts.start_view_change.stop()
    timeouts.normal_heartbeat.start()
    reconcile(state, names, head=header.op, keep_proven=same_log)
    state.sequencer = max(header.op, state.apply_sent, state.mirror.last_op)
    state.recovery_barrier = min(state.recovery_barrier, state.sequencer)
    settle_excluded(state, state.sequencer)
    acknowledge_suffix(state)


def reconcile(state: ReplicaState, names: dict[int, PrepareHeader], *, head: int, keep_proven: bool) -> None:
    """Make the log agree with what a view names and ends at (8.8). A Truncate always follows, behind every append."""
    mirror = state.mirror
    wrong: int | None = None
    for op in sorted(names):
        named, held = names[op], mirror.header(op)
        if held is None or named.checksum in {0, held.checksum}:
            continue
        if op <= state.apply_sent:
            state.effects.append(Note(Severity.ERROR, f"op {op} was applied here and is another in view {state.view}"))
            continue
        wrong = op
        break
    if names and (lowest := min(names)) - 1 > state.apply_sent:
        below, named = mirror.header(lowest - 1), names[lowest]
        if below is not None and named.checksum and below.checksum not in (0, named.parent):
            wrong = lowest - 1
    above = max(head, state.apply_sent) + 1
    if keep_proven:
        above = max([above, *(op + 1 for op in mirror.ops() if op not in state.unverified)])
    from_op = min(above, mirror.last_op + 1) if wrong is None else min(above, wrong)
    for op in sorted(names):
        held = mirror.header(op)
        if op < from_op and held is not None and names[op].checksum == held.checksum and state.pending is None:
            verify(state, op)
    cut(state, max(from_op, state.apply_sent + 1, mirror.snapshot_op + 1))
