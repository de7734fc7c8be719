"""Who gets into the log (section 6, design section 3, rules 4 to 6).

The client table advises and this module decides: 58 where nothing is accepted, 57 while the client is in either queue, while
something inherited is not applied, or while the fate of the very request is unknown; after that the table's word counts.
A request that finds no prepare slot waits in the request queue; one that comes to its turn is looked at again.

What admission at the edge refuses by looking at replicated state (the cap on tokens, the segment size) comes here too. The
state may be what an earlier try of the very request made of it, so the refusal is an answer only to a request that is new.
"""

from typing import Final

from levrier.actors.consensus.answers import NOT_ACCEPTED, NOT_COMMITTED, SETTLED, deny, evict, eviction_of, refuse
from levrier.actors.consensus.effects import Note, Recheck, Severity
from levrier.actors.consensus.forwarding import forward_request, may_forward
from levrier.actors.consensus.gate import is_unheeded
from levrier.actors.consensus.messages import Outcome, SubmitOwn, Verdict
from levrier.actors.consensus.projection import has_log_room, push_own, push_request
from levrier.actors.consensus.state import ReplicaState
from levrier.wire.codes import Operation
from levrier.wire.errors import WireError

_NEW: Final = Outcome.NEW
_BOOTSTRAP: Final = int(Operation.BOOTSTRAP_ROOT)
_SESSION_OPERATIONS: Final = frozenset({int(Operation.REGISTER), int(Operation.LOGOUT)})
"""The table calls a Register new or owned by another; both may be sent again anywhere, and change nothing a second time."""

_ENDED: Final = frozenset({Outcome.NO_SESSION, Outcome.FENCED})


def judge_fresh(state: ReplicaState, verdict: Verdict) -> None:
    """Decide about a request that has just come."""
    request = verdict.request
    header = request.header
    outcome = verdict.outcome
    assert outcome is not Outcome.REPLAYED, "a replayed request needs no decision"
    if not state.is_acting_primary:
        _refuse_elsewhere(state, verdict)
        return
    if (
        header.client in state.pipeline.clients
        or state.commit_min < state.admission_barrier
        or (state.applying and header.client in state.applying)
        or (state.unsettled and (header.client, header.request) in state.unsettled)
    ):
        deny(state, request.ticket, NOT_COMMITTED)
        return
    if outcome is not _NEW:
        refuse(state, request.ticket, outcome)
        return
    if request.refusal or is_unheeded(state):
        deny(state, request.ticket, request.refusal or NOT_ACCEPTED)
        return
    bootstrap_if_blank(state)
    pipeline = state.pipeline
    if not pipeline.requests and pipeline.has_free_slot and state.truncation is None and has_log_room(state):
        push_request(state, request, verdict.user_id)
        return
    if _is_log_stuck(state) or not pipeline.push_request(request, state.now_micros()):
        deny(state, request.ticket, NOT_ACCEPTED)
        return
    if not state.timeouts.prepare.ticking:
        state.timeouts.prepare.start()
    promote(state)


def judge_again(state: ReplicaState, verdict: Verdict) -> None:
    """Decide about a queued request whose turn has come (rule 5). An answer to a voided token says nothing."""
    entry = state.pipeline.take_reserved(verdict.token)
    if entry is None:
        state.effects.append(Note(Severity.DEBUG, f"the answer to token {verdict.token} came too late"))
        return
    assert state.is_acting_primary, "a view change voids the tokens"
    assert state.truncation is None, "a failed append voids the tokens"
    assert state.is_past_barrier
    outcome = verdict.outcome
    if outcome is _NEW and push_request(state, entry.request, verdict.user_id):
        return
    if outcome is not _NEW and outcome is not Outcome.REPLAYED:
        refuse(state, entry.request.ticket, outcome)
    resync_prepare_timer(state)
    promote(state)


def promote(state: ReplicaState) -> None:
    """Ask the table again about as many queued requests as there are free slots, oldest first (5.9)."""
    pipeline = state.pipeline
    if not pipeline.requests or not state.is_acting_primary or state.truncation is not None:
        return
    while has_log_room(state):
        entry = pipeline.reserve_next()
        if entry is None:
            return
        state.effects.append(Recheck(entry.token, entry.request))


def bootstrap_if_blank(state: ReplicaState) -> None:
    """Commit the bootstrap operation before anything else of a blank group (D-01)."""
    body = state.config.bootstrap
    if body is None or state.sequencer or not may_submit_own(state, client=0):
        return
    push_own(state, operation=_BOOTSTRAP, client=0, request=0, body=body)


