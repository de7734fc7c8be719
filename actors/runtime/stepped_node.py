"""One node of the stepped runtime: its clock, its actors' seats in the scheduler, and what failing and crashing mean.

The scheduler itself, virtual time and the trace are in `stepped`; a node only asks it to queue, to keep a timer, to run.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, final

from loguru import logger
from pykka import ActorRegistry

from levrier.actors.runtime.address import Address, Awake, Entry
from levrier.actors.runtime.base import FailurePolicy
from levrier.actors.runtime.cell import CONTROL, Cell, describe_error
from levrier.actors.runtime.ports import ExitStatus, FatalReason, Recipient, WorkFailed
from levrier.actors.runtime.probe import Probe
from levrier.actors.runtime.timers import MessageTimer

if TYPE_CHECKING:
    from levrier.actors.runtime.base import NodeActor
    from levrier.actors.runtime.stepped import SteppedRuntime

M = TypeVar("M")
R = TypeVar("R")

START = "start"
EPOCH_MICROS = 1_700_000_000_000_000
_AWAKE = Awake()


@final
class SteppedClock:
    """A node's view of the virtual time. `offset_micros` sets its wall clock wrong."""

    def __init__(self, world: SteppedRuntime) -> None:
        self._world = world
        self.offset_micros = 0

    def now_micros(self) -> int:
        """Virtual wall clock, microseconds since the Unix epoch."""
        return EPOCH_MICROS + self._world.now_nanos // 1000 + self.offset_micros

    def monotonic_nanos(self) -> int:
        """Virtual nanoseconds since the runtime was made."""
        return self._world.now_nanos


@final
class Lane:
    """What one sender told one receiver and was not delivered yet."""

    __slots__ = ("entries", "position", "seat", "sender")

    def __init__(self, *, sender: str, seat: Seat) -> None:
        self.sender = sender
        self.seat = seat
        self.entries: deque[Entry] = deque()
        self.position = -1  # In the list of lanes that may be picked; -1 when not in it.


@final
class Call:
    """A recipient that runs an action, whatever it is told."""

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action

    def tell(self, _message: object, /) -> None:
        """Run it."""
        self._action()


@final
class _Outsiders:
    """Whoever is no part of a node has nobody to catch what it raises."""

    def actor_raised(self, cell: Cell, error: Exception) -> None:  # noqa: ARG002
        """Let it end the run."""
        raise error


