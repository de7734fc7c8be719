"""What went wrong between the command line and a node, said so that a person knows what to do next."""

import errno
import socket
from typing import Final

from levrier.cluster.client import ClientError, DeadlineExceeded, Disconnected, Evicted, IggyError
from levrier.cluster.client_errors import ClosedUnheard, NotTaken, TlsFailed, TlsProblem
from levrier.wire.codes import CODE_NAMES, ErrorCode

_WORDS: Final[dict[int, str]] = {
    int(ErrorCode.STREAM_ID_NOT_FOUND): "there is no such stream",
    int(ErrorCode.STREAM_NAME_NOT_FOUND): "there is no such stream",
    int(ErrorCode.STREAM_NAME_ALREADY_EXISTS): "a stream of this name exists",
    int(ErrorCode.TOPIC_ID_NOT_FOUND): "there is no such topic",
    int(ErrorCode.TOPIC_NAME_NOT_FOUND): "there is no such topic",
    int(ErrorCode.TOPIC_NAME_ALREADY_EXISTS): "a topic of this name exists",
    int(ErrorCode.PARTITION_NOT_FOUND): "there is no such partition",
    int(ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND): "there is no such group",
    int(ErrorCode.CONSUMER_GROUP_NAME_NOT_FOUND): "there is no such group",
    int(ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS): "a group of this name exists",
    int(ErrorCode.TOO_MANY_PARTITIONS): "a topic cannot have that many partitions",
    int(ErrorCode.CANNOT_DELETE_USER): "the first user cannot be deleted",
    int(ErrorCode.CANNOT_CHANGE_PERMISSIONS): "the permissions of the first user cannot be changed",
    int(
        ErrorCode.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED
    ): "this user has as many tokens as it may have; delete one first",
    int(ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN): "the token is unknown, deleted or expired",
    int(ErrorCode.INVALID_CREDENTIALS): "wrong user name or password",
    int(ErrorCode.UNAUTHORIZED): "this user may not do that",
}
"""Codes that users meet; every other is said by its name."""

_LOGIN_HINT: Final = "name another with --username and --password, or LEVRIER_USERNAME and LEVRIER_PASSWORD"

_TOKEN_HINT: Final = "name another with --token or LEVRIER_TOKEN, or log in with --username and a password"


_TLS_HINTS: Final[dict[TlsProblem, str]] = {
    TlsProblem.TRUST: "give the certificate of the authority that signed it with --tls-ca FILE",
    TlsProblem.NAME: "name the one that it is for with --tls-server-name",
    TlsProblem.NOT_SPOKEN: "leave out --tls if the node serves plain TCP",
}


_HINTS: Final[tuple[tuple[type[ClientError], str], ...]] = (
    (NotTaken, "`levrier status` says what it waits for, --timeout waits longer"),
    (DeadlineExceeded, "is the node overloaded or stopped? --timeout waits longer"),
    (ClosedUnheard, "if it serves TLS, say so with --tls or --tls-ca FILE"),
)
"""The next step by kind of error; the first that fits counts."""


def complaint(error: ClientError) -> str:
    """One sentence: whom we asked, what happened, and the next step where there is one."""
    if isinstance(error, IggyError):
        return f"{error.address} refused: {_refusal(error)}"
    if isinstance(error, TlsFailed):
        return f"{error}; {_TLS_HINTS[error.problem]}"
    if isinstance(error, Disconnected) and isinstance(error.__cause__, OSError):
        return _no_connection(error.address, error.__cause__)
    return next((f"{error}; {hint}" for kind, hint in _HINTS if isinstance(error, kind)), str(error))


def _refusal(error: IggyError) -> str:
    name = CODE_NAMES.get(error.code, "unknown code").lower().replace("_", " ")
    words = f"{_WORDS.get(error.code, name)} (code {error.code})"
    if error.code == ErrorCode.INVALID_CREDENTIALS:
        return f"{words}; {_LOGIN_HINT}"
    if error.code == ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN:
        return f"{words}; {_TOKEN_HINT}"
    return f"{words}; the session is over" if isinstance(error, Evicted) else words


def _no_connection(address: str, cause: OSError) -> str:
    if isinstance(cause, socket.gaierror):
        return f"{address}: the host is not known; --connect takes HOST:PORT"
    if cause.errno == errno.ECONNREFUSED or "Errno 111" in str(cause):  # Several addresses are tried: no errno then.
        return f"{address}: nobody listens there; start a node with `levrier serve`, or name another with --connect"
    return f"{address}: cannot connect: {cause.strerror or cause}"
