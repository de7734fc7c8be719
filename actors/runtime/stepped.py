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
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, final

from pykka._envelope import Envelope

from levrier.actors.runtime.address import Address, Entry, Slot
from levrier.actors.runtime.ports import FatalReason, Recipient, WorkFailed
from levrier.actors.runtime.probe import Probe
from levrier.actors.runtime.stepped_node import START, Call, Lane, Seat, SteppedClock, SteppedNode
from levrier.actors.runtime.timers import MessageTimer

if TYPE_CHECKING:
    from levrier.actors.runtime.base import NodeActor

M = TypeVar("M")
R = TypeVar("R")

OUTSIDE = "outside"
TIMER = "timer"
DEFAULT_NODE = "node"
STEPS_MAX = 1_000_000
TRACE_MAX = 200_000
EARLY_BATCH_END_ODDS = 0.25
_NANOS_PER_MILLI = 1_000_000
_DIGEST_LINES = 512


@final
class SteppedRuntime:
    """The world: the scheduler, virtual time, the trace, and the nodes. Satisfies `Runtime` as its default node."""

    def __init__(self, seed: int, *, trace_messages: bool = False) -> None:
        self.seed = seed
        self.now_nanos = 0
        self.steps = 0
        self.sender = OUTSIDE
        self.teller: Seat | None = None
        """Whose handler runs."""
        self.observer: Callable[[Seat, object], None] | None = None
        """Called after each step with who handled what. For a simulator's checks; it must not tell anybody anything."""
        self.failures: list[FatalReason] = []
        self.reports: list[FatalReason] = []
        self._scheduler = random.Random(f"scheduler/{seed}")
        self._ready: list[Lane] = []
        self._timers: list[tuple[int, int, MessageTimer]] = []
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

    def every(self, milliseconds: int, recipient: Recipient[M], message: M) -> MessageTimer:
        """A repeated timer of the default node."""
        return self.node().every(milliseconds, recipient, message)

    def after(self, milliseconds: int, recipient: Recipient[M], message: M) -> MessageTimer:
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
        self.teller = seat
        try:
            self._deliver(seat, slot, message)
        finally:
            self.sender = OUTSIDE
            self.teller = None
        if seat.busy_micros:
            self._push_timer(seat.release_timer(self.now_nanos))
        if self.observer is not None:
            self.observer(seat, message)

    def step_or_wait(self, deadline_nanos: int) -> bool:
        """Deliver one message, or let time pass to the next timer when nothing is deliverable.

        False, with time at the deadline, when nothing is left to happen until then.
        """
        if self._ready:
            self.step()
            return True
        if self._fire_next(deadline_nanos):
            return True
        self.now_nanos = max(self.now_nanos, deadline_nanos)
        return False

    def call_after(self, milliseconds: int, action: Callable[[], object]) -> MessageTimer:
        """Run an action of the world around the nodes, which no crash cancels, once in virtual time."""
        timer = MessageTimer(
            now_nanos=self.now_nanos,
            milliseconds=milliseconds,
            repeat=False,
            recipient=Call(action),
            message=None,
        )
        self._push_timer(timer)
        return timer

    def take_time(self, microseconds: int) -> None:
        """The handler that runs takes so long, as one does that waits for a slow disk: what it tells from now on arrives,
        and what it was told is handled, only then. Outside any handler it means nothing.
        """
        if self.teller is not None and microseconds > 0:
            self.teller.take_time(microseconds)

    @property
    def taken_micros(self) -> int:
        """How long the handler that runs takes already."""
        return 0 if self.teller is None else self.teller.busy_micros

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

    def queue(self, seat: Seat, sender: str, entry: Entry) -> None:
        """Put an entry into the lane of a pair."""
        lane = seat.lanes.get(sender)
        if lane is None:
            lane = seat.lanes[sender] = Lane(sender=sender, seat=seat)
        lane.entries.append(entry)
        seat.waiting += 1
        if lane.position < 0 and not seat.holds and (seat.started or sender == START):
            self.make_ready(lane)

    def make_ready(self, lane: Lane) -> None:
        """Let the lane be picked."""
        lane.position = len(self._ready)
        self._ready.append(lane)

    def hold_back(self, seat: Seat) -> None:
        """Deliver nothing to this actor for now."""
        for lane in seat.lanes.values():
            if lane.position >= 0:
                self._make_unready(lane)

    def empty_seat(self, seat: Seat) -> None:
        """Drop everything that waits for an actor."""
        for lane in seat.lanes.values():
            lane.entries.clear()
            if lane.position >= 0:
                self._make_unready(lane)
        seat.waiting = 0

    def run_as(self, sender: str, action: Callable[[], None]) -> None:
        """Run an action whose messages come from `sender`, whoever is being stepped."""
        before, self.sender = self.sender, sender
        try:
            action()
        finally:
            self.sender = before

    def add_timer(
        self, node: SteppedNode, milliseconds: int, *, repeat: bool, recipient: Recipient[Any], message: object
    ) -> MessageTimer:
        """Have a timer fire."""
        timer = MessageTimer(
            now_nanos=self.now_nanos,
            milliseconds=milliseconds,
            repeat=repeat,
            recipient=recipient,
            message=message,
            owner_is_gone=node.is_dead,
        )
        self._push_timer(timer)
        return timer

    def note_failure(self, node: SteppedNode, reason: FatalReason) -> None:
        """Record the end of a node."""
        self.failures.append(reason)
        self._note(f"fail {node.name}/{reason.actor} {reason.status}")

    # Private.

    def _make_unready(self, lane: Lane) -> None:
        last = self._ready.pop()
        if last is not lane:
            self._ready[lane.position] = last
            last.position = lane.position
        lane.position = -1

    def _deliver(self, seat: Seat, slot: Slot, message: object) -> None:
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

    def _push_timer(self, timer: MessageTimer) -> None:
        heapq.heappush(self._timers, (timer.due_nanos, self._timer_count, timer))
        self._timer_count += 1

    def _fire_next(self, deadline_nanos: int) -> bool:
        """Move time to the next due timer and fire all that are due then. False when none is due by the deadline."""
        timers = self._timers
        while timers and timers[0][2].over:
            heapq.heappop(timers)
        if not timers or timers[0][0] > deadline_nanos:
            return False
        self.now_nanos = timers[0][0]
        while timers and timers[0][0] <= self.now_nanos:
            timer = heapq.heappop(timers)[2]
            self.run_as(TIMER, partial(self._fire, timer))
        return True

    def _fire(self, timer: MessageTimer) -> None:
        if timer.fire(self.now_nanos):
            self._push_timer(timer)

    def _note_delivery(self, lane: Lane, slot: Slot, message: object) -> None:
        if slot.cell is None:
            what = "start"
        elif self._trace_messages:
            what = repr(message.message if isinstance(message, Envelope) else message)
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
