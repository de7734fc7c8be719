"""The four headers of the hot path: Request, Reply, Prepare, Eviction (wire specification 4.1, 4.3 to 4.5).

Each is one precompiled `Struct` and one frozen value. A codec looks at the header only: whether the body that follows is
whole is the business of the framing and of `levrier.wire.prepare`. Operations are plain integers here.

Kept apart: bytes that break the framing (`WireError`) and a well-framed request whose header breaks a rule
(`InvalidRequestHeader`, decision D-30), which is answered.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final, Self

from levrier.wire.codes import OPERATIONS
from levrier.wire.errors import FrameSizeOutOfRange, Truncated, UnexpectedCommand, WireError
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.frozen import quick_init
from levrier.wire.prepare_header import PrepareHeader
from levrier.wire.protocol_version import ProtocolWindow

__all__ = [
    "U64_MAX",
    "EvictionHeader",
    "InvalidRequestHeader",
    "PrepareHeader",
    "ReplyHeader",
    "RequestHeader",
]

U64_MAX: Final = (1 << 64) - 1

_REQUEST: Final = Struct("<32x16sIIIBB66x16s16sQQB7xQII56x")
_REQUEST_FIELDS: Final = Struct("<32xQQIIIBB66xQQQQQQB7xQII56x")
_REPLY: Final = Struct("<32x16sIIIBB66x16s16s16sQQQQB7xI36x")
_REPLY_FIELDS: Final = Struct("<32xQQIIIBB66xQQQQQQQQQQB7xI36x")
_EVICTION: Final = Struct("<48xIIIBB66x16sII103xB")

_REQUEST_COMMAND: Final = 5
_REPLY_COMMAND: Final = 8
_EVICTION_COMMAND: Final = 13

_REGISTER: Final = 1
_NON_REPLICATED: Final = 2

_ZERO_66: Final = bytes(66)
_ZERO_103: Final = bytes(103)

_from_bytes = int.from_bytes

for _layout in (_REQUEST, _REPLY, _EVICTION):
    assert _layout.size == HEADER_SIZE


def _need_header(frame: bytes) -> None:
    if len(frame) < HEADER_SIZE:
        raise Truncated(f"{len(frame)} bytes are less than a header", "header")


def _wrong_command(command: int, wanted: str) -> UnexpectedCommand:
    return UnexpectedCommand(f"{command} is not {wanted}", "command")


def _wrong_size(size: int) -> FrameSizeOutOfRange:
    return FrameSizeOutOfRange(f"{size} is less than a header", "size")


@quick_init
@dataclass(frozen=True, slots=True)
class RequestHeader:
    """What a client asks (4.1). `code` is the command code of a NonReplicated request and 0 otherwise.

    `request` is the client's request number, `session` its session epoch (0 before login); `user_id` must never be
    trusted. Reserved bytes are not kept.
    """

    client: int
    request: int
    operation: int
    session: int = 0
    request_checksum: int = 0
    code: int = 0
    size: int = HEADER_SIZE
    timestamp: int = 0
    user_id: int = 0
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    @classmethod
    def decode(cls, frame: bytes) -> Self:
        """Decode the first 256 bytes.

        Raises `WireError` for bytes that are no request frame at all, and `InvalidRequestHeader` for a request that
        breaks a rule of 4.1; that one carries the decoded header so that an answer can be built.
        """
        if len(frame) < HEADER_SIZE:
            _need_header(frame)
        (
            cluster,
            cluster_high,
            size,
            view,
            release,
            command,
            replica,
            client,
            client_high,
            request_checksum,
            request_checksum_high,
            timestamp,
            request,
            operation,
            session,
            user_id,
            code,
        ) = _REQUEST_FIELDS.unpack_from(frame)
        if command != _REQUEST_COMMAND:
            raise _wrong_command(command, "Request")
        if size < HEADER_SIZE:
            raise _wrong_size(size)
        header = cls(
            client | client_high << 64,
            request,
            operation,
            session,
            request_checksum | request_checksum_high << 64 if request_checksum_high else request_checksum,
            code if operation == _NON_REPLICATED else 0,
            size,
            timestamp,
            user_id,
            cluster | cluster_high << 64 if cluster_high else cluster,
            view,
            release,
            replica,
        )
        if operation != _NON_REPLICATED and (
            operation <= _REGISTER or not session or not request or operation not in OPERATIONS
        ):
            _check_request(header)
        if header.client == 0:
            raise InvalidRequestHeader("zero is not a client id", "client", header=header)
        return header

    def encode(self) -> bytes:
        """The 256 header bytes."""
        return _REQUEST.pack(
            self.cluster.to_bytes(16, "little"),
            self.size,
            self.view,
            self.release,
            _REQUEST_COMMAND,
            self.replica,
            self.client.to_bytes(16, "little"),
            self.request_checksum.to_bytes(16, "little"),
            self.timestamp,
            self.request,
            self.operation,
            self.session,
            self.user_id,
            self.code,
        )


class InvalidRequestHeader(WireError):
    """A well-framed request whose header breaks a rule of 4.1. It is answered with status 3 (decision D-30).

    `header` holds what could be read; its `client` may be 0 and its `operation` unknown.
    """

    def __init__(self, what: str, where: str, *, header: RequestHeader) -> None:
        super().__init__(what, where)
        self.header = header

    @property
    def client(self) -> int:
        """The client id of the request, possibly 0."""
        return self.header.client

    @property
    def request(self) -> int:
        """The request number of the request."""
        return self.header.request


def _check_request(header: RequestHeader) -> None:
    """The rules of 4.1 for everything but NonReplicated, off the usual path."""
    operation = header.operation
    if operation not in OPERATIONS:
        raise InvalidRequestHeader(f"{operation} is not an operation", "operation", header=header)
    if operation == _REGISTER:
        if header.session or header.request:
            raise InvalidRequestHeader(
                "a Register has neither a session nor a request number", "session", header=header
            )
        return
    if header.session == 0:
        raise InvalidRequestHeader("zero before login", "session", header=header)
    if header.request == 0:
        raise InvalidRequestHeader("zero is not a request number", "request", header=header)


@quick_init
@dataclass(frozen=True, slots=True)
class ReplyHeader:
    """What a node answers (4.3). `status` 0 is success; otherwise it is an error code and the body is empty."""

    client: int
    request: int
    operation: int
    op: int = 0
    commit: int = 0
    status: int = 0
    request_checksum: int = 0
    timestamp: int = 0
    size: int = HEADER_SIZE
    context: int = 0
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    @classmethod
    def decode(cls, frame: bytes) -> Self:
        """Decode the first 256 bytes."""
        if len(frame) < HEADER_SIZE:
            _need_header(frame)
        (
            cluster,
            cluster_high,
            size,
            view,
            release,
            command,
            replica,
            request_checksum,
            request_checksum_high,
            context,
            context_high,
            client,
            client_high,
            op,
            commit,
            timestamp,
            request,
            operation,
            status,
        ) = _REPLY_FIELDS.unpack_from(frame)
        if command != _REPLY_COMMAND:
            raise _wrong_command(command, "Reply")
        if size < HEADER_SIZE:
            raise _wrong_size(size)
        return cls(
            client | client_high << 64,
            request,
            operation,
            op,
            commit,
            status,
            request_checksum | request_checksum_high << 64 if request_checksum_high else request_checksum,
            timestamp,
            size,
            context | context_high << 64 if context_high else context,
            cluster | cluster_high << 64 if cluster_high else cluster,
            view,
            release,
            replica,
        )

    def encode(self) -> bytes:
        """The 256 header bytes."""
        return _REPLY.pack(
            self.cluster.to_bytes(16, "little"),
            self.size,
            self.view,
            self.release,
            _REPLY_COMMAND,
            self.replica,
            self.request_checksum.to_bytes(16, "little"),
            self.context.to_bytes(16, "little"),
            self.client.to_bytes(16, "little"),
            self.op,
            self.commit,
            self.timestamp,
            self.request,
            self.operation,
            self.status,
        )


@quick_init
@dataclass(frozen=True, slots=True)
class EvictionHeader:
    """The end of a session, or a refused login (4.4). `window` stands only with reason 14 (IncompatibleProtocol)."""

    client: int
    reason: int
    window: ProtocolWindow | None = None
    view: int = 0
    release: int = 0
    replica: int = 0

    @classmethod
    def decode(cls, frame: bytes) -> Self:
        """Decode and validate an eviction frame."""
        _need_header(frame)
        size, view, release, command, replica, client_bytes, newest, oldest, reason = _EVICTION.unpack_from(frame)
        if command != _EVICTION_COMMAND:
            raise _wrong_command(command, "Eviction")
        if size != HEADER_SIZE:
            raise FrameSizeOutOfRange(f"{size} in a frame without a body", "size")
        if frame[62:128] != _ZERO_66 or frame[152:255] != _ZERO_103:
            raise WireError("a reserved region is not zero", "reserved")
        client = _from_bytes(client_bytes, "little")
        if client == 0:
            raise WireError("zero is not a client id", "client")
        if not 1 <= reason <= 15:
            raise WireError(f"{reason} is not an eviction reason", "reason")
        window: ProtocolWindow | None = None
        if reason == 14:
            if not 1 <= oldest <= newest:
                raise WireError(f"{oldest} to {newest} is not a range of versions", "server_protocol_version")
            window = ProtocolWindow(oldest=oldest, newest=newest)
        elif newest or oldest:
            raise WireError("a version window belongs to reason 14 only", "server_protocol_version")
        return cls(client, reason, window, view, release, replica)

    def encode(self) -> bytes:
        """The 256 bytes of the frame."""
        assert self.client != 0
        assert 1 <= self.reason <= 15
        assert (self.window is not None) == (self.reason == 14)
        return _EVICTION.pack(
            HEADER_SIZE,
            self.view,
            self.release,
            _EVICTION_COMMAND,
            self.replica,
            self.client.to_bytes(16, "little"),
            self.window.newest if self.window is not None else 0,
            self.window.oldest if self.window is not None else 0,
            self.reason,
        )
