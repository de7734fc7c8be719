"""Entering a view change, and its votes (sections 8.1 to 8.5).

Entering with the own vote is one step; so is deciding on a merge. A vote says what the log holds, so it is cast only when
nothing is under way to the disk (rule 8); the vote that is stored and the bytes that are sent are made of one suffix. A
learner takes no part.
"""

from collections.abc import Sequence

from levrier.actors.consensus import spare_acks, spare_forwards, unpromised
from levrier.actors.consensus.admission import deny_queued, resync_prepare_timer
from levrier.actors.consensus.answers import NOT_COMMITTED, deny
from levrier.actors.consensus.effects import Note, Severity
from levrier.actors.consensus.forwarding import void_waiters
from levrier.actors.consensus.frames import broadcast, do_view_change, start_view_change
from levrier.actors.consensus.gate import may_send
from levrier.actors.consensus.merge import Ready, Vote, merge
from levrier.actors.consensus.repair import close_session
from levrier.actors.consensus.state import Owed, PendingLog, ReplicaState, Status, Unsettled
from levrier.actors.consensus.suffix import DVC_HEADERS_MAX, Suffix, build_suffix
from levrier.actors.consensus.transfer import cancel as cancel_transfer
from levrier.actors.consensus.verified import chains
from levrier.wire.errors import WireError
from levrier.wire.headers import PrepareHeader
from levrier.wire.replica_headers import DoViewChangeHeader, StartViewChangeHeader
from levrier.wire.suffix import decode_suffix, encode_suffix


def enter(state: ReplicaState, view: int) -> None:
    """Begin to change to a view above the present one, with the own vote for it, in one step (8.1)."""
    assert view > state.view
    assert state.voter, "a learner never elects"
    if state.status is not Status.VIEW_CHANGE:
        state.silent = 0
    state.view = view
    state.status = Status.VIEW_CHANGE
    reset(state)
    cancel_transfer(state)
    state.start_view_change_votes = 1 << state.config.replica
    timeouts = state.timeouts
    timeouts.normal_heartbeat.stop()
    timeouts.start_view_change.start()
    timeouts.view_change_status.start()
    timeouts.request_start_view.start()
    timeouts.do_view_change.stop()
    if _needs_no_other(state):
        state.dvc_wanted = True
        timeouts.do_view_change.start()
    send_start_view_change(state)


def reset(state: ReplicaState) -> None:
    """Forget the votes and the parked log of the view before, and void what clients wait for."""
    state.start_view_change_votes = 0
    state.do_view_change_votes.clear()
    state.dvc_decided = False
    state.dvc_wanted = False
    state.sent_dvc = False
    state.pending = None
    state.owed = Owed.NOTHING
    spare_acks.forget(state)
    spare_forwards.forget(state)
    state.parked.clear()
    state.probe_attempts = 0
    close_session(state)
    clear_queues(state)
    void_waiters(state)


def clear_queues(state: ReplicaState) -> None:
    """Tell everybody in both queues what is certain (rule 6): 58 for what was only queued, 57 for what was prepared.

    An entry whose Apply is under way will be answered by the client table; until it is, its client counts as in flight.
    """
    deny_queued(state)
    for entry in state.pipeline.drop_prepares():
        header = entry.prepare.header
        if header.op <= state.apply_sent:
            if header.client:
                state.applying[header.client] = header.op
            continue
        state.bodies[header.op] = entry.prepare
        if header.client:
            state.unsettled[header.client, header.request] = Unsettled(header.op, header.checksum)
        deny(state, entry.reply_to, NOT_COMMITTED)
    resync_prepare_timer(state)


def send_start_view_change(state: ReplicaState) -> None:
    """Say which view this replica wants, once that is durable."""
    if may_send(state):
        broadcast(state, start_view_change(state))
    else:
        state.owed |= Owed.START_VIEW_CHANGE


def receive_start_view_change(state: ReplicaState, header: StartViewChangeHeader) -> None:
    """Another replica wants a view (8.2)."""
    if not _may_vote(state, header.view):
        return
    state.start_view_change_votes |= 1 << header.replica
    others = state.start_view_change_votes & ~(1 << state.config.replica)
    if not state.dvc_wanted and others.bit_count() >= state.quorums.faulty_max:
        state.dvc_wanted = True
        state.timeouts.do_view_change.start()
    cast_vote(state)


def receive_do_view_change(state: ReplicaState, header: DoViewChangeHeader, body: bytes) -> None:
    """The vote of another replica (8.4). The first one of each counts."""
    try:
        vote = _decode_vote(header, body)
    except WireError as error:
        state.effects.append(Note(Severity.WARNING, f"the vote of replica {header.replica} is unusable: {error}"))
        return
    if not _may_vote(state, header.view) or not state.is_primary:
        return
    state.dvc_wanted = True
    state.do_view_change_votes.setdefault(header.replica, vote)
    cast_vote(state)


def cast_vote(state: ReplicaState) -> None:
    """Vote, if that is due and the log stands still; and see whether the votes decide."""
    if not state.dvc_wanted or state.status is not Status.VIEW_CHANGE:
        return
    if not state.sent_dvc:
        if state.mirror.outstanding_count or state.truncation is not None:
            return
        state.sent_dvc = True
        if not state.timeouts.do_view_change.ticking:
            state.timeouts.do_view_change.start()
        vote = own_vote(state)
        if state.is_primary:
            state.do_view_change_votes[state.config.replica] = vote
        send_do_view_change(state, vote)
    if state.is_primary and not state.dvc_decided:
        complete(state)


