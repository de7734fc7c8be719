"""Coordinator, superblock and journal together on one disk that stops after any call (persistence 5.1)."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from levrier.actors.checkpoint.actor import CheckpointActor
from levrier.actors.consensus import messages as consensus
from levrier.actors.journal import messages as journal
from levrier.actors.journal.actor import JournalActor
from levrier.actors.runtime import FatalReason, Probe, Runtime, SteppedRuntime, ThreadedRuntime
from levrier.actors.superblock.actor import SuperblockActor
from levrier.persistence.pairing import Accept, Pairing, check_pairing
from levrier.persistence.simulated_storage import SimulatedStorage, Tear
from levrier.persistence.snapshot import SnapshotInfo, SnapshotWriter, read_snapshot
from levrier.persistence.storage import DiskStorage, Storage
from levrier.persistence.superblock import SuperblockStore, VsrState
from tests.actors.checkpoint.rig import DIRECTORY, SNAPSHOT, captured, file_content
from tests.actors.journal.rig import append, open_journal

FIRST = VsrState(cluster=9, replica_id=0, replica_count=1)
OLD_OP = 4
NEW_OP = 8
LAST_OP = 10


@dataclass(frozen=True, slots=True)
class Booted:
    """What recovery would find. AssertionError where it would refuse."""

    snapshot_op: int
    claimed_op: int
    ops: tuple[int, ...]

    @classmethod
    def read(cls, storage: Storage, directory: Path = DIRECTORY) -> "Booted":
        """Read the three files as a boot does, and check that together they tell the whole story up to the last op."""
        snapshot = read_snapshot(storage, directory / "snapshot.bin")
        state = SuperblockStore.open(storage, directory).read()
        assert state is not None
        pairing = Pairing(op=0, checksum=0) if snapshot is None else Pairing(op=snapshot.op, checksum=snapshot.checksum)
        assert isinstance(check_pairing(state, pairing), Accept)
        log = open_journal(storage, path=directory / "journal.wal", snapshot_op=pairing.op)
        ops = tuple(header.op for header in log.headers_from(0))
        assert all(log.entry(op) is not None for op in ops)
        log.close()
        above = [op for op in ops if op > pairing.op]
        assert above == list(range(pairing.op + 1, LAST_OP + 1))
        assert pairing.op == 0 or pairing.op in ops, "the entry at the checkpoint is the commit point"
        return cls(pairing.op, state.checkpoint_op, ops)


def start_three(
    runtime: Runtime, storage: Storage, told: Probe[consensus.Command], directory: Path = DIRECTORY
) -> None:
    """Boot and start the three actors, wired to each other."""
    snapshot = read_snapshot(storage, directory / "snapshot.bin")
    store = SuperblockStore.open(storage, directory)
    state = store.read()
    if state is None:
        state = FIRST
        store.write(state)
    journal_address = runtime.address("journal")
    superblock_address = runtime.address("superblock")
    checkpoint_address = runtime.address("checkpoint")
    log = open_journal(storage, path=directory / "journal.wal", snapshot_op=0 if snapshot is None else snapshot.op)
    JournalActor.start(name="journal", runtime=runtime, journal=log, consensus=told, checkpoint=checkpoint_address)
    SuperblockActor.start(
        name="superblock",
        runtime=runtime,
        store=store,
        initial=state,
        consensus=told,
        checkpoint=checkpoint_address,
    )
    CheckpointActor.start(
        name="checkpoint",
        runtime=runtime,
        writer=lambda: SnapshotWriter(storage, directory),
        superblock=superblock_address,
        journal=journal_address,
        consensus=told,
        last=None if snapshot is None else SnapshotInfo(op=snapshot.op, checksum=snapshot.checksum, size=snapshot.size),
    )


class Trio:
    """The three actors on a simulated disk, with ten ops and a checkpoint at op 4 behind them."""

    def __init__(self, seed: int = 1) -> None:
        self.runtime = SteppedRuntime(seed=seed)
        self.storage = SimulatedStorage(Random(seed))
        self.storage.make_directory(DIRECTORY)
        self.told: Probe[consensus.Command] = Probe("consensus")
        start_three(self.runtime, self.storage, self.told)
        for op in range(1, LAST_OP + 1):
            self.runtime.address("journal").tell(append(op))
        self.checkpoint(OLD_OP)
        assert isinstance(self.told.take_all()[-1], consensus.CheckpointDone)

    def checkpoint(self, op: int) -> None:
        """Run an attempt to its end, whatever that is."""
        self.runtime.address("checkpoint").tell(captured(op))
        self.runtime.advance(100)


ROWS = (
    # The call that is the last to return, and what a disk that lost all it may lose holds then: (snapshot, claim, first op).
    ("before", (4, 4, 4)),
    ("snapshot rename", (4, 4, 4)),
    ("snapshot sync_directory", (8, 4, 4)),
    ("superblock sync", (8, 4, 4)),
    ("superblock sync_directory", (8, 8, 4)),
    ("journal rename", (8, 8, 4)),
    ("journal sync_directory", (8, 8, 8)),
)


def call_numbers() -> dict[str, int]:
    """Row name -> the number of its call in an attempt that goes well."""
    trio = Trio()
    before = trio.storage.calls
    trio.checkpoint(NEW_OP)
    numbers = {"before": before}
    directory_syncs = iter(("snapshot", "superblock", "journal"))
    for call in trio.storage.audit:
        if call.number > before and call.name == "sync_directory":
            numbers[f"{next(directory_syncs)} sync_directory"] = call.number
        elif call.number > before and call.name in {"rename", "sync"}:
            numbers[f"{call.path.name.split('.')[0]} {call.name}"] = call.number
    return numbers


@pytest.mark.parametrize(("row", "expected"), ROWS, ids=[name for name, _ in ROWS])
def test_s176_each_row_of_the_crash_table(row: str, expected: tuple[int, int, int]) -> None:
    """S-176, S-177: the disk loses everything that was not synced; boot finds exactly the row's state."""
    trio = Trio()
    trio.storage.faults.crash_after = call_numbers()[row]
    trio.checkpoint(NEW_OP)
    trio.storage.crash(tear=Tear.LOSE)

    found = Booted.read(trio.storage)

    assert (found.snapshot_op, found.claimed_op, found.ops[0]) == expected


