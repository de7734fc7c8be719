"""Nothing is shared across a wait: what was told is what arrives, and who looks on changes nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from levrier.actors.runtime import Probe, SteppedRuntime
from levrier.actors.runtime.address import Entry, Slot
from levrier.actors.runtime.cell import Cell
from levrier.actors.runtime.stepped_node import Seat
from levrier.cluster.simulate.frames import code, request
from levrier.cluster.simulate.run import Settings, Simulation
from levrier.wire.codes import CommandCode, ErrorCode, Operation
from levrier.wire.headers import ReplyHeader
from tests.actors.runtime.actors import Event, Worker
from tests.cluster.cluster_steps import Caller, SteppedCluster
from tests.cluster.test_plugins_steps import at_leader, begin

ELECTION_MILLISECONDS = 12_000
FEATURE_UNAVAILABLE = int(ErrorCode.FEATURE_UNAVAILABLE)


@dataclass
class Witness:
    """Looks at every message when it is told and when it arrives."""

    count: int = 0
    changed: list[str] = field(default_factory=list)


class Witnessed:
    """A way to an actor on which a message must arrive as it was told."""

    def __init__(self, slot: Slot, message: object, witness: Witness) -> None:
        self._slot = slot
        self._told = repr(message)
        self._witness = witness

    @property
    def cell(self) -> Cell | None:
        """Whom a failure is blamed on."""
        return self._slot.cell

    @property
    def batches(self) -> bool:
        """Whether a batch end is owed after this entry."""
        return self._slot.batches

    def receive(self, message: Any) -> None:
        """Compare it, and pass it on."""
        if repr(message) != self._told:
            self._witness.changed.append(type(message).__name__)
        self._slot.receive(message)


@pytest.fixture
def witness(monkeypatch: pytest.MonkeyPatch) -> Witness:
    """Whoever looks at all messages of the stepped runtimes of this test."""
    queue, looking = SteppedRuntime.queue, Witness()

    def looked_at(world: SteppedRuntime, seat: Seat, sender: str, entry: Entry) -> None:
        slot, message = entry
        looking.count += 1
        queue(world, seat, sender, (Witnessed(slot, message, looking), message))

    monkeypatch.setattr(SteppedRuntime, "queue", looked_at)
    return looking


def story(seed: int, look: Callable[[Seat, object], None] | None = None) -> SteppedCluster:
    """Writes, reads and a failover of three members. `look` is called after each step."""
    cluster = SteppedCluster(seed)
    cluster.world.observer = look
    for replica in range(3):
        cluster.start(replica)
    cluster.world.advance(1_500)
    caller = at_leader(cluster, 1, among=(0, 1, 2))
    for number in range(12):
        assert caller.create(f"before-{number}")
    assert caller.at is not None
    killed = caller.at
    cluster.crash(killed)
    cluster.world.advance(ELECTION_MILLISECONDS)
    caller = at_leader(cluster, 2, among=tuple([each for each in range(3) if each != killed]))
    for number in range(12):
        assert caller.create(f"after-{number}")
    caller.catalogue()
    cluster.start(killed)
    cluster.world.advance(ELECTION_MILLISECONDS)
    return cluster


def test_no_message_is_changed_while_it_waits(witness: Witness) -> None:
    """C-261, C-262: what an actor told and what it goes on working with are two things. A story with every fault."""
    simulation = Simulation(3, Settings(operations=150))
    verdict = simulation.play()
    assert verdict.rule is None, verdict.text
    assert simulation.watch.counts.checkpoints > 0
    assert witness.count > 20_000
    assert witness.changed == []


@pytest.mark.parametrize(
    "change", [lambda told: told.append(3), lambda told: told.__setitem__(0, 9)], ids=["grown", "set"]
)
def test_a_message_that_is_changed_while_it_waits_is_found(
    witness: Witness, change: Callable[[list[int]], None]
) -> None:
    """C-261, C-262: a container that its sender goes on using."""
    world = SteppedRuntime(1)
    Worker.start(name="ear", runtime=world, log=Probe[Event]())
    told = [1, 2]
    world.address("ear").tell(told)
    world.run()
    assert witness.changed == []
    world.address("ear").tell(told)
    change(told)
    world.run()
    assert witness.changed == ["list"]


def test_every_actor_for_itself_gives_one_story_for_a_seed_with_its_failover() -> None:
    """C-257, C-258, C-265: each actor of a member is scheduled as if it had a thread of its own."""
    first, second, other = story(3), story(3), story(4)
    assert first.world.trace_digest() == second.world.trace_digest() != other.world.trace_digest()
    for cluster in (first, second, other):
        states = [Caller(cluster, 10 + replica) for replica in range(3)]
        for replica, caller in enumerate(states):
            assert caller.connect(replica)
        assert {caller.status()["view"] > 0 for caller in states} == {True}
        assert len({caller.catalogue() for caller in states}) == 1


def test_who_looks_on_changes_nothing() -> None:
    """C-259: the same steps in the same order, watched and not."""
    seen = [0]

    def look(seat: Seat, message: object) -> None:
        seen[0] += 1
        assert seat.full_name
        assert repr(message)

    watched, alone = story(5, look), story(5)
    assert seen[0] == watched.world.steps == alone.world.steps
    assert watched.world.trace_digest() == alone.world.trace_digest()


def ask_for_messages(caller: Caller) -> list[bytes]:
    """What a member answers to whoever wants to send and to poll messages."""
    send = request(Operation.SEND_MESSAGES, b"", client=caller.client, session=caller.session, number=7)
    poll = request(
        Operation.NON_REPLICATED, client=caller.client, session=caller.session, code=int(CommandCode.POLL_MESSAGES)
    )
    answers = [caller.call(frame, milliseconds=2_000) for frame in (send, poll)]
    return [answer for answer in answers if answer is not None]


def test_messages_are_refused_at_once_and_the_same_way_in_every_run() -> None:
    """C-260, as long as levrier keeps no messages: neither sent nor polled, never silence, and nothing of it in the log."""
    runs = []
    for _ in range(2):
        cluster = begin(6, count=3, plugins=())
        caller = at_leader(cluster, 1, among=(0, 1, 2))
        op = caller.status()["op"]
        runs.append(ask_for_messages(caller))
        assert [code(answer) for answer in runs[-1]] == [FEATURE_UNAVAILABLE] * 2
        assert caller.status()["op"] == op
    assert runs[0] == runs[1]


def test_what_is_outside_the_log_is_done_again_when_it_is_asked_again_after_a_failover() -> None:
    """C-244: it is not remembered, unlike what is in the log: the answer is that of a later commit point."""
    cluster = begin(7, count=3, plugins=())
    caller = at_leader(cluster, 1, among=(0, 1, 2))
    frame = request(
        Operation.NON_REPLICATED, client=caller.client, session=caller.session, code=int(CommandCode.GET_STREAMS)
    )
    first = caller.call(frame, milliseconds=2_000)
    assert caller.create("between")
    assert caller.at is not None
    cluster.crash(caller.at)
    survivors = tuple([each for each in range(3) if each != caller.at])
    cluster.world.advance(ELECTION_MILLISECONDS)
    again = at_leader(cluster, 1, among=survivors)
    second = again.call(frame, milliseconds=2_000)
    assert first is not None
    assert second is not None
    assert (code(first), code(second)) == (0, 0)
    assert b"between" in second
    assert b"between" not in first
    assert ReplyHeader.decode(second).commit > ReplyHeader.decode(first).commit
    assert [code(answer) for answer in ask_for_messages(again)] == [FEATURE_UNAVAILABLE] * 2
