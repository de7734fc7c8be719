"""Asking peers for entries, one session at a time (section 10, D-12).

A session is closed by a view change, asks another replica after three stalls, and believes nobody: what it gets goes through
the same gate as a live prepare, and is applied only once it is proven (D-16). Serving is in `serving`.
"""

from typing import Final

from levrier.actors.consensus.effects import Note, Severity
from levrier.actors.consensus.frames import send
from levrier.actors.consensus.gate import may_append_unproven
from levrier.actors.consensus.log_gate import follows, is_vouched_for, make_way, park, submit
from levrier.actors.consensus.state import PendingLog, RepairSession, ReplicaState, Status
from levrier.actors.consensus.verified import first_unmet, verify
from levrier.wire.prepare import Prepare
from levrier.wire.replica_headers import RepairRangeReplyHeader, RequestPreparesHeader

REPAIR_RETRY_TICKS: Final = 100
STALLS_MAX: Final = 3
"""Stalls after which another peer is asked."""

FED_TICKS: Final = 2
"""For how long after a live prepare the next one is waited for."""

REPAIR_DONE: Final = 20
RANGE_EVICTED: Final = 21

DISPROVEN: Final = -1
"""The floor of a session in which what is held was not proven from above."""


def maybe_request_repair(state: ReplicaState, peer: int, *, up_to: int = 0) -> None:
    """Open a session for what is not here of what is committed or was announced with the view, and up to `up_to`; if one is
    open, it goes on up to there.

    What was announced is asked for whether it is committed or not: nothing is acknowledged before all of it is here
    (`gate.holds_announced`), and the primary sends again only what it can hope to have acknowledged soon, the oldest.
    """
    if state.repair is not None:
        state.repair.to_op = max(state.repair.to_op, up_to)
        return
    if state.status is not Status.NORMAL or state.is_transferring or state.is_alone:
        return
    wanted = max(state.commit_max, state.view_head, up_to)
    missing = first_unmet(state, state.apply_sent + 1, wanted)
    if missing is None:
        return
    if peer == state.config.replica:
        peer = _next_peer(state, peer)
    open_session(state, peer=peer, from_op=missing, to_op=wanted)


def request_overdue(state: ReplicaState, peer: int) -> None:
    """The same, for what should have come by itself. A heartbeat runs ahead of what is forwarded by the tick (`spare_forwards`),
    so a log that grows is asked for nothing as long as it has no hole. A deviation from 5.11, which asks at once.
    """
    is_fed = state.ticks - state.fed_tick <= FED_TICKS
    if is_fed and first_unmet(state, state.apply_sent + 1, state.mirror.last_op) is None:
        return
    maybe_request_repair(state, peer)


def open_session(state: ReplicaState, *, peer: int, from_op: int, to_op: int) -> None:
    """Ask a peer for a range."""
    assert state.repair is None
    state.repair = RepairSession(nonce=state.mint_nonce(), peer=peer, to_op=to_op, asked_from=from_op)
    _ask(state, state.repair, from_op)


def close_session(state: ReplicaState) -> None:
    """End the session, whatever it was about."""
    state.repair = None


def missing_of(state: ReplicaState, session: RepairSession) -> int | None:
    """The first op that the session still has to bring; None when it has brought all."""
    pending = state.pending
    if pending is not None:
        return first_uncovered(state, pending)
    mirror, first = state.mirror, state.apply_sent + 1
    if session.floor > 0 and all(mirror.header(op) is not None for op in range(first, session.floor)):
        return next(
            (op for op in range(max(session.floor, first), session.to_op + 1) if mirror.header(op) is None), None
        )
    return first_unmet(state, first, session.to_op)


def first_uncovered(state: ReplicaState, pending: PendingLog) -> int | None:
    """The lowest op above what is applied that the merged log needs and this log does not hold so (8.6, C-137, C-138)."""
    mirror = state.mirror
    op = max(pending.next_op, state.apply_sent + 1, mirror.snapshot_op + 1)
    while op <= pending.head:
        held = mirror.header(op)
        named = pending.named.get(op)
        if held is None or (named is not None and named.checksum and held.checksum not in (0, named.checksum)):
            break
        op += 1
    pending.next_op = op
    return op if op <= pending.head else None


def is_in_scope(state: ReplicaState, op: int) -> bool:
    """Whether a repaired entry of this op is of any use (C-132 to C-135).

    A primary-elect needs its parked log, and what lies between its own log and that one, since a log has no holes here.
    """
    pending = state.pending
    if pending is not None and state.is_primary:
        return max(state.apply_sent, state.mirror.snapshot_op) < op <= pending.head
    return op > state.apply_sent


