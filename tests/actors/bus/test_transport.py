"""The real transport on real sockets, port 0: a Bus actor on its event loop, probes as neighbours."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.bus import transport
from levrier.actors.bus.actor import BusActor
from levrier.actors.bus.bus import Bus, BusLimits
from levrier.actors.bus.transport import TcpTransport
from levrier.actors.client_table.messages import DISCONNECT_REQUEST, Preflight
from levrier.actors.metadata.messages import FindCredentials, Query
from levrier.actors.runtime import FatalReason, Probe, ThreadedRuntime
from levrier.wire.codes import CommandCode, EvictionReason, Operation
from levrier.wire.requests.streams import CreateStream
from tests.actors.bus import tls_identity
from tests.actors.bus.rig import CLIENT, SETTINGS, Answer, committed, credentials, query, register, request, ticket_of

BEYOND_BUFFERS = 24 << 20
"""More than the kernel takes for a peer that does not read."""

BOTH_LOOPS = pytest.mark.parametrize("use_uvloop", [False, True], ids=["asyncio", "uvloop"])

PING = query(CommandCode.PING, session=0)
CREATE = request(Operation.CREATE_STREAM, CreateStream(name="prod").encode())


class SocketRig:
    """A node that consists of its Bus."""

    def __init__(self, *, limits: BusLimits, tls: ssl.SSLContext | None, use_uvloop: bool) -> None:
        self.failures: list[FatalReason] = []
        self.runtime = ThreadedRuntime(
            "test",
            arrangement={"bus": "io"},
            on_failure=self.failures.append,
            workers=1,
            use_uvloop=use_uvloop,
        )
        self.table: Probe[Preflight] = Probe("client_table")
        self.metadata: Probe[Any] = Probe("metadata")
        self.transport = TcpTransport(loop=self.runtime.loop, host="127.0.0.1", port=0, tls=tls)
        self.address = self.transport.address
        self.core = Bus(settings=SETTINGS, limits=limits)
        BusActor.start(
            name="bus",
            runtime=self.runtime,
            core=self.core,
            transport=self.transport,
            client_table=self.table,
            metadata=self.metadata,
            consensus=Probe("consensus"),
            verify=lambda password_hash, password: (password_hash, password) == ("stored", "iggy"),
        )
        self.bus = self.runtime.address("bus")

    def connect(self) -> "Peer":
        """A client's socket."""
        return Peer(socket.create_connection(self.address, timeout=10))

    def log_in(self, peer: "Peer", *, epoch: int = 11) -> None:
        """A whole login."""
        peer.send(register())
        self.metadata.wait()
        found = self.metadata.take()
        assert isinstance(found, FindCredentials)
        self.bus.tell(credentials(found.ticket))
        ticket = ticket_of(self.next_preflight())
        self.bus.tell(bus.Reply(ticket=ticket, frame=committed(Operation.REGISTER, op=epoch, number=0)))
        assert peer.receive().result == 0

    def next_preflight(self) -> Preflight:
        """What the client table is asked next."""
        self.table.wait()
        return self.table.take()


class Peer:
    """A blocking socket that speaks frames."""

    def __init__(self, plain: socket.socket) -> None:
        self.socket = plain

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.socket.sendall(data)

    def receive(self) -> Answer:
        """The next frame."""
        header = self._exactly(256)
        return Answer.of(header + self._exactly(int.from_bytes(header[48:52], "little") - 256))

    def receive_end(self) -> None:
        """The node closes the connection, and sends nothing before."""
        try:
            assert self.socket.recv(1) == b""
        except ConnectionResetError:
            return

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(min(size - len(data), 1 << 20))
            assert part, "the node closed the connection"
            data += part
        return bytes(data)


