"""The Bus actor between a simulated transport and probes, and with the real client table behind it."""

import tracemalloc
from typing import Any

from levrier.actors.bus import messages as bus
from levrier.actors.bus.actor import BusActor
from levrier.actors.bus.bus import Bus, BusLimits
from levrier.actors.bus.simulated_transport import SimulatedClient, SimulatedTransport
from levrier.actors.client_table.actor import ClientTableActor
from levrier.actors.client_table.messages import Commit, Preflight
from levrier.actors.client_table.table import ClientTable
from levrier.actors.consensus import messages as consensus
from levrier.actors.metadata.messages import FindCredentials, FindSegmentSize, Query
from levrier.actors.runtime import Handlers, NodeActor, Probe, Recipient, Runtime, SteppedRuntime
from levrier.wire.codes import LEVRIER_STATUS, CommandCode, EvictionReason, Operation
from levrier.wire.headers import PrepareHeader
from levrier.wire.identifiers import Identifier
from levrier.wire.options import KIND_UINT64, OptionEntry, encode_block
from levrier.wire.replies import committed_reply, result_success
from levrier.wire.requests.streams import CreateStream
from levrier.wire.requests.topics import UpdateTopic
from tests.actors.bus.rig import (
    CLIENT,
    SETTINGS,
    Answer,
    committed,
    credentials,
    login_body,
    query,
    register,
    request,
    ticket_of,
)

PING = query(CommandCode.PING, session=0)
CREATE = request(Operation.CREATE_STREAM, CreateStream(name="prod").encode())


def fits(password_hash: str, password: str) -> bool:
    """The password comparison of these tests."""
    if password == "broken":
        raise RuntimeError("no memory")
    return password_hash == "stored" and password == "iggy"


class ActorRig:
    """A Bus actor with probes as its neighbours."""

    def __init__(self, *, seed: int = 1, limits: BusLimits | None = None, passwords_max: int = 64) -> None:
        self.runtime = SteppedRuntime(seed)
        self.address = self.runtime.address("bus")
        self.transport = SimulatedTransport(bus=self.address)
        self.table: Probe[Preflight] = Probe("client_table")
        self.metadata: Probe[Query | FindCredentials | FindSegmentSize] = Probe("metadata")
        self.consensus: Probe[consensus.StatusQuery] = Probe("consensus")
        self.core = Bus(settings=SETTINGS, limits=limits or BusLimits())
        BusActor.start(
            name="bus",
            runtime=self.runtime,
            core=self.core,
            transport=self.transport,
            client_table=self.table,
            metadata=self.metadata,
            consensus=self.consensus,
            verify=fits,
            passwords_max=passwords_max,
        )
        self.runtime.run()

    def send(self, client: SimulatedClient, data: bytes) -> None:
        """Bytes of a client, handled."""
        client.send(data)
        self.runtime.run()

    def tell(self, message: bus.Command) -> None:
        """A message of an actor, handled."""
        self.address.tell(message)
        self.runtime.run()

    def log_in(self, client: SimulatedClient, *, client_id: int = CLIENT, epoch: int = 11) -> None:
        """A whole login."""
        self.send(client, register(client=client_id))
        found = self.metadata.take()
        assert isinstance(found, FindCredentials)
        self.tell(credentials(found.ticket))
        ticket = ticket_of(self.table.take())
        self.tell(bus.Reply(ticket=ticket, frame=committed(Operation.REGISTER, op=epoch, client=client_id, number=0)))
        assert Answer.of(client.take()).result == 0


def test_a_login_goes_through_metadata_worker_and_table() -> None:
    rig = ActorRig()
    client = rig.transport.connect()
    rig.log_in(client)
    assert rig.core.sessions == 1
    client.assert_silent()


def test_a_wrong_password_is_refused_and_one_that_could_not_be_compared_may_try_again() -> None:
    """A worker without memory says nothing about the password: 57, not the end of the login."""
    rig = ActorRig()
    wrong, broken = rig.transport.connect(), rig.transport.connect()
    for client, password in ((wrong, "wrong"), (broken, "broken")):
        rig.send(client, register(login_body(password=password)))
        rig.tell(credentials(rig.metadata.take().ticket))
    assert Answer.of(wrong.take()).reason is EvictionReason.INVALID_CREDENTIALS
    assert Answer.of(broken.take()).result == 57
    rig.table.assert_silent()
    assert rig.runtime.failures == []


def test_logins_beyond_what_the_workers_may_owe_are_told_to_try_again() -> None:
    """A flood of guesses: the queue of comparisons is bounded, and there is room again once they are done."""
    outcomes = set()
    for seed in range(20):
        rig = ActorRig(seed=seed, passwords_max=1)
        clients = [rig.transport.connect() for _ in range(2)]
        for number, client in enumerate(clients, 1):
            rig.send(client, register(login_body(password="wrong"), client=number))
        for found in rig.metadata.take_all():
            rig.address.tell(credentials(found.ticket))
        rig.runtime.run()
        first, second = (Answer.of(client.take()) for client in clients)
        assert first.reason is EvictionReason.INVALID_CREDENTIALS
        outcomes.add(second.result if second.eviction is None else int(second.reason))
        rig.log_in(rig.transport.connect())
    assert outcomes == {57, int(EvictionReason.INVALID_CREDENTIALS)}