def receive_repair_prepare(state: ReplicaState, prepare: Prepare) -> None:
    """An entry that somebody says was asked for."""
    session = state.repair
    op = prepare.header.op
    if prepare.header.view > state.view:
        return  # Served in this view, so stamped with it at the latest.
    if session is None or op > session.to_op or not is_in_scope(state, op) or state.is_transferring:
        return
    vouched = is_vouched_for(state, prepare)
    if not _makes_sense(state, prepare, vouched=vouched):
        return
    if state.truncation is not None:
        park(state, prepare, is_repair=True)
        return
    is_proven = vouched and state.status is Status.NORMAL
    if not vouched and state.status is Status.NORMAL and not may_append_unproven(state, op):
        session.refused = True
        return
    if follows(state, prepare):
        submit(state, prepare, is_proven=is_proven)


def _makes_sense(state: ReplicaState, prepare: Prepare, *, vouched: bool) -> bool:
    """Whether an entry is news, and contradicts nothing that is named or proven. What it proves wrong makes way for it."""
    header = prepare.header
    op = header.op
    names = state.pending.named if state.pending is not None else state.adopted
    named = names.get(op)
    if named is not None and not named.is_blank and not vouched:
        return False
    held = state.mirror.header(op)
    if held is None:
        return True
    if held.checksum == header.checksum:
        if vouched and state.status is Status.NORMAL:
            verify(state, op)
        return False
    return (vouched or op <= state.commit_max) and make_way(state, op)


def receive_done(state: ReplicaState, header: RepairRangeReplyHeader) -> None:
    """The peer has sent what it had. What counts is what came."""
    session = state.repair
    if session is None or session.nonce != header.nonce or header.command != REPAIR_DONE:
        return
    missing = missing_of(state, session)
    if missing is None:
        if session.floor <= 0:
            close_session(state)  # Else what is not proven by the end of the interval is asked for again.
    elif missing > session.asked_from:
        _ask(state, session, missing)


def is_evicted(state: ReplicaState, header: RepairRangeReplyHeader) -> bool:
    """Whether the peer of the session says that it keeps no such entries any more. That ends the session.

    Not where they are held here, and only not proven yet: that is for the entries above them to do, down the chain. A state in
    their place would take from the log what this replica may have acknowledged and said to have applied. If they are not proven
    so, they are asked for again, and then it ends.
    """
    session = state.repair
    if session is None or session.nonce != header.nonce or header.command != RANGE_EVICTED:
        return False
    missing = missing_of(state, session)
    if missing is None or missing >= header.op:
        return False
    if not session.floor and _holds_unproven(state, missing, header.op) and _has_room(state, session.to_op):
        session.floor = header.op
        return False
    state.effects.append(
        Note(
            Severity.WARNING, f"replica {session.peer} keeps nothing below op {header.op}, op {missing} is missing here"
        )
    )
    close_session(state)
    return True


def _holds_unproven(state: ReplicaState, from_op: int, to_op: int) -> bool:
    """Whether the log holds every op of a range, its end included, in a replica that takes part in a view."""
    if state.status is not Status.NORMAL or state.pending is not None:
        return False
    return all(state.mirror.is_durable(op) for op in range(from_op, to_op + 1))


def _has_room(state: ReplicaState, to_op: int) -> bool:
    """Whether the log can take everything up to an op, which proves what lies below."""
    return to_op - state.checkpoint.snapshot_op < state.config.journal_slots


def ask_again(state: ReplicaState) -> None:
    """The superblock names a commit point now up to which unproven entries may be appended: those before it were refused."""
    session = state.repair
    if session is None or not session.refused or state.status is not Status.NORMAL:
        return
    missing = missing_of(state, session)
    if missing is None:
        close_session(state)
    else:
        _ask(state, session, missing)


def pass_tick(state: ReplicaState) -> None:
    """Ask again when a session has waited for long; another peer after a few times."""
    session = state.repair
    if session is None:
        return
    session.idle_ticks += 1
    if session.idle_ticks < REPAIR_RETRY_TICKS:
        return
    session.idle_ticks = 0
    if state.status is not Status.NORMAL and state.pending is None:
        close_session(state)
        return
    missing = missing_of(state, session)
    if missing is None:
        close_session(state)
        return
    if missing == session.asked_from:
        session.stalls += 1
    if session.stalls >= STALLS_MAX:
        session.stalls = 0
        if session.floor:
            session.floor = DISPROVEN  # What comes from above does not chain to what is held.
            missing = missing_of(state, session) or missing
        session.peer = _next_peer(state, session.peer)
        session.nonce = state.mint_nonce()
    _ask(state, session, missing)


def _next_peer(state: ReplicaState, peer: int) -> int:
    count = state.config.replica_count
    following = (peer + 1) % count
    return following if following != state.config.replica else (following + 1) % count


def _ask(state: ReplicaState, session: RepairSession, from_op: int) -> None:
    config = state.config
    session.asked_from = from_op
    session.refused = False
    send(
        state,
        session.peer,
        RequestPreparesHeader(
            cluster=config.cluster,
            group=config.group,
            replica=config.replica,
            view=state.view,
            nonce=session.nonce,
            from_op=from_op,
            to_op=session.to_op,
        ),
    )