@pytest.mark.parametrize("tear", list(Tear))
def test_br19_a_crash_after_any_call_of_a_checkpoint_loses_nothing(tear: Tear) -> None:
    """BR-19, S-176: old or new checkpoint, with a log that reaches it; and the node that boots can checkpoint again."""
    trio = Trio()
    first = trio.storage.calls
    trio.checkpoint(NEW_OP)
    last = trio.storage.calls
    assert last - first > 15

    for crash_after in range(first, last + 1):
        trio = Trio(seed=crash_after)
        trio.storage.faults.crash_after = crash_after
        trio.checkpoint(NEW_OP)
        done = any(isinstance(message, consensus.CheckpointDone) for message in trio.told.take_all())
        trio.storage.crash(tear=tear)

        found = Booted.read(trio.storage)

        assert found.snapshot_op in {OLD_OP, NEW_OP}
        if done:
            assert found == Booted(NEW_OP, NEW_OP, (8, 9, 10))
        runtime, told = SteppedRuntime(seed=crash_after), Probe[consensus.Command]()
        start_three(runtime, trio.storage, told)
        runtime.address("checkpoint").tell(captured(NEW_OP))
        runtime.advance(100)
        assert isinstance(told.take(), consensus.CheckpointDone)
        assert Booted.read(trio.storage) == Booted(NEW_OP, NEW_OP, (8, 9, 10))


@pytest.mark.parametrize("error", [5, 28], ids=["EIO", "ENOSPC"])
def test_any_call_that_fails_once_costs_one_attempt_at_most(error: int) -> None:
    """BR-48, BR-51, D-27: whatever failed, the files boot; unless the log is poisoned the next attempt is good."""
    trio = Trio()
    first = trio.storage.calls
    trio.checkpoint(NEW_OP)
    last = trio.storage.calls

    for number in range(first + 1, last + 1):
        trio = Trio()
        trio.storage.faults.fail_at[number] = error
        trio.checkpoint(NEW_OP)
        answer = trio.told.take()
        assert isinstance(answer, consensus.CheckpointFailed | consensus.CheckpointDone)
        assert trio.runtime.failures == []
        Booted.read(trio.storage.copy(Random(1)))

        trio.checkpoint(NEW_OP + 1)

        retried = trio.told.take()
        if isinstance(retried, consensus.CheckpointFailed):
            assert "poisoned" in retried.reason
        else:
            assert isinstance(retried, consensus.CheckpointDone)
        assert Booted.read(trio.storage.copy(Random(1))).snapshot_op == NEW_OP + 1


