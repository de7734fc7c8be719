"""A superblock actor on a simulated disk, with probes in place of its neighbours."""

from pathlib import Path
from random import Random

from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.consensus import messages as consensus
from levrier.actors.runtime import Address, Probe, Runtime, SteppedRuntime
from levrier.actors.superblock import messages as superblock
from levrier.actors.superblock.actor import SuperblockActor
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.persistence.storage import Storage
from levrier.persistence.superblock import SuperblockStore, VsrState

DIRECTORY = Path("/data/metadata")
FIRST = VsrState(cluster=9, replica_id=2, replica_count=3)


def new_storage(seed: int = 1) -> SimulatedStorage:
    """A disk with the record that boot has written (D-31)."""
    storage = SimulatedStorage(Random(seed))
    storage.make_directory(DIRECTORY)
    SuperblockStore.open(storage, DIRECTORY).write(FIRST)
    return storage


def on_disk(storage: Storage, directory: Path = DIRECTORY) -> VsrState:
    """What a boot would find."""
    state = SuperblockStore.open(storage, directory).read()
    assert state is not None
    return state


def persist(view: int, log_view: int, commit_max: int = 0) -> superblock.PersistView:
    """The command, in short."""
    return superblock.PersistView(view=view, log_view=log_view, commit_max=commit_max)


def record(op: int, checksum: int = 5) -> superblock.RecordCheckpoint:
    """The command, in short."""
    return superblock.RecordCheckpoint(op=op, checksum=checksum)


class SuperblockRig:
    """Everything that one test of the actor needs."""

    def __init__(self, *, seed: int = 1, storage: SimulatedStorage | None = None) -> None:
        self.runtime = SteppedRuntime(seed=seed)
        self.storage = storage if storage is not None else new_storage(seed)
        self.consensus: Probe[consensus.Command] = Probe("consensus")
        self.checkpoint: Probe[checkpoint.Command] = Probe("checkpoint")
        self.address = start(
            self.runtime, self.storage, DIRECTORY, consensus_probe=self.consensus, checkpoint_probe=self.checkpoint
        )

    def tell(self, *commands: superblock.Command) -> None:
        """Tell all of them, then deliver until nothing is left."""
        for command in commands:
            self.address.tell(command)
        self.runtime.run()

    def fail(self, call: int, error: int) -> None:
        """Have the n-th call from now on fail."""
        self.storage.faults.fail_at[self.storage.calls + call] = error


def start(
    runtime: Runtime,
    storage: Storage,
    directory: Path,
    *,
    consensus_probe: Probe[consensus.Command],
    checkpoint_probe: Probe[checkpoint.Command],
) -> Address[superblock.Command]:
    """Start the actor on what the disk holds and give its address."""
    store = SuperblockStore.open(storage, directory)
    SuperblockActor.start(
        name="superblock",
        runtime=runtime,
        store=store,
        initial=FIRST if store.degraded else store.read() or FIRST,
        consensus=consensus_probe,
        checkpoint=checkpoint_probe,
    )
    return runtime.address("superblock")