def test_each_question_goes_to_the_actor_that_knows() -> None:
    rig = ActorRig()
    client = rig.transport.connect()
    rig.log_in(client)

    rig.send(client, query(CommandCode.GET_STREAMS))
    asked = rig.metadata.take()
    assert isinstance(asked, Query)
    rig.tell(bus.QueryAnswer(ticket=asked.ticket, status=0, body=b"all", commit=11))
    assert Answer.of(client.take()).body == b"all"

    block = encode_block([OptionEntry("max_topic_size", KIND_UINT64, (1 << 30).to_bytes(8, "little"))])
    update = UpdateTopic(stream=Identifier(0), topic=Identifier(0), name="t", options=block).encode()
    rig.send(client, request(Operation.UPDATE_TOPIC, update))
    assert isinstance(rig.metadata.take(), FindSegmentSize)
    rig.table.assert_silent()

    other = rig.transport.connect()
    rig.log_in(other, client_id=CLIENT + 1, epoch=12)
    rig.send(other, query(LEVRIER_STATUS, client=CLIENT + 1))
    assert isinstance(rig.consensus.take(), consensus.StatusQuery)


def test_answers_of_one_batch_leave_in_one_write() -> None:
    rig = ActorRig()
    client = rig.transport.connect()
    rig.runtime.run()
    client.send(PING + PING)
    rig.runtime.run()
    assert [Answer.of(frame).status for frame in client.take_all()] == [0, 0]
    assert client.writes == 1


def test_a_client_that_breaks_the_framing_is_closed_and_the_others_are_served() -> None:
    rig = ActorRig()
    bad, good = rig.transport.connect(), rig.transport.connect()
    rig.send(bad, PING + bytes(256))
    assert Answer.of(bad.take()).status == 0
    assert bad.closed_by_node
    rig.send(good, PING)
    assert Answer.of(good.take()).status == 0


def test_a_pipelining_client_is_read_in_shares_and_answered_in_order() -> None:
    rig = ActorRig(limits=BusLimits(backlog_max=2))
    client = rig.transport.connect()
    rig.log_in(client)
    for number in range(1, 11):
        client.send(request(Operation.CREATE_STREAM, CreateStream(name=f"s{number}").encode(), number=number))
        rig.runtime.run()
    assert not client.read_by_node
    assert client.unsent > 0
    answered = []
    while rig.table.count:
        (preflight,) = rig.table.take_all()
        header = preflight.request.header
        frame = committed(Operation.CREATE_STREAM, op=20 + header.request, number=header.request)
        rig.tell(bus.Reply(ticket=ticket_of(preflight), frame=frame))
        answered += [Answer.of(frame).header.request for frame in client.take_all()]
        while rig.transport.pump():
            rig.runtime.run()
    assert answered == list(range(1, 11))
    assert client.unsent == 0


def test_a_client_that_never_reads_is_closed_and_the_others_are_served() -> None:
    rig = ActorRig(limits=BusLimits(write_stall_ticks=5))
    deaf, good = rig.transport.connect(), rig.transport.connect()
    rig.runtime.run()
    deaf.stop_reading()
    for _ in range(3_000):
        deaf.send(PING)
        rig.runtime.run()
    assert not deaf.read_by_node
    assert deaf.unread < 600_000
    rig.send(good, PING)
    assert Answer.of(good.take()).status == 0
    rig.runtime.advance(7_000)
    assert deaf.closed_by_node
    assert not good.closed_by_node


def test_a_client_that_reads_again_gets_everything() -> None:
    rig = ActorRig()
    client = rig.transport.connect()
    rig.runtime.run()
    client.stop_reading()
    for _ in range(3_000):
        client.send(PING)
        rig.runtime.run()
    client.read_on()
    rig.runtime.run()
    while rig.transport.pump():
        rig.runtime.run()
    assert len(client.take_all()) == 3_000


def test_a_thousand_idle_connections_stay_and_cost_little() -> None:
    rig = ActorRig()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    clients = [rig.transport.connect(peer=f"192.0.2.1:{port}") for port in range(1_000)]
    rig.runtime.run()
    each = (tracemalloc.get_traced_memory()[0] - before) / len(clients)
    tracemalloc.stop()
    rig.runtime.advance(600_000)
    assert rig.core.connections == 1_000
    # The simulated client is part of it.
    assert each < 6_000
    rig.send(clients[777], PING)
    assert Answer.of(clients[777].take()).status == 0


def test_stopping_closes_every_connection() -> None:
    rig = ActorRig()
    client = rig.transport.connect()
    rig.log_in(client)
    rig.runtime.node().stop()
    assert client.closed_by_node
    assert rig.transport.connections == 0
    rig.table.assert_silent()


