"""The stepped runtime: no threads, virtual time, one message at a time, in an order that a seed decides.

Each (sender, receiver) pair has a lane of its own. A step picks one of the lanes that are not empty and delivers its
oldest message: FIFO per pair, any order otherwise. Time moves only by `advance` and `run_until`, and only when nothing is
deliverable: handling takes no time, waiting does. Everything that could differ between two runs comes from the seed, so
a run is replayed bit for bit from it, under any PYTHONHASHSEED.

Several nodes live in one runtime, as `node(name)`; the runtime itself stands for the default node, which is what a test of
one actor needs. Actors here are kept out of pykka's process-wide registry: they belong to this runtime alone. A message
told from outside any handler comes from the sender "outside". pykka's `ask` and a blocking `stop` would wait for a
thread that does not exist: use `tell`, `stop(block=False)` and `run()`.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, final

from levrier.actors.runtime.address import Address, Awake, Entry, Slot
from levrier.actors.runtime.base import FailurePolicy
from levrier.actors.runtime.cell import CONTROL, Cell, describe_error
from levrier.actors.runtime.ports import ExitStatus, FatalReason, Recipient, WorkFailed
from levrier.actors.runtime.probe import Probe
from loguru import logger
from pykka import ActorRegistry

if TYPE_CHECKING:
    from levrier.actors.runtime.base import NodeActor

M = TypeVar("M")
R = TypeVar("R")

OUTSIDE = "outside"
START = "start"
TIMER = "timer"
DEFAULT_NODE = "node"
EPOCH_MICROS = 1_700_000_000_000_000
STEPS_MAX = 1_000_000
TRACE_MAX = 200_000
EARLY_BATCH_END_ODDS = 0.25
_NANOS_PER_MILLI = 1_000_000
_DIGEST_LINES = 512
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
class SteppedTimer:
    """A timer of one node."""

    __slots__ = ("cancelled", "due_nanos", "interval_nanos", "message", "node", "recipient")

    def __init__(
        self, *, node: SteppedNode, due_nanos: int, interval_nanos: int, recipient: Recipient[Any], message: object
    ) -> None:
        self.node = node
        self.due_nanos = due_nanos
        self.interval_nanos = interval_nanos
        self.recipient = recipient
        self.message = message
        self.cancelled = False

    def cancel(self) -> None:
        """Tell it no more."""
        self.cancelled = True


@final
class _Lane:
    """What one sender told one receiver and was not delivered yet."""

    __slots__ = ("entries", "position", "seat", "sender")

    def __init__(self, *, sender: str, seat: _Seat) -> None:
        self.sender = sender
        self.seat = seat
        self.entries: deque[Entry] = deque()
        self.position = -1  # In the list of lanes that may be picked; -1 when not in it.


@final
class _Seat:
    """One actor's place in the scheduler."""

    __slots__ = ("cell", "full_name", "lanes", "node", "started", "waiting", "world")

    def __init__(self, *, world: SteppedRuntime, node: SteppedNode, cell: Cell) -> None:
        self.world = world
        self.node = node
        self.cell = cell
        self.full_name = f"{node.name}/{cell.name}"
        self.lanes: dict[str, _Lane] = {}
        self.waiting = 0
        self.started = False

    def append(self, entry: Entry) -> None:
        """Queue an entry from whoever is being stepped."""
        if not self.cell.ended:
            self.world.queue(self, self.world.sender, entry)

    def has_nothing_waiting(self) -> bool:
        """Whether all that was told was delivered."""
        return self.waiting == 0

    def start(self) -> None:
        """Run `on_start`, then let messages come."""
        self.started = True
        self.cell.start()
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
        self._seats: dict[str, _Seat] = {}
        self._jobs = 0
        self.failure: FatalReason | None = None
        self.crashed = False

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

    def every(self, milliseconds: int, recipient: Recipient[M], message: M) -> SteppedTimer:
        """Tell `message` again and again in virtual time."""
        assert milliseconds > 0, "a repeated timer needs an interval"
        return self._world.add_timer(self, milliseconds, repeat=True, recipient=recipient, message=message)

    def after(self, milliseconds: int, recipient: Recipient[M], message: M) -> SteppedTimer:
        """Tell `message` once in virtual time."""
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
        self._seats.clear()

    def _take_bound_seat(self, cell: Cell) -> _Seat:
        address = self.address(cell.name)
        address.assert_free()
        seat = self._take_seat(cell.name, cell)
        address.bind(slot=cell, append=seat.append, home=_AWAKE)
        self._world.queue(seat, START, (CONTROL, seat.start))
        return seat

    def _take_seat(self, key: str, cell: Cell) -> _Seat:
        assert not self.crashed, f"this incarnation of node {self._name} has crashed"
        seat = _Seat(world=self._world, node=self, cell=cell)
        if self.failure is not None:
            cell.halt()
        self._seats = {name: known for name, known in self._seats.items() if not known.cell.ended}
        self._seats[key] = seat
        return seat


