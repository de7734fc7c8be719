"""Reading, judging and answering a login (wire 9.2, requests 4).

Both forms of a login come as operation 1. The protocol version in front is judged first, then the body is read as user and
password, else as a token. Nothing here compares a password; nothing here shows one.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from levrier.actors.bus import messages as bus
from levrier.actors.bus.effects import Question, VerifyPassword
from levrier.actors.bus.tokens import hash_token
from levrier.actors.metadata.messages import FindCredentials, FindToken
from levrier.wire.codes import ErrorCode, EvictionReason, Operation
from levrier.wire.errors import WireError
from levrier.wire.headers import RequestHeader
from levrier.wire.names import is_valid_password, is_valid_username
from levrier.wire.protocol_version import ProtocolWindow
from levrier.wire.replies import result_success
from levrier.wire.requests.login import LoginForms, LoginPrefix
from levrier.wire.responses.login import LoginResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A login that may be tried: with user and password, with a token, or, where the body reads as both, in that order.

    `username` is None without the first form, `token_hash` without the second.
    """

    username: str | None = None
    password: str = field(default="", repr=False)
    token_hash: str | None = field(default=None, repr=False)

    @property
    def refusal(self) -> EvictionReason:
        """The reason when no form that was tried is good: the first one counts."""
        return EvictionReason.INVALID_TOKEN if self.username is None else EvictionReason.INVALID_CREDENTIALS


class Known(NamedTuple):
    """Who logs in."""

    user_id: int


class Means(Protocol):
    """What a login is judged with, beside the answers to its questions."""

    @property
    def now_micros(self) -> Callable[[], int]:
        """The time, in microseconds since 1970."""

    @property
    def dummy_password_hash(self) -> str:
        """What the password of an unknown user is compared with."""


Course: TypeAlias = Generator[Question, Any, Known | ErrorCode | EvictionReason]
"""Yields questions; returns who logs in, the status of a refusal that may not last, or why the login is refused for good."""


def course(attempt: Attempt, ticket: bus.Ticket, means: Means) -> Course:
    """Try what the attempt holds: the password first, then the token."""
    if attempt.username is not None:
        outcome = yield from _by_password(attempt.username, attempt.password, ticket, means)
        if outcome is not None:
            return outcome
    if attempt.token_hash is None:
        return attempt.refusal
    return (yield from _by_token(attempt.token_hash, attempt.refusal, ticket, means))


def _by_password(
    username: str, password: str, ticket: bus.Ticket, means: Means
) -> Generator[Question, Any, Known | ErrorCode | None]:
    """None for a wrong password. Something is compared in any case: an unknown or inactive user must not be told by the time
    it takes.
    """
    found: bus.Credentials = yield FindCredentials(ticket=ticket, username=username)
    if not found.bootstrapped:
        return ErrorCode.TRANSIENT_NOT_COMMITTED
    password_hash = means.dummy_password_hash if found.user_id is None else found.password_hash
    verified: bus.PasswordVerified = yield VerifyPassword(ticket=ticket, password=password, password_hash=password_hash)
    if verified.matches is None:
        return ErrorCode.TRANSIENT_NOT_COMMITTED
    if verified.matches and found.active and found.user_id is not None:
        return Known(found.user_id)
    return None


def _by_token(token_hash: str, refusal: EvictionReason, ticket: bus.Ticket, means: Means) -> Course:
    owner: bus.TokenOwner = yield FindToken(ticket=ticket, token_hash=token_hash)
    is_expired = owner.expires_at is not None and owner.expires_at <= means.now_micros()
    if owner.user_id is not None and owner.active and not is_expired:
        return Known(owner.user_id)
    if not owner.bootstrapped:
        return ErrorCode.TRANSIENT_NOT_COMMITTED
    return refusal if owner.user_id is None or is_expired else EvictionReason.USER_INACTIVE


def read(body: bytes, window: ProtocolWindow) -> Attempt | EvictionReason:
    """The attempt that a Register body makes, or why it is refused at once.

    Names and passwords of impossible length are wrong ones.
    """
    try:
        prefix = LoginPrefix.decode(body)
    except WireError:
        return EvictionReason.MALFORMED_LOGIN
    if not window.accepts(prefix.protocol_version):
        return EvictionReason.INCOMPATIBLE_PROTOCOL
    try:
        forms = LoginForms.decode(body)
    except WireError:
        return EvictionReason.MALFORMED_LOGIN
    login = forms.password
    token_hash = None if forms.token is None else hash_token(forms.token.token)
    if login is None:
        return Attempt(token_hash=token_hash)
    if is_valid_username(login.username) and is_valid_password(login.password):
        return Attempt(username=login.username, password=login.password, token_hash=token_hash)
    return EvictionReason.INVALID_CREDENTIALS if token_hash is None else Attempt(token_hash=token_hash)


def register_header(header: RequestHeader) -> RequestHeader:
    """The header of a Register as it goes into the log: without the body, which held the credentials."""
    assert header.operation == Operation.REGISTER
    return RequestHeader(
        client=header.client,
        request=0,
        operation=header.operation,
        request_checksum=header.request_checksum,
        timestamp=header.timestamp,
    )


def response_body(*, user_id: int, session: int, window: ProtocolWindow, server_version: str) -> bytes:
    """The body of a successful login reply, result section included."""
    response = LoginResponse(
        user_id=user_id, session=session, protocol_version=window.newest, server_version=server_version
    )
    return result_success(response.encode())