def test_c144_appends_that_cross_a_checkpoint_are_all_in_the_log() -> None:
    """C-144: three appends around one checkpoint: all durable, one snapshot, the log drained, and it goes on."""
    for seed in range(30):
        trio = Trio(seed=seed)
        address = trio.runtime.address("journal")
        trio.runtime.address("checkpoint").tell(captured(NEW_OP))
        for op in (11, 12, 13):
            address.tell(append(op))
            trio.runtime.advance(1)
        trio.runtime.advance(100)

        told = trio.told.take_all()
        done = [message for message in told if isinstance(message, consensus.CheckpointDone)]
        assert [message.op for message in done] == [NEW_OP]
        appended = [
            each.op for message in told if isinstance(message, consensus.Appended) for each in message.positions
        ]
        assert appended == [11, 12, 13]
        assert trio.storage.content(SNAPSHOT) == file_content(NEW_OP)
        reader: Probe[journal.Entries] = Probe("reader")
        address.tell(journal.Read(from_op=NEW_OP, to_op=99, reply_to=reader))
        address.tell(journal.Read(from_op=NEW_OP - 1, to_op=99, reply_to=reader))
        address.tell(append(14))
        trio.runtime.run()
        assert [each.header.op for each in reader.take().prepares] == [8, 9, 10, 11, 12, 13]
        assert reader.take().prepares == ()
        assert isinstance(trio.told.take(), consensus.Appended)


def test_the_log_says_how_large_it_is_when_an_attempt_is_done() -> None:
    trio = Trio()
    trio.checkpoint(NEW_OP)

    answer = trio.told.take()

    log = open_journal(trio.storage.copy(Random(1)), snapshot_op=NEW_OP)
    assert answer == consensus.CheckpointDone(
        op=NEW_OP, snapshot_size=len(file_content(NEW_OP)) - 20, log_size=log.size
    )


def test_a_checkpoint_on_real_files_and_threads(tmp_path: Path) -> None:
    failures: list[FatalReason] = []
    names = ("journal", "superblock", "checkpoint")
    runtime = ThreadedRuntime("node", arrangement={name: name for name in names}, on_failure=failures.append)
    told: Probe[consensus.Command] = Probe("consensus")
    start_three(runtime, DiskStorage(), told, tmp_path)
    runtime.start()
    for op in range(1, LAST_OP + 1):
        runtime.address("journal").tell(append(op))
    told.wait()
    appended: list[int] = []
    while len(appended) < LAST_OP:
        told.wait()
        message = told.take()
        assert isinstance(message, consensus.Appended)
        appended += [each.op for each in message.positions]

    runtime.address("checkpoint").tell(captured(NEW_OP, stream_size=300_000))
    told.wait()
    runtime.stop(order=("checkpoint", "superblock", "journal"))

    assert failures == []
    assert isinstance(told.take(), consensus.CheckpointDone)
    assert Booted.read(DiskStorage(), tmp_path) == Booted(NEW_OP, NEW_OP, (8, 9, 10))
    assert (tmp_path / "snapshot.bin").read_bytes() == file_content(NEW_OP, stream_size=300_000)
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "journal.wal",
        "snapshot.bin",
        "superblock.a",
        "superblock.b",
    ]


def test_stepped_runs_of_one_seed_are_alike() -> None:
    first, second = Trio(seed=5), Trio(seed=5)
    for trio in (first, second):
        trio.checkpoint(NEW_OP)
    assert first.runtime.trace_digest() == second.runtime.trace_digest()
    assert isinstance(first.told.take(), consensus.CheckpointDone)
