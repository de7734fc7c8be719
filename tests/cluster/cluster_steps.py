"""A whole cluster in one thread: every actor of every node, the links simulated, scripted clients. For smoke tests.

Each node boots from its own simulated disk through the very functions that a process uses; one seed decides everything.
"""

import json
from dataclasses import replace
from typing import Any

from levrier.actors.bus.simulated_replicas import LinkPolicy
from levrier.actors.bus.simulated_transport import SimulatedClient
from levrier.cluster.config import NodeConfig, PluginSetup
from levrier.cluster.simulate.cluster import SimulatedCluster, cluster_config
from levrier.cluster.simulate.frames import NOT_ACCEPTED, NOT_COMMITTED, code, login_frame, request
from levrier.wire.codes import LEVRIER_STATUS, CommandCode, NodeRole, Operation
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.requests.streams import CreateStream
from levrier.wire.responses.login import LoginResponse
from levrier.wire.responses.system import ClusterMetadata


class SteppedCluster(SimulatedCluster):
    """`count` members, all blank and down until `start`."""

    def __init__(
        self,
        seed: int,
        *,
        count: int = 3,
        policy: LinkPolicy | None = None,
        journal_slots: int = 256,
        plugins: tuple[PluginSetup, ...] = NodeConfig().plugins,
        **settings: Any,
    ) -> None:
        config = replace(cluster_config(count, journal_slots=journal_slots), plugins=plugins, **settings)
        super().__init__(seed, config, policy=policy)


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

    def connect(self, replica: int, *, attempts: int = 200, password: str = "iggy") -> bool:
        """Log in there; True when that worked."""
        self.at, self.session = replica, 0
        self.connection = self.cluster.transports[replica].connect()
        frame = login_frame(self.client, password=password)
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
