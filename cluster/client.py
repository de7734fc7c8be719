"""Our own client: what the command line, the demo and the benchmark speak to a node with (wire 9, 10.3).

Asyncio, one connection, one request at a time; sessions, request numbers, replays and transient codes are handled as the
official SDK handles them. After a broken connection `resume` takes the same session up again and settles the request that
was under way, exactly once; `reconnect` begins a new session, as the SDK does.

A node that does not lead takes no writes. The client then asks it who does, and goes there with a new session; unlike the SDK at
once, not after four seconds. It remembers the nodes that it was told of, and comes back at another one when its own is gone.
"""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from types import TracebackType
from typing import Any, Final, Self

from levrier.cluster.client_connection import ClientConnection, open_connection
from levrier.cluster.client_errors import (
    ClientError,
    DeadlineExceeded,
    Disconnected,
    Evicted,
    IggyError,
    NotTaken,
    ProtocolViolation,
)
from levrier.cluster.client_groups import GroupCommands
from levrier.cluster.client_names import Name, identifier
from levrier.cluster.client_tls import ClientTls
from levrier.cluster.client_users import UserCommands
from levrier.wire.checksums import xxh3
from levrier.wire.codes import (
    LEVRIER_STATUS,
    RESULT_FRAMED,
    CommandCode,
    ErrorCode,
    EvictionReason,
    NodeRole,
    Operation,
)
from levrier.wire.errors import WireError
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.headers import EvictionHeader
from levrier.wire.options import OptionEntry, encode_block
from levrier.wire.protocol_version import CURRENT
from levrier.wire.replies import result_code
from levrier.wire.requests.login import LoginWithPassword, LoginWithToken
from levrier.wire.requests.partitions import CreatePartitions, DeletePartitions
from levrier.wire.requests.streams import CreateStream, DeleteStream, GetStream, PurgeStream, UpdateStream
from levrier.wire.requests.topics import (
    CreateTopic,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    UpdateTopic,
)
from levrier.wire.responses.login import LoginResponse
from levrier.wire.responses.streams import StreamDetails, StreamHeader, StreamList
from levrier.wire.responses.system import ClusterMetadata
from levrier.wire.responses.topics import TopicDetails, TopicHeader, TopicList

__all__ = ["Client", "ClientError", "ClientTls", "DeadlineExceeded", "Disconnected", "Evicted", "IggyError", "Session"]

DEADLINE_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 0.05
RETRIES_OF_ONE_NUMBER: Final = 40
"""A request that was not accepted is sent again under a new number after this many tries, 2 s (wire 10.3)."""

LOOK_FOR_LEADER_EVERY: Final = 5
"""How many refusals of one request lie between two questions who leads."""

SDK_NAME: Final = "levrier"
SDK_VERSION: Final = "0.1.0"

_HEADER: Final = Struct("<48xI8xB67x16sQ16xQB7xQ4xI56x")
_REQUEST: Final = 5
_REPLY: Final = 8
_EVICTION: Final = 13
_REGISTER: Final = int(Operation.REGISTER)
_NON_REPLICATED: Final = int(Operation.NON_REPLICATED)
_LOGOUT: Final = int(Operation.LOGOUT)
_HEALTHY: Final = 0
_NOT_COMMITTED: Final = int(ErrorCode.TRANSIENT_NOT_COMMITTED)
_NOT_ACCEPTED: Final = int(ErrorCode.TRANSIENT_NOT_ACCEPTED)
_STILL: Final = "not committed until the deadline (code {}): no primary serves, or it has too much to do"

