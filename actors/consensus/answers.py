"""What a request that does not reach the log is told (section 6, rule 6, D-30).

57 means that the outcome is unknown, so that only the same request in the same session is safe; 58 means that nothing was
started. A request without a ticket (a disconnect logout) is told nothing: the Bus tries it again by itself.
"""

from typing import Final

from levrier.actors.bus.messages import Ticket
from levrier.actors.consensus.effects import Deny, Evict, Note, Severity
from levrier.actors.consensus.forward_results import FORWARDED_CONNECTION, send_eviction, send_refusal
from levrier.actors.consensus.messages import Outcome
from levrier.actors.consensus.state import ReplicaState
from levrier.wire.codes import CLIENT_ALLOWED, ErrorCode, EvictionReason

NOT_COMMITTED: Final = int(ErrorCode.TRANSIENT_NOT_COMMITTED)
NOT_ACCEPTED: Final = int(ErrorCode.TRANSIENT_NOT_ACCEPTED)

assert (NOT_COMMITTED, NOT_ACCEPTED) == (57, 58)

_CODES: Final[dict[Outcome, int]] = {
    Outcome.TOKEN_EXISTS: int(ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS),
    Outcome.CHECKSUM_MISMATCH: int(ErrorCode.INVALID_FORMAT),
    Outcome.ALREADY_APPLIED: int(ErrorCode.REQUEST_ALREADY_APPLIED),
}
_EVICTIONS: Final[dict[Outcome, EvictionReason]] = {
    Outcome.NO_SESSION: EvictionReason.NO_SESSION,
    Outcome.FENCED: EvictionReason.SESSION_TOO_LOW,
    Outcome.EPOCH_AHEAD: EvictionReason.SESSION_TOO_LOW,
    Outcome.OWNED_BY_ANOTHER_USER: EvictionReason.SESSION_ERROR,
}

SETTLED: Final = frozenset({Outcome.TOKEN_EXISTS, Outcome.ALREADY_APPLIED})
"""Outcomes that follow from a committed request: true wherever the table has them, as a replay is."""

assert _CODES.keys() | _EVICTIONS.keys() == set(Outcome) - {Outcome.NEW, Outcome.REPLAYED}


def deny(state: ReplicaState, ticket: Ticket | None, code: int) -> None:
    """Refuse with a code."""
    if ticket is None:
        return
    if ticket.connection == FORWARDED_CONNECTION:
        send_refusal(state, ticket, code)
        return
    state.effects.append(Deny(ticket, code, state.commit_min))


def evict(state: ReplicaState, ticket: Ticket | None, reason: EvictionReason) -> None:
    """End the session."""
    if ticket is None:
        return
    if ticket.connection == FORWARDED_CONNECTION:
        send_eviction(state, ticket, reason)
        return
    state.effects.append(Evict(ticket, reason))


def refuse(state: ReplicaState, ticket: Ticket | None, outcome: Outcome) -> None:
    """Answer a request that the client table does not let in. Only past the admission barrier, except `SETTLED`."""
    assert outcome is not Outcome.NEW
    assert outcome is not Outcome.REPLAYED
    if outcome in (Outcome.EPOCH_AHEAD, Outcome.CHECKSUM_MISMATCH):
        state.effects.append(Note(Severity.ERROR, f"a request contradicts the client table: {outcome.name.lower()}"))
    code = _CODES.get(outcome)
    if code is not None:
        deny(state, ticket, code)
    else:
        evict(state, ticket, _EVICTIONS[outcome])


def eviction_of(operation: int) -> EvictionReason:
    """Why an operation that cannot be projected ends its session (5.2)."""
    if operation in CLIENT_ALLOWED:
        return EvictionReason.INVALID_REQUEST_BODY
    return EvictionReason.INVALID_REQUEST_OPERATION