@final
class SteppedRuntime:
    """The world: the scheduler, virtual time, the trace, and the nodes. Satisfies `Runtime` as its default node."""

    def __init__(self, seed: int, *, trace_messages: bool = False) -> None:
        self.seed = seed
        self.now_nanos = 0
        self.steps = 0
        self.sender = OUTSIDE
        self.failures: list[FatalReason] = []
        self.reports: list[FatalReason] = []
        self._scheduler = random.Random(f"scheduler/{seed}")
        self._ready: list[_Lane] = []
        self._timers: list[tuple[int, int, SteppedTimer]] = []
        self._timer_count = 0
        self._nodes: dict[str, SteppedNode] = {}
        self._incarnations: dict[str, int] = {}
        self._trace_messages = trace_messages
        self._trace: deque[str] = deque(maxlen=TRACE_MAX)
        self._undigested: list[str] = []
        self._digest = hashlib.blake2b(digest_size=16)

    # The default node.

    @property
    def name(self) -> str:
        """The default node's name."""
        return DEFAULT_NODE

    @property
    def clock(self) -> SteppedClock:
        """The default node's clock."""
        return self.node().clock

    @property
    def random(self) -> random.Random:
        """The default node's randomness."""
        return self.node().random

    def entropy(self, size: int) -> bytes:
        """`size` bytes from the default node's seed."""
        return self.node().entropy(size)

    def address(self, actor_name: str) -> Address[Any]:
        """An address of the default node."""
        return self.node().address(actor_name)

    def every(self, milliseconds: int, recipient: Recipient[M], message: M) -> SteppedTimer:
        """A repeated timer of the default node."""
        return self.node().every(milliseconds, recipient, message)

    def after(self, milliseconds: int, recipient: Recipient[M], message: M) -> SteppedTimer:
        """A timer of the default node."""
        return self.node().after(milliseconds, recipient, message)

    def offload(self, work: Callable[[], R], deliver: Callable[[R | WorkFailed], object], to: Recipient[Any]) -> None:
        """Offloaded work of the default node."""
        self.node().offload(work, deliver, to)

    def fail(self, reason: FatalReason) -> None:
        """Declare the default node dead."""
        self.node().fail(reason)

    def adopt(self, actor: NodeActor) -> None:
        """Take an actor into the default node."""
        self.node().adopt(actor)

    def probe(self, name: str) -> Probe[Any]:
        """A probe in the default node."""
        return self.node().probe(name)

    def stop(self, *, order: Sequence[str] = ()) -> None:
        """End the default node's actors."""
        self.node().stop(order=order)

    # The nodes.

    def node(self, name: str = DEFAULT_NODE) -> SteppedNode:
        """The present incarnation of the node of that name, made when there is none."""
        node = self._nodes.get(name)
        if node is None:
            incarnation = self._incarnations.get(name, 0) + 1
            self._incarnations[name] = incarnation
            node = SteppedNode(world=self, name=name, seed=f"{self.seed}/{name}/{incarnation}")
            self._nodes[name] = node
        return node

    def crash_node(self, name: str) -> None:
        """Drop the node's queues, timers and actors at once; `node(name)` is a new incarnation afterwards."""
        assert name in self._nodes, f"there is no node {name}"
        self._nodes.pop(name).crash()
        self._note(f"crash {name}")

    # Running.

    def run(self, *, max_steps: int = STEPS_MAX, until: Callable[[], bool] | None = None) -> int:
        """Deliver until nothing is deliverable without advancing time, or `until` holds. Gives the number of steps.

        AssertionError when that takes more than `max_steps`: somebody tells without end.
        """
        before = self.steps
        while self._ready and not (until is not None and until()):
            assert self.steps - before < max_steps, f"still busy after {max_steps} steps (seed {self.seed})"
            self.step()
        return self.steps - before

    def advance(self, milliseconds: int) -> None:
        """Let virtual time pass: due timers fire in order, and what they cause is delivered before time goes on."""
        deadline = self.now_nanos + milliseconds * _NANOS_PER_MILLI
        self.run()
        while self._fire_next(deadline):
            self.run()
        self.now_nanos = deadline

    def run_until(self, predicate: Callable[[], bool], *, max_milliseconds: int) -> bool:
        """Deliver, and let time pass where nothing is deliverable, until `predicate` holds. Gives whether it does."""
        deadline = self.now_nanos + max_milliseconds * _NANOS_PER_MILLI
        while not predicate():
            self.run(until=predicate)
            if predicate():
                break
            if not self._fire_next(deadline):
                self.now_nanos = deadline
                return predicate()
        return True

    def step(self) -> None:
        """Deliver one message, picked by the seed. Something must be deliverable."""
        ready = self._ready
        assert ready, "nothing is deliverable"
        lane = ready[int(self._scheduler.random() * len(ready))]
        seat = lane.seat
        slot, message = lane.entries.popleft()
        seat.waiting -= 1
        if not lane.entries:
            self._make_unready(lane)
        self.steps += 1
        self._note_delivery(lane, slot, message)
        self.sender = seat.full_name
        try:
            self._deliver(seat, slot, message)
        finally:
            self.sender = OUTSIDE

    @property
    def idle(self) -> bool:
        """Whether nothing is deliverable without advancing time."""
        return not self._ready

    # The trace.

    @property
    def trace(self) -> list[str]:
        """What happened, one line a step: step, virtual microseconds, sender, receiver, what. The last TRACE_MAX."""
        return [line.rstrip("\n") for line in self._trace]

    def trace_digest(self) -> str:
        """A digest of the whole trace since the start: equal for two runs of one seed, and the replay's proof."""
        self._digest_pending()
        return self._digest.hexdigest()

    # For the nodes and seats.

    def queue(self, seat: _Seat, sender: str, entry: Entry) -> None:
        """Put an entry into the lane of a pair."""
        lane = seat.lanes.get(sender)
        if lane is None:
            lane = seat.lanes[sender] = _Lane(sender=sender, seat=seat)
        lane.entries.append(entry)
        seat.waiting += 1
        if lane.position < 0 and (seat.started or sender == START):
            self.make_ready(lane)

    def make_ready(self, lane: _Lane) -> None:
        """Let the lane be picked."""
        lane.position = len(self._ready)
        self._ready.append(lane)

    def empty_seat(self, seat: _Seat) -> None:
        """Drop everything that waits for an actor."""
        for lane in seat.lanes.values():
            lane.entries.clear()
            if lane.position >= 0:
                self._make_unready(lane)
        seat.waiting = 0

    def run_as(self, sender: str, action: Callable[[], None]) -> None:
        """Run an action whose messages come from `sender`."""
        self.sender = sender
        try:
            action()
        finally:
            self.sender = OUTSIDE

    def add_timer(
        self, node: SteppedNode, milliseconds: int, *, repeat: bool, recipient: Recipient[Any], message: object
    ) -> SteppedTimer:
        """Have a timer fire."""
        assert milliseconds >= 0
        nanos = milliseconds * _NANOS_PER_MILLI
        timer = SteppedTimer(
            node=node,
            due_nanos=self.now_nanos + nanos,
            interval_nanos=nanos if repeat else 0,
            recipient=recipient,
            message=message,
        )
        self._push_timer(timer)
        return timer

    def note_failure(self, node: SteppedNode, reason: FatalReason) -> None:
        """Record the end of a node."""
        self.failures.append(reason)
        self._note(f"fail {node.name}/{reason.actor} {reason.status}")

    # Private.

    def _make_unready(self, lane: _Lane) -> None:
        last = self._ready.pop()
        if last is not lane:
            self._ready[lane.position] = last
            last.position = lane.position
        lane.position = -1

    def _deliver(self, seat: _Seat, slot: Slot, message: object) -> None:
        cell = seat.cell
        try:
            slot.receive(message)
        except Exception as error:  # noqa: BLE001
            cell.supervisor.actor_raised(cell, error)
        if not slot.batches:
            return
        cell.batch_open = True
        if seat.waiting == 0 or self._scheduler.random() < EARLY_BATCH_END_ODDS:
            if cell.alive:
                self._note(f"{seat.full_name} batch end")
            cell.end_batch()

    def _push_timer(self, timer: SteppedTimer) -> None:
        heapq.heappush(self._timers, (timer.due_nanos, self._timer_count, timer))
        self._timer_count += 1

    def _fire_next(self, deadline_nanos: int) -> bool:
        """Move time to the next due timer and fire all that are due then. False when none is due by the deadline."""
        timers = self._timers
        while timers and (timers[0][2].cancelled or timers[0][2].node.dead):
            heapq.heappop(timers)
        if not timers or timers[0][0] > deadline_nanos:
            return False
        self.now_nanos = max(self.now_nanos, timers[0][0])
        while timers and timers[0][0] <= self.now_nanos:
            timer = heapq.heappop(timers)[2]
            if timer.cancelled or timer.node.dead:
                continue
            if timer.interval_nanos:
                timer.due_nanos += timer.interval_nanos
                self._push_timer(timer)
            self.sender = TIMER
            try:
                timer.recipient.tell(timer.message)
            finally:
                self.sender = OUTSIDE
        return True

    def _note_delivery(self, lane: _Lane, slot: Slot, message: object) -> None:
        if slot.cell is None:
            what = "start"
        elif lane.seat.cell is slot and self._trace_messages:
            what = repr(message)
        else:
            what = type(message).__name__
        if not lane.seat.cell.alive:
            what += " dropped"
        self._note(f"{lane.sender}>{lane.seat.full_name} {what}")

    def _note(self, what: str) -> None:
        line = f"{self.steps} {self.now_nanos // 1000} {what}\n"
        self._trace.append(line)
        self._undigested.append(line)
        if len(self._undigested) >= _DIGEST_LINES:
            self._digest_pending()

    def _digest_pending(self) -> None:
        self._digest.update("".join(self._undigested).encode())
        self._undigested.clear()
