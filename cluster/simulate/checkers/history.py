"""What the clients asked and were told, against the committed log.

A client asks on one connection at a time; every connection has a session of its own, whose epoch its frames name. Judged at once
is everything but the bodies of reads: those need the model as it was, so `finish` walks it through the log a second time.
"""

from dataclasses import dataclass
from typing import Final

from blake3 import blake3

from levrier.cluster.simulate.checkers.commits import CommitObserver, Committed, shown
from levrier.cluster.simulate.checkers.reading import ReadCheck
from levrier.cluster.simulate.checkers.violation import Rule, Violation, operation_name
from levrier.wire.codes import RESULT_FRAMED, Command, ErrorCode, Operation
from levrier.wire.errors import WireError
from levrier.wire.framing import COMMAND_OFFSET, HEADER_SIZE
from levrier.wire.headers import ReplyHeader, RequestHeader
from levrier.wire.replies import result_code
from levrier.wire.requests.replicated import CreatePersonalAccessTokenReplicated
from levrier.wire.responses.login import LoginResponse
from levrier.wire.responses.tokens import CreatedToken

_REGISTER: Final = int(Operation.REGISTER)
_LOGOUT: Final = int(Operation.LOGOUT)
_CREATE_TOKEN: Final = int(Operation.CREATE_PERSONAL_ACCESS_TOKEN)
_EVICTION: Final = int(Command.EVICTION)

_NOT_COMMITTED: Final = int(ErrorCode.TRANSIENT_NOT_COMMITTED)
_NOT_ACCEPTED: Final = int(ErrorCode.TRANSIENT_NOT_ACCEPTED)
_ALREADY_APPLIED: Final = int(ErrorCode.REQUEST_ALREADY_APPLIED)
_TOKEN_EXISTS: Final = int(ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS)

_VERBATIM: Final = frozenset({128, 129, 130, 131, 133, 134, 135, 137, 139, 140, 142, 143, 145})
"""Operations whose body stands in the log as the client sent it."""

_SIZE: Final = slice(48, 52)

_Key = tuple[int, int, int]
"""Client, request number, the request's own checksum."""


@dataclass(slots=True)
class _Asked:
    """A request. `floor` is the highest op that anybody had been told of when it was first asked."""

    body: bytes
    session: int
    floor: int
    first_at_ms: int
    sends: int = 0
    denied: int = 0
    """How many of these sends were told that they started nothing (58): another member may know of an earlier one."""


