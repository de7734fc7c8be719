"""Links on real sockets of the loopback interface: Bus actors of two and three nodes on their event loops, probes behind."""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.bus.actor import BusActor
from levrier.actors.bus.bus import Bus, BusLimits
from levrier.actors.bus.handshake import LinkSecret
from levrier.actors.bus.link_frames import DropReason
from levrier.actors.bus.peer_link import PeerAddress
from levrier.actors.bus.peers import LinkLimits, Peers
from levrier.actors.bus.replica_side import ReplicaRoutes, ReplicaWiring
from levrier.actors.bus.replica_transport import TLS_HANDSHAKES_MAX, ReplicaTcpTransport, ReplicaTls
from levrier.actors.bus.transport import TcpTransport
from levrier.actors.consensus.messages import FramesReceived, PrepareReceived
from levrier.actors.runtime import FatalReason, Probe, ThreadedRuntime
from levrier.wire.handshake import Handshake, HandshakeStatus
from levrier.wire.prepare import Prepare
from tests.actors.bus import tls_identity
from tests.actors.bus.link_rig import SECRET, dialer, extension, heartbeat, identity, prepare
from tests.actors.bus.rig import SETTINGS


class Member:
    """A node that consists of its Bus, with a port of its own."""

    def __init__(self, replica: int, *, port: int = 0, tls: ReplicaTls | None = None, use_uvloop: bool = False) -> None:
        self.replica = replica
        self.failures: list[FatalReason] = []
        self.runtime = ThreadedRuntime(
            f"node{replica}",
            arrangement={"bus": "io"},
            on_failure=self.failures.append,
            workers=1,
            use_uvloop=use_uvloop,
        )
        self.consensus: Probe[Any] = Probe("consensus")
        self.received: deque[object] = deque()
        self.acknowledgements: Probe[bus.ReplicaFrame] = Probe("acknowledgements")
        self.watcher: Probe[bus.PeerEvent] = Probe("watcher")
        self.clients = TcpTransport(loop=self.runtime.loop, host="127.0.0.1", port=0)
        self.transport = ReplicaTcpTransport(loop=self.runtime.loop, host="127.0.0.1", port=port, tls=tls)
        self.is_secure = tls is not None
        self.bus = self.runtime.address("bus")

    @property
    def port(self) -> int:
        """Where it listens for replicas."""
        return self.transport.address[1]

    def start(self, ports: list[int], *, secret: LinkSecret | None = None, host: str = "127.0.0.1") -> None:
        """Start it as a member of the cluster that listens on these ports."""
        roster = [PeerAddress(replica=replica, host=host, port=port) for replica, port in enumerate(ports)]
        self.peers = Peers(
            identity=identity(self.replica, members=len(ports), secret=secret, secure=self.is_secure),
            roster=roster,
            entropy=self.runtime.entropy,
            chance=self.runtime.random.random,
            limits=LinkLimits(queue_frames_max=64),
        )
        BusActor.start(
            name="bus",
            runtime=self.runtime,
            core=Bus(settings=SETTINGS, limits=BusLimits()),
            transport=self.clients,
            client_table=Probe("client_table"),
            metadata=Probe("metadata"),
            consensus=Probe("status"),
            replicas=ReplicaWiring(
                peers=self.peers,
                transport=self.transport,
                routes=ReplicaRoutes(
                    consensus=self.consensus, by_command={64: self.acknowledgements}, watchers=(self.watcher,)
                ),
            ),
        )
        self.runtime.start()

    def stop(self) -> None:
        """Stop it; nothing of it stays."""
        self.runtime.stop()
        self.clients.stop()
        self.transport.stop()
        assert self.failures == []
        assert self.transport.connections == 0

    def event(self) -> bus.PeerEvent:
        """What the watcher is told next."""
        self.watcher.wait()
        return self.watcher.take()

    def ups(self, count: int) -> list[int]:
        """The peers that come up next."""
        found = []
        for _ in range(count):
            event = self.event()
            assert isinstance(event, bus.PeerUp), event
            found.append(event.replica)
        return sorted(found)

    def prepare(self) -> Prepare:
        """The prepare that Consensus is told next, alone or with others that came in the same read."""
        if not self.received:
            self.consensus.wait()
            told = self.consensus.take()
            self.received.extend(told.frames if isinstance(told, FramesReceived) else [told])
        received = self.received.popleft()
        assert isinstance(received, PrepareReceived)
        return received.prepare

    def op(self) -> int:
        """The op of that prepare."""
        return self.prepare().header.op

    def send(self, target: int, frame: bytes) -> None:
        """Have it send a frame."""
        self.bus.tell(bus.SendToReplica(replica=target, frame=frame))


