"""Session operations of a backup's clients (section 13, D-23): handed to the primary, answered by message, never awaited.

A backup has verified the credentials itself. The primary treats what comes as a request of its own, behind a ticket that no
gateway has, and whatever it decides goes back as a result frame. No answer within five seconds means that the outcome is
unknown. A forwarded operation is not forwarded again.
"""

from typing import Final

from levrier.actors.bus.messages import Ticket
from levrier.actors.client_table.messages import ClientRequest
from levrier.actors.consensus.answers import NOT_ACCEPTED, NOT_COMMITTED, deny, evict
from levrier.actors.consensus.effects import Answer, Preflight
from levrier.actors.consensus.forward_results import FORWARDED_CONNECTION, FORWARDED_MAX, send_refusal
from levrier.actors.consensus.frames import send
from levrier.actors.consensus.state import Forwarded, ReplicaState, Status, Waiter
from levrier.wire.codes import ErrorCode, EvictionReason, Operation
from levrier.wire.headers import PrepareHeader, RequestHeader
from levrier.wire.replica_headers import (
    ForwardLogoutHeader,
    ForwardLogoutResultHeader,
    ForwardRegisterHeader,
    ForwardRegisterResultHeader,
    LogoutOutcome,
    RegisterOutcome,
)
from levrier.wire.replies import committed_reply

FORWARD_TICKS: Final = 500
WAITERS_MAX: Final = 4096

_REGISTER: Final = int(Operation.REGISTER)
_LOGOUT: Final = int(Operation.LOGOUT)
_REGISTER_NOT_STARTED: Final = frozenset(
    {RegisterOutcome.NOT_PRIMARY, RegisterOutcome.NOT_CAUGHT_UP, RegisterOutcome.PIPELINE_FULL}
)
_LOGOUT_NOT_STARTED: Final = frozenset({LogoutOutcome.NOT_PRIMARY, LogoutOutcome.PIPELINE_FULL})

assert ErrorCode.TRANSIENT_NOT_ACCEPTED == NOT_ACCEPTED


def may_forward(state: ReplicaState, request: ClientRequest) -> bool:
    """Whether the primary is to decide about this request of a client of this node."""
    ticket = request.ticket
    return (
        request.header.operation in (_REGISTER, _LOGOUT)
        and ticket is not None
        and ticket.connection != FORWARDED_CONNECTION
        and state.status is Status.NORMAL
        and not state.is_primary
        and len(state.waiters) < WAITERS_MAX
    )


def forward_request(state: ReplicaState, request: ClientRequest) -> None:
    """Hand a session operation to the primary of the view."""
    config = state.config
    header = request.header
    nonce = state.mint_nonce()
    state.waiters[nonce] = Waiter(request=request, deadline=state.ticks + FORWARD_TICKS)
    if header.operation == _REGISTER:
        send(
            state,
            state.primary,
            ForwardRegisterHeader(
                cluster=config.cluster,
                replica=config.replica,
                client=header.client,
                nonce=nonce,
                user_id=request.user_id,
            ),
        )
        return
    send(
        state,
        state.primary,
        ForwardLogoutHeader(
            cluster=config.cluster,
            replica=config.replica,
            client=header.client,
            nonce=nonce,
            session=header.session,
            request=header.request,
        ),
    )


def receive_forward(state: ReplicaState, header: ForwardRegisterHeader | ForwardLogoutHeader) -> None:
    """A backup hands on an operation of a client of its own: look at it as at any request."""
    number = state.mint_nonce()
    ticket = Ticket(connection=FORWARDED_CONNECTION, number=number)
    if len(state.forwarded) >= FORWARDED_MAX:
        return  # The sender's deadline answers it.
    state.forwarded[number] = Forwarded(
        replica=header.replica,
        nonce=header.nonce,
        client=header.client,
        is_register=isinstance(header, ForwardRegisterHeader),
        deadline=state.ticks + FORWARD_TICKS,
    )
    if not state.is_acting_primary:
        send_refusal(state, ticket, NOT_ACCEPTED, is_leading=False)
        return
    if isinstance(header, ForwardRegisterHeader):
        request = RequestHeader(client=header.client, request=0, operation=_REGISTER)
        user_id = header.user_id
    else:
        request = RequestHeader(client=header.client, request=header.request, operation=_LOGOUT, session=header.session)
        user_id = 0
    state.effects.append(Preflight(ClientRequest(ticket=ticket, header=request, body=b"", user_id=user_id)))


def receive_result(state: ReplicaState, header: ForwardRegisterResultHeader | ForwardLogoutResultHeader) -> None:
    """The primary's decision. One for a nonce that nobody waits under any more is ignored."""
    waiter = state.waiters.get(header.nonce)
    if waiter is None or waiter.request.header.client != header.client:
        return
    del state.waiters[header.nonce]
    request = waiter.request
    assert request.ticket is not None
    if header.outcome == RegisterOutcome.OK:
        assert int(LogoutOutcome.OK) == RegisterOutcome.OK
        op = header.epoch if isinstance(header, ForwardRegisterResultHeader) else header.commit
        state.effects.append(Answer(request.ticket, _reply_frame(state, request, op, header.replica)))
    elif header.outcome == RegisterOutcome.CLIENT_ID_OWNED_BY_ANOTHER_USER:
        evict(state, request.ticket, EvictionReason.SESSION_ERROR)
    elif header.outcome in (
        _REGISTER_NOT_STARTED if isinstance(header, ForwardRegisterResultHeader) else _LOGOUT_NOT_STARTED
    ):
        deny(state, request.ticket, NOT_ACCEPTED)
    else:
        deny(state, request.ticket, NOT_COMMITTED)


def void_waiters(state: ReplicaState) -> None:
    """The view is over, and with it the primary that was asked: nobody waits for it until the deadline.

    Whatever it did is unknown (57), so a client sends the same operation again and is served as soon as there is a new primary.
    Not in the source, where a login that began as the primary died holds its client for the full five seconds.
    """
    for waiter in state.waiters.values():
        deny(state, waiter.request.ticket, NOT_COMMITTED)
    state.waiters.clear()


def pass_tick(state: ReplicaState) -> None:
    """Those who have waited for too long are told that the outcome is unknown; what nobody waits for is forgotten."""
    for nonce, waiter in list(state.waiters.items()):
        if waiter.deadline > state.ticks:
            break
        del state.waiters[nonce]
        deny(state, waiter.request.ticket, NOT_COMMITTED)
    for number, forwarded in list(state.forwarded.items()):
        if forwarded.deadline > state.ticks:
            break
        del state.forwarded[number]


def _reply_frame(state: ReplicaState, request: ClientRequest, op: int, primary: int) -> bytes:
    header = request.header
    return committed_reply(
        PrepareHeader(
            op,
            operation=header.operation,
            client=header.client,
            request=header.request,
            request_checksum=header.request_checksum,
            cluster=state.config.cluster,
            view=state.gate.view_durable,
            replica=primary,
        ),
        b"",
    )
