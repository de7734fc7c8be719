"""A whole cluster in one thread: every actor of every node, the links simulated, scripted clients. For smoke tests.

Each node boots from its own simulated disk through the very functions that a process uses; one seed decides everything.
"""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from levrier.actors.bus.simulated_replicas import LinkPolicy, ReplicaNetwork
from levrier.actors.bus.simulated_transport import SimulatedClient, SimulatedTransport
from levrier.actors.runtime import SteppedRuntime
from levrier.cluster.boot import Booted, boot
from levrier.cluster.config import Address, Member, NodeConfig, RootUser
from levrier.cluster.node import Outside, wire
from levrier.persistence.simulated_storage import DiskFaults, SimulatedStorage
from levrier.persistence.superblock import Phase, SuperblockStore, VsrState
from levrier.wire.codes import LEVRIER_STATUS, CommandCode, NodeRole, Operation
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.requests.streams import CreateStream
from levrier.wire.responses.login import LoginResponse
from levrier.wire.responses.system import ClusterMetadata
from tests.cluster.raw_client import NOT_ACCEPTED, NOT_COMMITTED, code, login_frame, request
from tests.simulation.single_node import cheap_hash, cheap_verify


def members(count: int) -> tuple[Member, ...]:
    """A roster."""
    return tuple(
        Member(name=f"node-{replica}", replica=replica, ip="10.0.0.1", tcp=8000 + replica, tcp_replica=9000 + replica)
        for replica in range(count)
    )


class SteppedCluster:
    """`count` members, all blank and down until `start`."""

    def __init__(
        self, seed: int, *, count: int = 3, policy: LinkPolicy | None = None, journal_slots: int = 256
    ) -> None:
        self.seed = seed
        self.count = count
        self.world = SteppedRuntime(seed)
        self.network = ReplicaNetwork(policy)
        self.storages = [SimulatedStorage(Random(f"disk/{seed}/{each}"), DiskFaults()) for each in range(count)]
        self.transports: dict[int, SimulatedTransport] = {}
        self.booted: dict[int, Booted] = {}
        self.config = NodeConfig(
            data=Path("/data"),
            cluster_name="stepped",
            listen=Address(),
            root=RootUser(),
            members=members(count),
            replica_count=count,
            journal_slots=journal_slots,
            clients_table_max=64,
        )

    def config_of(self, replica: int) -> NodeConfig:
        """What that member is started with."""
        return replace(self.config, replica=replica, node_name=f"node-{replica}")

    def start(self, replica: int) -> None:
        """Boot a member from its disk."""
        config = self.config_of(replica)
        node = self.world.node(config.node_name)
        booted = boot(config, storage=self.storages[replica], entropy=node.entropy, hashing=cheap_hash)
        member = config.roster[replica]
        transport = SimulatedTransport(bus=node.address("bus"))
        links = self.network.join(
            replica, host=member.ip, port=member.tcp_replica, runtime=node, bus=node.address("bus")
        )
        wire(
            config,
            booted,
            node,
            Outside(
                storage=self.storages[replica],
                transport=transport,
                cluster=lambda: ClusterMetadata(name="stepped", nodes=()),
                node_facts=dict,
                verify=cheap_verify,
                replica_transport=links,
            ),
        )
        self.transports[replica], self.booted[replica] = transport, booted

    def crash(self, replica: int) -> None:
        """The machine stops; what was not synced is lost."""
        self.world.crash_node(f"node-{replica}")
        self.network.leave(replica)
        self.storages[replica].crash()
        del self.transports[replica], self.booted[replica]

    def wipe(self, replica: int) -> None:
        """A crashed member gets an empty disk."""
        assert replica not in self.booted
        self.storages[replica] = SimulatedStorage(Random(f"disk/{self.seed}/{replica}/new"), DiskFaults())

    def own(self, replica: int) -> VsrState:
        """What the superblock of a member says."""
        return SuperblockStore.open(self.storages[replica], Path("/data/metadata")).read() or VsrState(
            cluster=0, replica_id=replica, replica_count=self.count, phase=Phase.PREPARED, voter=False
        )

    def is_born(self, replica: int) -> bool:
        """Whether the birth is durable there."""
        own = self.own(replica)
        return bool(own.birth_id) and own.phase is Phase.BORN

    def voters(self) -> list[int]:
        """The members that durably vote."""
        return [each for each in range(self.count) if self.is_born(each) and self.own(each).voter]


class Caller:
    """A client that does one thing at a time and goes where it is served."""

    def __init__(self, cluster: SteppedCluster, number: int) -> None:
        self.cluster = cluster
        self.client = 0xC000 + number
        self.number = 0
        self.at: int | None = None
        self.connection: SimulatedClient | None = None
        self.session = 0

    def call(self, frame: bytes, *, milliseconds: int = 200) -> bytes | None:
        """Send a frame and wait for its answer; None when none came."""
        connection = self.connection
        assert connection is not None
        connection.send(frame)
        frames: list[bytes] = []

        def answered() -> bool:
            frames.extend(connection.take_all())
            return bool(frames)

        self.cluster.world.run_until(answered, max_milliseconds=milliseconds)
        return frames[-1] if frames else None

    def connect(self, replica: int, *, attempts: int = 200) -> bool:
        """Log in there; True when that worked."""
        self.at, self.session = replica, 0
        self.connection = self.cluster.transports[replica].connect()
        frame = login_frame(self.client)
        for _ in range(attempts):
            answer = self.call(frame)
            if answer is not None and code(answer) == 0:
                self.session = LoginResponse.decode(answer[HEADER_SIZE + 4 :]).session
                return True
            if answer is None:
                # A later answer on this connection would be taken for that of another request.
                self.connection.close()
                self.connection = self.cluster.transports[replica].connect()
            self.cluster.world.advance(50)
        return False

    def create(self, name: str, *, attempts: int = 200) -> bool:
        """Create a stream with one request, asked until it is answered or the member does not serve."""
        self.number += 1
        frame = request(
            Operation.CREATE_STREAM,
            CreateStream(name=name).encode(),
            client=self.client,
            session=self.session,
            number=self.number,
        )
        for _ in range(attempts):
            answer = self.call(frame)
            if answer is not None and code(answer) not in (NOT_ACCEPTED, NOT_COMMITTED):
                assert code(answer) == 0, code(answer)
                return True
            self.cluster.world.advance(50)
        return False

    def logout(self) -> bool:
        """End the session; True when that was answered."""
        frame = request(Operation.LOGOUT, client=self.client, session=self.session, number=self.number + 1)
        answer = self.call(frame, milliseconds=2_000)
        return answer is not None and code(answer) == 0

    def ask(self, command: int) -> bytes:
        """Read something from the member that this client is connected to."""
        frame = request(Operation.NON_REPLICATED, client=self.client, session=self.session, code=command)
        answer = self.call(frame, milliseconds=2_000)
        assert answer is not None
        assert code(answer) == 0
        return answer[HEADER_SIZE:]

    def leader(self) -> int | None:
        """Who leads, as that member tells its clients."""
        nodes = ClusterMetadata.decode(self.ask(int(CommandCode.GET_CLUSTER_METADATA))).nodes
        return next((each for each, node in enumerate(nodes) if node.role == NodeRole.LEADER), None)

    def status(self) -> dict[str, Any]:
        """How that member says that it stands."""
        found: dict[str, Any] = json.loads(self.ask(LEVRIER_STATUS))
        return found

    def catalogue(self) -> bytes:
        """Users and streams as that member has applied them."""
        return self.ask(int(CommandCode.GET_STREAMS)) + self.ask(int(CommandCode.GET_USERS))
