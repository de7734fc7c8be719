"""Who has a session and what was executed in it, from the committed log alone (client-table 2 to 7, D-02, D-29).

The plain words of the client table: one watermark for each session, which a login keeps and which outlives a lost connection,
until the client logs out. Nothing is ever evicted here, so a run has fewer clients than the table has slots.
"""

from dataclasses import dataclass
from typing import Final

from levrier.cluster.simulate.checkers.violation import Rule, Violation, operation_name
from levrier.wire.codes import Operation
from levrier.wire.headers import U64_MAX, PrepareHeader

SERVER_CLIENT_MIN: Final = U64_MAX << 64
DISCONNECTED: Final = U64_MAX

_REGISTER: Final = int(Operation.REGISTER)
_LOGOUT: Final = int(Operation.LOGOUT)


@dataclass(slots=True)
class Session:
    """`epoch` is the op of the latest login; `executed` has the op of each request since the last logout."""

    user: int
    epoch: int
    watermark: int
    executed: dict[int, int]


class Sessions:
    """The sessions as they are after the last op of the log."""

    def __init__(self) -> None:
        self._live: dict[int, Session] = {}
        self._left: dict[tuple[int, int], Session] = {}

    def executed(self, client: int, request: int) -> int | None:
        """The op that this request of the client became, None while it is not committed or after a logout."""
        session = self._live.get(client) or next((left for key, left in self._left.items() if key[0] == client), None)
        return None if session is None else session.executed.get(request)

    def watermark(self, client: int) -> int:
        """The highest request number that was executed for this client since its last logout."""
        of_client = [left.watermark for key, left in self._left.items() if key[0] == client]
        live = self._live.get(client)
        return max([*of_client, 0 if live is None else live.watermark])

    def commit(self, header: PrepareHeader, dropped_users: tuple[int, ...]) -> None:
        """Record one op. Raises `Violation` for a request that was executed before."""
        if 0 < header.client < SERVER_CLIENT_MIN:
            if header.operation == _REGISTER:
                self._register(header)
            elif header.operation == _LOGOUT:
                self._logout(header)
            else:
                self._execute(header)
        for user in dropped_users:
            self._live = {client: session for client, session in self._live.items() if session.user != user}
            self._left = {key: session for key, session in self._left.items() if key[1] != user}

    def _register(self, header: PrepareHeader) -> None:
        session = self._live.get(header.client)
        if session is None:
            session = self._left.pop((header.client, header.user_id), None)
        if session is None:
            session = Session(header.user_id, header.op, 0, {})
        session.user, session.epoch = header.user_id, header.op
        self._live[header.client] = session

    def _logout(self, header: PrepareHeader) -> None:
        session = self._live.pop(header.client, None)
        if header.request != DISCONNECTED:
            self._left.pop((header.client, header.user_id if session is None else session.user), None)
        elif session is not None and session.watermark:
            self._left[header.client, session.user] = session

    def _execute(self, header: PrepareHeader) -> None:
        session = self._live.get(header.client) or self._left.get((header.client, header.user_id))
        if session is None:
            return
        if header.request <= session.watermark:
            before = session.executed.get(header.request)
            found = "below" if before is None else f"executed as op {before} already, not above"
            raise Violation(
                Rule.EXACTLY_ONCE,
                f"op {header.op} executes request {header.request} of client {header.client:#x} "
                f"({operation_name(header.operation)}), which is {found} its watermark {session.watermark}",
            )
        session.watermark = header.request
        session.executed[header.request] = header.op
