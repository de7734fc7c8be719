"""The client-facing protocol of one connection (wire 8 to 11, design "The gateway"). A plain object without I/O.

It is told whole frames and the answers of the actors, and returns what to do. It owns the session that is bound to its
connection. Invariants:

* Exactly one frame answers each request; an answer whose ticket is not the open one is dropped.
* Requests are handled one at a time, so admission and answers keep the order of the requests: a slow password comparison
  cannot be overtaken, and nothing of a connection is admitted before its login is committed (BR-28).
* Whoever does not read is not served further: beyond `UNFLUSHED_MAX` bytes of unwritten answers no request is started.
* What reaches the log decodes: an undecodable or forbidden body is refused here.

It refuses to know about sockets, batching, the log and who is primary.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from levrier.actors.bus import admission, login, queries, system, tokens
from levrier.actors.bus import messages as bus
from levrier.actors.bus.effects import CloseConnection, GatewayEffect, WriteFrame
from levrier.actors.bus.pending import Pending, Stage
from levrier.actors.bus.registry import ClientRegistry, CommitPoint
from levrier.actors.bus.session import Ending, Session
from levrier.actors.bus.settings import GatewaySettings
from levrier.actors.client_table.messages import PLUGIN_CLIENT_MIN, ClientRequest, Preflight
from levrier.actors.consensus.messages import StatusQuery
from levrier.actors.metadata.messages import Query
from levrier.wire.checksums import body_matches
from levrier.wire.codes import CLIENT_ALLOWED, RESULT_FRAMED, ErrorCode, EvictionReason, Operation
from levrier.wire.errors import WireError
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.headers import InvalidRequestHeader, ReplyHeader, RequestHeader
from levrier.wire.protocol_version import ProtocolWindow
from levrier.wire.replies import denial, eviction, query_reply, rejection, result_code

UNFLUSHED_MAX: Final = 256 * 1024
"""Bytes of answers that may wait for the socket before the next request of the connection is started."""

_REGISTER: Final = int(Operation.REGISTER)
_NON_REPLICATED: Final = int(Operation.NON_REPLICATED)
_LOGOUT: Final = int(Operation.LOGOUT)
_DELETE_SEGMENTS: Final = int(Operation.DELETE_SEGMENTS)
_TRUNCATE_PARTITION: Final = int(Operation.TRUNCATE_PARTITION)
_OF_A_SESSION: Final = CLIENT_ALLOWED - {_REGISTER, _NON_REPLICATED, _LOGOUT}

_IN_RESULT_SECTION: Final = frozenset({51, 57, 58, 59})
"""Refusals that a result-framed operation gets as a result section; every other one is a status (wire 8.2, 8.4)."""

_COMMIT_OFFSET: Final = 184
_INVALID_COMMAND: Final = int(ErrorCode.INVALID_COMMAND)
_INVALID_FORMAT: Final = int(ErrorCode.INVALID_FORMAT)
_FEATURE_UNAVAILABLE: Final = int(ErrorCode.FEATURE_UNAVAILABLE)
_UNAUTHENTICATED: Final = int(ErrorCode.UNAUTHENTICATED)
_TOKEN_EXISTS: Final = int(ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS)

_COMMIT: Final = Stage.COMMIT
_IN_LOG: Final = (_COMMIT, Stage.REGISTER, Stage.LOGOUT)
"""Stages in which the request is with ClientTable and Consensus; an answer that does not fit the stage is surplus."""


class Gateway:
    """One connection's side of the protocol."""

    __slots__ = (
        "_answers",
        "_commit",
        "_connection",
        "_effects",
        "_ended",
        "_number",
        "_pending",
        "_registry",
        "_session",
        "_settings",
        "_unflushed",
        "_waiting",
        "_waiting_size",
    )

    def __init__(
        self, *, connection: int, settings: GatewaySettings, registry: ClientRegistry, commit: CommitPoint
    ) -> None:
        assert connection > 0
        self._connection = connection
        self._settings = settings
        self._registry = registry
        self._commit = commit
        self._session: Session | None = None
        self._pending: Pending | None = None
        self._number = 0
        self._waiting: deque[bytes] = deque()
        self._waiting_size = 0
        self._unflushed = 0
        self._ended = False
        self._effects: list[GatewayEffect] = []
        self._answers = _ANSWERS

    @property
    def session(self) -> Session | None:
        """The session that is bound to the connection."""
        return self._session

    @property
    def backlog(self) -> int:
        """How many requests wait behind the open one."""
        return len(self._waiting)

    @property
    def backlog_size(self) -> int:
        """Bytes of those requests."""
        return self._waiting_size

    @property
    def busy(self) -> bool:
        """Whether a request is being handled."""
        return self._pending is not None

    def on_frame(self, frame: bytes) -> list[GatewayEffect]:
        """One whole frame arrived. Effects to execute in order."""
        assert len(frame) >= HEADER_SIZE
        if self._ended:
            return []
        if self._pending is not None or self._waiting or self._unflushed > UNFLUSHED_MAX:
            self._waiting.append(frame)
            self._waiting_size += len(frame)
            return []
        self._begin(frame)
        return self._take_effects()

    def on_answer(self, answer: bus.Answer) -> list[GatewayEffect]:
        """An actor answered. Surplus answers change nothing."""
        pending = self._pending
        if pending is None or answer.ticket.number != pending.ticket.number:
            return []
        self._answers[answer.__class__](self, pending, answer)
        if self._waiting:
            self._go_on()
        return self._take_effects()

    def on_flushed(self) -> list[GatewayEffect]:
        """What was answered so far has left for the peer: the next requests may be started."""
        self._unflushed = 0
        if not self._waiting:
            return []
        self._go_on()
        return self._take_effects()

    def on_silent(self) -> list[GatewayEffect]:
        """A member of a consumer group was not heard of for too long: its session ends, the connection stays.

        A request that is still open is answered by the same eviction; its own answer is surplus then.
        """
        session = self._session
        assert session is not None
        self._pending = None
        self._bind(None)
        self._write(eviction(session.client, int(EvictionReason.STALE_CLIENT), None))
        if self._waiting:
            self._go_on()
        return self._take_effects()

    def on_closed(self) -> Ending:
        """The connection is gone: nothing is owed any more."""
        pending, self._pending = self._pending, None
        self._ended = True
        self._waiting.clear()
        self._waiting_size = 0
        registering = pending is not None and pending.stage is Stage.REGISTER
        return Ending(
            session=self._session,
            register=pending.ticket if pending is not None and registering else None,
            register_client=pending.header.client if pending is not None and registering else 0,
        )

    # One request begins.

    def _begin(self, frame: bytes) -> None:
        assert self._pending is None
        self._number += 1
        try:
            header = RequestHeader.decode(frame)
        except InvalidRequestHeader as refused:
            self._refuse_header(refused.header)
            return
        except WireError as error:
            # Not a request at all: there is nothing an answer could echo.
            self._end(f"a frame that is no request: {error}")
            return
        operation = header.operation
        body = frame[HEADER_SIZE:]
        if operation == _NON_REPLICATED:
            self._begin_query(header, body)
        elif operation == _REGISTER:
            self._begin_login(header, body)
        elif operation == _LOGOUT:
            self._begin_logout(header, body)
        else:
            self._begin_replicated(header, body)

    def _begin_replicated(self, header: RequestHeader, body: bytes) -> None:
        session = self._session
        if session is None or header.client != session.client:
            self._evict(header, EvictionReason.NO_SESSION)
            return
        admit = admission.ADMISSIONS.get(header.operation)
        if admit is None:
            self._deny(header, _FEATURE_UNAVAILABLE if header.operation in CLIENT_ALLOWED else _INVALID_COMMAND)
            return
        too_large = len(body) > admission.BODY_SIZE_MAX
        if too_large or (header.request_checksum and not body_matches(header.request_checksum, body)):
            self._deny(header, _INVALID_FORMAT)
            return
        try:
            admitted = admit(body, session)
        except WireError as error:
            self._deny(header, int(error.code))
            return
        if admitted.__class__ is bytes:
            self._submit(header, admitted)
        else:
            assert callable(admitted)
            pending = self._open(header, Stage.COURSE)
            pending.course = admission.judged(admitted(pending.ticket, self._settings))
            self._proceed(pending, None)

    def _proceed(self, pending: Pending, answer: bus.Answer | None) -> None:
        """Take a course one step further. The ticket stays the one of the request."""
        course = pending.course
        assert course is not None
        outcome: admission.Admitted | bytes | ErrorCode | login.Known | EvictionReason
        try:
            question = course.send(answer)
        except StopIteration as finished:
            outcome = finished.value
        except WireError as error:
            outcome = error.code
        else:
            pending.awaited = admission.ANSWERED_BY[question.__class__]
            self._effects.append(question)
            return
        if isinstance(outcome, login.Known):
            self._register(pending, outcome.user_id)
            return
        self._pending = None
        if isinstance(outcome, ErrorCode):
            self._deny(pending.header, int(outcome))
        elif isinstance(outcome, EvictionReason):
            self._evict(pending.header, outcome)
        elif isinstance(outcome, bytes):
            self._answer_query(pending.header, outcome)
        else:
            self._submit(pending.header, outcome.body, outcome.minted, outcome.refusal)

    def _submit(self, header: RequestHeader, body: bytes, minted: tokens.Minted | None = None, code: int = 0) -> None:
        assert self._pending is None
        ticket = bus.Ticket(connection=self._connection, number=self._number)
        if header.operation == _DELETE_SEGMENTS:
            header = replace(header, operation=_TRUNCATE_PARTITION)
        self._pending = Pending(ticket, header, _COMMIT, minted)
        self._effects.append(Preflight(request=ClientRequest(ticket=ticket, header=header, body=body, refusal=code)))

    def _begin_login(self, header: RequestHeader, body: bytes) -> None:
        session = self._session
        if session is not None:
            if header.client != session.client:
                self._evict(header, EvictionReason.NO_SESSION)
            else:
                self._answer_login(header, session)
            return
        if header.client >= PLUGIN_CLIENT_MIN:
            # Ids of the node's own operations. It fails at once: no later attempt under this id can do better.
            self._evict(header, EvictionReason.MALFORMED_LOGIN)
            return
        if not body_matches(header.request_checksum, body):
            self._deny(header, _INVALID_FORMAT)
            return
        attempt = login.read(body, self._settings.window)
        if not isinstance(attempt, login.Attempt):
            window = self._settings.window if attempt is EvictionReason.INCOMPATIBLE_PROTOCOL else None
            self._evict(header, attempt, window)
            return
        pending = self._open(header, Stage.COURSE)
        pending.course = login.course(attempt, pending.ticket, self._settings)
        self._proceed(pending, None)

    def _begin_logout(self, header: RequestHeader, body: bytes) -> None:
        session = self._session
        if session is None:
            self._write(query_reply(header, b"", session=0, commit=0))
        elif header.client != session.client:
            self._evict(header, EvictionReason.NO_SESSION)
        elif body:
            self._deny(header, _INVALID_COMMAND)
        elif not body_matches(header.request_checksum, body):
            self._deny(header, _INVALID_FORMAT)
        else:
            ticket = self._open(header, Stage.LOGOUT).ticket
            self._effects.append(Preflight(request=ClientRequest(ticket=ticket, header=header, body=body)))

    def _begin_query(self, header: RequestHeader, body: bytes) -> None:
        code = header.code
        session = self._session
        if code == queries.PING:
            self._answer_query(header, b"")
        elif code in queries.OLD_LOGINS:
            self._evict(header, EvictionReason.MALFORMED_LOGIN)
        elif session is None and code == queries.LEVRIER_STATUS and self._settings.waiting():
            self._effects.append(StatusQuery(ticket=self._open(header, Stage.STATUS).ticket))
        elif session is None:
            self._deny(header, _UNAUTHENTICATED)
        elif header.client != session.client:
            self._evict(header, EvictionReason.NO_SESSION)
        elif not body_matches(header.request_checksum, body):
            self._deny(header, _INVALID_FORMAT)
        elif code in queries.FROM_METADATA:
            ticket = self._open(header, Stage.QUERY).ticket
            self._effects.append(
                Query(ticket=ticket, user_id=session.user_id, client=session.client, code=code, body=body)
            )
        elif code in system.SURVEYED:
            self._begin_system(header, body, session)
        elif code == queries.LEVRIER_STATUS:
            self._effects.append(StatusQuery(ticket=self._open(header, Stage.STATUS).ticket))
        else:
            self._answer_local(header, body)

    def _begin_system(self, header: RequestHeader, body: bytes, session: Session) -> None:
        caller = system.Caller(self._connection, session.user_id, self._registry, self._settings)
        pending = self._open(header, Stage.COURSE)
        pending.course = system.SURVEYED[header.code](body, pending.ticket, caller)
        self._proceed(pending, None)

    def _answer_local(self, header: RequestHeader, body: bytes) -> None:
        answer = queries.LOCAL.get(header.code)
        if answer is None:
            self._deny(header, queries.refusal(header.code))
            return
        view = queries.LocalView(cluster=self._settings.cluster)
        try:
            answered = answer(view, body)
        except WireError as error:
            self._deny(header, int(error.code))
            return
        if isinstance(answered, ErrorCode):
            self._deny(header, int(answered))
        else:
            self._answer_query(header, answered)

    def _refuse_header(self, header: RequestHeader) -> None:
        """A well-framed request that breaks a rule of wire 4.1 (D-30)."""
        if header.operation == _LOGOUT and self._session is None:
            self._write(query_reply(header, b"", session=0, commit=0))
        elif header.operation in _OF_A_SESSION and header.client and self._session is None:
            self._evict(header, EvictionReason.NO_SESSION)
        else:
            self._deny(header, _INVALID_COMMAND)

    # One request goes on.

    def _on_reply(self, pending: Pending, answer: bus.Reply) -> None:
        if pending.stage not in _IN_LOG:
            return
        frame = answer.frame
        self._commit.raise_to(int.from_bytes(frame[_COMMIT_OFFSET : _COMMIT_OFFSET + 8], "little"))
        self._pending = None
        if pending.stage is _COMMIT:
            if pending.minted is None:
                self._write(frame)
            else:
                self._show_token(pending, pending.minted, answer)
        elif pending.stage is Stage.REGISTER:
            self._on_registered(pending, frame)
        else:
            assert pending.stage is Stage.LOGOUT
            self._on_logged_out(pending, frame)

    def _show_token(self, pending: Pending, minted: tokens.Minted, answer: bus.Reply) -> None:
        """Splice the secret into the reply of the very body that holds its hash, and into no other (rule 7)."""
        if result_code(answer.frame[HEADER_SIZE:]):
            self._write(answer.frame)
        elif answer.body_checksum != minted.body_checksum:
            # An earlier submission of the request committed, with a secret that nobody knows any more.
            self._deny(pending.header, _TOKEN_EXISTS)
        else:
            self._write(tokens.spliced(answer.frame, minted.secret))

    def _on_registered(self, pending: Pending, frame: bytes) -> None:
        header = ReplyHeader.decode(frame)
        code = header.status or (result_code(frame[HEADER_SIZE:]) if len(frame) > HEADER_SIZE else 0)
        if code:
            self._write(rejection(pending.header, code=code, commit=self._commit.op))
            return
        assert pending.user_id is not None
        session = Session(client=pending.header.client, epoch=header.commit, user_id=pending.user_id)
        assert session.epoch > 0
        self._bind(session)
        self._answer_login(pending.header, session)

    def _on_logged_out(self, pending: Pending, frame: bytes) -> None:
        header = ReplyHeader.decode(frame)
        if header.status:
            self._deny(pending.header, header.status)
            return
        self._bind(None)
        self._write(query_reply(pending.header, b"", session=pending.header.session, commit=header.commit))

    def _on_deny(self, pending: Pending, answer: bus.Deny) -> None:
        if pending.stage not in _IN_LOG:
            return
        self._commit.raise_to(answer.commit)
        self._pending = None
        self._deny(pending.header, answer.code)

    def _on_evict(self, pending: Pending, answer: bus.Evict) -> None:
        if pending.stage not in _IN_LOG:
            return
        self._pending = None
        session = self._session
        if session is not None and pending.header.session == session.epoch:
            self._bind(None)
        self._evict(pending.header, answer.reason)

    def _on_query_answer(self, pending: Pending, answer: bus.QueryAnswer) -> None:
        if pending.stage is not Stage.QUERY:
            return
        self._commit.raise_to(answer.commit)
        self._pending = None
        if answer.status:
            self._deny(pending.header, answer.status)
        else:
            self._answer_query(pending.header, answer.body)

    def _on_course_answer(self, pending: Pending, answer: bus.Answer) -> None:
        if pending.stage is Stage.COURSE and answer.__class__ is pending.awaited:
            self._proceed(pending, answer)

    def _register(self, pending: Pending, user_id: int) -> None:
        pending.stage = Stage.REGISTER
        pending.user_id = user_id
        request = ClientRequest(
            ticket=pending.ticket, header=login.register_header(pending.header), body=b"", user_id=user_id
        )
        self._effects.append(Preflight(request=request))

    def _on_surveyed(self, pending: Pending, answer: bus.Surveyed) -> None:
        self._commit.raise_to(answer.commit)
        self._on_course_answer(pending, answer)

    def _on_node_status(self, pending: Pending, answer: bus.NodeStatus) -> None:
        self._commit.raise_to(answer.commit)
        if pending.stage is Stage.STATUS:
            self._pending = None
            tell = system.status if self._session is not None else system.public_status
            self._answer_query(pending.header, tell(answer, self._registry, self._settings))
        else:
            self._on_course_answer(pending, answer)

    # Answers.

    def _open(self, header: RequestHeader, stage: Stage) -> Pending:
        assert self._pending is None
        ticket = bus.Ticket(connection=self._connection, number=self._number)
        pending = self._pending = Pending(ticket, header, stage, None)
        return pending

    def _write(self, frame: bytes) -> None:
        self._unflushed += len(frame)
        self._effects.append(WriteFrame(frame=frame))

    def _answer_query(self, header: RequestHeader, body: bytes) -> None:
        session = self._session
        if session is None:
            self._write(query_reply(header, body, session=0, commit=0))
        else:
            self._write(query_reply(header, body, session=session.epoch, commit=self._commit.op))

    def _answer_login(self, header: RequestHeader, session: Session) -> None:
        body = login.response_body(
            user_id=session.user_id,
            session=session.epoch,
            window=self._settings.window,
            server_version=self._settings.server_version,
        )
        commit = max(session.epoch, self._commit.op)
        self._write(query_reply(header, body, session=session.epoch, commit=commit))

    def _deny(self, header: RequestHeader, code: int) -> None:
        assert code > 0
        if code in _IN_RESULT_SECTION and header.operation in RESULT_FRAMED:
            self._write(rejection(header, code=code, commit=self._commit.op))
        else:
            commit = 0 if self._session is None else self._commit.op
            self._write(denial(header, status=code, commit=commit))

    def _evict(self, header: RequestHeader, reason: EvictionReason, window: ProtocolWindow | None = None) -> None:
        assert (window is not None) == (reason is EvictionReason.INCOMPATIBLE_PROTOCOL)
        self._write(eviction(header.client, int(reason), window))

    def _bind(self, session: Session | None) -> None:
        self._session = session
        if session is None:
            self._registry.bound(self._connection, None, None)
        else:
            self._registry.bound(self._connection, session.user_id, session.client)

    def _end(self, reason: str) -> None:
        self._ended = True
        self._waiting.clear()
        self._waiting_size = 0
        self._effects.append(CloseConnection(connection=self._connection, reason=reason, abort=False))

    def _go_on(self) -> None:
        """Start waiting requests until one of them has to wait for an answer."""
        while self._waiting and self._pending is None and self._unflushed <= UNFLUSHED_MAX:
            frame = self._waiting.popleft()
            self._waiting_size -= len(frame)
            self._begin(frame)
        assert self._waiting_size >= 0

    def _take_effects(self) -> list[GatewayEffect]:
        effects, self._effects = self._effects, []
        return effects


_ANSWERS: Final[dict[type, Callable[[Gateway, Pending, Any], None]]] = {
    bus.Reply: Gateway._on_reply,
    bus.Deny: Gateway._on_deny,
    bus.Evict: Gateway._on_evict,
    bus.QueryAnswer: Gateway._on_query_answer,
    bus.Credentials: Gateway._on_course_answer,
    bus.PasswordVerified: Gateway._on_course_answer,
    bus.PasswordHashed: Gateway._on_course_answer,
    bus.SegmentSize: Gateway._on_course_answer,
    bus.TokenCount: Gateway._on_course_answer,
    bus.TokenOwner: Gateway._on_course_answer,
    bus.Surveyed: Gateway._on_surveyed,
    bus.ArchiveBuilt: Gateway._on_course_answer,
    bus.NodeStatus: Gateway._on_node_status,
}