@contextmanager
def cluster(
    members: int,
    *,
    secret: LinkSecret | None = None,
    tls: ReplicaTls | None = None,
    use_uvloop: bool = False,
    host: str = "127.0.0.1",
) -> Iterator[list[Member]]:
    """Members that are started in turn, and stopped whatever happens."""
    with ExitStack() as stack:
        nodes = [Member(replica, tls=tls, use_uvloop=use_uvloop) for replica in range(members)]
        for node in nodes:
            stack.callback(node.stop)
        ports = [node.port for node in nodes]
        for node in nodes:
            node.start(ports, secret=secret, host=host)
        yield nodes


def linked(nodes: list[Member]) -> None:
    """Wait until everybody has a link to everybody."""
    for node in nodes:
        assert node.ups(len(nodes) - 1) == [other.replica for other in nodes if other is not node]


def stranger(node: Member) -> socket.socket:
    """Somebody dials its replica port."""
    return socket.create_connection(("127.0.0.1", node.port), timeout=10)


def ends(peer: socket.socket) -> bytes:
    """What it is sent until the node closes the connection."""
    said = bytearray()
    try:
        while part := peer.recv(4096):
            said += part
    except ConnectionResetError:
        pass
    peer.close()
    return bytes(said)


@pytest.mark.parametrize("secret", [None, SECRET], ids=["open", "authenticated"])
@pytest.mark.parametrize("use_uvloop", [False, True], ids=["asyncio", "uvloop"])
def test_two_members_link_up_and_speak_both_ways(*, secret: LinkSecret | None, use_uvloop: bool) -> None:
    with cluster(2, secret=secret, use_uvloop=use_uvloop) as nodes:
        linked(nodes)
        large = prepare(op=1, body=bytes(range(256)) * 20_000)
        nodes[0].send(1, large)
        nodes[0].send(1, prepare(op=2))
        assert nodes[1].prepare().frame == large
        assert nodes[1].op() == 2
        nodes[1].send(0, prepare(op=3, replica=1))
        assert nodes[0].op() == 3


def test_three_members_link_up_and_a_broadcast_reaches_the_others() -> None:
    with cluster(3, secret=SECRET) as nodes:
        linked(nodes)
        for node in nodes:
            node.bus.tell(bus.Broadcast(frame=prepare(op=10 + node.replica, replica=node.replica)))
        for node in nodes:
            others = [10 + other.replica for other in nodes if other is not node]
            assert sorted(node.op() for _ in others) == others
            node.consensus.assert_silent()


def test_acknowledgements_and_prepares_share_a_socket_in_order_each() -> None:
    """A-013."""
    with cluster(2) as nodes:
        linked(nodes)
        for index in range(1, 100):
            nodes[0].send(1, prepare(op=index))
            nodes[0].send(1, extension(64, bytes((index,))))
        assert [nodes[1].op() for _ in range(1, 100)] == list(range(1, 100))
        nodes[1].acknowledgements.wait(99)
        assert [frame.body[0] for frame in nodes[1].acknowledgements.take_all()] == list(range(1, 100))


def test_a_member_that_comes_back_on_its_port_is_dialled_again() -> None:
    with ExitStack() as stack:
        first, second = Member(0), Member(1)
        stack.callback(first.stop)
        ports = [first.port, second.port]
        first.start(ports, secret=SECRET)
        second.start(ports, secret=SECRET)
        linked([first, second])
        second.stop()
        assert isinstance(first.event(), bus.PeerDown)

        again = Member(1, port=ports[1])
        stack.callback(again.stop)
        again.start(ports, secret=SECRET)
        linked([first, again])
        first.send(1, prepare(op=4))
        assert again.op() == 4


