"""The crash table of a checkpoint, on the files alone (persistence 5.1, 6; S-176, S-177, BR-19, BR-22).

A checkpoint is: snapshot durable, superblock names it, log drained up to the op before it. `boot` does what recovery does
with the files: presence, pairing, and that the log goes on where the snapshot ends (D-06).
"""

from __future__ import annotations

import contextlib
import errno
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from levrier.persistence.data_dir import DataDirectory, GroupPaths
from levrier.persistence.errors import (
    CheckpointAhead,
    IoFailed,
    JournalMissing,
    JournalPoisoned,
    SnapshotNotWritten,
    StorageError,
)
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.pairing import NO_SNAPSHOT, Pairing, check_pairing, check_presence
from levrier.persistence.simulated_storage import Crashed, SimulatedStorage, Tear
from levrier.persistence.snapshot import ABSENT_SECTION, SnapshotFields, read_snapshot, write_snapshot
from levrier.persistence.superblock import SuperblockStore, VsrState
from tests.persistence.prepares import chain, open_journal, ops

ROOT = Path("/node")
PATHS = GroupPaths(ROOT / "metadata")
ENTRIES = chain(1, 12)
OLD_OP, NEW_OP, HEAD = 4, 9, 11


@dataclass(slots=True)
class Node:
    """What recovery found."""

    storage: SimulatedStorage
    superblock: SuperblockStore
    journal: PrepareJournal
    snapshot_op: int
    claimed_op: int


def boot(storage: SimulatedStorage, seed: int = 1) -> Node:
    """Open everything as a node does, or raise the refusal."""
    DataDirectory.open(storage, ROOT).close()
    superblock = SuperblockStore.open(storage, PATHS.directory)
    state = superblock.read()
    snapshot = read_snapshot(storage, PATHS.snapshot)
    pairing = NO_SNAPSHOT if snapshot is None else Pairing(op=snapshot.op, checksum=snapshot.checksum)
    verdict = check_pairing(state, pairing, file=PATHS.snapshot)
    if isinstance(verdict, StorageError):
        raise verdict
    journal_file = storage.exists(PATHS.journal)
    journal = open_journal(storage, PATHS.journal, snapshot_op=pairing.op, seed=seed)
    presence = check_presence(
        PATHS.directory,
        superblock=state is not None,
        journal=not journal.is_empty,
        snapshot=snapshot is not None,
        journal_file=journal_file,
        commit_max=0 if state is None else state.commit_max,
    )
    if isinstance(presence, StorageError):
        raise presence
    claimed = 0 if state is None else state.checkpoint_op
    return Node(storage, superblock, journal, pairing.op, claimed)


def checkpoint(node: Node, op: int) -> None:
    info = write_snapshot(
        node.storage,
        PATHS.directory,
        SnapshotFields(sequence=op, created_at=op, writer_release=1),
        [ABSENT_SECTION] * 3,
    )
    node.superblock.write(
        VsrState(cluster=1, replica_id=0, replica_count=1, checkpoint_op=op, checkpoint_checksum=info.checksum)
    )
    node.journal.drain(op - 1)


def node_before_the_checkpoint(seed: int) -> Node:
    """A node with a checkpoint at op 4 and everything up to op 11 acknowledged."""
    storage = SimulatedStorage(Random(seed))
    node = boot(storage, seed)
    node.superblock.write(VsrState(cluster=1, replica_id=0, replica_count=1))
    node.journal.append(ENTRIES[:OLD_OP])
    checkpoint(node, OLD_OP)
    node.journal.append(ENTRIES[OLD_OP:HEAD])
    return node


def assert_whole(node: Node) -> None:
    """Snapshot and log together reach from the beginning to the head, and the node goes on."""
    held = ops(node.journal)
    assert held[-1] == HEAD
    assert held == list(range(held[0], HEAD + 1))
    assert held[0] <= node.snapshot_op
    assert node.snapshot_op in (OLD_OP, NEW_OP)
    assert node.claimed_op <= node.snapshot_op
    for op in held:
        entry = node.journal.entry(op)
        assert entry is not None
        assert entry.frame == ENTRIES[op - 1].frame
    node.journal.append(ENTRIES[HEAD:])
    checkpoint(node, HEAD)
    assert ops(node.journal)[0] == HEAD


def calls_of_stages() -> tuple[int, int, int]:
    """Calls of the snapshot, of snapshot and superblock, of the whole checkpoint."""
    node = node_before_the_checkpoint(1)
    storage, start = node.storage, node.storage.calls
    checkpoint(node, NEW_OP)
    names = [(call.name, call.path) for call in storage.audit if call.number > start]
    syncs = [index for index, (name, _) in enumerate(names) if name == "sync_directory"]
    assert len(syncs) == 3
    return syncs[0] + 1, syncs[1] + 1, len(names)


SNAPSHOT_CALLS, SUPERBLOCK_CALLS, ALL_CALLS = calls_of_stages()