@final
class Seat:
    """One actor's place in the scheduler.

    `holds` counts the reasons why nothing is delivered to it: its node is paused, its handler is not over yet.
    """

    __slots__ = (
        "busy_micros",
        "cell",
        "full_name",
        "holds",
        "lanes",
        "node",
        "outbox",
        "started",
        "waiting",
        "world",
    )

    def __init__(self, *, world: SteppedRuntime, node: SteppedNode, cell: Cell) -> None:
        self.world = world
        self.node = node
        self.cell = cell
        self.full_name = f"{node.name}/{cell.name}"
        self.lanes: dict[str, Lane] = {}
        self.waiting = 0
        self.started = False
        self.holds = 0
        self.busy_micros = 0
        self.outbox: list[tuple[Seat, Entry]] | None = None

    def append(self, entry: Entry) -> None:
        """Queue an entry from whoever is being stepped."""
        if self.cell.ended:
            return
        teller = self.world.teller
        if teller is not None and teller.outbox is not None:
            teller.outbox.append((self, entry))
        else:
            self.world.queue(self, self.world.sender, entry)

    def hold(self) -> None:
        """Be told nothing until as many `release`."""
        self.holds += 1
        if self.holds == 1:
            self.world.hold_back(self)

    def release(self) -> None:
        """Undo one `hold`."""
        assert self.holds > 0
        self.holds -= 1
        if self.holds:
            return
        for sender, lane in self.lanes.items():
            if lane.entries and lane.position < 0 and (self.started or sender == START):
                self.world.make_ready(lane)

    def take_time(self, microseconds: int) -> None:
        """The handler that runs takes so much longer."""
        if self.outbox is None:
            self.outbox = []
            self.hold()
        self.busy_micros += microseconds

    def release_timer(self, now_nanos: int) -> MessageTimer:
        """Fires when the handler that ran is over."""
        milliseconds, self.busy_micros = max(1, self.busy_micros // 1000), 0
        return MessageTimer(
            now_nanos=now_nanos,
            milliseconds=milliseconds,
            repeat=False,
            recipient=Call(self._end_busy),
            message=None,
            owner_is_gone=self.node.is_dead,
        )

    def _end_busy(self) -> None:
        told, self.outbox = self.outbox, None
        assert told is not None
        for seat, entry in told:
            if not seat.cell.ended:
                self.world.queue(seat, self.full_name, entry)
        self.release()

    def has_nothing_waiting(self) -> bool:
        """Whether all that was told was delivered."""
        return self.waiting == 0

    def start(self) -> None:
        """Run `on_start`, then let messages come."""
        self.started = True
        self.cell.start()
        if self.holds:
            return
        for lane in self.lanes.values():
            if lane.entries and lane.position < 0:
                self.world.make_ready(lane)


@final
class SteppedNode:
    """One node of a stepped runtime. Satisfies `Runtime`."""

    def __init__(self, *, world: SteppedRuntime, name: str, seed: str) -> None:
        self._world = world
        self._name = name
        self._random = random.Random(seed)
        self._clock = SteppedClock(world)
        self._addresses: dict[str, Address[Any]] = {}
        self._seats: dict[str, Seat] = {}
        self._jobs = 0
        self.failure: FatalReason | None = None
        self.crashed = False
        self.paused = False
        self.stretch = 1
        """How many times as long as it says every timer of the node takes: one that ticks seldom is quicker to simulate."""

    @property
    def name(self) -> str:
        """The node's name."""
        return self._name

    @property
    def clock(self) -> SteppedClock:
        """The node's virtual clock."""
        return self._clock

    @property
    def random(self) -> random.Random:
        """Seeded by the runtime's seed, the node's name and its incarnation."""
        return self._random

    @property
    def dead(self) -> bool:
        """Whether the node failed or crashed."""
        return self.is_dead()

    def is_dead(self) -> bool:
        """The same, to be called later."""
        return self.crashed or self.failure is not None

    def entropy(self, size: int) -> bytes:
        """`size` bytes from the node's seed."""
        return self._random.randbytes(size)

    def address(self, actor_name: str) -> Address[Any]:
        """The address of the actor of that name. The same object each time."""
        address = self._addresses.get(actor_name)
        if address is None:
            address = self._addresses[actor_name] = Address(node=self._name, name=actor_name)
        return address

    def every(self, milliseconds: int, recipient: Recipient[M], message: M) -> MessageTimer:
        """Tell `message` again and again in virtual time."""
        milliseconds *= self.stretch
        return self._world.add_timer(self, milliseconds, repeat=True, recipient=recipient, message=message)

    def after(self, milliseconds: int, recipient: Recipient[M], message: M) -> MessageTimer:
        """Tell `message` once in virtual time."""
        milliseconds *= self.stretch
        return self._world.add_timer(self, milliseconds, repeat=False, recipient=recipient, message=message)

    def offload(self, work: Callable[[], R], deliver: Callable[[R | WorkFailed], object], to: Recipient[Any]) -> None:
        """Run `work` in a step of its own, later; jobs finish in any order."""
        self._jobs += 1

        def job(_message: object) -> None:
            seat.cell.discard()
            result: R | WorkFailed
            try:
                result = work()
            except AssertionError:
                raise
            except Exception as error:  # noqa: BLE001
                result = WorkFailed(reason=describe_error(error))
            to.tell(deliver(result))

        seat = self._take_seat(f"worker-{self._jobs}", Cell(name="worker", supervisor=self, receive=job))
        seat.started = True
        seat.append((seat.cell, work))

    def fail(self, reason: FatalReason) -> None:
        """Declare the node dead: nothing more is delivered in it. Other nodes go on."""
        self._fail(reason, None)

    def _fail(self, reason: FatalReason, error: Exception | None) -> None:
        if self.dead:
            logger.debug("node {} is down already; also: {}", self._name, reason)
            return
        self.failure = reason
        logger.opt(exception=error).error(
            "node {} is down, status {}: {}: {}", self._name, reason.status, reason.actor, reason.reason
        )
        for seat in self._seats.values():
            seat.cell.halt()
        self._world.note_failure(self, reason)

    def adopt(self, actor: NodeActor) -> None:
        """Give the actor a seat in the scheduler and bind its address."""
        cell = Cell(name=actor.name, supervisor=self, receive=actor.receive, actor=actor)
        # pykka has just registered it process-wide, where `stop_all` and `broadcast` would reach into the simulation.
        ActorRegistry.unregister(actor.actor_ref)
        seat = self._take_bound_seat(cell)
        actor.inbox.bind(cell=cell, append=seat.append, home=_AWAKE)

    def actor(self, name: str) -> NodeActor:
        """The actor of that name. To be looked at."""
        actor = self._seats[name].cell.actor
        assert actor is not None, f"{name} is no actor"
        return actor

    def pause(self) -> None:
        """Handle nothing until `resume`, as a stopped process does. Time passes, and what is told waits."""
        assert not self.paused
        self.paused = True
        for seat in self._seats.values():
            seat.hold()

    def resume(self) -> None:
        """Go on with all that has gathered."""
        assert self.paused
        self.paused = False
        for seat in self._seats.values():
            seat.release()

    def listener(self, name: str, receive: Callable[[Any], object]) -> Address[Any]:
        """Somebody outside the nodes, such as a client: what is told to the address is delivered to `receive` in its turn.

        What `receive` raises ends the run.
        """
        self._take_bound_seat(Cell(name=name, supervisor=_Outsiders(), receive=receive))
        return self.address(name)

    def probe(self, name: str) -> Probe[Any]:
        """A probe in place of the actor of that name; it records when the scheduler delivers."""
        probe: Probe[Any] = Probe(name)
        self._take_bound_seat(Cell(name=name, supervisor=self, receive=probe.tell))
        return probe

    def stop(self, *, order: Sequence[str] = ()) -> None:
        """End the actors in `order`, then the others last started first, each after what it was told before."""
        open_seats = {name: seat for name, seat in self._seats.items() if not seat.cell.ended}
        named = [open_seats.pop(name) for name in order if name in open_seats]
        for seat in named + list(reversed(open_seats.values())):
            self._world.run(until=seat.has_nothing_waiting)
            self._world.run_as(seat.full_name, seat.cell.end)

    def actor_raised(self, cell: Cell, error: Exception) -> None:
        """Apply the actor's failure policy; the traceback is logged here, once."""
        reason = FatalReason(status=ExitStatus.ACTOR_FAILED, reason=describe_error(error), actor=cell.name)
        if cell.actor is None or cell.actor.failure_policy is FailurePolicy.NODE_DOWN:
            self._fail(reason, error)
            return
        logger.opt(exception=error).error("actor {} of node {} ended: {}", cell.name, self._name, reason.reason)
        cell.halt()
        cell.end()
        self._world.reports.append(reason)

    def crash(self) -> None:
        """Be gone: no hook runs, queues and timers are dropped. Called by the runtime."""
        self.crashed = True
        for seat in self._seats.values():
            self._world.empty_seat(seat)
            seat.cell.discard()
            seat.outbox = None
        self._seats.clear()

    def _take_bound_seat(self, cell: Cell) -> Seat:
        address = self.address(cell.name)
        address.assert_free()
        seat = self._take_seat(cell.name, cell)
        address.bind(slot=cell, append=seat.append, home=_AWAKE)
        self._world.queue(seat, START, (CONTROL, seat.start))
        return seat

    def _take_seat(self, key: str, cell: Cell) -> Seat:
        assert not self.crashed, f"this incarnation of node {self._name} has crashed"
        seat = Seat(world=self._world, node=self, cell=cell)
        if self.failure is not None:
            cell.halt()
        self._seats = {name: known for name, known in self._seats.items() if not known.cell.ended}
        self._seats[key] = seat
        if self.paused:
            seat.hold()
        return seat
