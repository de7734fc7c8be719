"""Frames that a node answers a client with (wire specification 4.4, 8).

A committed reply is built from the identity of the prepare alone, so it is the same bytes whichever replica builds it and
whenever it is replayed. Its view is always 0: a retransmit stamps an entry with the view that sends it, so the view of an
entry differs between replicas. Everything else echoes the request. An error takes one of three channels: an eviction, a status with an empty
body, or a result section in the body.
"""

from struct import Struct
from typing import Final

from levrier.wire.codes import RESULT_FRAMED
from levrier.wire.errors import Truncated, WireError
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.headers import EvictionHeader, PrepareHeader, RequestHeader
from levrier.wire.protocol_version import ProtocolWindow

_REPLY: Final = Struct("<32x16sIIIBB66x16s16x16sQQQQB7xI36x")
_REPLY_COMMAND: Final = 8
_REJECTION: Final = Struct("<III")
_SUCCESS: Final = bytes(4)

assert _REPLY.size == HEADER_SIZE


def committed_reply(prepare_header: PrepareHeader, body: bytes) -> bytes:
    """The reply to a committed operation: `commit` is its op, every field but size and view comes from the prepare."""
    op = prepare_header.op
    return (
        _REPLY.pack(
            prepare_header.cluster.to_bytes(16, "little"),
            HEADER_SIZE + len(body),
            0,
            prepare_header.release,
            _REPLY_COMMAND,
            prepare_header.replica,
            prepare_header.request_checksum.to_bytes(16, "little"),
            prepare_header.client.to_bytes(16, "little"),
            op,
            op,
            prepare_header.timestamp,
            prepare_header.request,
            prepare_header.operation,
            0,
        )
        + body
    )


def query_reply(request: RequestHeader, body: bytes, *, session: int, commit: int) -> bytes:
    """The answer to a NonReplicated request, a login or a logout: `op` is the session (0 without one)."""
    return _reply(request, body, op=session, commit=commit, status=0)


def denial(request: RequestHeader, *, status: int, commit: int, op: int = 0) -> bytes:
    """A refusal before the log: `status` carries the error code, the body is empty."""
    assert status != 0
    return _reply(request, b"", op=op, commit=commit, status=status)


def rejection(request: RequestHeader, *, code: int, commit: int) -> bytes:
    """A refusal in a result section that was not committed: op and commit are the commit point."""
    assert request.operation in RESULT_FRAMED
    return _reply(request, result_rejection(code), op=commit, commit=commit, status=0)


def transient_result(request: RequestHeader, *, code: int, commit: int) -> bytes:
    """57, 58 or 59 in the channel of the operation: a result section where there is one, else the status (8.4)."""
    assert code in (57, 58, 59)
    if request.operation in RESULT_FRAMED:
        return rejection(request, code=code, commit=commit)
    return denial(request, status=code, commit=commit)


def eviction(client: int, reason: int, window: ProtocolWindow | None = None) -> bytes:
    """The frame that ends a session or refuses a login. `window` goes with reason 14 and with no other."""
    return EvictionHeader(client, reason, window).encode()


def result_success(payload: bytes = b"") -> bytes:
    """The body of a successful result-framed reply: no failed entries, then the payload."""
    return _SUCCESS + payload if payload else _SUCCESS


def result_rejection(code: int) -> bytes:
    """The body of a refused result-framed reply: one failed entry with its error code, 12 bytes."""
    assert code != 0
    return _REJECTION.pack(1, 0, code)


def result_code(body: bytes) -> int:
    """The code of a result section, 0 for success; the first entry counts.

    Raises `Truncated` for a body too short for what it claims, and `WireError` for a failed entry without a code: such a
    body is never taken for success.
    """
    if len(body) < 4:
        raise Truncated(f"{len(body)} bytes hold no count", "result section")
    count = int.from_bytes(body[:4], "little")
    if count == 0:
        return 0
    if len(body) < 4 + 8 * count:
        raise Truncated(f"{len(body)} bytes hold no {count} entries", "result section")
    code = int.from_bytes(body[8:12], "little")
    if code == 0:
        raise WireError("a failed entry with code 0", "result section")
    return code


def result_payload(body: bytes) -> bytes:
    """What follows the result section of a success. Raises `WireError` for a rejection or a malformed body."""
    code = result_code(body)
    if code:
        raise WireError(f"the result is {code}", "result section")
    return body[4:]


def _reply(request: RequestHeader, body: bytes, *, op: int, commit: int, status: int) -> bytes:
    return (
        _REPLY.pack(
            request.cluster.to_bytes(16, "little"),
            HEADER_SIZE + len(body),
            request.view,
            request.release,
            _REPLY_COMMAND,
            request.replica,
            request.request_checksum.to_bytes(16, "little"),
            request.client.to_bytes(16, "little"),
            op,
            commit,
            request.timestamp,
            request.request,
            request.operation,
            status,
        )
        + body
    )
