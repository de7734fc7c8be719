"""Bus actors of several nodes on a simulated network, stepped: links come up, faults are what the policy says."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from loguru import logger

from levrier.actors.bus import messages as bus
from levrier.actors.bus.actor import BusActor
from levrier.actors.bus.bus import Bus, BusLimits
from levrier.actors.bus.handshake import LinkSecret
from levrier.actors.bus.peers import Peers
from levrier.actors.bus.replica_side import ReplicaRoutes, ReplicaWiring
from levrier.actors.bus.simulated_replicas import IN_FLIGHT_MAX, ReplicaNetwork
from levrier.actors.bus.simulated_transport import SimulatedTransport
from levrier.actors.consensus.messages import FrameReceived, PrepareReceived
from levrier.actors.runtime import Probe, SteppedRuntime
from tests.actors.bus.link_rig import (
    CLUSTER,
    NAME,
    NEXT_SECRET,
    SECRET,
    extension,
    heartbeat,
    identity,
    prepare,
    roster,
)
from tests.actors.bus.rig import SETTINGS


@dataclass
class Faults:
    """A policy that a test sets by hand."""

    cuts: list[tuple[int, int]] = field(default_factory=list)
    delays: dict[tuple[int, int], list[Sequence[int]]] = field(default_factory=dict)

    def is_cut(self, source: int, target: int) -> bool:
        """Whether the way was cut."""
        return (source, target) in self.cuts

    def copies(self, source: int, target: int, frame: bytes) -> Sequence[int]:
        """The next entry of the list for that way, then no faults."""
        del frame
        waiting = self.delays.get((source, target))
        return waiting.pop(0) if waiting else (0,)


class Member:
    """One node that consists of its Bus."""

    def __init__(self, cluster: "Cluster", replica: int) -> None:
        self.runtime = cluster.runtime.node(f"node{replica}")
        address = self.runtime.address("bus")
        self.consensus: Probe[Any] = Probe("consensus")
        self.acknowledgements: Probe[bus.ReplicaFrame] = Probe("acknowledgements")
        self.watcher: Probe[bus.PeerEvent] = Probe("watcher")
        self.transport = cluster.network.join(
            replica, host=f"node{replica}", port=9000, runtime=self.runtime, bus=address
        )
        self.peers = Peers(
            identity=identity(
                replica, name=cluster.names[replica], members=cluster.members, secret=cluster.secrets[replica]
            ),
            roster=roster(cluster.members),
            entropy=self.runtime.entropy,
            chance=self.runtime.random.random,
        )
        BusActor.start(
            name="bus",
            runtime=self.runtime,
            core=Bus(settings=SETTINGS, limits=BusLimits()),
            transport=SimulatedTransport(bus=address),
            client_table=Probe("client_table"),
            metadata=Probe("metadata"),
            consensus=Probe("status"),
            replicas=ReplicaWiring(
                peers=self.peers,
                transport=self.transport,
                routes=ReplicaRoutes(
                    consensus=self.consensus,
                    by_command={64: self.acknowledgements},
                    watchers=(self.watcher,),
                ),
            ),
        )
        self.bus = address

    def ups(self) -> list[int]:
        """Which peers came up since the last look."""
        return sorted(event.replica for event in self.watcher.take_all() if isinstance(event, bus.PeerUp))

    def heard(self) -> list[int]:
        """Ops of prepares and commit points of heartbeats that Consensus was told, in order."""
        found = []
        for message in self.consensus.take_all():
            if isinstance(message, PrepareReceived):
                found.append(message.prepare.header.op)
            else:
                assert isinstance(message, FrameReceived)
                found.append(getattr(message.header, "commit", 0))
        return found


class Cluster:
    """Nodes of one stepped runtime."""

    def __init__(self, members: int = 3, *, seed: int = 1, secret: LinkSecret | None = None) -> None:
        self.members = members
        self.names = [NAME] * members
        self.secrets = [secret] * members
        self.runtime = SteppedRuntime(seed)
        self.faults = Faults()
        self.network = ReplicaNetwork(self.faults)
        self.nodes: list[Member] = []

    def start(self) -> "Cluster":
        """Bring up every member."""
        self.nodes = [Member(self, replica) for replica in range(self.members)]
        return self

    def all_up(self) -> bool:
        """Whether every member has a link to every other one."""
        return all(report.up for node in self.nodes for report in node.peers.report())

    def connect(self) -> "Cluster":
        """Bring up every member, and wait until everybody is linked."""
        self.start()
        assert self.runtime.run_until(self.all_up, max_milliseconds=1_000)
        self.runtime.run()
        return self

    def send(self, source: int, target: int, *frames: bytes) -> None:
        """Have a member send frames, and deliver what arrives at once."""
        for frame in frames:
            self.nodes[source].bus.tell(bus.SendToReplica(replica=target, frame=frame))
        self.runtime.run()


def test_every_member_is_linked_to_every_other_one_in_no_time() -> None:
    """In any order of events."""
    for seed in range(20):
        for secret in (None, SECRET):
            cluster = Cluster(3, seed=seed, secret=secret).connect()
            assert [node.ups() for node in cluster.nodes] == [[1, 2], [0, 2], [0, 1]]
            assert cluster.runtime.clock.monotonic_nanos() < 50_000_000


def test_frames_reach_the_consensus_of_the_peer_in_order() -> None:
    cluster = Cluster().connect()
    cluster.send(0, 2, *(prepare(op=op) for op in range(1, 8)), heartbeat(commit=9))
    assert cluster.nodes[2].heard() == [1, 2, 3, 4, 5, 6, 7, 9]
    assert cluster.nodes[1].heard() == []


def test_acknowledgements_and_prepares_on_one_link_reach_their_own_actor_in_order_each() -> None:
    """A-013."""
    cluster = Cluster().connect()
    bodies = [bytes((index,)) for index in range(1, 30)]
    for index, body in enumerate(bodies, start=1):
        cluster.nodes[0].bus.tell(bus.SendToReplica(replica=1, frame=prepare(op=index)))
        cluster.nodes[0].bus.tell(bus.SendToReplica(replica=1, frame=extension(64, body)))
    cluster.runtime.run()
    assert cluster.nodes[1].heard() == list(range(1, 30))
    assert [frame.body for frame in cluster.nodes[1].acknowledgements.take_all()] == bodies


def test_all_that_is_sent_is_handled_before_time_moves_and_nothing_is_dropped_for_want_of_room() -> None:
    """C-274."""
    cluster = Cluster().connect()
    for tick in range(5):
        for node, member in enumerate(cluster.nodes):
            for op in range(1, 1_001):
                member.bus.tell(bus.Broadcast(frame=heartbeat(replica=node, commit=op)))
        before = cluster.runtime.clock.monotonic_nanos()
        cluster.runtime.run()
        assert cluster.runtime.clock.monotonic_nanos() == before
        assert cluster.runtime.idle
        for member in cluster.nodes:
            heard = member.heard()
            assert len(heard) == 2_000, tick
            assert [report.dropped for report in member.peers.report()] == [(), ()]
        cluster.runtime.advance(10)


def test_a_broadcast_reaches_everybody_else() -> None:
    cluster = Cluster(4).connect()
    cluster.nodes[1].bus.tell(bus.Broadcast(frame=heartbeat(replica=1, commit=5)))
    cluster.runtime.run()
    assert [node.heard() for node in cluster.nodes] == [[5], [], [5], [5]]


def test_a_frame_may_be_lost_repeated_and_overtaken() -> None:
    cluster = Cluster().connect()
    cluster.faults.delays[0, 1] = [(), (0, 5), (20,), (10,)]
    cluster.send(0, 1, *(prepare(op=op) for op in range(1, 6)))
    assert cluster.nodes[1].heard() == [2, 5]
    cluster.runtime.advance(30)
    assert cluster.nodes[1].heard() == [2, 4, 3]
    assert cluster.network.lost == 1


def test_a_way_may_be_cut_in_one_direction() -> None:
    cluster = Cluster().connect()
    cluster.faults.cuts.append((0, 1))
    cluster.send(0, 1, prepare(op=1))
    cluster.send(1, 0, heartbeat(replica=1, commit=3))
    assert (cluster.nodes[1].heard(), cluster.nodes[0].heard()) == ([], [3])
    cluster.faults.cuts.clear()
    cluster.send(0, 1, prepare(op=2))
    assert cluster.nodes[1].heard() == [2]


def test_a_frame_on_its_way_is_lost_with_the_way() -> None:
    cluster = Cluster().connect()
    cluster.faults.delays[0, 1] = [(10,)]
    cluster.send(0, 1, prepare(op=1))
    cluster.faults.cuts.append((0, 1))
    cluster.runtime.advance(20)
    assert cluster.nodes[1].heard() == []


def test_no_more_than_a_bound_is_on_its_way() -> None:
    """C-276."""
    cluster = Cluster().connect()
    for _ in range(2):
        cluster.faults.delays[0, 1] = [(10,)] * (IN_FLIGHT_MAX + 6)
        cluster.send(0, 1, *(prepare(op=op) for op in range(1, IN_FLIGHT_MAX + 7)))
        cluster.runtime.advance(20)
        assert cluster.nodes[1].heard() == list(range(1, IN_FLIGHT_MAX + 1))
    assert cluster.network.lost == 12


def test_a_member_that_crashes_is_linked_again_when_it_is_back() -> None:
    for crashed in range(3):
        cluster = Cluster(secret=SECRET).connect()
        for node in cluster.nodes:
            node.watcher.take_all()
        cluster.runtime.crash_node(f"node{crashed}")
        cluster.network.leave(crashed)
        cluster.runtime.advance(3_000)
        others = [node for node in cluster.nodes if node is not cluster.nodes[crashed]]
        assert all(report.up is (report.replica != crashed) for node in others for report in node.peers.report())

        cluster.nodes[crashed] = Member(cluster, crashed)
        assert cluster.runtime.run_until(cluster.all_up, max_milliseconds=1_500)
        cluster.runtime.run()
        assert [node.ups() for node in others] == [[crashed], [crashed]]


def test_dials_into_a_cut_are_repeated_until_it_heals() -> None:
    cluster = Cluster(2).start()
    cluster.faults.cuts.append((0, 1))
    cluster.runtime.advance(10_000)
    assert not cluster.all_up()
    assert "nobody answers" in cluster.nodes[0].peers.report()[0].failure
    cluster.faults.cuts.clear()
    assert cluster.runtime.run_until(cluster.all_up, max_milliseconds=1_300)


def test_a_handshake_whose_answers_are_lost_is_begun_again() -> None:
    cluster = Cluster(2, secret=SECRET).start()
    cluster.faults.cuts.append((1, 0))
    cluster.runtime.advance(10_000)
    assert not cluster.all_up()
    cluster.faults.cuts.clear()
    assert cluster.runtime.run_until(cluster.all_up, max_milliseconds=6_000)


def test_a_member_of_another_cluster_is_refused_by_both_and_nothing_is_told() -> None:
    """B-009."""
    cluster = Cluster(2)
    cluster.names[0] = "staging"
    cluster.start()
    cluster.runtime.advance(5_000)
    assert cluster.nodes[1].watcher.count == 0
    said = cluster.nodes[0].peers.report()[0].failure
    assert f"{identity(0, name='staging').cluster:032x}" in said
    assert f"{CLUSTER:032x}" in said


def test_members_with_different_secrets_never_link_up_and_say_so() -> None:
    cluster = Cluster(2)
    cluster.secrets = [SECRET, NEXT_SECRET]
    cluster.start()
    cluster.runtime.advance(5_000)
    for node in cluster.nodes:
        node.watcher.assert_silent()
    assert "does not prove that it knows the shared secret" in cluster.nodes[0].peers.report()[0].failure


def test_a_member_without_the_secret_never_links_up() -> None:
    for secrets in ([SECRET, None], [None, SECRET]):
        cluster = Cluster(2)
        cluster.secrets = secrets
        cluster.start()
        cluster.runtime.advance(5_000)
        cluster.nodes[1].watcher.assert_silent()
        assert not cluster.nodes[0].peers.report()[0].up
        assert "secret" in cluster.nodes[0].peers.report()[0].failure


def test_a_peer_that_an_actor_drops_is_not_spoken_to() -> None:
    cluster = Cluster(2).connect()
    cluster.nodes[0].ups()
    cluster.nodes[0].bus.tell(bus.DropPeer(replica=1, reason="another birth"))
    cluster.runtime.run()
    assert cluster.nodes[0].watcher.take() == bus.PeerDown(replica=1, reason="another birth")
    assert not cluster.nodes[1].peers.report()[0].up


def test_a_command_that_nobody_takes_is_counted() -> None:
    cluster = Cluster(2).connect()
    cluster.send(0, 1, extension(65))
    assert [count for _, count in cluster.nodes[1].peers.report()[0].dropped] == [1]
    assert cluster.nodes[1].heard() == []


def test_messages_of_one_batch_are_one_write() -> None:
    cluster = Cluster(2).connect()
    before = cluster.nodes[0].transport.writes
    cluster.send(0, 1, *(prepare(op=op) for op in range(1, 21)))
    # When a batch ends is up to the seed.
    assert cluster.nodes[0].transport.writes - before < 20
    assert cluster.nodes[1].heard() == list(range(1, 21))


def test_what_waits_is_written_before_the_batch_ends_when_that_is_asked_for() -> None:
    cluster = Cluster(2).connect()
    node = cluster.nodes[0]
    before = node.transport.writes
    for op in range(1, 21):
        node.bus.tell(bus.SendToReplica(replica=1, frame=prepare(op=op)))
        node.bus.tell(bus.FlushLinks())
    cluster.send(0, 1)
    assert node.transport.writes - before == 20
    assert cluster.nodes[1].heard() == list(range(1, 21))


def test_two_runs_of_one_seed_are_the_same() -> None:
    digests = []
    for _ in range(2):
        cluster = Cluster(seed=7, secret=SECRET).connect()
        cluster.send(0, 1, *(prepare(op=op) for op in range(1, 5)))
        cluster.runtime.advance(2_000)
        digests.append(cluster.runtime.trace_digest())
    assert digests[0] == digests[1]


def test_stopping_a_node_ends_its_links_and_its_dials() -> None:
    cluster = Cluster(secret=SECRET).connect()
    cluster.nodes[0].runtime.stop()
    cluster.runtime.advance(3_000)
    assert cluster.nodes[0].transport.connections == 0
    assert [node.transport.connections for node in cluster.nodes[1:]] == [1, 1]


def test_a_node_without_peers_takes_a_broadcast_and_does_nothing() -> None:
    runtime = SteppedRuntime(1)
    address = runtime.address("bus")
    BusActor.start(
        name="bus",
        runtime=runtime,
        core=Bus(settings=SETTINGS, limits=BusLimits()),
        transport=SimulatedTransport(bus=address),
        client_table=Probe("client_table"),
        metadata=Probe("metadata"),
        consensus=Probe("status"),
    )
    address.tell(bus.Broadcast(frame=heartbeat()))
    address.tell(bus.SetDialPace(hurried=True))
    runtime.run()
    assert runtime.failures == []
    address.tell(bus.SendToReplica(replica=1, frame=heartbeat()))
    runtime.run()
    assert len(runtime.failures) == 1


def test_what_is_logged_of_a_link_says_whose_it_is() -> None:
    """By actor and replica: the lines of several members tell each other's news in the same words."""
    cluster = Cluster()
    seen: list[tuple[str, dict[str, object]]] = []
    sink = logger.add(lambda line: seen.append((line.record["message"], line.record["extra"])), level="INFO")
    try:
        cluster.connect()
    finally:
        logger.remove(sink)
    connected = [extra for message, extra in seen if message == "replica 1 is connected"]
    assert sorted(connected, key=str) == [{"actor": "bus", "replica": each} for each in (0, 2)]
