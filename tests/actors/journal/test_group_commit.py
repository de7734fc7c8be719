"""Appends share a write and a sync, and are acknowledged only behind it."""

from pathlib import Path

import pytest

from levrier.actors.consensus import messages as consensus
from levrier.actors.journal import messages as journal
from levrier.actors.journal.actor import BATCH_SIZE_MAX
from levrier.actors.runtime import FatalReason, Probe, ThreadedRuntime
from levrier.persistence.simulated_storage import SimulatedStorage, Tear
from levrier.persistence.storage import DiskStorage, Storage
from tests.actors.journal.rig import (
    WAL,
    JournalRig,
    Witness,
    append,
    new_storage,
    open_journal,
    ops_on_disk,
    position,
    start,
)


def run_threaded(storage: Storage, commands: list[journal.Append], *, messages: int, path: Path = WAL) -> Probe[object]:
    """Have the commands wait in the mailbox before the actor's thread starts: they are one batch."""
    failures: list[FatalReason] = []
    runtime = ThreadedRuntime("node", arrangement={"journal": "journal"}, on_failure=failures.append)
    told: Probe[object] = Probe("consensus")
    address = start(
        runtime, open_journal(storage, path=path), consensus_recipient=told, checkpoint_recipient=Probe("checkpoint")
    )
    for command in commands:
        address.tell(command)
    runtime.start()
    told.wait(messages)
    runtime.stop()
    assert failures == []
    return told


def test_ten_appends_that_wait_together_share_one_write_and_one_sync() -> None:
    storage = new_storage()
    open_journal(storage).close()
    before = storage.calls

    told = run_threaded(storage, [append(op) for op in range(1, 11)], messages=1)

    assert told.take() == consensus.Appended(positions=tuple(position(op) for op in range(1, 11)))
    told.assert_silent()
    calls = [(call.name, call.size) for call in storage.audit if call.number > before and call.name != "read"]
    batch_size = sum(40 + len(append(op).prepare.frame) for op in range(1, 11))
    mark_of_the_stop = [("write", 40), ("datasync", 0)]
    assert calls[-4:] == [("write", batch_size), ("datasync", 0), *mark_of_the_stop]
    assert not [name for name, _ in calls[:-4] if name in {"write", "datasync"}]


def test_a_batch_ends_when_it_has_enough_bytes() -> None:
    size = BATCH_SIZE_MAX // 2
    told = run_threaded(new_storage(), [append(op, body_size=size) for op in range(1, 6)], messages=3)

    assert told.take() == consensus.Appended(positions=tuple(position(op, body_size=size) for op in (1, 2)))
    assert told.take() == consensus.Appended(positions=tuple(position(op, body_size=size) for op in (3, 4)))
    assert told.take() == consensus.Appended(positions=(position(5, body_size=size),))


@pytest.mark.parametrize("seed", range(20))
def test_br13_nothing_is_acknowledged_before_a_sync_covers_it(seed: int) -> None:
    """BR-13, BR-52: at the moment of each Appended, the log on the disk is what the process sees."""
    storage = new_storage(seed)
    witness = Witness(lambda: (storage.is_durable(WAL), sum(call.name == "datasync" for call in storage.audit)))
    rig = JournalRig(seed=seed, storage=storage, consensus_recipient=witness)
    syncs = rig.calls("datasync")

    rig.tell(*(append(op) for op in range(1, 11)))

    assert witness.seen == [(True, syncs + number) for number in range(1, len(witness.messages) + 1)]
    positions = [
        each for message in witness.messages if isinstance(message, consensus.Appended) for each in message.positions
    ]
    assert positions == [position(op) for op in range(1, 11)]


@pytest.mark.parametrize("tear", list(Tear))
def test_br52_what_was_acknowledged_survives_a_crash_after_any_call(tear: Tear) -> None:
    """BR-52: the machine stops after each call in turn; every acknowledged op is there at the next boot."""
    probe = JournalRig()
    first = probe.storage.calls
    probe.tell(*(append(op) for op in range(1, 9)))
    last = probe.storage.calls
    assert last - first >= 2

    for crash_after in range(first, last + 1):
        rig = JournalRig()
        rig.storage.faults.crash_after = crash_after
        rig.tell(*(append(op) for op in range(1, 9)))
        assert bool(rig.runtime.failures) == (crash_after < last)
        acknowledged = rig.durable_ops()

        rig.storage.crash(tear=tear)

        found = ops_on_disk(rig.storage)
        assert found[: len(acknowledged)] == acknowledged
        assert found == list(range(1, len(found) + 1))


def test_the_log_lies_in_a_real_file(tmp_path: Path) -> None:
    path = tmp_path / "journal.wal"
    told = run_threaded(DiskStorage(), [append(op) for op in range(1, 6)], messages=1, path=path)

    assert told.take() == consensus.Appended(positions=tuple(position(op) for op in range(1, 6)))
    assert ops_on_disk(DiskStorage(), path=path) == [1, 2, 3, 4, 5]
    assert [each.name for each in tmp_path.iterdir()] == ["journal.wal"]


def test_an_empty_batch_touches_nothing() -> None:
    rig = JournalRig()
    calls = rig.storage.calls

    rig.tell(journal.Tick())

    assert isinstance(rig.storage, SimulatedStorage)
    assert rig.storage.calls == calls
    rig.consensus.assert_silent()


def test_the_log_is_extended_between_batches_and_no_batch_waits_for_it() -> None:
    rig = JournalRig()
    for op in range(1, 31):
        called = rig.storage.calls
        rig.tell(append(op, body_size=4096))
        names = [call.name for call in rig.storage.audit if call.number > called]
        assert names[:2] == ["write", "datasync"], op
        assert names[2:] in ([], ["write", "sync"]), op
    assert rig.durable_ops() == list(range(1, 31))


def test_a_log_that_cannot_be_extended_ahead_still_acknowledges() -> None:
    """Until it is full in earnest."""
    rig = JournalRig()
    length = len(rig.storage.content(WAL) or b"")
    rig.storage.faults.capacity = length

    for op in range(1, 27):
        rig.tell(append(op, body_size=4096))

    assert rig.durable_ops() == list(range(1, 27))
    assert len(rig.storage.content(WAL) or b"") == length
