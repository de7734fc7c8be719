"""A whole cluster in one thread: every actor of every member, the links and the disks simulated.

Each member boots from its own simulated disk through the very functions that a process uses; one seed decides everything.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from levrier.actors.bus.simulated_replicas import LinkPolicy, ReplicaNetwork
from levrier.actors.bus.simulated_transport import SimulatedTransport
from levrier.actors.consensus.timeouts import TICK_MILLISECONDS
from levrier.actors.runtime import Address, SteppedRuntime
from levrier.actors.runtime.stepped_node import SteppedNode
from levrier.cluster.boot import Booted, boot
from levrier.cluster.config import Member, NodeConfig, RootUser
from levrier.cluster.node import Outside, wire
from levrier.persistence.simulated_storage import DiskFaults, SimulatedStorage
from levrier.persistence.superblock import Phase, SuperblockStore, VsrState
from levrier.wire.codes import NodeRole
from levrier.wire.responses.system import ClusterMetadata, ClusterNode

DATA: Final = Path("/data")
METADATA: Final = DATA / "metadata"
PARTITIONS: Final = DATA / "partitions"


def cheap_hash(password: str, *, salt: bytes) -> str:
    """A hash that costs nothing."""
    return f"${salt.hex()}${password}"


def cheap_verify(password_hash: str, password: str) -> bool:
    """The other half of `cheap_hash`."""
    return password_hash.endswith(f"${password}")


def members(count: int) -> tuple[Member, ...]:
    """A roster."""
    return tuple(
        Member(name=f"node-{replica}", replica=replica, ip="10.0.0.1", tcp=8000 + replica, tcp_replica=9000 + replica)
        for replica in range(count)
    )


class _Door:
    """The port where clients of a member come in: what happens there is told to its Bus in one order, as by one loop."""

    def __init__(self, node: SteppedNode, world: SteppedRuntime) -> None:
        self._bus: Address[Any] = node.address("bus")
        self._name = f"{node.name}/port"
        self._world = world

    def tell(self, message: object, /) -> None:
        """Something happened at the port."""
        self._world.run_as(self._name, partial(self._bus.tell, message))


class MemberDisk(SimulatedStorage):
    """The disk of a member. `on_removed` hears of every directory that goes."""

    on_removed: Callable[[Path], object] = staticmethod(lambda _path: None)

    def remove_directory(self, path: Path) -> None:
        """Remove it, and say so."""
        super().remove_directory(path)
        self.on_removed(path)


class SimulatedCluster:
    """`count` members, all blank and down until `start`. `booted` and `transports` hold those that are up.

    With `tick_milliseconds` above 10 every timer of a member takes so much longer, all alike. `on_removed` hears which
    member removed which directory.
    """

    def __init__(
        self,
        seed: int,
        config: NodeConfig,
        *,
        policy: LinkPolicy | None = None,
        tick_milliseconds: int = TICK_MILLISECONDS,
    ) -> None:
        assert tick_milliseconds % TICK_MILLISECONDS == 0
        self.seed = seed
        self.config = config
        self.stretch = tick_milliseconds // TICK_MILLISECONDS
        self.on_removed: Callable[[int, Path], object] = lambda _replica, _path: None
        self.count = config.replica_count
        self.world = SteppedRuntime(seed)
        self.network = ReplicaNetwork(policy)
        self.storages = [self._disk(replica, "") for replica in range(self.count)]
        self.transports: dict[int, SimulatedTransport] = {}
        self.booted: dict[int, Booted] = {}

    def config_of(self, replica: int) -> NodeConfig:
        """What that member is started with."""
        return replace(self.config, replica=replica, node_name=f"node-{replica}")

    def node(self, replica: int) -> SteppedNode:
        """The present incarnation of a member."""
        return self.world.node(f"node-{replica}")

    def start(self, replica: int) -> None:
        """Boot a member from its disk. Raises `BootRefused`, or `Crashed` when the machine stops meanwhile."""
        config, storage, node = self.config_of(replica), self.storages[replica], self.node(replica)
        node.stretch = self.stretch
        booted = boot(config, storage=storage, entropy=node.entropy, hashing=cheap_hash)
        transport = SimulatedTransport(bus=_Door(node, self.world))
        links = None
        if self.count > 1:
            member = config.roster[replica]
            links = self.network.join(
                replica, host=member.ip, port=member.tcp_replica, runtime=node, bus=node.address("bus")
            )
        wire(
            config,
            booted,
            node,
            Outside(
                storage=storage,
                transport=transport,
                cluster=_alone,
                node_facts=dict,
                verify=cheap_verify,
                hasher=lambda password, salt: cheap_hash(password, salt=salt),
                replica_transport=links,
            ),
        )
        self.transports[replica], self.booted[replica] = transport, booted

    def crash(self, replica: int) -> None:
        """The machine stops, running or in the middle of its boot; what was not synced is lost."""
        self.stop_process(replica)
        self.storages[replica].crash()

    def kill(self, replica: int) -> None:
        """The process stops and the machine goes on: what was written is still there."""
        self.stop_process(replica)
        self.storages[replica].kill()

    def stop_process(self, replica: int) -> None:
        """Everything of a member but its disk is gone."""
        self.node(replica)
        self.world.crash_node(f"node-{replica}")
        self.network.leave(replica)
        self.booted.pop(replica, None)
        transport = self.transports.pop(replica, None)
        if transport is not None:
            transport.stop()

    def wipe(self, replica: int) -> None:
        """A crashed member gets an empty disk."""
        assert replica not in self.booted
        self.storages[replica] = self._disk(replica, f"/new/{self.storages[replica].calls}")

    def own(self, replica: int) -> VsrState:
        """What the superblock of a member says."""
        return SuperblockStore.open(self.storages[replica], METADATA).read() or VsrState(
            cluster=0, replica_id=replica, replica_count=self.count, phase=Phase.PREPARED, voter=False
        )

    def is_born(self, replica: int) -> bool:
        """Whether the birth is durable there."""
        own = self.own(replica)
        return bool(own.birth_id) and own.phase is Phase.BORN

    def voters(self) -> list[int]:
        """The members that durably vote."""
        return [each for each in range(self.count) if self.is_born(each) and self.own(each).voter]

    def _disk(self, replica: int, which: str) -> SimulatedStorage:
        disk = MemberDisk(Random(f"disk/{self.seed}/{replica}{which}"), DiskFaults())
        disk.on_removed = lambda path: self.on_removed(replica, path)
        return disk


def cluster_config(count: int, *, name: str = "stepped", journal_slots: int = 256, clients_max: int = 64) -> NodeConfig:
    """What every member is started with."""
    return NodeConfig(
        data=DATA,
        cluster_name=name,
        root=RootUser(),
        members=members(count) if count > 1 else (),
        replica_count=count,
        journal_slots=journal_slots,
        clients_table_max=clients_max,
    )


def _alone() -> ClusterMetadata:
    """What a node of its own says of its cluster."""
    return ClusterMetadata(
        name="stepped", nodes=(ClusterNode(name="node-0", ip="10.0.0.1", tcp=8000, role=NodeRole.LEADER),)
    )
