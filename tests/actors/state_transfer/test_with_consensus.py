"""The same actors beside the real Consensus: a member whose log was left behind comes back by state transfer.

Three members on a simulated network that carries every frame of the replica link. The clients speak to the client table of
the primary directly.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.client_table import messages as client_table
from levrier.actors.client_table.actor import ClientTableActor
from levrier.actors.client_table.table import ClientTable
from levrier.actors.consensus import messages as consensus
from levrier.actors.consensus.actor import ConsensusActor
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.state import RecoveredState, ReplicaConfig, TransferStage
from levrier.actors.metadata import messages as metadata
from levrier.actors.metadata.actor import MetadataActor
from levrier.actors.runtime import Probe, Runtime, SteppedRuntime
from levrier.cluster.recovery import Recovered
from levrier.persistence.superblock import SuperblockStore
from levrier.wire.checksums import xxh3
from levrier.wire.codes import CommandCode, Operation
from levrier.wire.headers import RequestHeader
from levrier.wire.prepare import METADATA_GROUP
from levrier.wire.requests.replicated import BootstrapRoot
from levrier.wire.requests.streams import CreateStream
from tests.actors.state_transfer.history import CLUSTER, HASH
from tests.actors.state_transfer.rig import (
    DIRECTORY,
    REPLICA_COUNT,
    REQUEST,
    TICK_MILLISECONDS,
    Member,
    Network,
    Weather,
)

CLIENT = 0xA1
SLOTS = 80
_TRANSFERS = range(22, 26)


@dataclass(slots=True)
class _Links:
    """What a member tells its peers, and what becomes of it."""

    network: Network
    replica: int

    def tell(self, message: bus.ReplicaCommand, /) -> None:
        if isinstance(message, bus.SendToReplica):
            self._carry(message.replica, message.frame)
        elif isinstance(message, bus.Broadcast):
            for peer in range(REPLICA_COUNT):
                if peer != self.replica:
                    self._carry(peer, message.frame)

    def _carry(self, peer: int, frame: bytes) -> None:
        network, receiver = self.network, self.network.members.get(peer)
        read = network.reader.read(frame, sender=self.replica)
        assert isinstance(read, bus.ReplicaFrame | consensus.PrepareReceived | consensus.RepairPrepareReceived), read
        if receiver is None or network.random.random() < network.weather.loss:
            return
        address, message = receiver.address("consensus"), read
        told: Any = message
        if isinstance(read, bus.ReplicaFrame):
            network.carried.append((self.replica, peer, read.command))
            if read.command in _TRANSFERS:
                address = receiver.address("state_transfer")
            else:
                told = consensus.FrameReceived(header=read.header, body=read.body, sender=read.sender)
        network.world.after(network.random.randint(1, 5), address, told)


@dataclass(slots=True, kw_only=True, eq=False)
class Voter(Member):
    """A member whose Consensus is real."""

    core: Replica = field(init=False)
    quiet: Probe[bus.Command] = field(init=False)
    table: ClientTable = field(init=False)

    def _start_core(self, runtime: Runtime, recovered: Recovered, snapshot_op: int) -> None:
        quiet = self.quiet = Probe("bus")
        self.table = recovered.table
        address = runtime.address
        MetadataActor.start(
            name="metadata",
            runtime=runtime,
            machine=recovered.machine,
            last_op=recovered.applied,
            last_timestamp=recovered.timestamp,
            client_table=address("client_table"),
            bus=quiet,
        )
        ClientTableActor.start(
            name="client_table",
            runtime=runtime,
            table=recovered.table,
            last_op=recovered.applied,
            consensus=address("consensus"),
            bus=quiet,
            checkpoint=address("checkpoint"),
        )
        durable = SuperblockStore.open(self.storage, DIRECTORY).read()
        assert durable is not None
        self.core = Replica(
            config=ReplicaConfig(
                cluster=CLUSTER,
                replica=self.replica,
                replica_count=REPLICA_COUNT,
                group=METADATA_GROUP,
                journal_slots=SLOTS,
                prepare_queue_depth=8,
                incarnation=self.network.random.getrandbits(63) | 1,
                bootstrap=BootstrapRoot(username="iggy", password_hash=HASH).encode(),
            ),
            recovered=RecoveredState(
                view=durable.view,
                log_view=durable.log_view,
                commit=recovered.applied,
                headers=recovered.headers,
                snapshot_op=snapshot_op,
                timestamp_floor=recovered.timestamp,
                consensus_group_high=recovered.machine.streams.consensus_group_high,
                commit_known=durable.commit_max,
            ),
            now_micros=runtime.clock.now_micros,
        )
        ConsensusActor.start(
            name="consensus",
            runtime=runtime,
            replica=self.core,
            journal=address("journal"),
            metadata=address("metadata"),
            client_table=address("client_table"),
            bus=quiet,
            superblock=address("superblock"),
            replicas=_Links(self.network, self.replica),
            state_transfer=address("state_transfer"),
        )
        runtime.every(TICK_MILLISECONDS, address("consensus"), consensus.Tick())

    def ask(self, request: int, operation: Operation, body: bytes = b"") -> None:
        """A request of the one client; its session is op 2, behind the one that seeds the first user."""
        header = RequestHeader(
            client=CLIENT,
            session=2 if request else 0,
            request=request,
            request_checksum=xxh3(body) if request else 0,
            operation=int(operation),
            cluster=CLUSTER,
        )
        request_ = client_table.ClientRequest(ticket=None, header=header, body=body)
        self.address("client_table").tell(client_table.Preflight(request=request_))

    def streams(self) -> bytes:
        """All streams, as a client reads them."""
        self.quiet.take_all()
        ticket = bus.Ticket(connection=1, number=1)
        query = metadata.Query(ticket=ticket, user_id=0, client=CLIENT, code=CommandCode.GET_STREAMS, body=b"")
        self.address("metadata").tell(query)
        assert self.world.run_until(lambda: self.quiet.count > 0, max_milliseconds=100)
        answer = next(each for each in self.quiet.take_all() if isinstance(each, bus.QueryAnswer))
        assert answer.status == 0
        return answer.body

    def sessions(self) -> bytes:
        """The client table as a snapshot has it."""
        return b"".join(self.table.capture().chunks())


class Trio:
    """Three members, of which 0 is the primary, and the requests of one client."""

    def __init__(self, seed: int) -> None:
        self.network = Network(SteppedRuntime(seed=seed), Weather())
        self.voters = [Voter(network=self.network, replica=replica) for replica in range(REPLICA_COUNT)]
        self.request = 0
        self.primary = self.voters[0]
        self.until(lambda: self.primary.core.state.commit_min == 1)
        self.primary.ask(0, Operation.REGISTER)
        self.until(lambda: self.primary.core.state.commit_min == 2)

    def until(self, predicate: Callable[[], bool], *, seconds: int = 30) -> None:
        assert self.network.world.run_until(predicate, max_milliseconds=seconds * 1000), self.standing()
        assert not self.network.world.failures

    def create(self, count: int) -> None:
        """Have so many streams created, one after the other."""
        for _ in range(count):
            self.request += 1
            expected = self.primary.core.state.commit_min + 1
            body = CreateStream(name=f"stream-{self.request}").encode()
            self.primary.ask(self.request, Operation.CREATE_STREAM, body)
            self.until(partial(self._has_applied, expected))

    def _has_applied(self, op: int) -> bool:
        return self.primary.core.state.commit_min == op

    def leave(self, member: Voter) -> None:
        """Stop that machine."""
        del self.network.members[member.replica]
        self.network.world.advance(10)  # What is on its way to it arrives.
        member.crash()

    def come_back(self, member: Voter) -> None:
        """Start it again."""
        self.network.members[member.replica] = member
        member.boot()

    def standing(self) -> list[tuple[Any, ...]]:
        """For a failure message."""
        return [
            (each.core.state.status, each.core.state.view, each.core.state.commit_min, each.core.state.transfer_stage)
            for each in self.voters
        ]

    def agree(self) -> bool:
        """Whether all have applied the same op, with nothing under way."""
        return (
            len({each.core.state.commit_min for each in self.voters}) == 1
            and all(each.core.state.transfer_stage is TransferStage.IDLE for each in self.voters)
            and self.primary.core.state.commit_min == self.request + 2
        )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_a_member_whose_log_was_left_behind_comes_back(seed: int, loss: float) -> None:
    """BR-17, C-223: it was away for several checkpoints, so no log reaches back to it; it ends with the state of the others."""
    trio = Trio(seed)
    absent = trio.voters[2]
    trio.create(10)
    trio.until(trio.agree)
    trio.leave(absent)
    trio.create(3 * SLOTS // 2)
    assert trio.primary.core.state.checkpoint.snapshot_op > 2 * SLOTS // 2
    trio.network.weather.loss = loss

    trio.come_back(absent)
    trio.until(lambda: absent.core.state.commit_min >= 12 + 1, seconds=120)
    trio.network.weather.loss = 0.0
    trio.create(5)
    trio.until(trio.agree, seconds=120)

    assert REQUEST in [command for sender, _, command in trio.network.carried if sender == 2]
    assert absent.snapshot_op() > 12
    assert absent.streams() == trio.primary.streams()
    assert absent.sessions() == trio.primary.sessions()


def test_clients_go_on_while_a_member_is_filled() -> None:
    """BR-17 (a): requests and checkpoints do not pause for the transfer, and it converges."""
    trio = Trio(9)
    absent = trio.voters[2]
    trio.create(10)
    trio.leave(absent)
    trio.create(2 * SLOTS)

    trio.come_back(absent)
    before = trio.primary.core.state.checkpoint.completed
    trio.create(2 * SLOTS)
    trio.until(trio.agree, seconds=120)

    assert trio.primary.core.state.checkpoint.completed > before + 1
    assert absent.streams() == trio.primary.streams()
    assert absent.sessions() == trio.primary.sessions()
