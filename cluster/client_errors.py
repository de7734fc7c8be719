"""What a call of our own client may raise. Every error names the address that was asked."""

from enum import Enum
from typing import Final

from levrier.wire.codes import CODE_NAMES, ErrorCode, EvictionReason

EVICTION_CODES: Final[dict[EvictionReason, ErrorCode]] = {
    EvictionReason.NO_SESSION: ErrorCode.UNAUTHENTICATED,
    EvictionReason.CLIENT_RELEASE_TOO_LOW: ErrorCode.INVALID_COMMAND,
    EvictionReason.CLIENT_RELEASE_TOO_HIGH: ErrorCode.INVALID_COMMAND,
    EvictionReason.INVALID_REQUEST_OPERATION: ErrorCode.INVALID_COMMAND,
    EvictionReason.INVALID_REQUEST_BODY: ErrorCode.INVALID_COMMAND,
    EvictionReason.INVALID_REQUEST_BODY_SIZE: ErrorCode.INVALID_COMMAND,
    EvictionReason.SESSION_TOO_LOW: ErrorCode.UNAUTHENTICATED,
    EvictionReason.SESSION_RELEASE_MISMATCH: ErrorCode.UNAUTHENTICATED,
    EvictionReason.INVALID_CREDENTIALS: ErrorCode.INVALID_CREDENTIALS,
    EvictionReason.INVALID_TOKEN: ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN,
    EvictionReason.USER_INACTIVE: ErrorCode.UNAUTHENTICATED,
    EvictionReason.SESSION_ERROR: ErrorCode.UNAUTHENTICATED,
    EvictionReason.STALE_CLIENT: ErrorCode.STALE_CLIENT,
    EvictionReason.INCOMPATIBLE_PROTOCOL: ErrorCode.INCOMPATIBLE_PROTOCOL_VERSION,
    EvictionReason.MALFORMED_LOGIN: ErrorCode.INVALID_FORMAT,
}
"""The error code that each eviction means to a caller (wire 7)."""

assert EVICTION_CODES.keys() == set(EvictionReason) - {EvictionReason.RESERVED}


class ClientError(Exception):
    """Something between us and the node at `address` (`host:port`)."""

    def __init__(self, message: str, *, address: str) -> None:
        super().__init__(f"{address}: {message}")
        self.address = address


class IggyError(ClientError):
    """The node refused the request with an error code. Nothing was executed, but for a code that says otherwise."""

    def __init__(self, code: int, *, address: str, detail: str = "") -> None:
        name = CODE_NAMES.get(code, "unknown code")
        super().__init__(f"{detail or 'refused'}: {name} ({code})", address=address)
        self.code = code


class Evicted(IggyError):
    """The session is over, or the login was refused; `code` is what the reason means (wire 7)."""

    def __init__(self, reason: EvictionReason, *, address: str) -> None:
        super().__init__(int(EVICTION_CODES[reason]), address=address, detail=f"evicted, {reason.name}")
        self.reason = reason


class Disconnected(ClientError):
    """No connection, or it broke. A request that was under way may or may not have been executed: see `Client.resume`."""


class DeadlineExceeded(Disconnected):
    """No answer in time. The connection is closed, since the answer may still come; otherwise as Disconnected."""


class NotTaken(DeadlineExceeded):
    """The node answered until the deadline that it is to be asked again: it knows no primary, or is full. As Disconnected."""


class ClosedUnheard(Disconnected):
    """The node closed a plain connection without a single byte, as one that serves TLS does. Otherwise as Disconnected."""


class ProtocolViolation(Disconnected):
    """The peer sent what no node sends. The connection is closed."""


class TlsProblem(Enum):
    """Why TLS was not agreed on."""

    TRUST = "trust"
    """The certificate was signed by nobody who is trusted, or is not valid now."""
    NAME = "name"
    """The certificate is for another name."""
    NOT_SPOKEN = "not spoken"
    """The other side ended the handshake, or does not know of any."""


class TlsFailed(Disconnected):
    """No connection, since TLS was not agreed on. Nothing was sent."""

    def __init__(self, message: str, *, address: str, problem: TlsProblem) -> None:
        super().__init__(message, address=address)
        self.problem = problem
