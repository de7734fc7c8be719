"""Members of a small cluster for transfers: real actors from the StateTransfer to the disk, and a steward for Consensus.

The steward follows the contract that `levrier.actors.state_transfer.messages` states and decides nothing else: who fetches
from whom, and what is committed, is the test's to say. Frames travel over a `Network` that loses, repeats and delays them as
its seed tells.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from levrier.actors.bus import messages as bus
from levrier.actors.bus.handshake import LinkIdentity
from levrier.actors.bus.link_frames import FrameReader
from levrier.actors.checkpoint.actor import CheckpointActor
from levrier.actors.client_table.actor import ClientTableActor
from levrier.actors.consensus import messages as consensus
from levrier.actors.journal import messages as journal
from levrier.actors.journal.actor import JournalActor
from levrier.actors.metadata import messages as metadata
from levrier.actors.metadata.actor import MetadataActor
from levrier.actors.runtime import Address, NodeActor, Probe, Runtime, SteppedRuntime
from levrier.actors.state_transfer import messages as state_transfer
from levrier.actors.state_transfer.actor import StateTransferActor
from levrier.actors.state_transfer.ports import TransferIdentity
from levrier.actors.superblock.actor import SuperblockActor
from levrier.cluster.recovery import Recovered, recover
from levrier.cluster.transfer_codec import MetadataStateCodec
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.pairing import NO_SNAPSHOT, Accept, Pairing, check_pairing
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.persistence.snapshot import SnapshotInfo, SnapshotWriter, read_snapshot
from levrier.persistence.superblock import SuperblockStore, VsrState
from levrier.wire.prepare import METADATA_GROUP, Prepare
from tests.actors.state_transfer.history import CLUSTER, CLUSTER_NAME

DIRECTORY = Path("/data/metadata")
SNAPSHOT = DIRECTORY / "snapshot.bin"
REPLICA_COUNT = 3
TICK_MILLISECONDS = 10
RETRY_TICKS = 100
CHUNK_SIZE = 700
SESSIONS_MIN = 8
REQUEST, TARGET, WANTED, CHUNK = 22, 23, 24, 25


@dataclass(slots=True, kw_only=True)
class Weather:
    """What the network does to a frame: probabilities, milliseconds, and how many of the next chunks get a wrong bit."""

    loss: float = 0.0
    repeat: float = 0.0
    delay: int = 0
    damaged_chunks: int = 0


class Network:
    """Carries frames between members, through the very reader that a Bus has."""

    def __init__(self, world: SteppedRuntime, weather: Weather | None = None) -> None:
        self.world = world
        self.weather = weather if weather is not None else Weather()
        self.random = Random(f"network/{world.seed}")
        self.members: dict[int, Member] = {}
        self.carried: list[tuple[int, int, int]] = []
        """(sender, receiver, command) of every frame, lost ones included."""
        identity = LinkIdentity(cluster_name=CLUSTER_NAME, replica=0, replica_count=REPLICA_COUNT, group=METADATA_GROUP)
        self.reader = FrameReader(identity)

    def carry(self, sender: int, message: bus.SendToReplica) -> None:
        """Lose, repeat or delay it."""
        frame = self.reader.read(message.frame, sender=sender)
        assert isinstance(frame, bus.ReplicaFrame), frame
        self.carried.append((sender, message.replica, frame.command))
        weather = self.weather
        if self.random.random() < weather.loss:
            return
        if weather.damaged_chunks and frame.command == CHUNK:
            weather.damaged_chunks -= 1
            frame = replace(frame, body=bytes([frame.body[0] ^ 1]) + frame.body[1:])
        for _ in range(2 if self.random.random() < weather.repeat else 1):
            receiver = self.members.get(message.replica)
            if receiver is None:
                return
            address = receiver.address("state_transfer")
            if weather.delay:
                self.world.after(self.random.randint(0, weather.delay), address, frame)
            else:
                address.tell(frame)


@dataclass(slots=True)
class _Uplink:
    network: Network
    replica: int

    def tell(self, message: bus.ReplicaCommand, /) -> None:
        assert isinstance(message, bus.SendToReplica)
        self.network.carry(self.replica, message)


class Steward(NodeActor):
    """In the place of Consensus: the steps of an install in their order, and the frontiers."""

    def __init__(self, *, name: str, runtime: Runtime, applied: int, snapshot_op: int, head: int) -> None:
        super().__init__(name=name, runtime=runtime)
        self.commit_min = applied
        self.commit_max = applied
        self.snapshot_op = snapshot_op
        self.head = head
        self.proven = applied
        """The log is the view's up to this op."""
        self.may_serve = True
        self.captures_on_demand = False
        self.holds_placement = False
        self.attempt = 0
        self.is_ahead = False
        self.ready: consensus.InstallReady | None = None
        self.waiting_offers: list[int] = []
        self.notes: list[str] = []
        self.installs = 0
        self.checkpoints: list[consensus.CheckpointDone | consensus.CheckpointFailed] = []

    def receive(self, message: object) -> None:
        """One method a message."""
        handler = getattr(self, f"_on_{type(message).__name__}", None)
        if handler is not None:
            handler(message)

    def _tell(self, actor: str, message: Any) -> None:
        self.runtime.address(actor).tell(message)

    def _on__Fetch(self, message: "_Fetch") -> None:  # noqa: N802
        self.attempt += 1
        self._tell(
            "state_transfer",
            state_transfer.FetchRequired(attempt=self.attempt, peer=message.peer, view=3, snapshot_op=self.snapshot_op),
        )

    def _on_Applied(self, message: consensus.Applied) -> None:  # noqa: N802
        assert message.op == self.commit_min + 1
        self.commit_min = message.op
        self.commit_max = max(self.commit_max, message.op)
        self.proven = max(self.proven, message.op)

    def _on_TransferAccepted(self, _: consensus.TransferAccepted) -> None:  # noqa: N802
        self.notes.append("accepted")

    def _on_TransferFailed(self, message: consensus.TransferFailed) -> None:  # noqa: N802
        if message.attempt == self.attempt:
            self.ready = None
            self.notes.append("refused" if message.is_refused else f"failed: {message.reason}")

    def _on_InstallReady(self, message: consensus.InstallReady) -> None:  # noqa: N802
        if message.attempt != self.attempt:
            return
        self.ready = message
        self.is_ahead = message.snapshot.op > self.commit_min
        if self.is_ahead:
            # What the view names stays; the next entry has to chain to the one at the snapshot (D-16).
            op = message.snapshot.op
            self._tell("journal", journal.Truncate(from_op=max(op, self.proven + 1)))
        else:
            self._install()

    def _on_Truncated(self, message: consensus.Truncated) -> None:  # noqa: N802
        self.head = min(self.head, message.from_op - 1)
        if self.holds_placement or self.ready is None:
            return
        self._tell("state_transfer", state_transfer.PlaceSnapshot(attempt=self.attempt))

    def _on_TruncateFailed(self, message: consensus.TruncateFailed) -> None:  # noqa: N802
        self.runtime.after(500, self.runtime.address("journal"), journal.Truncate(from_op=message.from_op))

    def _on_SnapshotPlaced(self, _: consensus.SnapshotPlaced) -> None:  # noqa: N802
        self._install()

    def _install(self) -> None:
        ready = self.ready
        assert ready is not None
        self._tell(
            "metadata",
            metadata.Install(
                attempt=ready.attempt,
                snapshot=ready.snapshot,
                table_frontier=ready.table_frontier,
                is_ahead=self.is_ahead,
            ),
        )

    def _on_Installed(self, message: consensus.Installed) -> None:  # noqa: N802
        assert self.ready is not None
        assert message.applied_op == max(self.commit_min, self.ready.snapshot.op)
        if self.is_ahead:
            self.snapshot_op = self.ready.snapshot.op
        self.commit_min = message.applied_op
        self.commit_max = max(self.commit_max, self.ready.commit_op)
        self.head = max(self.head, self.commit_min)
        self.installs += 1
        self.ready = None
        self.notes.append("installed")
        self._tell(
            "state_transfer",
            state_transfer.InstallFinished(
                attempt=message.attempt, applied_op=message.applied_op, is_ahead=self.is_ahead
            ),
        )

    def _on_OfferWanted(self, message: consensus.OfferWanted) -> None:  # noqa: N802
        if not self.may_serve or (not self.snapshot_op and not self.captures_on_demand):
            self._tell("state_transfer", state_transfer.OfferVerdict(token=message.token, granted=False))
        elif self.snapshot_op:
            self._grant(message.token)
        else:
            self.waiting_offers.append(message.token)
            self._tell("metadata", metadata.Capture(op=self.commit_min))

    def _grant(self, token: int) -> None:
        self._tell(
            "state_transfer",
            state_transfer.OfferVerdict(
                token=token,
                granted=True,
                snapshot_op=self.snapshot_op,
                commit_op=self.commit_min,
                commit_max=self.commit_max,
                view=3,
            ),
        )

    def _on_CheckpointDone(self, message: consensus.CheckpointDone) -> None:  # noqa: N802
        self.snapshot_op = max(self.snapshot_op, message.op)
        self.checkpoints.append(message)
        for token in self.waiting_offers:
            self._grant(token)
        self.waiting_offers.clear()

    def _on_CheckpointFailed(self, message: consensus.CheckpointFailed) -> None:  # noqa: N802
        self.checkpoints.append(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetch:
    peer: int


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """One replica: its disk, which outlives its actors, and its actors. `boot` starts them, `crash` ends them."""

    network: Network
    replica: int
    storage: SimulatedStorage = field(init=False)
    steward: Steward = field(init=False)

    def __post_init__(self) -> None:
        self.storage = SimulatedStorage(Random(f"disk/{self.network.world.seed}/{self.replica}"))
        self.storage.make_directory(DIRECTORY)
        self.network.members[self.replica] = self
        self.boot()

    @property
    def world(self) -> SteppedRuntime:
        return self.network.world

    @property
    def name(self) -> str:
        return f"r{self.replica}"

    def address(self, actor: str) -> Address[Any]:
        return self.world.node(self.name).address(actor)

    def boot(self) -> None:
        """Read the files as a boot does, and start everything. AssertionError where a boot would refuse."""
        storage, runtime = self.storage, self.world.node(self.name)
        snapshot = read_snapshot(storage, SNAPSHOT)
        pairing = NO_SNAPSHOT if snapshot is None else Pairing(op=snapshot.op, checksum=snapshot.checksum)
        store = SuperblockStore.open(storage, DIRECTORY)
        state = store.read()
        if state is None:
            state = VsrState(cluster=CLUSTER, replica_id=self.replica, replica_count=REPLICA_COUNT)
            store.write(state)
        assert isinstance(check_pairing(state, pairing), Accept)
        log = PrepareJournal.open(
            storage,
            DIRECTORY / "journal.wal",
            group=METADATA_GROUP,
            snapshot_op=pairing.op,
            slots=1024,
            epoch_source=lambda: self.network.random.getrandbits(64),
            preallocate_step=64 * 1024,
        )
        recovered = recover(
            journal=log,
            snapshot=snapshot,
            replica_count=REPLICA_COUNT,
            sessions_min=SESSIONS_MIN,
            files=DIRECTORY,
        )
        last = None if snapshot is None else SnapshotInfo(op=pairing.op, checksum=pairing.checksum, size=snapshot.size)
        self._start_disk(runtime, log, store, state, last)
        self._start_core(runtime, recovered, pairing.op)
        runtime.every(TICK_MILLISECONDS, runtime.address("state_transfer"), state_transfer.Tick())

    def _start_disk(
        self,
        runtime: Runtime,
        log: PrepareJournal,
        store: SuperblockStore,
        state: VsrState,
        last: SnapshotInfo | None,
    ) -> None:
        steward, checkpoint = runtime.address("consensus"), runtime.address("checkpoint")
        JournalActor.start(name="journal", runtime=runtime, journal=log, consensus=steward, checkpoint=checkpoint)
        SuperblockActor.start(
            name="superblock", runtime=runtime, store=store, initial=state, consensus=steward, checkpoint=checkpoint
        )
        CheckpointActor.start(
            name="checkpoint",
            runtime=runtime,
            writer=lambda: SnapshotWriter(self.storage, DIRECTORY),
            superblock=runtime.address("superblock"),
            journal=runtime.address("journal"),
            consensus=steward,
            last=last,
            state_transfer=runtime.address("state_transfer"),
        )
        StateTransferActor.start(
            name="state_transfer",
            runtime=runtime,
            identity=TransferIdentity(cluster=CLUSTER, group=METADATA_GROUP, replica=self.replica),
            storage=self.storage,
            directory=DIRECTORY,
            codec=MetadataStateCodec(),
            replicas=_Uplink(self.network, self.replica),
            consensus=steward,
            checkpoint=checkpoint,
            retry_ticks=RETRY_TICKS,
            chunk_size_max=CHUNK_SIZE,
        )

    def _start_core(self, runtime: Runtime, recovered: Recovered, snapshot_op: int) -> None:
        quiet: Probe[bus.Command] = Probe("bus")
        MetadataActor.start(
            name="metadata",
            runtime=runtime,
            machine=recovered.machine,
            last_op=recovered.applied,
            last_timestamp=recovered.timestamp,
            client_table=runtime.address("client_table"),
            bus=quiet,
        )
        ClientTableActor.start(
            name="client_table",
            runtime=runtime,
            table=recovered.table,
            last_op=recovered.applied,
            consensus=runtime.address("consensus"),
            bus=quiet,
            checkpoint=runtime.address("checkpoint"),
        )
        # The test looks at the steward; pykka would wrap it.
        made: list[Steward] = []

        class _Seen(Steward):
            def __init__(self, **arguments: Any) -> None:
                super().__init__(**arguments)
                made.append(self)

        _Seen.start(
            name="consensus",
            runtime=runtime,
            applied=recovered.applied,
            snapshot_op=snapshot_op,
            head=recovered.head,
        )
        (self.steward,) = made

    def journal(self, prepares: list[Prepare]) -> None:
        """Make them durable, whatever becomes of them."""
        for prepare in prepares:
            self.address("journal").tell(journal.Append(prepare=prepare, view=prepare.header.view))
        self.world.run()
        if prepares:
            self.steward.head = prepares[-1].header.op

    def commit(self, prepares: list[Prepare]) -> None:
        """Make them durable and apply them."""
        self.journal(prepares)
        for prepare in prepares:
            self.address("metadata").tell(metadata.Apply(prepare=prepare, reply_to=None))
        self.world.run()

    def checkpoint(self) -> None:
        """Run an attempt at what is applied, to its end."""
        before = len(self.steward.checkpoints)
        self.address("metadata").tell(metadata.Capture(op=self.steward.commit_min))
        assert self.world.run_until(lambda: len(self.steward.checkpoints) > before, max_milliseconds=10_000)

    def fetch(self, peer: int) -> None:
        """Have a transfer begin."""
        self.address("consensus").tell(_Fetch(peer=peer))

    def fetch_until_installed(self, peer: int, *, attempts_max: int = 8) -> int:
        """Fetch, again after each failure, and give the number of attempts."""
        for attempt in range(1, attempts_max + 1):
            self.steward.notes.clear()
            self.fetch(peer)
            assert self.world.run_until(self._is_over, max_milliseconds=600_000)
            if self.steward.notes[-1] == "installed":
                self.world.advance(100)
                return attempt
        raise AssertionError(f"not installed in {attempts_max} attempts: {self.steward.notes}")

    def _is_over(self) -> bool:
        notes = self.steward.notes
        return bool(notes) and notes[-1] != "accepted"

    def crash(self) -> None:
        """Stop the machine; what was not synced is lost or torn as the disk's faults say."""
        self.world.crash_node(self.name)
        self.storage.crash()

    def state(self) -> bytes:
        """The bytes of a snapshot of what is applied now."""
        self.checkpoint()
        assert isinstance(self.steward.checkpoints[-1], consensus.CheckpointDone), self.steward.checkpoints[-1]
        content = self.storage.content(SNAPSHOT)
        assert content is not None
        return content

    def snapshot_op(self) -> int:
        """The op of the snapshot file."""
        snapshot = read_snapshot(self.storage, SNAPSHOT)
        return 0 if snapshot is None else snapshot.op

    def logged(self) -> list[int]:
        """The checksums of what the log holds from the snapshot's own op on, which may be missing, in order."""
        probe: Probe[journal.Entries] = Probe("reader")
        for first in (self.snapshot_op(), self.snapshot_op() + 1):
            self.address("journal").tell(journal.Read(from_op=first, to_op=10_000, reply_to=probe))
        self.world.run()
        at, behind = probe.take().prepares, probe.take().prepares
        return [prepare.header.checksum for prepare in at or behind]

    def assert_alive(self) -> None:
        assert not self.world.node(self.name).dead, self.world.failures


def cluster(seed: int, *, weather: Weather | None = None, replicas: int = 2) -> list[Member]:
    """Members that know each other, blank."""
    network = Network(SteppedRuntime(seed=seed), weather)
    return [Member(network=network, replica=replica) for replica in range(replicas)]