def own_vote(state: ReplicaState) -> Vote:
    """What this replica brings into the view: its head, its commit point, and its suffix (8.3)."""
    op = max(state.sequencer, state.mirror.last_op)
    commit = min(state.commit_max, op)
    denied = unpromised.denied(state)
    lost = unpromised.lost(state, commit=commit)
    header = state.mirror.header
    suffix = build_suffix(
        op=op,
        commit=commit,
        journal_header=lambda each: None if each in denied else header(each),
        adopted={each: named for each, named in state.adopted.items() if each <= op and each not in lost},
        silent=(state.unverified - denied) | lost,
        denies=not state.log_cut,
    )
    return Vote(
        replica=state.config.replica,
        log_view=state.log_view,
        op=op,
        commit=commit,
        suffix=_chained(suffix),
        is_cut=state.log_cut,
    )


def send_do_view_change(state: ReplicaState, vote: Vote) -> None:
    """Show the vote to everybody, once the view is durable."""
    if not may_send(state):
        state.owed |= Owed.DO_VIEW_CHANGE
        return
    op, suffix = _shown(vote)
    header = do_view_change(state, op=op, commit=vote.commit, nack=suffix.nack, present=suffix.present)
    broadcast(state, header, encode_suffix(suffix.headers))


def _shown(vote: Vote) -> tuple[int, Suffix]:
    """Head and suffix of a vote as they go into the frame.

    Every frame states a head, and a head denies what is above it. So the frame of a cut log states the op above, with a slot
    that no other vote can have: a blank one whose body is present (D-24).
    """
    suffix = vote.suffix
    if not vote.is_cut:
        return vote.op, suffix
    assert not suffix.headers or suffix.head == vote.op
    assert not suffix.nack
    op = vote.op + 1
    headers = (PrepareHeader.blank(op), *suffix.headers)[:DVC_HEADERS_MAX]
    present = (suffix.present << 1 | 1) & ((1 << len(headers)) - 1)
    return op, Suffix(head=op, headers=headers, present=present)


def complete(state: ReplicaState) -> None:
    """Merge the votes. Nothing but a decision that this replica can carry changes anything (8.5).

    One whose state is wrong does not lead: the view is left to the next one (D-17).
    """
    if state.is_corrupt:
        enter(state, state.view + 1)
        return
    votes = tuple(state.do_view_change_votes[replica] for replica in sorted(state.do_view_change_votes))
    outcome = merge(
        votes,
        replica_count=state.config.replica_count,
        abstaining=int(_needs_no_other(state)),
        missed=_missed(state, votes),
    )
    if not isinstance(outcome, Ready):
        state.effects.append(Note(Severity.DEBUG, f"view {state.view} is not decided: {outcome}"))
        return
    if outcome.head - outcome.commit_max > state.config.prepare_queue_depth:
        depth = state.config.prepare_queue_depth
        text = f"view {state.view} inherits {outcome.head - outcome.commit_max} ops, {depth} fit"
        state.effects.append(Note(Severity.ERROR, text))
        return
    state.dvc_decided = True
    state.commit_max = max(state.commit_max, outcome.commit_max)
    named = {header.op: header for header in outcome.headers + outcome.committed_elsewhere}
    state.pending = PendingLog(
        head=outcome.head,
        commit_max=outcome.commit_max,
        headers=outcome.headers,
        named=named,
        votes=votes,
        next_op=0,
    )
    clear_queues(state)


def _missed(state: ReplicaState, votes: Sequence[Vote]) -> int:
    """How many members that have not voted are not waited for: learners at once, everybody after half of the time."""
    absent = ((1 << state.config.replica_count) - 1) & ~sum(1 << vote.replica for vote in votes)
    timer = state.timeouts.view_change_status
    if timer.ticking and timer.remaining <= timer.after // 2:
        return absent.bit_count()
    return (absent & state.abstaining).bit_count()


def _needs_no_other(state: ReplicaState) -> bool:
    """Whether the other one of two members is a learner: what was committed is here too, so its vote is not waited for."""
    return state.config.replica_count == 2 and state.abstaining != 0 and state.voter


def _may_vote(state: ReplicaState, view: int) -> bool:
    """Whether a vote for that view concerns this replica; it enters the view first if it is a newer one."""
    if not state.voter or state.status is Status.RECOVERING or view < state.view:
        if view > state.view:
            state.observe_view(view)
        return False
    if view > state.view:
        enter(state, view)
    return state.status is Status.VIEW_CHANGE


def _decode_vote(header: DoViewChangeHeader, body: bytes) -> Vote:
    headers = decode_suffix(body, op=header.op)
    timestamp: int | None = None
    for entry in headers:
        if entry.is_blank:
            continue
        if timestamp is not None and entry.timestamp >= timestamp:
            raise WireError(f"op {entry.op} is not older than the one above", "suffix")
        timestamp = entry.timestamp
    op, present, nack = header.op, header.present_bitset, header.nack_bitset
    is_cut = bool(headers) and headers[0].is_blank and bool(present & ~nack & 1)
    if is_cut:
        op, headers, present, nack = op - 1, headers[1:], present >> 1, 0
    suffix = Suffix(head=op if headers else 0, headers=headers, present=present, nack=nack)
    return Vote(
        replica=header.replica, log_view=header.log_view, op=op, commit=header.commit, suffix=suffix, is_cut=is_cut
    )


def _chained(suffix: Suffix) -> Suffix:
    """The suffix with what does not chain to the entry above it passed over in silence (D-25)."""
    headers = list(suffix.headers)
    present = suffix.present
    for index in range(1, len(headers)):
        upper, lower = headers[index - 1], headers[index]
        if not upper.is_blank and not lower.is_blank and not chains(lower, upper):
            headers[index] = PrepareHeader.blank(lower.op)
            present &= ~(1 << index)
    if present == suffix.present:
        return suffix
    return Suffix(head=suffix.head, headers=tuple(headers), present=present, nack=suffix.nack)
