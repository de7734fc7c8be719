"""A whole node in one thread: every actor, the log, recovery; the disk, the network, time and the clients are simulated.

One seed decides everything: what clients ask for, the order in which messages are delivered, when the machine crashes or its
disk is full, and what the disk then remembers. `python -m tests.simulation.single_node SEED` runs one seed and prints the
digest of its trace.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from loguru import logger

from levrier.actors.bus.simulated_transport import SimulatedClient, SimulatedTransport
from levrier.actors.runtime import SteppedRuntime
from levrier.cluster.boot import Booted, boot
from levrier.cluster.config import NodeConfig, RootUser
from levrier.cluster.node import Outside, wire
from levrier.cluster.simulate.cluster import cheap_hash, cheap_verify
from levrier.cluster.simulate.frames import NOT_ACCEPTED, NOT_COMMITTED, code, login_frame, request
from levrier.persistence.simulated_storage import Crashed, DiskFaults, SimulatedStorage
from levrier.wire.codes import CommandCode, ErrorCode, NodeRole, Operation
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.responses.login import LoginResponse
from levrier.wire.responses.streams import StreamList
from levrier.wire.responses.system import ClusterMetadata, ClusterNode
from tests.cluster.recorder import Asked, Recorder

CONFIG = NodeConfig(data=Path("/data"), root=RootUser(), journal_slots=256, clients_table_max=16)
NODE = "n0"
CLIENTS = 3
REQUESTS = 80
"""What each client asks for. All clients together make the log pass its half more than once, so that checkpoints happen."""

ROUNDS_MAX = 60_000
CLUSTER = ClusterMetadata(
    name="single-node", nodes=(ClusterNode(name=NODE, ip="127.0.0.1", tcp=1, role=NodeRole.LEADER),)
)


@dataclass
class Client:
    """One scripted client: it logs in, asks again for what it knows the answer of, then for new things, one at a time."""

    recorder: Recorder
    connection: SimulatedClient
    requests: int
    epoch: int = 0
    replaying: tuple[Asked, bytes] | None = None
    sent: bytes = b""
    refused: bool = False

    def begin(self) -> None:
        """Log in on a new connection."""
        self._send(login_frame(self.recorder.client))

    def on_frame(self, frame: bytes) -> None:
        """Judge an answer and send what comes next."""
        answer = code(frame)
        if answer in (NOT_COMMITTED, NOT_ACCEPTED):
            self.refused = True
            return
        if self.epoch == 0:
            assert answer == 0, f"a login is refused with {answer}"
            self.epoch = LoginResponse.decode(frame[HEADER_SIZE + 4 :]).session
            self.replaying = self.recorder.answers[-1] if self.recorder.answers else None
        elif self.replaying is not None:
            self._check_replay(frame)
        else:
            self.recorder.answered(frame)
        self._ask()

    def repeat(self) -> None:
        """Some time after a transient refusal: the same frame again."""
        if self.refused and not self.connection.closed_by_node:
            self.refused = False
            self.connection.send(self.sent)

    @property
    def done(self) -> bool:
        """Everything that it wanted is answered."""
        return self.recorder.number >= self.requests and self.recorder.under_way is None

    def _check_replay(self, frame: bytes) -> None:
        """The very last answer has the same bytes; behind a later request and a checkpoint it may be forgotten."""
        assert self.replaying is not None
        asked, answer = self.replaying
        forgotten = self.recorder.under_way is not None and code(frame) == ErrorCode.REQUEST_ALREADY_APPLIED
        assert frame == answer or forgotten, f"request {asked.number} is answered otherwise"
        self.replaying = None

    def _ask(self) -> None:
        if self.replaying is not None:
            asked = self.replaying[0]
        elif self.done:
            return
        else:
            asked = self.recorder.under_way or self.recorder.next()
        self._send(
            request(asked.operation, asked.body, client=self.recorder.client, session=self.epoch, number=asked.number)
        )

    def _send(self, frame: bytes) -> None:
        self.sent = frame
        self.connection.send(frame)


@dataclass
class SingleNode:
    """One run of one seed. `checkpoints` and `crashes` say what it went through."""

    seed: int
    client_count: int = CLIENTS
    requests: int = REQUESTS
    crashes_wanted: int = 3
    crashes: int = 0
    full_disks: int = 0
    highest_checkpoint: int = 0
    clients: list[Client] = field(default_factory=list)

    def __post_init__(self) -> None:
        logger.disable("levrier")
        self.random = Random(f"story/{self.seed}")
        self.world = SteppedRuntime(self.seed)
        self.storage = SimulatedStorage(Random(f"disk/{self.seed}"), DiskFaults())
        self.recorders = [
            Recorder(Random(f"client/{self.seed}/{number}"), 0xC0 + number, prefix=f"of-{number}")
            for number in range(self.client_count)
        ]
        self.booted: Booted | None = None
        self.start()

    def start(self) -> None:
        """Boot from what the disk has, and connect the clients. A crash in the middle of the boot starts over."""
        while True:
            node = self.world.node(NODE)
            self.transport = SimulatedTransport(bus=node.address("bus"))
            try:
                self.booted = boot(CONFIG, storage=self.storage, entropy=node.entropy, hashing=cheap_hash)
            except Crashed:
                self.crash_machine()
                continue
            break
        self.highest_checkpoint = max(self.highest_checkpoint, self.booted.pairing.op)
        outside = Outside(
            storage=self.storage,
            transport=self.transport,
            cluster=lambda: CLUSTER,
            node_facts=dict,
            verify=cheap_verify,
        )
        wire(CONFIG, self.booted, node, outside)
        self.clients = [Client(recorder, self.transport.connect(), self.requests) for recorder in self.recorders]
        for client in self.clients:
            client.begin()

    def crash_machine(self) -> None:
        """The machine stops: actors, connections and unsynced bytes are gone."""
        self.crashes += 1
        self.world.crash_node(NODE)
        self.storage.faults.write_budget = None
        self.storage.crash()

    def run(self) -> None:
        """Until every client has its answers and every crash has happened; then check the catalogue."""
        for _ in range(ROUNDS_MAX):
            if all(client.done for client in self.clients) and self.crashes >= self.crashes_wanted:
                break
            self.round()
        else:
            raise AssertionError(f"seed {self.seed}: no end after {ROUNDS_MAX} rounds")
        self.storage.faults.write_budget = None
        assert self.booted is not None
        self.check_catalogue()

    def round(self) -> None:
        """Some messages are delivered, clients react, and now and then something bad happens."""
        steps = self.world.steps + self.random.randint(1, 30)
        self.world.run(until=lambda: self.world.steps >= steps)
        if self.world.node(NODE).dead:
            reason = self.world.failures[-1].reason
            assert reason.startswith("Crashed"), f"seed {self.seed}: {reason}"
            self.crash_machine()
            self.start()
            return
        for client in self.clients:
            for frame in client.connection.take_all():
                client.on_frame(frame)
        self.transport.pump()
        if self.world.idle:
            self.world.advance(self.random.randint(1, 20))
            for client in self.clients:
                client.repeat()
        self.misfortune()

    def misfortune(self) -> None:
        """A crash now, a crash in the middle of a later disk call, or a disk that is full for a while."""
        if self.crashes >= self.crashes_wanted:
            return
        dice = self.random.random()
        if dice < 0.004:
            self.crash_machine()
            self.start()
        elif dice < 0.008:
            self.storage.faults.crash_after = self.storage.calls + self.random.randint(0, 40)
        elif dice < 0.012:
            self.full_disks += 1
            self.storage.faults.write_budget = self.random.randint(0, 40_000)
        elif dice < 0.04:
            self.storage.faults.write_budget = None

    def check_catalogue(self) -> None:
        """After one more boot: exactly what was answered, none twice."""
        self.crash_machine()
        self.start()
        observer = self.clients[0]
        assert self.world.run_until(lambda: bool(observer.connection._frames), max_milliseconds=60_000)
        while observer.epoch == 0:
            for frame in observer.connection.take_all():
                observer.on_frame(frame)
            self.world.advance(10)
            observer.repeat()
        self.wait_for(lambda: observer.replaying is None, observer)
        observer.connection.send(
            request(
                Operation.NON_REPLICATED,
                client=observer.recorder.client,
                session=observer.epoch,
                code=int(CommandCode.GET_STREAMS),
            )
        )
        assert self.world.run_until(lambda: bool(observer.connection._frames), max_milliseconds=60_000)
        found = StreamList.decode(observer.connection.take()[HEADER_SIZE:]).streams
        expected = {number: name for recorder in self.recorders for number, name in recorder.streams.items()}
        assert [(stream.id, stream.name) for stream in found] == sorted(expected.items()), f"seed {self.seed}"

    def wait_for(self, predicate: Callable[[], bool], client: Client) -> None:
        """Let the world go on until a client has come so far."""
        for _ in range(1_000):
            if predicate():
                return
            self.world.advance(10)
            for frame in client.connection.take_all():
                client.on_frame(frame)
        raise AssertionError(f"seed {self.seed}: a client got no answer")


def play(seed: int) -> SingleNode:
    """Run one seed to its end."""
    node = SingleNode(seed)
    node.run()
    return node


if __name__ == "__main__":
    print(play(int(sys.argv[1])).world.trace_digest())
