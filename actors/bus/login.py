"""Reading and answering a login (wire 9.2, requests 4).

Both forms of a login come as operation 1. The protocol version in front is judged first, then the body is read as user and
password, else as a token. Nothing here compares a password; nothing here shows one.
"""

from dataclasses import dataclass, field, replace

from levrier.actors.bus.tokens import hash_token
from levrier.wire.codes import EvictionReason, Operation
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

    `username` is None without the first form, `token_hash` without the second. `user_id` is None until, and unless, such
    a user may log in.
    """

    username: str | None = None
    password: str = field(default="", repr=False)
    token_hash: str | None = field(default=None, repr=False)
    user_id: int | None = None

    @property
    def refusal(self) -> EvictionReason:
        """The reason when no form that was tried is good: the first one counts."""
        return EvictionReason.INVALID_TOKEN if self.username is None else EvictionReason.INVALID_CREDENTIALS

    def resolved(self, *, user_id: int | None) -> "Attempt":
        """The attempt after the name or the token was looked up; None for a user that is unknown or inactive."""
        return replace(self, user_id=user_id)


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