class History:
    """Told of every frame that a client sends and gets. `finish` is called once, when nothing is under way any more."""

    def __init__(self, observer: CommitObserver) -> None:
        self._observer = observer
        self._reads = ReadCheck(observer)
        self._asked: dict[_Key, _Asked] = {}
        self._answers: dict[int, bytes] = {}
        self._told = 0
        self.acknowledged: set[int] = set()
        """Ops whose success or rejection a client was told."""

    def invoked(self, client: int, request: int, frame: bytes, at_ms: int, replica: int) -> None:  # noqa: ARG002
        """A client sends a request of the log, for the first time or again."""
        header = RequestHeader.decode(frame)
        key = (client, request, header.request_checksum)
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = _Asked(frame[HEADER_SIZE:], header.session, self._told, at_ms)
        asked.session = header.session
        asked.sends += 1

    def answered(self, client: int, request: int, frame: bytes, at_ms: int, replica: int) -> None:
        """A client got an answer to such a request."""
        if frame[COMMAND_OFFSET] == _EVICTION:
            return
        header = ReplyHeader.decode(frame)
        where = f"request {request} of client {client:#x}, answered by replica {replica} at {at_ms} ms"
        asked = self._asked.get((client, request, header.request_checksum))
        if asked is None or header.client != client or header.request != request:
            raise Violation(Rule.ACKNOWLEDGED_IS_COMMITTED, f"{where}: nobody asked for that: {header}")
        code = _code(header, frame, where)
        if header.operation == _REGISTER:
            if code == 0:
                self._logged_in(client, header, frame, asked, where)
        elif code == _NOT_COMMITTED or header.operation == _LOGOUT:
            return
        elif code == _NOT_ACCEPTED:
            asked.denied += 1
            if asked.denied == asked.sends:
                self._check_not_executed(
                    client, header, Rule.NEVER_STARTED, f"{where}: code 58 says that it was never started"
                )
        elif code == _ALREADY_APPLIED:
            self._check_watermark(client, header, where)
        elif header.status:
            self._check_not_executed(
                client, header, Rule.REFUSED_IS_NOT_COMMITTED, f"{where}: refused with code {code} before the log"
            )
        else:
            self._acknowledge(header, code, frame, asked, where)

    def read(  # noqa: PLR0917  # One story in one line.
        self, client: int, command: bytes, answer: bytes, invoked_at: int, at_ms: int, replica: int
    ) -> None:
        """A client asked with the frame `command`, which no log knows, at `invoked_at` ms and got an answer."""
        self._reads.read(
            client, command, answer, f"asked at {invoked_at} ms, answered by replica {replica} at {at_ms} ms"
        )

    def finish(self) -> None:
        """Judge what can only be judged in the end: reads, and what was told to be never started."""
        for (client, request, checksum), asked in self._asked.items():
            if asked.denied != asked.sends:
                continue
            op = self._observer.sessions.executed(client, request)
            entry = None if op is None else self._observer.at(op)
            if entry is not None and entry.header.request_checksum == checksum:
                raise Violation(
                    Rule.NEVER_STARTED,
                    f"request {request} of client {client:#x} was told to be never started (58) each time, "
                    f"but op {op} is exactly that",
                )
        self._reads.finish()

    def _logged_in(self, client: int, header: ReplyHeader, frame: bytes, asked: _Asked, where: str) -> None:
        response = LoginResponse.decode(frame[HEADER_SIZE + 4 :])
        entry = self._observer.at(response.session)
        if entry is None or entry.header.operation != _REGISTER or entry.header.client != client or entry.code:
            raise Violation(
                Rule.ACKNOWLEDGED_IS_COMMITTED,
                f"{where}: session {response.session} is no login of this client in the log",
            )
        if entry.header.user_id != response.user_id or header.op != response.session:
            raise Violation(
                Rule.ACKNOWLEDGED_IS_COMMITTED,
                f"{where}: user {response.user_id} in session {header.op}, the log says user {entry.header.user_id} "
                f"in session {entry.op}",
            )
        self._tell(entry.op, asked, where)

    def _acknowledge(self, header: ReplyHeader, code: int, frame: bytes, asked: _Asked, where: str) -> None:
        """The reply of a committed op, whatever came of it."""
        entry = self._observer.at(header.op)
        is_this = entry is not None and (entry.header.client, entry.header.request) == (header.client, header.request)
        is_rejection = is_this and entry is not None and entry.code == _TOKEN_EXISTS
        if code == _TOKEN_EXISTS and not is_rejection:
            if self._observer.sessions.executed(header.client, header.request) is None:
                raise Violation(
                    Rule.ACKNOWLEDGED_IS_COMMITTED, f"{where}: code 51 for a token whose creation is not in the log"
                )
            return
        if entry is None or not is_this:
            found = (
                "nobody has applied"
                if entry is None
                else f"is request {entry.header.request} of {entry.header.client:#x}"
            )
            raise Violation(Rule.ACKNOWLEDGED_IS_COMMITTED, f"{where} as op {header.op}, which {found}")
        if header.operation in _VERBATIM and entry.body != asked.body:
            raise Violation(
                Rule.ACKNOWLEDGED_IS_COMMITTED,
                f"{where}: asked for {asked.body.hex()}, op {entry.op} is {entry.body.hex()}",
            )
        if frame != entry.reply and not _is_shown_token(entry, frame):
            raise Violation(
                Rule.ACKNOWLEDGED_IS_COMMITTED,
                f"{where}: expected the reply of op {entry.op}, {shown(entry.reply)}, got {shown(frame)}",
            )
        first = self._answers.setdefault(entry.op, frame)
        if first != frame:
            raise Violation(Rule.REPLAY_IS_EQUAL, f"{where}: first {shown(first)}, now {shown(frame)}")
        self._tell(entry.op, asked, where)
        self._reads.answered(header.client, asked.session, entry.op)

    def _tell(self, op: int, asked: _Asked, where: str) -> None:
        if op <= asked.floor and op not in self.acknowledged:
            raise Violation(
                Rule.REAL_TIME,
                f"{where}: op {op}, but op {asked.floor} had been answered before this was asked at {asked.first_at_ms} ms",
            )
        self.acknowledged.add(op)
        self._told = max(self._told, op)

    def _check_not_executed(self, client: int, header: ReplyHeader, rule: Rule, where: str) -> None:
        op = self._observer.sessions.executed(client, header.request)
        entry = None if op is None else self._observer.at(op)
        if entry is not None and entry.header.request_checksum == header.request_checksum:
            raise Violation(rule, f"{where}, but op {op} is exactly that ({operation_name(entry.header.operation)})")

    def _check_watermark(self, client: int, header: ReplyHeader, where: str) -> None:
        watermark = self._observer.sessions.watermark(client)
        if watermark < header.request:
            raise Violation(
                Rule.ACKNOWLEDGED_IS_COMMITTED,
                f"{where}: code 59 says that it was applied, but request {watermark} is the highest one that was",
            )


def _code(header: ReplyHeader, frame: bytes, where: str) -> int:
    """0 for success, else the code in whichever channel it stands."""
    if header.status or header.operation not in RESULT_FRAMED:
        return header.status
    try:
        return result_code(frame[HEADER_SIZE:])
    except WireError as error:
        raise Violation(Rule.ACKNOWLEDGED_IS_COMMITTED, f"{where}: {error}") from error


def _is_shown_token(entry: Committed, frame: bytes) -> bool:
    """Whether this is the one reply that shows a new secret: that of the hash in the log (design section 3, rule 7)."""
    if entry.header.operation != _CREATE_TOKEN or entry.code or len(frame) < HEADER_SIZE + 4:
        return False
    secret = CreatedToken.decode(frame[HEADER_SIZE + 4 :]).token
    wanted = CreatePersonalAccessTokenReplicated.decode(entry.body).token_hash
    without = frame[: _SIZE.start] + entry.reply[_SIZE] + frame[_SIZE.stop : HEADER_SIZE + 4]
    return without == entry.reply and blake3(secret.encode()).hexdigest() == wanted
