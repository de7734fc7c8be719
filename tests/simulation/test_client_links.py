"""The connections of clients are as bad as they can be: slow, silent, reset; and no worse than TCP's."""

from random import Random

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.bus.simulated_transport import SimulatedTransport
from levrier.cluster.simulate.checkers import AnswerCheck
from levrier.cluster.simulate.client_links import RETRANSMIT_MS, ClientConnection, ClientLinks
from levrier.cluster.simulate.cluster import SimulatedCluster, cluster_config
from levrier.cluster.simulate.faults import Fault, FaultPlan
from levrier.cluster.simulate.frames import login_frame
from levrier.cluster.simulate.run import Settings, Simulation
from tests.simulation.test_cluster_seeds import told

FAULTS = (Fault.LOSS, Fault.PARTITION, Fault.ONE_WAY, Fault.DELAY)
FRAMES = [login_frame(client) for client in range(1, 21)]


def plan_of(*faults: Fault, loss: float = 0.0, delay_ms: int = 0) -> FaultPlan:
    """What a seed could draw."""
    return FaultPlan(chosen=faults, mean_ms={}, loss=loss, duplicate=0.0, reorder=0.0, delay_ms=delay_ms, slow_us=0)


class Pair:
    """A client that is connected to a member which does nothing; what both ends see."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster(1, cluster_config(3))
        self.world = self.cluster.world
        self.transport = SimulatedTransport(bus=self)
        self.cluster.transports[1] = self.transport
        self.told: list[str] = []
        self.links = ClientLinks(
            random=Random(1),
            cluster=self.cluster,
            answers=AnswerCheck(1_000),
            tell=lambda _who, what: self.told.append(what),
        )
        self.events = 0
        self.heard: list[bytes] = []
        self.closed_at_node = False
        self.client = self.connect()

    def tell(self, message: bus.Command, /) -> None:
        """The Bus of the member hears."""
        if isinstance(message, bus.Received):
            self.heard.append(message.data)
        self.closed_at_node |= isinstance(message, bus.Closed)

    def connect(self) -> ClientConnection:
        """Another client."""
        return self.links.connect("client-1", 1, self._on_event)

    def _on_event(self) -> None:
        self.events += 1

    def write(self, *frames: bytes) -> None:
        """The member writes."""
        for frame in frames:
            self.transport.write(1, frame)


def test_without_faults_everything_arrives_at_once() -> None:
    pair = Pair()
    pair.client.send(FRAMES[0])
    pair.write(FRAMES[1])
    assert pair.heard == FRAMES[:1]
    assert (pair.client.take_all(), pair.events) == (FRAMES[1:2], 1)
    pair.client.close()
    assert pair.closed_at_node


@pytest.mark.parametrize("only_one", [True, False])
def test_what_a_client_sends_into_a_silence_arrives_behind_it_in_order(*, only_one: bool) -> None:
    pair = Pair()
    pair.links.silence(1, 500, up=True, down=False, only=pair.client if only_one else None)
    pair.client.send(FRAMES[0])
    pair.client.send(FRAMES[1])
    pair.client.close()
    pair.world.advance(499)
    assert pair.heard == []
    assert not pair.closed_at_node
    pair.world.advance(1)
    assert pair.heard == FRAMES[:2]
    assert pair.closed_at_node


def test_what_a_node_writes_into_a_silence_arrives_behind_it_in_order() -> None:
    pair = Pair()
    pair.links.silence(1, 500, up=False, down=True)
    pair.client.send(FRAMES[2])
    assert pair.heard == [FRAMES[2]]
    pair.write(*FRAMES[:2])
    pair.transport.close(1, abort=False)
    pair.world.advance(499)
    assert (pair.client.take_all(), pair.client.closed_by_node) == ([], False)
    pair.world.advance(1)
    assert (pair.client.take_all(), pair.client.closed_by_node) == (FRAMES[:2], True)


def test_a_silent_member_is_silent_to_clients_that_come_later() -> None:
    pair = Pair()
    pair.links.silence(1, 500, up=True, down=True)
    pair.connect().send(FRAMES[0])
    pair.world.advance(499)
    assert pair.heard == []
    pair.world.advance(1)
    assert pair.heard == FRAMES[:1]


def test_two_silences_are_over_when_both_are() -> None:
    pair = Pair()
    pair.links.silence(1, 500, up=True, down=True)
    pair.links.silence(1, 700, up=True, down=False, only=pair.client)
    pair.client.send(FRAMES[0])
    pair.world.advance(699)
    assert pair.heard == []
    pair.world.advance(1)
    assert pair.heard == FRAMES[:1]


def test_a_client_that_has_closed_hears_nothing_any_more() -> None:
    pair = Pair()
    pair.links.silence(1, 500, up=False, down=True)
    pair.write(FRAMES[0])
    pair.client.close()
    pair.world.advance(1_000)
    assert (pair.client.take_all(), pair.events) == ([], 0)


def test_a_reset_is_seen_at_both_ends_and_loses_what_was_on_its_way() -> None:
    pair = Pair()
    pair.links.silence(1, 500, up=True, down=True)
    pair.client.send(FRAMES[0])
    pair.write(FRAMES[1])
    pair.client.reset()
    assert pair.closed_at_node
    assert pair.client.closed_by_node
    pair.world.advance(1_000)
    assert (pair.heard, pair.client.take_all()) == ([], [])


def test_delays_and_losses_change_no_order_and_lose_nothing() -> None:
    pair = Pair()
    pair.links.begin(plan_of(Fault.DELAY, loss=0.3, delay_ms=200))
    for frame in FRAMES:
        pair.client.send(frame)
        pair.write(frame)
        pair.world.advance(3)
    assert len(pair.heard) < len(FRAMES)
    pair.world.advance(RETRANSMIT_MS * 2)
    assert pair.heard == FRAMES
    assert pair.client.take_all() == FRAMES


def test_when_the_faults_end_everything_that_waits_arrives() -> None:
    pair = Pair()
    pair.links.begin(plan_of(*FAULTS, delay_ms=200))
    pair.links.silence(1, 60_000, up=True, down=True)
    pair.client.send(FRAMES[0])
    pair.write(FRAMES[1])
    pair.links.calm()
    assert (pair.heard, pair.client.take_all()) == (FRAMES[:1], FRAMES[1:2])
    strikes = pair.links.strikes
    pair.client.send(FRAMES[2])
    assert pair.heard[1:] == FRAMES[2:3]
    pair.world.advance(120_000)
    assert pair.links.strikes == strikes


@pytest.mark.parametrize(
    ("fault", "marks"),
    [
        (Fault.LOSS, ("is reset", "hears nothing")),
        (Fault.PARTITION, ("neither hears the other",)),
        (Fault.ONE_WAY, ("node-1 hears nothing", "client-1 hears nothing", "any client hears nothing")),
    ],
)
def test_each_fault_of_the_links_strikes_clients_in_its_way(fault: Fault, marks: tuple[str, ...]) -> None:
    pair = Pair()
    pair.links.begin(plan_of(fault))
    for _ in range(300):
        pair.world.advance(1_000)
        if pair.client.closed_by_node:
            pair.client = pair.connect()
    assert pair.links.strikes == len(pair.told) > 10
    assert all(any(mark in line for mark in marks) for line in pair.told)
    assert all(any(mark in line for line in pair.told) for mark in marks)


def test_clients_without_faults_of_the_links_are_left_alone() -> None:
    simulation = Simulation(1, Settings(operations=30, faults=(Fault.CRASH, Fault.PAUSE)))
    verdict = simulation.play()
    assert verdict.rule is None, told(verdict)
    assert simulation.client_links.strikes == 0


def test_a_cluster_bears_bad_connections_of_its_clients() -> None:
    """The same seed is the same story."""
    strikes = 0
    for seed in range(3):
        simulation = Simulation(seed, Settings(operations=40, faults=FAULTS))
        verdict = simulation.play()
        assert verdict.rule is None, told(verdict)
        assert verdict == Simulation(seed, Settings(operations=40, faults=FAULTS)).play()
        strikes += simulation.client_links.strikes
    assert strikes >= 3
