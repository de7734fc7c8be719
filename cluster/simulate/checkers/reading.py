"""Reads: monotonic on a connection, after its own writes, and answered from a state that the log went through (D-19).

A read's reply names a commit point; the answer must be the model's at some op from the connection's own past up to there. The
bus may have heard of a later op than the one that answered, so the op is not read off the reply but looked for: the earliest
that fits, from which the connection's next read goes on.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from levrier.cluster.simulate.checkers.commits import CommitObserver
from levrier.cluster.simulate.checkers.model.machine import Model
from levrier.cluster.simulate.checkers.model.reads import READ_CODES, Answer, Read, is_answer, read_of
from levrier.cluster.simulate.checkers.model.steps import step_of
from levrier.cluster.simulate.checkers.violation import Rule, Violation
from levrier.wire.codes import Command, ErrorCode
from levrier.wire.errors import WireError
from levrier.wire.framing import COMMAND_OFFSET, HEADER_SIZE
from levrier.wire.headers import ReplyHeader, RequestHeader

_EVICTION: Final = int(Command.EVICTION)
_NO_ANSWER: Final = frozenset(
    {
        int(ErrorCode.TRANSIENT_NOT_COMMITTED),
        int(ErrorCode.TRANSIENT_NOT_ACCEPTED),
        int(ErrorCode.UNAUTHENTICATED),
        int(ErrorCode.INVALID_FORMAT),
    }
)
"""Refusals that say nothing about the state."""

_Connection = tuple[int, int]
"""Client and session epoch."""


@dataclass(slots=True)
class _Asked:
    """One read, its answer, and from where to where its state may lie."""

    read: Read
    user: int
    answer: Answer
    low: int
    high: int
    where: str


class ReadCheck:
    """Keeps the reads of every connection and judges them in `finish`."""

    def __init__(self, observer: CommitObserver) -> None:
        self._observer = observer
        self._seen: dict[_Connection, int] = {}
        self._queues: dict[_Connection, deque[_Asked]] = {}

    def answered(self, client: int, session: int, op: int) -> None:
        """A write of this connection was answered: its reads come after it."""
        connection = (client, session)
        self._seen[connection] = max(self._seen.get(connection, 0), op)

    def read(self, client: int, command: bytes, reply: bytes, where: str) -> None:
        """A read was answered."""
        asked = RequestHeader.decode(command)
        if asked.code not in READ_CODES or reply[COMMAND_OFFSET] == _EVICTION:
            return
        header = ReplyHeader.decode(reply)
        session = self._observer.at(asked.session)
        if header.status in _NO_ANSWER or session is None:
            return
        connection = (client, asked.session)
        where = f"read {asked.code} of client {client:#x}, session {asked.session}, {where}"
        low = self._seen.get(connection, 0)
        if header.commit < low:
            raise Violation(
                Rule.READ_OF_MODEL, f"{where}: it names commit point {header.commit}, the connection has seen op {low}"
            )
        try:
            read = read_of(asked.code, command[HEADER_SIZE:])
        except WireError:
            return
        told = (header.status, reply[HEADER_SIZE:])
        # A state machine answers from an op before anybody has been seen to have recorded it.
        entry = _Asked(read, session.header.user_id, told, low, header.commit, where)
        self._queues.setdefault(connection, deque()).append(entry)

    def finish(self) -> None:
        """Walk the model through the log and find the state of every read. Raises `Violation` for the first without one."""
        waiting: dict[int, list[_Connection]] = {}
        for connection, queue in self._queues.items():
            for asked in queue:
                asked.high = min(asked.high, self._observer.highest)
            waiting.setdefault(queue[0].low, []).append(connection)
        model = Model()
        active = self._advance(model, 0, waiting.pop(0, []), waiting)
        for entry in self._observer.log:
            model.apply(step_of(entry.header, entry.body))
            active = self._advance(model, entry.op, active + waiting.pop(entry.op, []), waiting)
        self._queues.clear()

    def _advance(
        self, model: Model, op: int, active: list[_Connection], waiting: dict[int, list[_Connection]]
    ) -> list[_Connection]:
        """Answer at this op whatever can be; the connections whose next read still looks for its state."""
        left = []
        for connection in active:
            queue = self._queues[connection]
            while queue and queue[0].low <= op <= queue[0].high and _fits(model, connection[0], queue[0]):
                queue.popleft()
            if not queue:
                continue
            head = queue[0]
            if head.low > op:
                waiting.setdefault(head.low, []).append(connection)
            elif head.high <= op:
                raise Violation(
                    Rule.READ_OF_MODEL,
                    f"{head.where}: no state from op {head.low} on (or from where its connection's last read was) up to "
                    f"op {head.high} answers {head.read.target} with status {head.answer[0]}, {head.answer[1].hex()}",
                )
            else:
                left.append(connection)
        return left


def _fits(model: Model, client: int, asked: _Asked) -> bool:
    return is_answer(model, asked.user, client, asked.read, asked.answer)
