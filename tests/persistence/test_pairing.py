"""Whether files belong together (persistence 6, steps 2 to 4; B-010, B-012)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from levrier.persistence.errors import (
    CheckpointAhead,
    CheckpointMismatch,
    IdentityMismatch,
    JournalMissing,
    SuperblockMissing,
)
from levrier.persistence.pairing import NO_SNAPSHOT, Accept, Pairing, check_identity, check_pairing, check_presence
from levrier.persistence.superblock import VsrState

STATE = VsrState(cluster=7, replica_id=1, replica_count=3)


def claim(op: int, checksum: int) -> VsrState:
    return dataclasses.replace(STATE, checkpoint_op=op, checkpoint_checksum=checksum)


@pytest.mark.parametrize(
    ("state", "snapshot"),
    [
        (None, NO_SNAPSHOT),
        (None, Pairing(op=42, checksum=9)),
        (claim(0, 0), NO_SNAPSHOT),
        (claim(42, 9), Pairing(op=42, checksum=9)),
        (claim(40, 8), Pairing(op=42, checksum=9)),
        (claim(0, 0), Pairing(op=42, checksum=9)),
    ],
)
def test_s101_pairings_that_are_accepted(state: VsrState | None, snapshot: Pairing) -> None:
    """S-101: none, equal, lagging."""
    assert check_pairing(state, snapshot) == Accept()


@pytest.mark.parametrize(("op", "snapshot"), [(50, Pairing(op=42, checksum=9)), (5, NO_SNAPSHOT)])
def test_s101_br22_a_checkpoint_ahead_of_the_snapshot_is_refused(op: int, snapshot: Pairing) -> None:
    """S-101, BR-22: the snapshot was deleted or replaced by an older one; the file is named."""
    refusal = check_pairing(claim(op, 9), snapshot, file="/data/metadata/snapshot.bin")
    assert isinstance(refusal, CheckpointAhead)
    assert (refusal.checkpoint_op, refusal.snapshot_op) == (op, snapshot.op)
    assert "/data/metadata/snapshot.bin" in str(refusal)
    assert "start from a copy" in str(refusal)


def test_s101_another_content_at_the_same_op_is_refused() -> None:
    """S-101."""
    refusal = check_pairing(claim(42, 8), Pairing(op=42, checksum=9))
    assert isinstance(refusal, CheckpointMismatch)
    assert (refusal.op, refusal.expected, refusal.found) == (42, 8, 9)


@pytest.mark.parametrize(
    ("state", "field", "found"),
    [
        (dataclasses.replace(STATE, cluster=8), "cluster", 8),
        (dataclasses.replace(STATE, replica_id=2), "replica_id", 2),
        (dataclasses.replace(STATE, replica_count=1), "replica_count", 1),
    ],
)
def test_s117_a_foreign_directory_names_the_field(state: VsrState, field: str, found: int) -> None:
    """S-117, B-012."""
    refusal = check_identity(state, cluster=7, replica_id=1, replica_count=3)
    assert isinstance(refusal, IdentityMismatch)
    assert (refusal.field, refusal.found) == (field, found)
    assert field in str(refusal)


def test_s117_the_first_difference_is_named() -> None:
    """S-117: cluster before replica id before replica count."""
    refusal = check_identity(STATE, cluster=8, replica_id=2, replica_count=5)
    assert isinstance(refusal, IdentityMismatch)
    assert refusal.field == "cluster"
    refusal = check_identity(STATE, cluster=7, replica_id=2, replica_count=5)
    assert isinstance(refusal, IdentityMismatch)
    assert refusal.field == "replica_id"


def test_s120_the_right_identity_is_accepted() -> None:
    """S-120."""
    assert check_identity(STATE, cluster=7, replica_id=1, replica_count=3) == Accept()


def test_b010_a_journal_or_snapshot_without_a_superblock_is_refused() -> None:
    """B-010, S-116 as birth specification changes it, BR-22: never taken for a blank member."""
    for journal, snapshot in ((True, False), (False, True), (True, True)):
        refusal = check_presence(Path("/data"), superblock=False, journal=journal, snapshot=snapshot)
        assert isinstance(refusal, SuperblockMissing)
        assert refusal.beside == ("snapshot.bin" if snapshot else "journal.wal")
        assert "start from a copy that was taken before" in str(refusal)


def test_b015_a_log_without_a_record_is_a_blank_member() -> None:
    """B-015, D-31: also when the file is not there yet."""
    for superblock in (False, True):
        for journal_file in (True, False):
            found = check_presence(
                Path("/data"), superblock=superblock, journal=False, snapshot=False, journal_file=journal_file
            )
            assert found == Accept()


def test_br22_a_lost_log_is_not_taken_for_an_empty_one() -> None:
    """BR-22: a snapshot or a commit point without a log file is refused, and the file is named."""
    for commit_max, snapshot, word in ((0, True, "snapshot.bin"), (7, False, "op 7")):
        refusal = check_presence(
            Path("/data"), superblock=True, journal=False, snapshot=snapshot, journal_file=False, commit_max=commit_max
        )
        assert isinstance(refusal, JournalMissing)
        assert "journal.wal" in str(refusal)
        assert word in str(refusal)
        present = check_presence(
            Path("/data"), superblock=True, journal=False, snapshot=snapshot, commit_max=commit_max
        )
        assert present == Accept()