@contextmanager
def node(
    *, limits: BusLimits | None = None, tls: ssl.SSLContext | None = None, use_uvloop: bool = False
) -> Iterator[SocketRig]:
    rig = SocketRig(limits=limits or BusLimits(), tls=tls, use_uvloop=use_uvloop)
    rig.runtime.start()
    try:
        yield rig
    finally:
        rig.runtime.stop()
    assert rig.failures == []
    assert rig.transport.connections == 0


@BOTH_LOOPS
def test_ping_login_write_and_read_over_a_socket(*, use_uvloop: bool) -> None:
    """Where uvloop is not installed, both run on the standard loop."""
    with node(use_uvloop=use_uvloop) as rig:
        peer = rig.connect()
        peer.send(PING)
        assert peer.receive().status == 0
        rig.log_in(peer)

        peer.send(CREATE)
        frame = committed(Operation.CREATE_STREAM, op=12)
        rig.bus.tell(bus.Reply(ticket=ticket_of(rig.next_preflight()), frame=frame))
        assert peer.receive().frame == frame

        peer.send(query(CommandCode.GET_STREAMS))
        rig.metadata.wait()
        asked = rig.metadata.take()
        assert isinstance(asked, Query)
        large = bytes(3_000_000)
        rig.bus.tell(bus.QueryAnswer(ticket=asked.ticket, status=0, body=large, commit=12))
        assert peer.receive().body == large
        peer.close()


def test_a_wrong_password_is_refused_by_the_worker() -> None:
    with node() as rig:
        peer = rig.connect()
        peer.send(register())
        rig.metadata.wait()
        rig.bus.tell(credentials(rig.metadata.take().ticket, user_id=None))
        assert peer.receive().reason is EvictionReason.INVALID_CREDENTIALS
        peer.close()


def test_a_frame_in_single_bytes_and_many_frames_in_one_segment() -> None:
    with node() as rig:
        peer = rig.connect()
        for byte in PING:
            peer.send(bytes((byte,)))
        assert peer.receive().status == 0
        peer.send(PING * 200)
        assert [peer.receive().status for _ in range(200)] == [0] * 200
        peer.close()


@pytest.mark.parametrize(
    "garbage",
    [bytes(256), b"\xff" * 300, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10, PING[:60] + b"\x08" + PING[61:]],
)
def test_garbage_closes_its_connection_and_the_node_goes_on(garbage: bytes) -> None:
    with node() as rig:
        bad, good = rig.connect(), rig.connect()
        bad.send(garbage)
        bad.receive_end()
        good.send(PING)
        assert good.receive().status == 0
        bad.close()
        good.close()


def test_a_closed_socket_logs_its_session_out() -> None:
    with node() as rig:
        peer = rig.connect()
        rig.log_in(peer)
        peer.close()
        header = rig.next_preflight().request.header
        assert (header.client, header.session, header.request) == (CLIENT, 11, DISCONNECT_REQUEST)


def test_a_connection_too_many_is_closed() -> None:
    with node(limits=BusLimits(connections_max=1)) as rig:
        first = rig.connect()
        first.send(PING)
        assert first.receive().status == 0
        second = rig.connect()
        second.receive_end()
        first.send(PING)
        assert first.receive().status == 0
        first.close()
        second.close()


def test_a_client_that_never_reads_is_bounded_and_others_are_served() -> None:
    with node() as rig:
        deaf = rig.connect()
        rig.log_in(deaf)
        deaf.send(query(CommandCode.GET_STREAMS) * 3)
        rig.metadata.wait()
        asked = rig.metadata.take()
        rig.bus.tell(bus.QueryAnswer(ticket=asked.ticket, status=0, body=bytes(BEYOND_BUFFERS), commit=12))

        good = rig.connect()
        good.send(PING)
        assert good.receive().status == 0
        # The next request of the deaf one is not even asked for, since its answer could not leave.
        rig.metadata.assert_silent()
        assert len(deaf.receive().body) == BEYOND_BUFFERS
        rig.metadata.wait()
        rig.bus.tell(bus.QueryAnswer(ticket=rig.metadata.take().ticket, status=0, body=b"", commit=12))
        assert deaf.receive().status == 0
        deaf.close()
        good.close()


