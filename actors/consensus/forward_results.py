"""The results of session operations that another replica forwarded here (section 13)."""

from typing import Final

from levrier.actors.bus.messages import Ticket
from levrier.actors.consensus.effects import Send
from levrier.actors.consensus.state import ReplicaState
from levrier.wire.codes import ErrorCode, EvictionReason
from levrier.wire.control import ControlHeader
from levrier.wire.replica_headers import (
    ForwardLogoutResultHeader,
    ForwardRegisterResultHeader,
    LogoutOutcome,
    RegisterOutcome,
)

FORWARDED_CONNECTION: Final = -1
"""The connection that tickets of forwarded operations name; no gateway has it, so the Bus drops what it is told of it."""

FORWARDED_MAX: Final = 4096

_NOT_ACCEPTED: Final = int(ErrorCode.TRANSIENT_NOT_ACCEPTED)


def send_refusal(state: ReplicaState, ticket: Ticket, code: int, *, is_leading: bool = True) -> None:
    """A forwarded operation was refused with a code."""
    if code == _NOT_ACCEPTED and is_leading:
        _send(state, ticket, RegisterOutcome.PIPELINE_FULL, LogoutOutcome.PIPELINE_FULL)
    elif code == _NOT_ACCEPTED:
        _send(state, ticket, RegisterOutcome.NOT_PRIMARY, LogoutOutcome.NOT_PRIMARY)
    else:
        _send(state, ticket, RegisterOutcome.IN_PROGRESS, LogoutOutcome.IN_PROGRESS)


def send_eviction(state: ReplicaState, ticket: Ticket, reason: EvictionReason) -> None:
    """A forwarded operation ended a session: a Logout of what is gone has succeeded, a Register met another owner."""
    if reason is EvictionReason.SESSION_ERROR:
        _send(state, ticket, RegisterOutcome.CLIENT_ID_OWNED_BY_ANOTHER_USER, LogoutOutcome.CANCELED)
    else:
        _send(state, ticket, RegisterOutcome.CANCELED, LogoutOutcome.OK, op=state.commit_min)


def send_committed(state: ReplicaState, ticket: Ticket, op: int) -> None:
    """A forwarded operation is applied. The watermark stays with the client table, where the client is served."""
    _send(state, ticket, RegisterOutcome.OK, LogoutOutcome.OK, op=op)


def _send(
    state: ReplicaState, ticket: Ticket, register: RegisterOutcome, logout: LogoutOutcome, *, op: int = 0
) -> None:
    known = state.forwarded.pop(ticket.number, None)
    if known is None:
        return
    config = state.config
    header: ControlHeader
    if known.is_register:
        header = ForwardRegisterResultHeader(
            cluster=config.cluster,
            replica=config.replica,
            nonce=known.nonce,
            client=known.client,
            outcome=int(register),
            epoch=op if register is RegisterOutcome.OK else 0,
        )
    else:
        header = ForwardLogoutResultHeader(
            cluster=config.cluster,
            replica=config.replica,
            nonce=known.nonce,
            client=known.client,
            outcome=int(logout),
            commit=op if logout is LogoutOutcome.OK else 0,
        )
    state.effects.append(Send(known.replica, header.encode()))
