"""One client of a simulated cluster: it does one thing at a time, as an SDK does, and never gives a request up.

It logs in, asks who leads and goes there, asks for writes and reads, repeats a request that was answered transiently or
not at all under the same number, here or on another member, and now and then a request that was answered already. A
request that was only ever answered with 58 was never started, so it may take a new number (wire 10.3).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Final, Protocol

from levrier.actors.runtime import Address
from levrier.cluster.simulate.checkers import Rule, Violation
from levrier.cluster.simulate.client_links import ClientConnection, ClientLinks
from levrier.cluster.simulate.cluster import SimulatedCluster
from levrier.cluster.simulate.frames import EVICTED, NOT_ACCEPTED, NOT_COMMITTED, code, login_frame, request
from levrier.cluster.simulate.workload import Wish, Wishes, Workload
from levrier.wire.codes import CommandCode, ErrorCode, EvictionReason, NodeRole, Operation
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.responses.login import LoginResponse
from levrier.wire.responses.system import ClusterMetadata

CLIENTS_NODE: Final = "clients"
HURRIED_MS: Final = 10
_SWEPT: Final = EVICTED - int(EvictionReason.STALE_CLIENT)
_TRANSIENT: Final = frozenset({NOT_COMMITTED, NOT_ACCEPTED})
_LOST: Final = frozenset({int(ErrorCode.REQUEST_ALREADY_APPLIED), int(ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS)})
"""What a repeated request may be told in the place of its answer when that is not kept."""

_NOT_LOGGED: Final = frozenset({int(ErrorCode.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED)})
"""Answers of the node that is asked, which never come to the log: asked again later, it may have another one."""

_PATIENCE: Final = 12
"""Transient answers on one connection after which the client asks who leads, or goes elsewhere."""
_PATIENCE_MS: Final = 10_000
"""Or after so long: a login that was forwarded in vain is answered after seconds."""

_RENUMBER_ODDS: Final = 0.3

_HURRY_MS: Final = 1_000
_BURST: Final = 30
"""Things that are done one after the other, without a pause."""

_IDENTITIES_MAX: Final = 8
"""Client ids of one client: all clients together have fewer than a client table has slots, so that nobody is evicted."""


class History(Protocol):
    """Who is told what the clients see. Times are virtual milliseconds."""

    def invoked(self, client: int, request: int, frame: bytes, at_ms: int, replica: int) -> None:
        """A request of the log is sent, perhaps again."""
        ...

    def answered(self, client: int, request: int, frame: bytes, at_ms: int, replica: int) -> None:
        """An answer to it came, final or not."""
        ...

    def read(  # noqa: PLR0917  # One story in one line.
        self, client: int, command: bytes, answer: bytes, invoked_at: int, at_ms: int, replica: int
    ) -> None:
        """An answer came to the frame `command`, which is for no log."""
        ...


class Doing(Enum):
    """What a client waits for."""

    NOTHING = "nothing"
    LOGIN = "login"
    LOOK = "look"
    WRITE = "write"
    REPLAY = "replay"
    READ = "read"
    LOGOUT = "logout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What a client is like; drawn once. Times are virtual milliseconds."""

    timeout_ms: int
    think_ms: int
    follows_leader: float
    reads: float
    replays: float
    leaves: float
    renews: float
    silences: float
    """How often it says nothing for long while it is a member of a group."""
    bursts: float
    """How often it does many things at once."""


@dataclass(frozen=True, slots=True)
class _Done:
    """The last write that was answered."""

    number: int
    wish: Wish
    answer: bytes


@dataclass(frozen=True, slots=True)
class _Woken:
    """A timer of this client; only the latest one counts."""

    alarm: int


@dataclass(frozen=True, slots=True)
class _Arrived:
    """Something happened on this connection."""

    connection: ClientConnection


