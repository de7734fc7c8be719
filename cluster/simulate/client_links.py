"""The connections of the clients as a seed's plan has them: slow, silent for a while, reset.

Each is what TCP makes of a bad way: nothing is lost and nothing overtakes inside of a connection. What is sent into a silence
waits for its end, in order, and so does the end of the connection: neither side knows meanwhile whether the other one is there.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, Generic, TypeVar

from levrier.actors.bus.simulated_transport import SimulatedClient
from levrier.actors.runtime import SteppedRuntime
from levrier.cluster.simulate.checkers import AnswerCheck
from levrier.cluster.simulate.cluster import SimulatedCluster
from levrier.cluster.simulate.faults import Fault, FaultPlan

T = TypeVar("T")

RETRANSMIT_MS: Final = 200
"""How much later arrives what was lost once."""

SILENCE_MS_MAX: Final = 10_000
MEMBER_ODDS: Final = 0.3
"""How often it is all connections of a member that suffer, and not one."""

RESET_ODDS: Final = 0.5
_MEAN_SHORTEST_MS: Final = 1_000.0
_MEAN_LONGEST_MS: Final = 20_000.0
_FAULTS: Final = (Fault.LOSS, Fault.PARTITION, Fault.ONE_WAY)
_NANOS_PER_MILLI: Final = 1_000_000


class _Way(Generic[T]):
    """One direction of a connection. What waits arrives in order: not before it is due, and not during a silence."""

    def __init__(self, world: SteppedRuntime, arrive: Callable[[T], object]) -> None:
        self._world = world
        self._arrive = arrive
        self._waiting: deque[tuple[int, T]] = deque()
        self._holds = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is on its way."""
        return not self._waiting

    def send(self, what: T, delay_ms: int) -> None:
        """Let it arrive after so long, or later."""
        if not delay_ms and not self._holds and not self._waiting:
            self._arrive(what)
            return
        now = self._world.now_nanos
        due = now + delay_ms * _NANOS_PER_MILLI
        if self._waiting:
            due = max(due, self._waiting[-1][0])
        self._waiting.append((due, what))
        self._world.call_after(-((now - due) // _NANOS_PER_MILLI), self._flow)

    def hold(self) -> None:
        """Let nothing arrive until as many `release`."""
        self._holds += 1

    def release(self) -> None:
        """Undo one `hold`."""
        self._holds = max(0, self._holds - 1)
        self._flow()

    def open(self) -> None:
        """Undo every `hold`, and let arrive what waits."""
        self._holds = 0
        while self._waiting:
            self._arrive(self._waiting.popleft()[1])

    def drop(self) -> None:
        """Nobody is there any more who could get what waits."""
        self._waiting.clear()

    def _flow(self) -> None:
        while self._waiting and not self._holds and self._waiting[0][0] <= self._world.now_nanos:
            self._arrive(self._waiting.popleft()[1])


@dataclass(frozen=True, slots=True)
class _Written:
    """What the node wrote at once, and whether it closed the connection."""

    frames: tuple[bytes, ...]
    is_end: bool


class ClientConnection:
    """The client's end of a connection, `inner` is the node's. `on_event` is called when there is something new to see."""

    def __init__(
        self,
        inner: SimulatedClient,
        *,
        name: str,
        replica: int,
        world: SteppedRuntime,
        answers: AnswerCheck,
        on_event: Callable[[], object],
        delay: Callable[[], int],
    ) -> None:
        self.name = name
        self.replica = replica
        self.closed_by_node = False
        """Whether the client knows that it is over, by the node or by a reset."""
        self.up: _Way[bytes | None] = _Way(world, self._reach_node)
        """To the node; None: the client has closed."""
        self.down: _Way[_Written] = _Way(world, self._reach_client)
        self._closed = False
        self._world = world
        self._answers = answers
        self._delay = delay
        self._on_event = on_event
        self._frames: list[bytes] = []
        self._inner = inner
        inner.on_event = self._on_node

    @property
    def is_open(self) -> bool:
        """Whether the client uses it."""
        return not self._closed and not self.closed_by_node

    @property
    def is_over(self) -> bool:
        """Whether nothing will happen on it any more, at either end."""
        return not self.is_open and self._is_over_at_node

    def send(self, data: bytes) -> None:
        """Send bytes to the node."""
        assert not self._closed
        self.up.send(data, self._delay())

    def close(self) -> None:
        """Close it from this side; the node hears of that behind what was sent."""
        if not self._closed:
            self._closed = True
            self.down.drop()
            self.up.send(None, 0)

    def take_all(self) -> list[bytes]:
        """All frames that came and were not taken yet."""
        frames, self._frames = self._frames, []
        return frames

    def reset(self) -> None:
        """Both ends see it closed, now; what was on its way is lost."""
        self.up.drop()
        self.down.drop()
        if not self._is_over_at_node:
            self._reach_node(None)
        if self.is_open:
            self.closed_by_node = True
            self._on_event()

    @property
    def _is_over_at_node(self) -> bool:
        return self._inner.closed or self._inner.closed_by_node

    def _on_node(self) -> None:
        """The node wrote or closed."""
        frames = tuple(self._inner.take_all())
        if frames or self._is_over_at_node:
            self._answers.settled(self)
        if self.is_open:
            self.down.send(_Written(frames, self._inner.closed_by_node), self._delay())

    def _reach_node(self, data: bytes | None) -> None:
        if data is None:
            self._answers.settled(self)
            self._inner.close()
        elif not self._is_over_at_node:
            now = self._world.now_nanos
            self._answers.asked(self, who=self.name, replica=self.replica, frame=data, now_nanos=now)
            self._inner.send(data)

    def _reach_client(self, written: _Written) -> None:
        self._frames += written.frames
        self.closed_by_node |= written.is_end
        self._on_event()


@dataclass(slots=True, eq=False)
class _Silence:
    """What does not get through: to the node (`up`), to the client (`down`), on one connection or on all of a member."""

    replica: int
    connection: ClientConnection | None
    up: bool
    down: bool
    held: list[_Way[bytes | None] | _Way[_Written]] = field(default_factory=list)

    def take(self, connection: ClientConnection) -> None:
        """Let it suffer."""
        ways: list[_Way[bytes | None] | _Way[_Written]] = []
        if self.up:
            ways.append(connection.up)
        if self.down:
            ways.append(connection.down)
        for way in ways:
            way.hold()
        self.held += ways


class ClientLinks:
    """Who connects clients to members, and strikes from `begin` to `calm`. `tell` gets lines for the trace.

    Faults strike so many times less often as their `rarity` says; where timers take longer by a `stretch`, so do silences.
    """

    def __init__(
        self,
        *,
        random: Random,
        cluster: SimulatedCluster,
        answers: AnswerCheck,
        tell: Callable[[str, str], None],
        rarity: int = 1,
    ) -> None:
        self.strikes = 0
        """How often a connection was reset or fell silent."""
        self._random = random
        self._cluster = cluster
        self._world = cluster.world
        self._answers = answers
        self._tell = tell
        self._rarity = rarity
        self._plan: FaultPlan | None = None
        self._campaign = 0
        self._connections: list[ClientConnection] = []
        self._silences: list[_Silence] = []

    def begin(self, plan: FaultPlan) -> None:
        """Be as bad as this plan says."""
        self._plan = plan
        self._campaign += 1
        for fault in _FAULTS:
            if plan.has(fault):
                span = _MEAN_LONGEST_MS / _MEAN_SHORTEST_MS
                self._arm(fault, _MEAN_SHORTEST_MS * span ** self._random.random() * self._rarity)

    def calm(self) -> None:
        """Be perfect from now on: what waited arrives."""
        self._plan = None
        self._campaign += 1
        self._silences.clear()
        for connection in self._connections:
            connection.up.open()
            connection.down.open()

    def connect(self, name: str, replica: int, on_event: Callable[[], object]) -> ClientConnection:
        """A client connects to a member that is up."""
        connection = ClientConnection(
            self._cluster.transports[replica].connect(),
            name=name,
            replica=replica,
            world=self._world,
            answers=self._answers,
            on_event=on_event,
            delay=self._delay,
        )
        self._connections = [each for each in self._connections if not each.is_over]
        self._connections.append(connection)
        for silence in self._silences:
            if silence.connection is None and silence.replica == replica:
                silence.take(connection)
        return connection

    def silence(
        self, replica: int, length_ms: int, *, up: bool, down: bool, only: ClientConnection | None = None
    ) -> None:
        """Let nothing through at a member, or on one of its connections, for so long."""
        silence = _Silence(replica, only, up, down)
        self._silences.append(silence)
        for connection in self._connections:
            if connection is only or (only is None and connection.replica == replica):
                silence.take(connection)

        def lift() -> None:
            if silence in self._silences:
                self._silences.remove(silence)
                for way in silence.held:
                    way.release()

        self._world.call_after(length_ms, lift)

    def _arm(self, fault: Fault, mean_ms: float) -> None:
        wait, campaign = int(self._random.expovariate(1 / mean_ms)) + 1, self._campaign

        def strike() -> None:
            if campaign == self._campaign:
                self._strike(fault, mean_ms)
                self._arm(fault, mean_ms)

        self._world.call_after(wait, strike)

    def _strike(self, fault: Fault, mean_ms: float) -> None:
        """One connection suffers, or all of one member."""
        random = self._random
        used = [each for each in self._connections if each.is_open]
        if not used:
            return
        self.strikes += 1
        connection = random.choice(used)
        is_member = random.random() < MEMBER_ODDS
        node, who = f"node-{connection.replica}", "any client" if is_member else connection.name
        if fault is Fault.LOSS and random.random() < RESET_ODDS:
            self._tell("links", f"{node} and {who}: the connection is reset")
            for each in used:
                if each is connection or (is_member and each.replica == connection.replica):
                    each.reset()
            return
        up, down = (True, True) if fault is Fault.PARTITION else random.choice(((True, False), (False, True)))
        length = 1 + int(min(SILENCE_MS_MAX * self._cluster.stretch, 2 * mean_ms) * random.random() ** 2)
        what = "neither hears the other" if up and down else f"{node if up else who} hears nothing"
        self._tell("links", f"{node} and {who}: {what} for {length} ms")
        self.silence(connection.replica, length, up=up, down=down, only=None if is_member else connection)

    def _delay(self) -> int:
        """Milliseconds."""
        plan = self._plan
        if plan is None:
            return 0
        delay = int(plan.delay_ms * self._random.random() ** 3 + 0.5) if plan.delay_ms else 0
        if plan.loss and self._random.random() < plan.loss:
            delay += RETRANSMIT_MS
        return delay