class Log(NodeActor):
    """In place of Consensus and Metadata: commits what the table lets in, at once, in the order it comes."""

    def __init__(self, *, name: str, runtime: Runtime, table: Recipient[Commit], bus: Recipient[bus.Command]) -> None:
        super().__init__(name=name, runtime=runtime)
        self._table = table
        self._bus = bus
        self.op = 0
        self._handlers = Handlers(consensus.Verdict | consensus.Applied)
        self._handlers.on(consensus.Verdict, self._on_verdict)
        self._handlers.on(consensus.Applied, lambda _message: None)
        self._handlers.seal()

    def receive(self, message: object) -> None:
        """Handle one message."""
        self._handlers.dispatch(message)

    def _on_verdict(self, message: consensus.Verdict) -> None:
        ticket = message.request.ticket
        if message.outcome is not consensus.Outcome.NEW:
            assert ticket is not None
            reason = EvictionReason.NO_SESSION
            if message.outcome is consensus.Outcome.FENCED:
                reason = EvictionReason.SESSION_TOO_LOW
            self._bus.tell(bus.Evict(ticket=ticket, reason=reason))
            return
        self.op += 1
        request_header = message.request.header
        header = PrepareHeader(
            op=self.op,
            operation=request_header.operation,
            client=request_header.client,
            request=request_header.request,
            user_id=message.user_id,
            request_checksum=request_header.request_checksum,
            timestamp=self.op,
        )
        body = b"" if request_header.operation == Operation.LOGOUT else result_success()
        self._table.tell(Commit(header=header, reply=committed_reply(header, body), reply_to=ticket))


class Doorman(NodeActor):
    """In place of Metadata's credentials: knows one user."""

    def __init__(self, *, name: str, runtime: Runtime, bus: Recipient[bus.Command]) -> None:
        super().__init__(name=name, runtime=runtime)
        self._bus = bus

    def receive(self, message: object) -> None:
        """Answer who it is."""
        assert isinstance(message, FindCredentials)
        self._bus.tell(credentials(message.ticket))


class TableRig:
    """The Bus and the real client table of four slots."""

    def __init__(self, *, seed: int, capacity: int) -> None:
        self.runtime = runtime = SteppedRuntime(seed)
        self.transport = SimulatedTransport(bus=runtime.address("bus"))
        self.core = Bus(settings=SETTINGS, limits=BusLimits())
        self.table = ClientTable(capacity=capacity)
        unused: Probe[Any] = Probe("unused")
        BusActor.start(
            name="bus",
            runtime=runtime,
            core=self.core,
            transport=self.transport,
            client_table=runtime.address("client_table"),
            metadata=runtime.address("metadata"),
            consensus=unused,
            verify=fits,
        )
        ClientTableActor.start(
            name="client_table",
            runtime=runtime,
            table=self.table,
            last_op=0,
            consensus=runtime.address("consensus"),
            bus=runtime.address("bus"),
            checkpoint=unused,
        )
        Log.start(name="consensus", runtime=runtime, table=runtime.address("client_table"), bus=runtime.address("bus"))
        Doorman.start(name="metadata", runtime=runtime, bus=runtime.address("bus"))
        runtime.run()

    def log_in(self, client_id: int) -> tuple[SimulatedClient, int]:
        """A new connection, logged in; its epoch."""
        client = self.transport.connect()
        client.send(register(client=client_id))
        self.runtime.run()
        answer = Answer.of(client.take())
        assert answer.result == 0
        return client, answer.header.op


def test_fifty_dropped_clients_never_push_out_the_one_that_stayed() -> None:
    """BR-25: capacity 4, A stays, 50 others come and go: A's last request gets the same bytes, its session lives."""
    rig = TableRig(seed=3, capacity=4)
    kept, epoch = rig.log_in(CLIENT)
    last = request(Operation.CREATE_STREAM, CreateStream(name="prod").encode(), session=epoch)
    kept.send(last)
    rig.runtime.run()
    first_answer = kept.take()

    for other in range(1, 51):
        client, _ = rig.log_in(1_000 + other)
        client.close()
        rig.runtime.run()

    kept.send(last)
    rig.runtime.run()
    assert kept.take() == first_answer
    assert rig.core.unsettled_logouts == 0
    assert rig.table.user_of(CLIENT) == 0
    assert rig.table.count == 1


def test_a_login_of_the_same_client_elsewhere_survives_the_end_of_its_old_connection() -> None:
    rig = TableRig(seed=4, capacity=4)
    old, _ = rig.log_in(CLIENT)
    new, epoch = rig.log_in(CLIENT)
    old.close()
    rig.runtime.run()
    assert rig.core.unsettled_logouts == 0
    new.send(request(Operation.CREATE_STREAM, CreateStream(name="prod").encode(), session=epoch))
    rig.runtime.run()
    assert Answer.of(new.take()).result == 0


def test_the_old_connection_of_a_client_that_logged_in_elsewhere_is_evicted() -> None:
    rig = TableRig(seed=5, capacity=4)
    old, epoch = rig.log_in(CLIENT)
    rig.log_in(CLIENT)
    old.send(request(Operation.CREATE_STREAM, CreateStream(name="prod").encode(), session=epoch))
    rig.runtime.run()
    assert Answer.of(old.take()).reason is EvictionReason.SESSION_TOO_LOW
