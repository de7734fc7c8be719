"""Sessions whose connection is gone are logged out, so that no slot of the client table leaks (maintenance 5, BR-25).

The Bus submits a Logout with the reserved request number for each lost session, a few at a time, behind a ticket of its own
(connection 0, which no client has). A reply means it is done; an eviction means the session is gone or was taken over by a
newer login, which the epoch in the request guards; a denial, or no answer for long, means try again later.

A login that was under way when its connection closed may still commit: its reply is awaited here and then undone.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from levrier.actors.bus.messages import Deny, Evict, Reply, Ticket
from levrier.actors.client_table.messages import DISCONNECT_REQUEST, ClientRequest, Preflight
from levrier.wire.codes import Operation
from levrier.wire.headers import ReplyHeader, RequestHeader
from levrier.wire.replies import result_code

NODE_CONNECTION: Final = 0
"""The connection that tickets of the Bus itself name."""

IN_FLIGHT_MAX: Final = 16
SESSIONS_MAX: Final = 65_536
"""The ceiling of the client table: more lost sessions than that cannot be alive."""

DELAY_TICKS_MAX: Final = 30
ANSWER_TICKS_MAX: Final = 60


@dataclass(slots=True, kw_only=True)
class _Lost:
    client: int
    epoch: int
    delay_ticks: int = 1
    due_tick: int = 0


class Logouts:
    """Which lost sessions still have to be logged out."""

    def __init__(self) -> None:
        self._tick = 0
        self._number = 0
        self._waiting: deque[_Lost] = deque()
        self._in_flight: dict[int, _Lost] = {}
        self._logins: dict[Ticket, int] = {}

    @property
    def pending(self) -> int:
        """How many sessions and logins are not settled."""
        return len(self._waiting) + len(self._in_flight) + len(self._logins)

    def lost(self, *, client: int, epoch: int) -> list[Preflight]:
        """The connection of this session is gone."""
        assert epoch > 0
        if len(self._waiting) >= SESSIONS_MAX:
            self._waiting.popleft()
        self._waiting.append(_Lost(client=client, epoch=epoch, due_tick=self._tick))
        return self._submit()

    def login_lost(self, *, ticket: Ticket, client: int) -> None:
        """The connection is gone, and the answer to its Register is still to come under this ticket."""
        if len(self._logins) >= SESSIONS_MAX:
            del self._logins[next(iter(self._logins))]
        self._logins[ticket] = client

    def login_answered(self, answer: Reply | Deny | Evict) -> list[Preflight]:
        """An answer for a closed connection: if it is the awaited reply of a Register, undo the login."""
        client = self._logins.pop(answer.ticket, None)
        if client is None or not isinstance(answer, Reply):
            return []
        header = ReplyHeader.decode(answer.frame)
        if header.status or (len(answer.frame) > 256 and result_code(answer.frame[256:])):
            return []
        return self.lost(client=client, epoch=header.commit)

    def answered(self, answer: Reply | Deny | Evict) -> list[Preflight]:
        """The answer to one of our own Logouts."""
        assert answer.ticket.connection == NODE_CONNECTION
        lost = self._in_flight.pop(answer.ticket.number, None)
        if lost is not None and isinstance(answer, Deny):
            self._retry(lost)
        return self._submit()

    def tick(self) -> list[Preflight]:
        """A second has passed."""
        self._tick += 1
        silent = [number for number, lost in self._in_flight.items() if self._tick - lost.due_tick > ANSWER_TICKS_MAX]
        for number in silent:
            self._retry(self._in_flight.pop(number))
        return self._submit()

    def _retry(self, lost: _Lost) -> None:
        lost.due_tick = self._tick + lost.delay_ticks
        lost.delay_ticks = min(DELAY_TICKS_MAX, 2 * lost.delay_ticks)
        self._waiting.append(lost)

    def _submit(self) -> list[Preflight]:
        """Send what is due, as far as the share of the Bus allows."""
        submitted: list[Preflight] = []
        for _ in range(len(self._waiting)):
            if len(self._in_flight) >= IN_FLIGHT_MAX:
                break
            lost = self._waiting.popleft()
            if lost.due_tick > self._tick:
                self._waiting.append(lost)
                continue
            self._number += 1
            lost.due_tick = self._tick
            self._in_flight[self._number] = lost
            submitted.append(_logout(self._number, lost))
        assert len(self._in_flight) <= IN_FLIGHT_MAX
        return submitted


def _logout(number: int, lost: _Lost) -> Preflight:
    header = RequestHeader(
        client=lost.client, request=DISCONNECT_REQUEST, operation=int(Operation.LOGOUT), session=lost.epoch
    )
    ticket = Ticket(connection=NODE_CONNECTION, number=number)
    return Preflight(request=ClientRequest(ticket=ticket, header=header, body=b""))