def draw_habits(random: Random, pace_ms: int) -> Habits:
    """Some clients hurry, some wander, some log out all the time. `pace_ms` is that of the whole seed.

    Where everybody is slow, some do many things at once now and then.
    """
    return Habits(
        timeout_ms=random.choice((400, 1_500, 4_000)),
        think_ms=int(pace_ms * random.choice((0.5, 1, 2))),
        follows_leader=random.choice((0.5, 0.9, 1.0)),
        reads=random.choice((0.0, 0.2, 0.5)),
        replays=random.choice((0.0, 0.05, 0.3)),
        leaves=random.choice((0.0, 0.01, 0.05)),
        renews=random.choice((0.0, 0.0, 0.03)),
        silences=random.choice((0.0, 0.02, 0.1)),
        bursts=random.choice((0.0, 0.01, 0.03)) if pace_ms > _HURRY_MS else 0.0,
    )


class ScriptedClient:
    """See the module. `tell` gets a line for the trace. Some are silent for up to `silence_ms`, 0: nobody is.

    One with `patience_ms` waits so long for any answer, so that it is seen that there is one.
    """

    def __init__(
        self,
        *,
        number: int,
        cluster: SimulatedCluster,
        links: ClientLinks,
        random: Random,
        workload: Workload,
        history: History,
        pace_ms: int,
        silence_ms: int,
        patience_ms: int,
        tell: Callable[[str, str], None],
    ) -> None:
        self.name = f"client-{number}"
        self.wishes = Wishes(random, workload, str(number))
        habits = draw_habits(random, pace_ms)
        self.habits = replace(habits, timeout_ms=patience_ms) if patience_ms else habits
        self._timeout_ms = habits.timeout_ms
        self.doing = Doing.NOTHING
        self.wish: Wish | None = None
        """The write that is under way until its answer is here."""
        self.answers = 0
        self.sweeps = 0
        """How often it was logged out because it was silent."""
        self.at = 0
        self._cluster = cluster
        self._links = links
        self._random = random
        self._workload = workload
        self._history = history
        self._tell = tell
        self._number = number
        self._identities = 0
        self._client = self._new_identity()
        self._request = 0
        self._uncertain = False
        self._session = 0
        self._refusals = 0
        self._refused_since_ms = 0
        self._refusals_open = False
        self._looked = False
        """Whether it asked who leads because this member would not answer, and it has not answered since."""
        self._connection: ClientConnection | None = None
        self._sent = b""
        self._sent_number: int | None = None
        """The number of what was sent last, None for a read."""
        self._sent_at_ms = 0
        self._last: _Done | None = None
        self._alarm = 0
        self._finished = False
        self._silence_ms = silence_ms
        self._burst = 0
        self._may_be_member = False
        """Whether it asked to join a group since it logged in under this identity."""
        node = cluster.world.node(CLIENTS_NODE)
        self._node = node
        self._address: Address[_Woken | _Arrived] = node.listener(self.name, self._receive)

    @property
    def done(self) -> bool:
        """Whether it has nothing left to do."""
        return self._finished and self.wish is None

    def hurry(self) -> None:
        """Think no longer than it takes, and fall silent no more: the faults are over."""
        self.habits = replace(self.habits, think_ms=min(self.habits.think_ms, HURRIED_MS))
        self._silence_ms = 0

    def lose_patience(self) -> None:
        """Wait for no answer longer than others do: who must get everything done cannot stay with a member that is away."""
        self.habits = replace(self.habits, timeout_ms=self._timeout_ms)

    def begin(self) -> None:
        """Log in somewhere, soon; or go on, when more was found to do."""
        self._finished = False
        if self.doing is Doing.NOTHING:
            self._wake_after(self._random.randint(0, 50))

    @property
    def silent_client(self) -> int | None:
        """Its client id while it is logged in and waits for nothing; None otherwise."""
        return self._client if self._session and self.doing is Doing.NOTHING else None

    @property
    def is_resting(self) -> bool:
        """Whether nothing that it asked for is under way."""
        return self.doing is Doing.NOTHING

    @property
    def is_logged_in(self) -> bool:
        """Whether it has a session."""
        return self._session != 0

    def joins(self) -> int:
        """Somebody has it join a group: its client id."""
        self._may_be_member = True
        return self._client

    # Events

    def _receive(self, event: _Woken | _Arrived) -> None:
        if isinstance(event, _Woken):
            if event.alarm == self._alarm:
                self._on_alarm()
            return
        connection = event.connection
        if connection is not self._connection:
            return
        for frame in connection.take_all():
            if connection is self._connection and code(frame) == _SWEPT:
                self._on_swept()
                return
            if self.doing is Doing.NOTHING or connection is not self._connection:
                raise Violation("one answer", f"{self.name} was sent a frame that it did not ask for")
            self._on_frame(frame)
        if connection.closed_by_node and connection is self._connection:
            self._on_closed()

    def _on_alarm(self) -> None:
        """A pause is over, or an answer took too long."""
        connection = self._connection
        if self.doing is Doing.NOTHING:
            if connection is None or self._session == 0:
                self._go(self._random.randrange(self._cluster.count))
            else:
                self._next()
        elif self._sent and connection is not None and not connection.closed_by_node and self._refusals_open:
            self._refusals_open = False
            self._send(self._sent, self._sent_number)
        else:
            self._give_up("no answer")

    def _on_swept(self) -> None:
        """Its session was ended because it was silent, as far as that member knows.

        It may still be a member: a logout that finds no primary, or a full pipeline, is not tried again (maintenance 5).
        """
        if not self._may_be_member:
            raise Violation(
                Rule.SWEPT_IS_STALE, f"{self.name} is logged out by node-{self.at}, and never joined a group"
            )
        self.sweeps += 1
        if self.doing is not Doing.NOTHING:
            self._give_up("logged out as stale")
            return
        self._tell(self.name, f"was silent, and is logged out by node-{self.at}")
        self._hang_up()
        self._wake_after(self._random.choice((1, 20, 100, 300)))

    def _on_closed(self) -> None:
        self._give_up("connection closed")

    def _give_up(self, why: str) -> None:
        """Go elsewhere; what was asked stays to be asked there."""
        if self.doing is Doing.WRITE:
            self._uncertain = True
        if self.doing is not Doing.NOTHING:
            self._tell(self.name, f"{why} from node-{self.at}")
        if self.doing is Doing.LOGOUT:
            self._end_session()
        self._hang_up()
        self._wake_after(self._random.choice((1, 20, 100, 300)))

    def _hang_up(self) -> None:
        self.doing = Doing.NOTHING
        self._session = 0
        self._refusals = 0
        self._refused_since_ms = 0
        self._refusals_open = False
        self._looked = False
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    # Connecting

    def _go(self, replica: int) -> None:
        """Connect and log in there."""
        self._hang_up()
        self.at = replica
        if replica not in self._cluster.transports:
            self._wake_after(self._random.choice((20, 100)))
            return
        if self.wish is None and self._identities < _IDENTITIES_MAX and self._random.random() < self.habits.renews:
            self._client = self._new_identity()
            self._last = None
            self._may_be_member = False
        connection: ClientConnection
        connection = self._links.connect(self.name, replica, on_event=lambda: self._address.tell(_Arrived(connection)))
        self._connection = connection
        self.doing = Doing.LOGIN
        self._send(login_frame(self._client), 0)

    def _on_login(self, frame: bytes) -> None:
        answer = code(frame)
        if answer in _TRANSIENT:
            self._again()
        elif answer == 0:
            self._session = LoginResponse.decode(frame[HEADER_SIZE + 4 :]).session
            self._refusals = 0
            if self._random.random() < self.habits.follows_leader:
                self._look()
            else:
                self._next()
        elif answer < EVICTED:
            self._give_up(f"eviction {EVICTED - answer}")
        else:
            raise Violation("login", f"{self.name} with the right password is refused with {answer}")

    def _look(self) -> None:
        self.doing = Doing.LOOK
        self._ask(int(CommandCode.GET_CLUSTER_METADATA), b"")

    def _on_look(self, frame: bytes) -> None:
        answer = code(frame)
        if answer in _TRANSIENT:
            self._again()
            return
        if answer != 0:
            self._give_up(f"refusal {answer}")
            return
        nodes = ClusterMetadata.decode(frame[HEADER_SIZE:]).nodes
        leader = next((each for each, node in enumerate(nodes) if node.role == NodeRole.LEADER), None)
        if leader is not None and leader != self.at:
            self._tell(self.name, f"node-{self.at} says that node-{leader} leads")
            self._go(leader)
        else:
            self._next()

    # Doing things

    def _next(self) -> None:
        """What is under way comes first."""
        self.doing = Doing.NOTHING
        if self.wish is not None:
            self._ask_wish()
            return
        chance = self._random.random
        if self._last is not None and chance() < self.habits.replays:
            self._replay()
        elif chance() < self.habits.reads:
            question = self.wishes.read()
            self.doing = Doing.READ
            self._ask(question.command, question.body)
        elif chance() < self.habits.leaves:
            self._leave()
        elif self._workload.take():
            self.wish = self.wishes.write()
            self._request += 1
            self._uncertain = False
            self._ask_wish()
        else:
            self._finished = True

    def _ask_wish(self) -> None:
        wish = self.wish
        assert wish is not None
        self.doing = Doing.WRITE
        self._refusals = 0
        self._send_write(wish)

    def _send_write(self, wish: Wish) -> None:
        frame = self._frame(wish, self._request)
        if wish.operation == Operation.JOIN_CONSUMER_GROUP:
            self._may_be_member = True
        self._tell(self.name, f"asks node-{self.at} to {wish.text} (request {self._request}, session {self._session})")
        self._send(frame, self._request)

    def _on_write(self, frame: bytes) -> None:
        answer = code(frame)
        if answer in _TRANSIENT:
            self._on_refusal(answer)
        elif answer <= EVICTED:
            self._uncertain = True
            self._tell(self.name, f"session ended with reason {EVICTED - answer} at node-{self.at}")
            self._give_up("eviction")
        else:
            self._answered(frame, answer)

    def _on_refusal(self, answer: int) -> None:
        if answer == NOT_COMMITTED:
            self._uncertain = True
        elif not self._uncertain and self._refusals and self._random.random() < _RENUMBER_ODDS:
            wish = self.wish
            assert wish is not None
            self._request += 1
            self._sent, self._sent_number = self._frame(wish, self._request), self._request
            self._tell(self.name, f"is refused, and takes the number {self._request} instead")
        self._again()

    def _answered(self, frame: bytes, answer: int) -> None:
        wish = self.wish
        assert wish is not None
        self._tell(self.name, f"is answered by node-{self.at}: {wish.text}: {answer or 'done'}")
        expects_success = wish.makes is not None or wish.ends is not None
        if expects_success and answer != 0:
            raise Violation("exactly once", f"{self.name}: {wish.text} is answered with {answer}")
        if wish.ends is not None:
            self.wishes.own.remove(wish.ends)
        if wish.makes is not None:
            self.wishes.own.append(wish.makes)
        self.wish = None
        self._looked = False
        self.answers += 1
        self._last = None if code(frame) in _NOT_LOGGED else _Done(self._request, wish, frame)
        if self._silence_ms and self._may_be_member and self._random.random() < self.habits.silences:
            self._be_silent()
        else:
            self._pause()

    def _be_silent(self) -> None:
        """Say nothing for so long that others get what it holds, or a little less."""
        self.doing = Doing.NOTHING
        length = self._random.randint(self._silence_ms // 4, self._silence_ms)
        self._tell(self.name, f"is silent for {length} ms")
        self._wake_after(length)

    def _replay(self) -> None:
        assert self._last is not None
        wish = self._last.wish
        self.doing = Doing.REPLAY
        self._tell(self.name, f"asks node-{self.at} again to {wish.text}")
        self._send(self._frame(wish, self._last.number), self._last.number)

    def _on_replay(self, frame: bytes) -> None:
        assert self._last is not None
        answer = code(frame)
        if answer in _TRANSIENT:
            self._again()
            return
        if answer <= EVICTED:
            self._give_up(f"eviction {EVICTED - answer}")
            return
        if frame != self._last.answer and answer not in _LOST:
            text = f"{self.name}: {self._last.wish.text}, asked again, is answered otherwise"
            raise Violation("one answer for one request", text)
        self._pause()

    def _on_read(self, frame: bytes) -> None:
        answer = code(frame)
        if answer in _TRANSIENT:
            self._again()
            return
        if answer <= EVICTED:
            self._give_up(f"eviction {EVICTED - answer}")
            return
        self._pause()

    def _leave(self) -> None:
        """Log out; or just go."""
        if self._random.random() < 0.3:
            self._tell(self.name, f"goes away from node-{self.at}")
            self._hang_up()
            self._wake_after(self._random.randint(1, 100))
            return
        self.doing = Doing.LOGOUT
        self._request += 1
        self._tell(self.name, f"logs out at node-{self.at}")
        self._send(
            request(Operation.LOGOUT, client=self._client, session=self._session, number=self._request), self._request
        )

    def _on_logout(self, frame: bytes) -> None:
        if code(frame) in _TRANSIENT:
            self._again()
            return
        self._end_session()
        self._hang_up()
        self._wake_after(self._random.randint(0, 100))

    def _end_session(self) -> None:
        """The node may forget what it answered."""
        self._last = None

    # Sending

    def _on_frame(self, frame: bytes) -> None:
        self._alarm += 1
        number = self._sent_number
        if number is None:
            self._history.read(self._client, self._sent, frame, self._sent_at_ms, self._now_ms, self.at)
        else:
            self._history.answered(self._client, number, frame, self._now_ms, self.at)
        _ON_FRAME[self.doing](self, frame)

    def _frame(self, wish: Wish, number: int) -> bytes:
        return request(wish.operation, wish.body, client=self._client, session=self._session, number=number)

    def _ask(self, command: int, body: bytes) -> None:
        self._send(
            request(Operation.NON_REPLICATED, body, client=self._client, session=self._session, code=command), None
        )

    def _send(self, frame: bytes, number: int | None) -> None:
        """Send a request of the log under its number, or a read."""
        assert self._connection is not None
        self._sent, self._sent_number, self._sent_at_ms = frame, number, self._now_ms
        if number is not None:
            self._history.invoked(self._client, number, frame, self._now_ms, self.at)
        self._connection.send(frame)
        self._wake_after(self.habits.timeout_ms)

    def _again(self) -> None:
        """The same again, a little later; elsewhere when that has lasted too long."""
        if not self._refusals:
            self._refused_since_ms = self._now_ms
        self._refusals += 1
        if self._refusals < _PATIENCE and self._now_ms - self._refused_since_ms < _PATIENCE_MS:
            self._refusals_open = True
            self._wake_after(self._random.choice((5, 20, 50, 100)))
        elif self.doing is Doing.WRITE and not self._looked and self._random.random() < self.habits.follows_leader:
            self._refusals = 0
            self._looked = True
            self._look()
        else:
            self._give_up("nothing but refusals")

    def _pause(self) -> None:
        self.doing = Doing.NOTHING
        think = self.habits.think_ms
        if self._burst:
            self._burst -= 1
            think = 0
        elif self.habits.bursts and self._random.random() < self.habits.bursts:
            self._burst = _BURST
        self._wake_after(self._random.randint(0, think) if think else 0)

    def _wake_after(self, milliseconds: int) -> None:
        self._alarm += 1
        self._node.after(milliseconds, self._address, _Woken(self._alarm))

    @property
    def _now_ms(self) -> int:
        return self._cluster.world.now_nanos // 1_000_000

    def _new_identity(self) -> int:
        self._identities += 1
        return 0xC0_0000 + self._number * 0x1000 + self._identities


_ON_FRAME: Final[dict[Doing, Callable[[ScriptedClient, bytes], None]]] = {
    Doing.LOGIN: ScriptedClient._on_login,
    Doing.LOOK: ScriptedClient._on_look,
    Doing.WRITE: ScriptedClient._on_write,
    Doing.REPLAY: ScriptedClient._on_replay,
    Doing.READ: ScriptedClient._on_read,
    Doing.LOGOUT: ScriptedClient._on_logout,
}