def test_a_member_whose_dialer_comes_back_takes_the_new_link() -> None:
    with ExitStack() as stack:
        first, second = Member(0), Member(1)
        stack.callback(second.stop)
        ports = [first.port, second.port]
        first.start(ports)
        second.start(ports)
        linked([first, second])
        first.stop()
        assert isinstance(second.event(), bus.PeerDown)
        again = Member(0, port=ports[0])
        stack.callback(again.stop)
        again.start(ports)
        linked([again, second])


def test_a_second_link_of_a_member_replaces_the_first() -> None:
    """As when the first one hangs: the member that dials again is believed, once it has proven itself."""
    with ExitStack() as stack:
        node = Member(1)
        stack.callback(node.stop)
        node.start([1, node.port])
        hello = dialer(identity(0, members=2), 1).hello()
        first, second = stranger(node), stranger(node)
        first.sendall(hello + prepare(op=1))
        assert node.op() == 1
        second.sendall(hello + prepare(op=2))
        assert node.op() == 2
        assert ends(first) == b""
        node.send(0, heartbeat(replica=1))
        assert second.recv(256, socket.MSG_WAITALL) == heartbeat(replica=1)
        second.close()
        assert [type(node.event()) for _ in range(3)] == [bus.PeerUp, bus.PeerDown, bus.PeerUp]


def test_a_flood_of_strangers_neither_gets_in_nor_gets_in_the_way() -> None:
    with cluster(2, secret=SECRET) as nodes:
        linked(nodes)
        waiting = [stranger(nodes[1]) for _ in range(70)]
        for data in (bytes(256), b"\xff" * 4096, prepare(), dialer(identity(0, members=2), 1).hello()):
            peer = stranger(nodes[1])
            peer.sendall(data)
            said = ends(peer)
            assert said == b"" or Handshake.decode(said).status != HandshakeStatus.OK
        nodes[0].send(1, prepare(op=1))
        assert nodes[1].op() == 1
        for peer in waiting[:6]:
            # The oldest had to make room.
            assert ends(peer) == b""
        for peer in waiting[6:]:
            peer.close()
        nodes[1].consensus.assert_silent()
        nodes[1].watcher.assert_silent()


class Caller:
    """A sink that waits for what becomes of its dials."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.outcome: asyncio.Future[str] = loop.create_future()
        self.links: list[int] = []

    def opened(self, connection: int, peer: str) -> None:
        """A link was accepted."""
        assert peer.startswith("127.0.0.1:")
        self.links.append(connection)

    def dialled(self, link: int, replica: int, peer: str) -> None:
        """A dial succeeded."""
        self.links.append(link)
        self.outcome.set_result(f"replica {replica} at {peer}")

    def dial_failed(self, replica: int, reason: str) -> None:
        """A dial failed."""
        self.outcome.set_result(f"replica {replica}: {reason}")

    def received(self, connection: int, data: bytes) -> None:
        """Bytes arrived."""

    def closed(self, connection: int) -> None:
        """A link is gone."""

    def write_resumed(self, connection: int) -> None:
        """A peer reads again."""

    def result(self) -> str:
        """What became of the dial."""
        said = self.loop.run_until_complete(asyncio.wait_for(self.outcome, 10))
        self.outcome = self.loop.create_future()
        return said


@contextmanager
def calling() -> Iterator[tuple[ReplicaTcpTransport, Caller]]:
    """A transport without a node around it."""
    loop = asyncio.new_event_loop()
    caller, transport = Caller(loop), ReplicaTcpTransport(loop=loop, host="127.0.0.1", port=0)
    try:
        transport.start(caller)
        yield transport, caller
        transport.stop()
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(loop.shutdown_default_executor())
        assert asyncio.all_tasks(loop) == set()
    finally:
        loop.close()


def test_a_host_is_resolved_by_each_dial() -> None:
    """A name that cannot even be asked for fails as one that is not known does, and the next dial asks again."""
    with calling() as (transport, caller):
        port = transport.address[1]
        transport.dial(1, "a" * 70 + ".invalid", port)
        assert caller.result().startswith("replica 1: aaaa")
        transport.dial(1, "localhost", port)
        assert caller.result() == f"replica 1 at 127.0.0.1:{port}"
        transport.dial(1, "127.0.0.1", port)
        assert caller.result() == f"replica 1 at 127.0.0.1:{port}"
        assert len(set(caller.links)) == len(caller.links)


def test_a_port_where_nobody_listens_is_told_of() -> None:
    with calling() as (transport, caller), socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        taken.close()
        transport.dial(2, "127.0.0.1", port)
        assert f"replica 2: 127.0.0.1:{port}: " in caller.result()


def test_a_dial_that_is_under_way_ends_with_the_transport() -> None:
    with calling() as (transport, caller):
        transport.dial(2, "127.0.0.1", transport.address[1])
    assert caller.links == []
    assert not caller.outcome.done()


@pytest.fixture
def tls(tmp_path: Path) -> ReplicaTls:
    """Both sides show the same certificate and insist on seeing it."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_text(tls_identity.CERTIFICATE, encoding="ascii")
    key.write_text(tls_identity.KEY, encoding="ascii")
    accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    dialling = ssl.create_default_context(cadata=tls_identity.CERTIFICATE)
    for context in (accepting, dialling):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(certificate, key)
    return ReplicaTls(accepting=accepting, dialling=dialling)


