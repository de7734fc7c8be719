"""A journal actor on a simulated disk, with probes in place of its neighbours."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from levrier.actors.acknowledgements.messages import ArchiveChanged
from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.consensus import messages as consensus
from levrier.actors.journal import messages as journal
from levrier.actors.journal.actor import JournalActor
from levrier.actors.runtime import Address, Probe, Runtime, SteppedRuntime
from levrier.persistence.archive import Archive
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.persistence.storage import Storage
from levrier.wire.prepare import METADATA_GROUP, Prepare, project

DIRECTORY = Path("/data/metadata")
WAL = DIRECTORY / "journal.wal"
SLOTS = 32
STEP = 64 * 1024


@cache
def prepare(op: int, *, body_size: int = 24, parent: int | None = None) -> Prepare:
    """The entry of an op, the same at each call; without a `parent` it chains to the one before, of the default size."""
    if parent is None:
        parent = prepare(op - 1).header.checksum if op > 1 else 0
    return project(
        cluster=7,
        view=3,
        replica=0,
        client=1 << 100,
        parent=parent,
        request_checksum=0,
        op=op,
        commit=max(0, op - 1),
        timestamp=1_000_000 + op,
        request=op,
        operation=0,
        group=METADATA_GROUP,
        user_id=1,
        body=bytes([op & 0xFF]) * body_size,
    )


def append(op: int, *, body_size: int = 24, view: int = 3) -> journal.Append:
    """The command that makes it durable."""
    return journal.Append(prepare=prepare(op, body_size=body_size), view=view)


def position(op: int, *, body_size: int = 24, view: int = 3) -> consensus.LogPosition:
    """How a completion names it."""
    return consensus.LogPosition(op=op, checksum=prepare(op, body_size=body_size).header.checksum, view=view)


def new_storage(seed: int = 1) -> SimulatedStorage:
    """An empty disk that fails only when told to."""
    storage = SimulatedStorage(Random(seed))
    storage.make_directory(DIRECTORY)
    return storage


def open_journal(storage: Storage, *, path: Path = WAL, snapshot_op: int = 0, slots: int = SLOTS) -> PrepareJournal:
    """The log at `path`."""
    epochs = Random(storage.calls if isinstance(storage, SimulatedStorage) else 1)
    return PrepareJournal.open(
        storage,
        path,
        group=METADATA_GROUP,
        snapshot_op=snapshot_op,
        slots=slots,
        epoch_source=lambda: epochs.getrandbits(64),
        preallocate_step=STEP,
    )


def ops_on_disk(storage: Storage, *, path: Path = WAL, snapshot_op: int = 0) -> list[int]:
    """What a boot would find."""
    log = open_journal(storage, path=path, snapshot_op=snapshot_op)
    ops = [header.op for header in log.headers_from(0)]
    assert all(log.entry(op) is not None for op in ops)
    log.close()
    return ops


@dataclass(slots=True)
class Witness:
    """A recipient that notes, with each message, what `observe` sees at the moment it is told."""

    observe: Callable[[], object]
    messages: list[object] = field(default_factory=list)
    seen: list[object] = field(default_factory=list)

    def tell(self, message: object, /) -> None:
        """Note both."""
        self.messages.append(message)
        self.seen.append(self.observe())


class JournalRig:
    """Everything that one test of the actor needs."""

    def __init__(
        self,
        *,
        seed: int = 1,
        storage: SimulatedStorage | None = None,
        snapshot_op: int = 0,
        slots: int = SLOTS,
        consensus_recipient: Any = None,
        pause_milliseconds: int = 0,
        keeps_history: bool = False,
        replica: int | None = None,
    ) -> None:
        self.runtime = SteppedRuntime(seed=seed)
        self.storage = storage if storage is not None else new_storage(seed)
        self.consensus: Probe[consensus.Command] = Probe("consensus")
        self.checkpoint: Probe[checkpoint.Command] = Probe("checkpoint")
        self.reader: Probe[journal.Entries] = Probe("reader")
        self.acknowledgements: Probe[ArchiveChanged] = Probe("acknowledgements")
        self.archive = (
            Archive.open(self.storage, DIRECTORY / "archive", group=METADATA_GROUP) if keeps_history else None
        )
        self.address = start(
            self.runtime,
            open_journal(self.storage, snapshot_op=snapshot_op, slots=slots),
            consensus_recipient=self.consensus if consensus_recipient is None else consensus_recipient,
            checkpoint_recipient=self.checkpoint,
            pause_milliseconds=pause_milliseconds,
            archive=self.archive,
            acknowledgements=self.acknowledgements,
            replica=replica,
        )

    def tell(self, *commands: journal.Command) -> None:
        """Tell all of them, then deliver until nothing is left."""
        for command in commands:
            self.address.tell(command)
        self.runtime.run()

    def read(self, from_op: int, to_op: int) -> list[int]:
        """The ops that a Read answers."""
        self.tell(journal.Read(from_op=from_op, to_op=to_op, reply_to=self.reader))
        entries = self.reader.take()
        assert entries.from_op == from_op
        return [each.header.op for each in entries.prepares]

    def durable_ops(self) -> list[int]:
        """What all Appended so far named, in order."""
        ops: list[int] = []
        for message in self.consensus.take_all():
            assert isinstance(message, consensus.Appended), message
            ops += [each.op for each in message.positions]
        return ops

    def calls(self, name: str) -> int:
        """How many calls of that name the disk has seen."""
        return sum(call.name == name for call in self.storage.audit)


def start(
    runtime: Runtime,
    log: PrepareJournal,
    *,
    consensus_recipient: Any,
    checkpoint_recipient: Any,
    pause_milliseconds: int = 0,
    archive: Archive | None = None,
    acknowledgements: Any = None,
    replica: int | None = None,
) -> Address[journal.Command]:
    """Start the actor and give its address."""
    JournalActor.start(
        name="journal",
        runtime=runtime,
        journal=log,
        consensus=consensus_recipient,
        checkpoint=checkpoint_recipient,
        pause_milliseconds=pause_milliseconds,
        archive=archive,
        acknowledgements=acknowledgements,
        replica=replica,
    )
    return runtime.address("journal")