assert _HEADER.size == HEADER_SIZE

Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A login: the epoch that requests name, and as whom."""

    epoch: int
    user_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """A request whose fate is unknown: it may be sent again under its number only."""

    number: int
    operation: int
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Credentials:
    username: str
    password: str = field(repr=False)

    def encode(self) -> bytes:
        """The body of a Register."""
        return LoginWithPassword(
            protocol_version=CURRENT,
            sdk_name=SDK_NAME,
            sdk_version=SDK_VERSION,
            username=self.username,
            password=self.password,
        ).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    text: str = field(repr=False)

    def encode(self) -> bytes:
        """The body of a Register."""
        return LoginWithToken(
            protocol_version=CURRENT, sdk_name=SDK_NAME, sdk_version=SDK_VERSION, token=self.text
        ).encode()


class Client(UserCommands, GroupCommands):
    """One client of one node. Made by `Client.connect`, also as `async with await Client.connect(...) as client`."""

    def __init__(
        self,
        connection: ClientConnection,
        *,
        host: str,
        port: int,
        deadline_seconds: float,
        client_id: int | None,
        pause: Pause,
        tls: ClientTls | None = None,
    ) -> None:
        self._connection = connection
        self._tls = tls
        self._host = host
        self._port = port
        self._known: tuple[tuple[str, int], ...] = ((host, port),)
        self._deadline_seconds = deadline_seconds
        self._pause = pause
        self._id = client_id if client_id is not None else _fresh_id()
        self._id_bytes = self._id.to_bytes(16, "little")
        self._session: Session | None = None
        self._epoch = 0
        self._next = 1
        self._sent_number = 0
        self._credentials: _Credentials | _Token | None = None
        self._unsettled: Unsettled | None = None
        self._lock = asyncio.Lock()

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
        client_id: int | None = None,
        pause: Pause = asyncio.sleep,
        tls: ClientTls | None = None,
    ) -> Self:
        """Connect to a node. `deadline_seconds` bounds each call, retries included; `client_id` is random by default.

        With `tls` the node has to serve clients over TLS, as `serve --tls-certificate` does.
        """
        connection = await open_connection(host, port, deadline_seconds=deadline_seconds, tls=tls)
        return cls(
            connection,
            host=host,
            port=port,
            deadline_seconds=deadline_seconds,
            client_id=client_id,
            pause=pause,
            tls=tls,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def address(self) -> str:
        """Whom this client asks, `host:port`."""
        return self._connection.address

    @property
    def client_id(self) -> int:
        """The 128-bit id in the headers."""
        return self._id

    @property
    def session(self) -> Session | None:
        """The session, None when not logged in."""
        return self._session

    @property
    def connected(self) -> bool:
        """Whether the connection is open."""
        return self._connection.is_open

    @property
    def unsettled(self) -> Unsettled | None:
        """The request whose fate is unknown since the connection broke under it."""
        return self._unsettled

    # Sessions.

    async def login(self, username: str, password: str) -> Session:
        """Log in. Raises `Evicted` for wrong credentials, `DeadlineExceeded` while the cluster takes no logins."""
        return await self._log_in(_Credentials(username=username, password=password))

    async def login_with_token(self, token: str) -> Session:
        """Log in with a personal access token. Raises `Evicted` for a token that is unknown or has expired."""
        return await self._log_in(_Token(text=token))

    async def logout(self) -> None:
        """Log out; without a session that is no error."""
        async with self._lock:
            await self._logout()

    async def reconnect(self) -> Session:
        """Connect anew and log in anew, under a new client id. What was unsettled stays unknown."""
        async with self._lock:
            await self._open()
            self._unsettled = None
            self._renew_id()
            return await self._register()

    async def resume(self) -> bytes | None:
        """Connect anew, take the same session up again, and settle the request that was under way.

        Gives the payload of that request, None when there was none. Its own refusal is raised as it would have been.
        """
        async with self._lock:
            await self._open()
            await self._register()
            unsettled = self._unsettled
            if unsettled is None:
                return None
            return await self._execute(unsettled.operation, unsettled.number, unsettled.body, self._deadline())

    async def close(self) -> None:
        """Close the connection without a logout."""
        await self._connection.close()

    # Raw requests.

    async def request(self, operation: int, body: bytes = b"", *, deadline_seconds: float | None = None) -> bytes:
        """Have a replicated operation executed once; the payload of its reply, without the result section.

        Raises `IggyError` when it is refused, `Disconnected` when its fate is unknown (then see `resume`).
        """
        async with self._lock:
            number = self._next
            self._next = number + 1
            return await self._execute(operation, number, body, self._deadline(deadline_seconds))

    async def query(self, code: int, body: bytes = b"", *, deadline_seconds: float | None = None) -> bytes:
        """Ask a NonReplicated command; the plain body of the answer."""
        async with self._lock:
            return await self._ask(code, body, self._deadline(deadline_seconds))

    # Typed requests.

    async def ping(self) -> None:
        """Ask for a sign of life; needs no login."""
        await self.query(CommandCode.PING)

    async def cluster_metadata(self) -> ClusterMetadata:
        """The nodes of the cluster and who leads."""
        return ClusterMetadata.decode(await self.query(CommandCode.GET_CLUSTER_METADATA))

    async def status(self) -> Mapping[str, Any]:
        """How the asked node stands (our own command): replica, role, view, op, commit, ..."""
        try:
            status = json.loads(await self.query(LEVRIER_STATUS))
        except ValueError as error:
            raise ClientError("a status that is no JSON", address=self.address) from error
        if not isinstance(status, dict):
            raise ClientError("a status that is no object", address=self.address)
        return status

    async def create_stream(self, name: str) -> StreamHeader:
        """Create a stream."""
        payload = await self.request(Operation.CREATE_STREAM, CreateStream(name=name).encode())
        return StreamDetails.decode(payload).stream

    async def get_stream(self, stream: Name) -> StreamDetails | None:
        """One stream and its topics, None when there is none of that name."""
        body = GetStream(stream=identifier(stream)).encode()
        return StreamDetails.decode_found(await self.query(CommandCode.GET_STREAM, body))

    async def get_streams(self) -> tuple[StreamHeader, ...]:
        """All streams."""
        return StreamList.decode(await self.query(CommandCode.GET_STREAMS)).streams

    async def update_stream(self, stream: Name, name: str) -> None:
        """Rename a stream."""
        body = UpdateStream(stream=identifier(stream), name=name).encode()
        await self.request(Operation.UPDATE_STREAM, body)

    async def delete_stream(self, stream: Name) -> None:
        """Delete a stream with its topics."""
        await self.request(Operation.DELETE_STREAM, DeleteStream(stream=identifier(stream)).encode())

    async def purge_stream(self, stream: Name) -> None:
        """Drop the messages of a stream."""
        await self.request(Operation.PURGE_STREAM, PurgeStream(stream=identifier(stream)).encode())

    async def create_topic(
        self, stream: Name, name: str, *, partitions_count: int = 1, options: tuple[OptionEntry, ...] = ()
    ) -> TopicDetails:
        """Create a topic."""
        request = CreateTopic(
            stream=identifier(stream), partitions_count=partitions_count, name=name, options=encode_block(options)
        )
        return TopicDetails.decode(await self.request(Operation.CREATE_TOPIC, request.encode()))

    async def get_topic(self, stream: Name, topic: Name) -> TopicDetails | None:
        """One topic and its partitions, None when there is none of that name."""
        body = GetTopic(stream=identifier(stream), topic=identifier(topic)).encode()
        return TopicDetails.decode_found(await self.query(CommandCode.GET_TOPIC, body))

    async def get_topics(self, stream: Name) -> tuple[TopicHeader, ...]:
        """The topics of a stream; none for a stream that does not exist."""
        body = GetTopics(stream=identifier(stream)).encode()
        return TopicList.decode(await self.query(CommandCode.GET_TOPICS, body)).topics

    async def update_topic(
        self, stream: Name, topic: Name, name: str, *, options: tuple[OptionEntry, ...] = ()
    ) -> None:
        """Rename a topic and change the options that are named."""
        request = UpdateTopic(
            stream=identifier(stream), topic=identifier(topic), name=name, options=encode_block(options)
        )
        await self.request(Operation.UPDATE_TOPIC, request.encode())

    async def delete_topic(self, stream: Name, topic: Name) -> None:
        """Delete a topic."""
        body = DeleteTopic(stream=identifier(stream), topic=identifier(topic)).encode()
        await self.request(Operation.DELETE_TOPIC, body)

    async def purge_topic(self, stream: Name, topic: Name) -> None:
        """Drop the messages of a topic."""
        body = PurgeTopic(stream=identifier(stream), topic=identifier(topic)).encode()
        await self.request(Operation.PURGE_TOPIC, body)

    async def create_partitions(self, stream: Name, topic: Name, partitions_count: int) -> None:
        """Append partitions to a topic."""
        request = CreatePartitions(
            stream=identifier(stream), topic=identifier(topic), partitions_count=partitions_count
        )
        await self.request(Operation.CREATE_PARTITIONS, request.encode())

    async def delete_partitions(self, stream: Name, topic: Name, partitions_count: int) -> None:
        """Take the last partitions of a topic away."""
        request = DeletePartitions(
            stream=identifier(stream), topic=identifier(topic), partitions_count=partitions_count
        )
        await self.request(Operation.DELETE_PARTITIONS, request.encode())

    # How a request travels.

    async def _log_in(self, credentials: _Credentials | _Token) -> Session:
        async with self._lock:
            if self._session is not None:
                await self._logout()
            self._credentials = credentials
            self._renew_id()
            return await self._register()

    async def _register(self) -> Session:
        credentials = self._credentials
        if credentials is None:
            raise IggyError(int(ErrorCode.UNAUTHENTICATED), address=self.address, detail="no login to repeat")
        self._end_session()
        payload = await self._exchange(_REGISTER, 0, credentials.encode(), self._deadline())
        try:
            response = LoginResponse.decode(payload)
        except WireError as error:
            raise self._violation(f"an undecodable login reply: {error}") from error
        if response.session == 0:
            raise self._violation("a session of epoch 0")
        self._epoch = response.session
        self._session = Session(epoch=response.session, user_id=response.user_id)
        return self._session

    async def _logout(self) -> None:
        number = self._next
        self._next = number + 1
        await self._exchange(_LOGOUT, number, b"", self._deadline())
        self._end_session()

    async def _execute(self, operation: int, number: int, body: bytes, deadline: float) -> bytes:
        """Have one request executed; the one whose fate is unknown is remembered."""
        if not self._connection.is_open:
            # Nothing is sent: what was unsettled before still is.
            raise Disconnected("not connected", address=self.address)
        try:
            payload = await self._exchange(operation, number, body, deadline)
        except (Disconnected, asyncio.CancelledError):
            self._unsettled = Unsettled(number=self._sent_number, operation=operation, body=body)
            raise
        except IggyError:
            self._unsettled = None
            raise
        self._unsettled = None
        return payload

    async def _ask(self, code: int, body: bytes, deadline: float) -> bytes:
        """A question under the lock; transient answers ask again."""
        frame = self._frame(_NON_REPLICATED, self._next, body, code=code)
        while True:
            status, payload = self._read(await self._connection.exchange(frame, deadline))
            if status == 0:
                return payload
            if status not in (_NOT_COMMITTED, _NOT_ACCEPTED):
                raise IggyError(status, address=self.address)
            await self._wait_to_retry(status, deadline)

    async def _go_to_leader(self, deadline: float) -> bool:
        """Move to the node that leads, with a new session; False when this one does, or when nobody is known to."""
        try:
            found = ClusterMetadata.decode(await self._ask(CommandCode.GET_CLUSTER_METADATA, b"", deadline))
        except WireError as error:
            raise self._violation(f"an undecodable list of nodes: {error}") from error
        healthy = [node for node in found.nodes if node.status == _HEALTHY]
        leader = next(((node.ip, node.tcp) for node in healthy if node.role == NodeRole.LEADER), None)
        if len(found.nodes) < 2 or leader is None or leader == (_numeric(self._host), self._port):
            return False
        own = (self._host, self._port)
        self._known = (own, *((node.ip, node.tcp) for node in found.nodes if (node.ip, node.tcp) != own))
        self._host, self._port = leader
        await self._open()
        self._renew_id()
        await self._register()
        return True

    async def _exchange(self, operation: int, number: int, body: bytes, deadline: float) -> bytes:
        """Send a request until its answer is final: 57 sends the same frame again, 58 a new number after a while."""
        frame = self._frame(operation, number, body)
        self._sent_number = number
        refusals = 0
        while True:
            code, payload = self._read(await self._connection.exchange(frame, deadline))
            if code == 0:
                return payload
            if code not in (_NOT_COMMITTED, _NOT_ACCEPTED):
                raise IggyError(code, address=self.address)
            may_move = code == _NOT_ACCEPTED and operation not in (_REGISTER, _LOGOUT)
            if may_move and refusals % LOOK_FOR_LEADER_EVERY == 0 and await self._go_to_leader(deadline):
                refusals = 1  # Two that name each other are not followed without a pause.
                number = self._sent_number = self._next
                self._next = number + 1
                frame = self._frame(operation, number, body)
                continue
            await self._wait_to_retry(code, deadline)
            refusals = refusals + 1 if code == _NOT_ACCEPTED else 0
            if refusals >= RETRIES_OF_ONE_NUMBER and operation != _REGISTER:
                refusals = 0
                number = self._sent_number = self._next
                self._next = number + 1
                frame = self._frame(operation, number, body)

    async def _wait_to_retry(self, code: int, deadline: float) -> None:
        if asyncio.get_running_loop().time() + RETRY_SECONDS >= deadline:
            raise NotTaken(_STILL.format(code), address=self.address)
        await self._pause(RETRY_SECONDS)

    def _frame(self, operation: int, number: int, body: bytes, *, code: int = 0) -> bytes:
        """A request frame; NonReplicated ones are not stamped, as the SDK does not (wire 5.2)."""
        stamp = 0 if operation == _NON_REPLICATED else xxh3(body)
        epoch = 0 if operation == _REGISTER else self._epoch
        size = HEADER_SIZE + len(body)
        return _HEADER.pack(size, _REQUEST, self._id_bytes, stamp, number, operation, epoch, code) + body

    def _read(self, frame: bytes) -> tuple[int, bytes]:
        """The error code of an answer, 0 for success, and its payload. Raises `Evicted` for the end of the session."""
        command = frame[60]
        if command == _REPLY:
            status = int.from_bytes(frame[216:220], "little")
            if status:
                return status, b""
            body = frame[HEADER_SIZE:]
            if frame[208] not in RESULT_FRAMED:
                return 0, body
            try:
                code = result_code(body)
            except WireError as error:
                raise self._violation(f"an undecodable result: {error}") from error
            return code, body[4:]
        if command != _EVICTION:
            raise self._violation(f"a frame of command {command}")
        try:
            reason = EvictionReason(EvictionHeader.decode(frame).reason)
        except WireError as error:
            raise self._violation(f"an undecodable eviction: {error}") from error
        self._end_session()
        raise Evicted(reason, address=self.address)

    def _violation(self, message: str) -> ProtocolViolation:
        """What the peer sent makes no sense: the connection ends with it."""
        error = ProtocolViolation(message, address=self.address)
        self._connection.give_up(error)
        return error

    def _deadline(self, seconds: float | None = None) -> float:
        return asyncio.get_running_loop().time() + (self._deadline_seconds if seconds is None else seconds)

    def _end_session(self) -> None:
        self._session = None
        self._epoch = 0

    def _renew_id(self) -> None:
        """A new login is a new client: its numbers begin at 1."""
        if self._session is None and self._next == 1:
            return
        self._id = _fresh_id()
        self._id_bytes = self._id.to_bytes(16, "little")
        self._next = 1

    async def _open(self) -> None:
        """Connect anew: where it was, else to the first of the others that takes the connection."""
        await self._connection.close()
        self._end_session()
        own = (self._host, self._port)
        failure: Disconnected | None = None
        for host, port in (own, *(other for other in self._known if other != own)):
            try:
                self._connection = await open_connection(
                    host, port, deadline_seconds=self._deadline_seconds, tls=self._tls
                )
            except Disconnected as error:
                failure = failure or error
            else:
                self._host, self._port = host, port
                return
        assert failure is not None
        raise failure


def _numeric(host: str) -> str:
    """Nodes list addresses; people write names."""
    return "127.0.0.1" if host == "localhost" else host


def _fresh_id() -> int:
    """A random client id, never 0 and never in the range that nodes keep for themselves."""
    return secrets.randbits(127) | 1
