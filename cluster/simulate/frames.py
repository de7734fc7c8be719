"""Client frames as an SDK makes them, and what an answer says (wire 4, 9)."""

from typing import Final

from levrier.wire.checksums import xxh3
from levrier.wire.codes import RESULT_FRAMED, Command, ErrorCode, Operation
from levrier.wire.framing import COMMAND_OFFSET, HEADER_SIZE
from levrier.wire.headers import EvictionHeader, ReplyHeader, RequestHeader
from levrier.wire.protocol_version import CURRENT
from levrier.wire.replies import result_code
from levrier.wire.requests.login import LoginWithPassword

EVICTED: Final = -1000
"""`code` gives this minus the reason for an eviction frame."""

NOT_COMMITTED: Final = int(ErrorCode.TRANSIENT_NOT_COMMITTED)
NOT_ACCEPTED: Final = int(ErrorCode.TRANSIENT_NOT_ACCEPTED)

_EVICTION: Final = int(Command.EVICTION)


def request(
    operation: int, body: bytes = b"", *, client: int, session: int = 0, number: int = 0, code: int = 0
) -> bytes:
    """A request frame as the SDK makes it: NonReplicated ones carry no stamp."""
    header = RequestHeader(
        client=client,
        request=number,
        operation=operation,
        session=session,
        request_checksum=0 if operation == Operation.NON_REPLICATED else xxh3(body),
        code=code,
        size=HEADER_SIZE + len(body),
    )
    return header.encode() + body


def login_frame(client: int, username: str = "iggy", password: str = "iggy") -> bytes:
    """A Register frame."""
    body = LoginWithPassword(
        protocol_version=CURRENT, sdk_name="raw", sdk_version="1", username=username, password=password
    ).encode()
    return request(Operation.REGISTER, body, client=client)


def code(frame: bytes) -> int:
    """0 for success, the error code of a refusal, `EVICTED - reason` for the end of a session."""
    if frame[COMMAND_OFFSET] == _EVICTION:
        return EVICTED - EvictionHeader.decode(frame).reason
    header = ReplyHeader.decode(frame)
    if header.status or header.operation not in RESULT_FRAMED:
        return header.status
    return result_code(frame[HEADER_SIZE:])
