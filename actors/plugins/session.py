"""Submits with a key: each happens once, whoever leads, however often it is submitted and sent.

A plugin that uses keys has one session of the replicated client table, the same on every node, and its keys are that
session's request numbers. So the table does what it does for clients: a key that was committed is never executed again, it
is answered with the first reply, or with "already applied". The node that leads registers the session (the newer epoch
fences what an earlier leader has still under way) and sends one submit after the other, in the order of the keys, each until
it is answered. The others hold what their own plugin submitted until they see that it was committed; when one of them
becomes the leader, it goes on with what is left.

It refuses to know threads, time and connections: the desk says when to try again.
"""

from bisect import insort
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from blake3 import blake3

from levrier.actors.bus.messages import Deny, Evict, Reply, Ticket
from levrier.actors.client_table.messages import (
    DISCONNECT_REQUEST,
    PLUGIN_CLIENT_MIN,
    SERVER_CLIENT_MIN,
    ClientRequest,
)
from levrier.actors.plugins.messages import PLUGIN_CONNECTION, Fate, Outcome
from levrier.wire.checksums import xxh3
from levrier.wire.codes import ErrorCode, EvictionReason, Operation
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.headers import ReplyHeader, RequestHeader
from levrier.wire.replies import result_code

KEY_MAX: Final = DISCONNECT_REQUEST - 1

_REGISTER: Final = int(Operation.REGISTER)
_ALREADY_APPLIED: Final = int(ErrorCode.REQUEST_ALREADY_APPLIED)
_TRANSIENT: Final = frozenset({int(ErrorCode.TRANSIENT_NOT_COMMITTED), int(ErrorCode.TRANSIENT_NOT_ACCEPTED)})
_SESSION_GONE: Final = frozenset({EvictionReason.NO_SESSION, EvictionReason.SESSION_TOO_LOW})


def session_client(plugin: str) -> int:
    """The client id of a plugin's session: the same on every node, and none that the node itself or a client uses."""
    client = PLUGIN_CLIENT_MIN | int.from_bytes(blake3(plugin.encode()).digest()[:8], "little")
    assert client < SERVER_CLIENT_MIN
    return client


@dataclass(slots=True, kw_only=True, order=True)
class Keyed:
    """A submit that waits. `life` and `number` are the plugin's own, to be told what became of it."""

    key: int
    life: int = field(compare=False)
    number: int = field(compare=False)
    operation: int = field(compare=False)
    body: bytes = field(compare=False, repr=False)


class Told(NamedTuple):
    """What a submit came to, for the plugin."""

    life: int
    number: int
    outcome: Outcome


class KeyedSession:
    """The session of one plugin on one node."""

    __slots__ = ("_done", "_epoch", "_is_leader", "_sent", "_ticket", "_waiting", "client")

    def __init__(self, plugin: str) -> None:
        self.client = session_client(plugin)
        self._waiting: list[Keyed] = []
        self._sent: Keyed | None = None
        """The submit that is under way; None while it is the Register, or nothing."""
        self._ticket: int | None = None
        self._epoch = 0
        self._done = 0
        self._is_leader = False

    @property
    def waiting(self) -> int:
        """How many submits wait, the one under way included."""
        return len(self._waiting)

    @property
    def is_under_way(self) -> bool:
        """Whether an answer is awaited."""
        return self._ticket is not None

    def submit(self, keyed: Keyed) -> list[Told]:
        """The plugin submits. Answered at once when its key is known to be done."""
        assert 0 < keyed.key <= KEY_MAX
        if keyed.key <= self._done:
            return [_already(keyed)]
        insort(self._waiting, keyed)
        return []

    def lead(self, is_leader: bool) -> None:
        """This node begins or ceases to lead. What was under way is begun again by whoever leads."""
        self._is_leader = is_leader
        self._epoch = 0
        self.forget()

    def forget(self) -> None:
        """Await the answer that is under way no longer: it will be sent again, under the same key."""
        self._sent = None
        self._ticket = None

    def next(self, ticket: int) -> ClientRequest | None:
        """What is to be sent now under this ticket number, if anything is."""
        if not self._is_leader or not self._waiting or self._ticket is not None:
            return None
        self._ticket = ticket
        if not self._epoch:
            return self._request(ticket, RequestHeader(client=self.client, request=0, operation=_REGISTER), b"")
        sent = self._sent = self._waiting[0]
        stamp = xxh3(sent.operation.to_bytes(1, "little") + sent.body) or 1
        header = RequestHeader(
            client=self.client,
            request=sent.key,
            operation=sent.operation,
            session=self._epoch,
            request_checksum=stamp,
        )
        return self._request(ticket, header, sent.body)

    def committed(self, request: int) -> list[Told]:
        """An operation of this session was applied here, whoever sent it: everything up to its key is done."""
        if request > KEY_MAX:
            return []
        self._done = max(self._done, request)
        done = [keyed for keyed in self._waiting if keyed.key <= self._done and keyed is not self._sent]
        self._waiting = [keyed for keyed in self._waiting if keyed.key > self._done or keyed is self._sent]
        return [_already(keyed) for keyed in done]

    def answered(self, answer: Reply | Deny | Evict) -> list[Told]:
        """The answer to what is under way. One that nobody awaits any more says nothing."""
        if answer.ticket.number != self._ticket:
            return []
        sent = self._sent
        self.forget()
        if sent is None:
            self._epoch = ReplyHeader.decode(answer.frame).commit if isinstance(answer, Reply) else 0
            return []
        outcome = self._outcome(answer)
        return [] if outcome is None else self._settle(sent, outcome)

    def _outcome(self, answer: Reply | Deny | Evict) -> Outcome | None:
        """What an answer says of the submit that it is for; None when it is to be sent again."""
        if isinstance(answer, Reply):
            return committed_outcome(answer)
        if isinstance(answer, Deny):
            if answer.code in _TRANSIENT:
                return None
            return Outcome(fate=Fate.ALREADY if answer.code == _ALREADY_APPLIED else Fate.INVALID)
        if answer.reason in _SESSION_GONE:
            self._epoch = 0
            return None
        return Outcome(fate=Fate.INVALID)

    def _settle(self, sent: Keyed, outcome: Outcome) -> list[Told]:
        self._waiting = [keyed for keyed in self._waiting if keyed is not sent]
        if outcome.fate in (Fate.COMMITTED, Fate.ALREADY):
            self._done = max(self._done, sent.key)
        return [Told(sent.life, sent.number, outcome)]

    def _request(self, ticket: int, header: RequestHeader, body: bytes) -> ClientRequest:
        return ClientRequest(ticket=Ticket(connection=PLUGIN_CONNECTION, number=ticket), header=header, body=body)


def committed_outcome(answer: Reply) -> Outcome:
    """What a committed reply says. One without a body checksum comes from the table: it is the reply of an earlier time."""
    header = ReplyHeader.decode(answer.frame)
    body = answer.frame[HEADER_SIZE:]
    code = result_code(body)
    return Outcome(
        fate=Fate.COMMITTED if answer.body_checksum else Fate.ALREADY,
        op=header.commit,
        code=code,
        reply=b"" if code else body[4:],
    )


def _already(keyed: Keyed) -> Told:
    return Told(keyed.life, keyed.number, Outcome(fate=Fate.ALREADY))