@pytest.mark.parametrize("tear", [None, *Tear])
def test_s176_br19_a_crash_behind_any_call_of_a_checkpoint(tear: Tear | None) -> None:
    """S-176, BR-19: every row of the table, in order; None kills the process only."""
    for call in range(ALL_CALLS + 1):
        for seed in range(3):
            node = node_before_the_checkpoint(seed)
            storage = node.storage
            storage.faults.crash_after = storage.calls + call
            with contextlib.suppress(Crashed):
                checkpoint(node, NEW_OP)
            if tear is None:
                storage.kill()
            else:
                storage.crash(tear=tear)
            node = boot(storage, seed + 100)
            if call < SNAPSHOT_CALLS - 2:
                assert (node.snapshot_op, node.claimed_op) == (OLD_OP, OLD_OP)
            if call >= SNAPSHOT_CALLS:
                assert node.snapshot_op == NEW_OP
            if SNAPSHOT_CALLS <= call < SUPERBLOCK_CALLS - 2:
                assert node.claimed_op == OLD_OP, "the lagging pairing is accepted"
            if call >= SUPERBLOCK_CALLS:
                assert node.claimed_op == NEW_OP
            if call < SUPERBLOCK_CALLS:
                assert ops(node.journal)[0] == OLD_OP, "nothing is drained before the superblock names the snapshot"
            if call == ALL_CALLS:
                assert ops(node.journal)[0] == NEW_OP
            assert_whole(node)


def test_s177_the_log_keeps_the_op_of_the_checkpoint_and_nothing_below() -> None:
    """S-177."""
    node = node_before_the_checkpoint(1)
    checkpoint(node, NEW_OP)
    assert ops(node.journal) == [9, 10, 11]
    assert node.journal.snapshot_op == NEW_OP - 1
    node.storage.crash(tear=Tear.LOSE)
    assert ops(boot(node.storage).journal) == [9, 10, 11]


def test_s176_a_drain_that_failed_behind_its_rename_needs_a_restart() -> None:
    """S-176, last row: poisoned, the next append fails, a restart is enough."""
    node = node_before_the_checkpoint(1)
    node.storage.faults.fail_at = {node.storage.calls + ALL_CALLS - 1: errno.EIO}
    with pytest.raises(JournalPoisoned):
        checkpoint(node, NEW_OP)
    with pytest.raises(JournalPoisoned):
        node.journal.append(ENTRIES[HEAD:])
    node.storage.crash()
    assert_whole(boot(node.storage, 100))


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("restart", [False, True])
def test_br51_a_refusal_of_any_call_of_a_checkpoint(error: int, restart: bool) -> None:
    """BR-51: the attempt ends, nothing is lost, the next attempt or the next start succeeds without a manual step."""
    for call in range(1, ALL_CALLS + 1):
        node = node_before_the_checkpoint(call)
        storage = node.storage
        storage.faults.fail_at = {storage.calls + call: error}
        with pytest.raises((SnapshotNotWritten, IoFailed, JournalPoisoned)):
            checkpoint(node, NEW_OP)
        storage.faults.fail_at.clear()
        if restart:
            storage.crash()
        if restart or node.journal.poisoned:
            node = boot(storage, call + 100)
        else:
            checkpoint(node, NEW_OP)
            node = boot(storage, call + 100)
            assert node.snapshot_op == NEW_OP
        assert_whole(node)


def test_br51_no_space_at_any_byte_of_a_checkpoint() -> None:
    """BR-51."""
    for budget in range(0, 6000, 29):
        node = node_before_the_checkpoint(budget)
        storage = node.storage
        storage.faults.write_budget = budget
        with contextlib.suppress(SnapshotNotWritten, IoFailed):
            checkpoint(node, NEW_OP)
        storage.faults.write_budget = None
        if budget % 2:
            storage.crash()
            node = boot(storage, 100)
        checkpoint(node, NEW_OP)
        storage.crash()
        assert_whole(boot(storage, 200))


def test_br22_a_deleted_snapshot_is_missed() -> None:
    """BR-22: the log begins at the checkpoint, the superblock names the snapshot: refused, the file is named."""
    node = node_before_the_checkpoint(1)
    checkpoint(node, NEW_OP)
    node.storage.remove(PATHS.snapshot)
    with pytest.raises(CheckpointAhead) as caught:
        boot(node.storage)
    assert "snapshot.bin" in str(caught.value)
    assert (caught.value.checkpoint_op, caught.value.snapshot_op) == (NEW_OP, 0)


def test_br22_a_deleted_log_is_missed() -> None:
    """BR-22: ops 10 and 11 were acknowledged and stood in the log only."""
    node = node_before_the_checkpoint(1)
    checkpoint(node, NEW_OP)
    node.storage.remove(PATHS.journal)
    with pytest.raises(JournalMissing, match=r"journal\.wal"):
        boot(node.storage)


def test_the_forbidden_order_is_refused() -> None:
    """Persistence 5.1: a superblock that names a snapshot which is not durable."""
    node = node_before_the_checkpoint(1)
    node.superblock.write(VsrState(cluster=1, replica_id=0, replica_count=1, checkpoint_op=NEW_OP))
    with pytest.raises(CheckpointAhead):
        boot(node.storage)