def submit_own(state: ReplicaState, wanted: SubmitOwn) -> None:
    """Decide about an operation of the node itself that somebody waits for."""
    if state.is_acting_primary:
        bootstrap_if_blank(state)
    if not may_submit_own(state, client=wanted.client):
        deny(state, wanted.ticket, NOT_ACCEPTED)
        return
    try:
        push_own(
            state,
            operation=wanted.operation,
            client=wanted.client,
            request=wanted.request,
            body=wanted.body,
            reply_to=wanted.ticket,
        )
    except WireError as error:
        state.effects.append(Note(Severity.DEBUG, f"operation {wanted.operation} cannot be projected: {error}"))
        evict(state, wanted.ticket, eviction_of(wanted.operation))


def may_submit_own(state: ReplicaState, *, client: int) -> bool:
    """Whether an operation of the node itself may be pushed now. It is never queued; its submitter tries again (6.3)."""
    return (
        state.is_acting_primary
        and state.is_past_barrier
        and state.truncation is None
        and not is_unheeded(state)
        and client not in state.pipeline.clients
        and state.pipeline.has_free_slot
        and has_log_room(state)
    )


def deny_queued(state: ReplicaState) -> None:
    """Tell everybody in the request queue that nothing of theirs was started."""
    for entry in state.pipeline.drop_requests():
        deny(state, entry.request.ticket, NOT_ACCEPTED)
    resync_prepare_timer(state)


def deny_waiting(state: ReplicaState) -> None:
    """Let nobody wait for a quorum that may stay away: 58 for what was only queued, 57 for what is prepared (rule 6).

    What is prepared stays in the pipeline and may be committed yet; whoever asks for it again is told 57 until it is, and
    then gets the reply that the client table has kept.
    """
    deny_queued(state)
    for entry in state.pipeline.prepares:
        deny(state, entry.reply_to, NOT_COMMITTED)
        entry.reply_to = None


def resync_prepare_timer(state: ReplicaState) -> None:
    """The prepare timer ticks exactly while the pipeline holds something (I5); it times the oldest from now."""
    timer = state.timeouts.prepare
    if state.pipeline.is_empty:
        timer.stop()
    else:
        timer.start()


def _refuse_elsewhere(state: ReplicaState, verdict: Verdict) -> None:
    """This replica does not lead: only what is certain everywhere is said, and 58 only of what was never started.

    58 makes a client give the request a new number or take it elsewhere (wire 10.3), so an earlier try of it must not be in
    any log that can commit. That is certain, however far this replica is behind, exactly when its table calls the request
    new: then the Register of the very session is applied here (the epochs are equal), and

    * a try under an earlier session is below that Register in the log, so it is applied here too and the table knows it:
      while a Register is in the pipeline its client has nothing admitted, and once it is applied the older session is fenced;
    * a try under this session came on this connection, since a session belongs to the connection that registered it. Only
      this node can have started it, as the primary of an earlier view, and remembers it as unsettled until its fate is
      known; a restart ends the connection.

    A session that is not in the table may be one whose login was forwarded and is not applied here yet, and the request one
    that was executed under the session before: outcome unknown, 57. Once this replica has applied the op that made the
    session, its absence and its fence are committed facts and end it here as they would on the primary; an SDK that kept
    getting 57 for those would hang on here for 30 seconds instead of logging in again.
    """
    request = verdict.request
    header = request.header
    outcome = verdict.outcome
    if (
        (header.client, header.request) in state.unsettled
        or header.client in state.pipeline.clients
        or header.client in state.applying
    ):
        deny(state, request.ticket, NOT_COMMITTED)
    elif outcome in SETTLED:
        refuse(state, request.ticket, outcome)
    elif may_forward(state, request):
        forward_request(state, request)
    elif outcome is _NEW or header.operation in _SESSION_OPERATIONS:
        deny(state, request.ticket, NOT_ACCEPTED)
    elif outcome in _ENDED and header.session <= state.commit_min:
        refuse(state, request.ticket, outcome)
    else:
        deny(state, request.ticket, NOT_COMMITTED)


def deny_queued_if_stuck(state: ReplicaState) -> None:
    """Let nobody wait for a log that may stay as it is for an unknown time."""
    if _is_log_stuck(state):
        deny_queued(state)


def _is_log_stuck(state: ReplicaState) -> bool:
    """Whether waiting for the log would be for an unknown time.

    It could not be cut after a failed append, or it is full and the checkpoint that would make room fails.
    """
    if state.truncation is not None and state.truncation.failures > 0:
        return True
    return state.checkpoint.failures > 0 and not has_log_room(state)
