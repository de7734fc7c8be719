"""A checkpoint coordinator on a simulated disk, with probes in place of its neighbours, and captures made by hand."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgpack
from xxhash import xxh3_64_intdigest

from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.checkpoint.actor import CheckpointActor
from levrier.actors.consensus import messages as consensus
from levrier.actors.journal import messages as journal
from levrier.actors.runtime import Address, Probe, Runtime, SteppedRuntime
from levrier.actors.superblock import messages as superblock
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.persistence.snapshot import SnapshotFields, SnapshotInfo, SnapshotWriter, encode_payload, trailer
from levrier.persistence.storage import Storage
from levrier.wire.protocol_version import CURRENT

DIRECTORY = Path("/data/metadata")
SNAPSHOT = DIRECTORY / "snapshot.bin"
TEMPORARY = DIRECTORY / "snapshot.bin.tmp"
USERS: bytes = msgpack.packb([["user", 1], ["user", 2]])
CLIENTS: bytes = msgpack.packb([[[0, "entry"]], []])


@dataclass(frozen=True, slots=True)
class Metadata:
    """A state whose stream section is one bin of `stream_size` bytes, in chunks of `chunk_size`."""

    op: int
    stream_size: int = 100
    chunk_size: int = 64 * 1024
    timestamp: int = 1_700_000_000_000_123
    consensus_group_high: int = 31
    next_user_id: int = 17
    frontier: tuple[tuple[int, int], ...] = ((0, 3), (2, 5))
    high_water: tuple[tuple[int, int], ...] = ((0, 31),)
    between: Any = None

    def users(self) -> Iterator[bytes]:
        """The section in two chunks."""
        yield USERS[:3]
        yield USERS[3:]

    def stream_section(self) -> bytes:
        """The section in one piece."""
        packed: bytes = msgpack.packb(bytes([self.op & 0x7F]) * self.stream_size)
        return packed

    def streams(self) -> Iterator[bytes]:
        """The section in chunks; `between` runs before each."""
        section = self.stream_section()
        for start in range(0, len(section), self.chunk_size):
            if self.between is not None:
                self.between()
            yield section[start : start + self.chunk_size]


@dataclass(frozen=True, slots=True)
class Clients:
    """A client table in one chunk."""

    def chunks(self) -> Iterator[bytes]:
        """The section."""
        yield CLIENTS


def captured(op: int, **parts: Any) -> checkpoint.Captured:
    """The command that begins an attempt."""
    return checkpoint.Captured(op=op, metadata=Metadata(op, **parts), clients=Clients())


def payload(op: int, **parts: Any) -> bytes:
    """What the file must hold, in front of its trailer."""
    state = Metadata(op, **parts)
    fields = SnapshotFields(
        sequence=op,
        created_at=state.timestamp,
        writer_release=CURRENT,
        consensus_group_high_water=state.consensus_group_high,
        next_user_id=state.next_user_id,
        acknowledgement_frontier=state.frontier,
        acknowledgement_high_water=state.high_water,
        table_frontier=op,
    )
    return encode_payload(fields, users=USERS, streams=state.stream_section(), client_table=CLIENTS)


def file_content(op: int, **parts: Any) -> bytes:
    """The whole file."""
    body = payload(op, **parts)
    return body + trailer(xxh3_64_intdigest(body))


def info(op: int, **parts: Any) -> SnapshotInfo:
    """What boot would say of it."""
    body = payload(op, **parts)
    return SnapshotInfo(op=op, checksum=xxh3_64_intdigest(body), size=len(body))


def new_storage(seed: int = 1) -> SimulatedStorage:
    """An empty disk that fails only when told to."""
    storage = SimulatedStorage(Random(seed))
    storage.make_directory(DIRECTORY)
    return storage


class CheckpointRig:
    """Everything that one test of the actor needs."""

    def __init__(
        self,
        *,
        seed: int = 1,
        storage: SimulatedStorage | None = None,
        last: SnapshotInfo | None = None,
        superblock_recipient: Any = None,
    ) -> None:
        self.runtime = SteppedRuntime(seed=seed)
        self.storage = storage if storage is not None else new_storage(seed)
        self.superblock: Probe[superblock.Command] = Probe("superblock")
        self.journal: Probe[journal.Command] = Probe("journal")
        self.consensus: Probe[consensus.Command] = Probe("consensus")
        self.address = start(
            self.runtime,
            self.storage,
            DIRECTORY,
            superblock_recipient=self.superblock if superblock_recipient is None else superblock_recipient,
            journal_recipient=self.journal,
            consensus_recipient=self.consensus,
            last=last,
        )

    def tell(self, *commands: checkpoint.Command) -> None:
        """Tell all of them, then deliver and let time pass until every slice is written."""
        for command in commands:
            self.address.tell(command)
        self.runtime.advance(1000)

    def fail(self, call: int, error: int) -> None:
        """Have the n-th call from now on fail."""
        self.storage.faults.fail_at[self.storage.calls + call] = error

    def finish(self, op: int) -> None:
        """Answer for the superblock and the journal, up to the end of the attempt."""
        assert self.superblock.take() == superblock.RecordCheckpoint(op=op, checksum=info(op).checksum)
        self.tell(checkpoint.CheckpointRecorded(op=op))
        assert self.journal.take() == journal.Drain(up_to=op - 1)
        self.tell(checkpoint.Drained(up_to=op - 1, log_size=4096))
        assert self.consensus.take() == consensus.CheckpointDone(op=op, snapshot_size=len(payload(op)), log_size=4096)
        self.assert_silent()

    def failed(self, op: int) -> str:
        """The reason of the one failure that was told, and nothing else."""
        message = self.consensus.take()
        assert isinstance(message, consensus.CheckpointFailed), message
        assert message.op == op
        self.assert_silent()
        return message.reason

    def assert_silent(self) -> None:
        """Nobody was told anything more."""
        for probe in (self.superblock, self.journal, self.consensus):
            probe.assert_silent()


def start(
    runtime: Runtime,
    storage: Storage,
    directory: Path,
    *,
    superblock_recipient: Any,
    journal_recipient: Any,
    consensus_recipient: Any,
    last: SnapshotInfo | None,
) -> Address[checkpoint.Command]:
    """Start the actor and give its address."""
    CheckpointActor.start(
        name="checkpoint",
        runtime=runtime,
        writer=lambda: SnapshotWriter(storage, directory),
        superblock=superblock_recipient,
        journal=journal_recipient,
        consensus=consensus_recipient,
        last=last,
    )
    return runtime.address("checkpoint")