@pytest.mark.parametrize("use_uvloop", [False, True], ids=["asyncio", "uvloop"])
def test_links_over_tls_prove_the_secret_too(tls: ReplicaTls, *, use_uvloop: bool) -> None:
    with cluster(3, secret=SECRET, tls=tls, host="localhost", use_uvloop=use_uvloop) as nodes:
        linked(nodes)
        nodes[2].send(0, prepare(op=6, replica=2, body=bytes(2_000_000)))
        assert nodes[0].op() == 6


def test_a_stranger_without_tls_gets_nowhere(tls: ReplicaTls) -> None:
    with cluster(2, tls=tls, host="localhost") as nodes:
        linked(nodes)
        peer = stranger(nodes[1])
        peer.sendall(dialer(identity(0, members=2), 1).hello())
        assert len(ends(peer)) < 256
        nodes[0].send(1, prepare(op=1))
        assert nodes[1].op() == 1
        nodes[1].watcher.assert_silent()


@pytest.mark.parametrize("use_uvloop", [False, True], ids=["asyncio", "uvloop"])
def test_strangers_who_begin_no_handshake_take_no_more_than_their_share(tls: ReplicaTls, *, use_uvloop: bool) -> None:
    """Each that waits costs a descriptor and memory: one beyond the bound ends the oldest, and a member still gets in."""
    with cluster(2, secret=SECRET, tls=tls, host="localhost", use_uvloop=use_uvloop) as nodes:
        linked(nodes)
        waiting = [stranger(nodes[1]) for _ in range(TLS_HANDSHAKES_MAX + 40)]
        for peer in waiting[:40]:
            assert ends(peer) == b""
        nodes[0].bus.tell(bus.DropPeer(replica=1, reason="again"))
        assert [type(nodes[0].event()) for _ in range(2)] == [bus.PeerDown, bus.PeerUp]
        for peer in waiting[40:]:
            peer.close()


def test_handshakes_under_way_end_with_the_transport(tls: ReplicaTls) -> None:
    with cluster(2, secret=SECRET, tls=tls, host="localhost") as nodes:
        linked(nodes)
        waiting = [stranger(nodes[1]) for _ in range(8)]
    for peer in waiting:
        assert ends(peer) == b""


def test_a_peer_that_does_not_read_costs_its_frames_and_delays_nobody() -> None:
    with ExitStack() as stack:
        node = Member(2)
        stack.callback(node.stop)
        node.start([1, 1, node.port])
        deaf, good = stranger(node), stranger(node)
        deaf.sendall(dialer(identity(0), 2).hello())
        good.sendall(dialer(identity(1), 2).hello())
        assert node.ups(2) == [0, 1]
        large = prepare(op=1, body=bytes(1 << 20))
        for _ in range(200):
            node.send(0, large)
        node.send(1, heartbeat(replica=2))
        assert good.recv(256, socket.MSG_WAITALL) == heartbeat(replica=2)
        report = node.peers.report()[0]
        assert report.queued == 64
        assert report.drops(DropReason.QUEUE_FULL) + report.frames_sent == 200 - 64
        deaf.close()
        good.close()


def test_a_taken_address_is_refused_when_the_transport_is_made() -> None:
    with cluster(2) as nodes, pytest.raises(OSError, match="in use"):
        ReplicaTcpTransport(loop=nodes[0].runtime.loop, host="127.0.0.1", port=nodes[0].port)