def test_stopping_closes_the_sockets_of_clients_that_are_owed_something() -> None:
    with node() as rig:
        reading, deaf = rig.connect(), rig.connect()
        rig.log_in(deaf)
        deaf.send(query(CommandCode.GET_STREAMS))
        rig.metadata.wait()
        rig.bus.tell(
            bus.QueryAnswer(ticket=rig.metadata.take().ticket, status=0, body=bytes(BEYOND_BUFFERS), commit=12)
        )
        reading.send(PING)
        assert reading.receive().status == 0
    reading.receive_end()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(rig.address, timeout=10)
    reading.close()
    deaf.close()


def test_a_taken_address_is_refused_when_the_transport_is_made() -> None:
    with node() as rig, pytest.raises(OSError, match="in use"):
        TcpTransport(loop=rig.runtime.loop, host="127.0.0.1", port=rig.address[1])


def test_a_transport_that_was_never_started_leaves_no_socket() -> None:
    runtime = ThreadedRuntime("test", arrangement={"bus": "io"}, on_failure=lambda _reason: None, workers=1)
    transport = TcpTransport(loop=runtime.loop, host="127.0.0.1", port=0)
    transport.stop()
    runtime.stop()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(transport.address, timeout=10)


@pytest.fixture
def own(tmp_path: Path) -> ssl.SSLContext:
    """What a node shows to its clients."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_text(tls_identity.CERTIFICATE, encoding="ascii")
    key.write_text(tls_identity.KEY, encoding="ascii")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def over_tls(rig: SocketRig) -> Peer:
    """A client that trusts the node."""
    trusting = ssl.create_default_context(cadata=tls_identity.CERTIFICATE)
    plain = socket.create_connection(rig.address, timeout=10)
    return Peer(trusting.wrap_socket(plain, server_hostname="localhost"))


@BOTH_LOOPS
def test_tls_on_the_same_port(own: ssl.SSLContext, *, use_uvloop: bool) -> None:
    with node(tls=own, use_uvloop=use_uvloop) as rig:
        peer = over_tls(rig)
        peer.send(PING * 3)
        assert [peer.receive().status for _ in range(3)] == [0, 0, 0]
        rig.log_in(peer)
        peer.close()
        assert rig.next_preflight().request.header.request == DISCONNECT_REQUEST


@BOTH_LOOPS
def test_clients_that_begin_no_handshake_take_no_more_than_their_share(
    own: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, *, use_uvloop: bool
) -> None:
    """One beyond the bound ends the oldest, and a client that means it still gets in."""
    monkeypatch.setattr(transport, "TLS_HANDSHAKES_MAX", 16)
    with node(tls=own, use_uvloop=use_uvloop) as rig:
        waiting = [rig.connect() for _ in range(16 + 8)]
        for each in waiting[:8]:
            each.receive_end()
        peer = over_tls(rig)
        peer.send(PING)
        assert peer.receive().status == 0
        peer.close()
    for each in waiting[8:]:
        each.receive_end()
    for each in waiting:
        each.close()


def test_a_peer_that_is_closed_but_does_not_read_what_it_is_owed_is_not_waited_for_at_the_end() -> None:
    with node() as rig:
        deaf = rig.connect()
        rig.log_in(deaf)
        deaf.send(query(CommandCode.GET_STREAMS))
        rig.metadata.wait()
        ticket = rig.metadata.take().ticket
        rig.bus.tell(bus.QueryAnswer(ticket=ticket, status=0, body=bytes(BEYOND_BUFFERS), commit=12))
        rig.bus.tell(bus.Received(connection=ticket.connection, data=bytes(256)))
        assert rig.next_preflight().request.header.request == DISCONNECT_REQUEST
    deaf.close()
