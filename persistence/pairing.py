"""Whether the files of one directory belong together (persistence section 6, steps 2 to 4; birth; D-09, D-31).

Pure: takes what was read, gives the refusal to raise or `Accept`. Nothing here reads a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from levrier.persistence.data_dir import GroupPaths
from levrier.persistence.errors import (
    CheckpointAhead,
    CheckpointMismatch,
    IdentityMismatch,
    JournalMissing,
    SuperblockMissing,
)
from levrier.persistence.superblock import VsrState


@dataclass(frozen=True, slots=True)
class Accept:
    """The files fit together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """A snapshot, named by its op and the XXH3 of its payload bytes. No snapshot is `Pairing(op=0, checksum=0)`."""

    op: int
    checksum: int


NO_SNAPSHOT = Pairing(op=0, checksum=0)


def check_pairing(
    claim: VsrState | None, snapshot: Pairing, *, file: Path | str = "snapshot.bin"
) -> Accept | CheckpointAhead | CheckpointMismatch:
    """Whether the snapshot file is one that the superblock allows (S-101).

    A snapshot that is newer than the claim is what a crash in the middle of a checkpoint leaves: accepted. An older one
    means that a durable snapshot got lost: refused. A returned refusal is an exception for the caller to raise.
    """
    if claim is None:
        return Accept()
    if claim.checkpoint_op > snapshot.op:
        return CheckpointAhead(file=file, checkpoint_op=claim.checkpoint_op, snapshot_op=snapshot.op)
    if claim.checkpoint_op == snapshot.op and claim.checkpoint_checksum != snapshot.checksum:
        return CheckpointMismatch(
            file=file, op=snapshot.op, expected=claim.checkpoint_checksum, found=snapshot.checksum
        )
    return Accept()


def check_identity(
    state: VsrState,
    *,
    cluster: int,
    replica_id: int,
    replica_count: int,
    file: Path | str = "superblock",
    cluster_name: str = "",
) -> Accept | IdentityMismatch:
    """Whether the directory is this member's: cluster, then replica id, then replica count (S-117, B-012).

    `cluster_name` is what `cluster` is the id of: it is said in a refusal.
    """
    for field, found, expected in (
        ("cluster", state.cluster, cluster),
        ("replica_id", state.replica_id, replica_id),
        ("replica_count", state.replica_count, replica_count),
    ):
        if found != expected:
            return IdentityMismatch(file=file, field=field, found=found, expected=expected, cluster_name=cluster_name)
    return Accept()


def check_presence(
    directory: Path,
    *,
    superblock: bool,
    journal: bool,
    snapshot: bool,
    acknowledgements: bool = False,
    archive: bool = False,
    journal_file: bool = True,
    commit_max: int = 0,
) -> Accept | SuperblockMissing | JournalMissing:
    """Whether the set of files makes sense.

    `journal` means a log that holds an entry: without one it counts as absent (D-31). `journal_file` is whether the file
    was there before anybody opened it, since opening creates it; `commit_max` is what the superblock says.

    No file at all is a blank member; a log, a snapshot, acknowledgements or an archive without a superblock are
    damage (birth specification, B-010): what belongs to another life of the cluster must not count in this one. A
    superblock alone is what the very first start leaves when it is cut off. But a log is created before anything commits,
    so once there is a snapshot or a commit point, a missing log is a lost one: an empty log in its place would forget what
    was acknowledged.
    """
    paths = GroupPaths(directory)
    leftovers = (
        (snapshot, paths.snapshot),
        (journal, paths.journal),
        (acknowledgements, paths.acknowledgements),
        (archive, paths.archive),
    )
    beside = next((path for is_there, path in leftovers if is_there), None)
    if not superblock and beside is not None:
        return SuperblockMissing(file=directory / "superblock.a and .b", beside=beside.name)
    if not journal_file and snapshot:
        return JournalMissing(file=paths.journal, beside=f"{paths.snapshot.name} exists")
    if not journal_file and commit_max > 0:
        return JournalMissing(file=paths.journal, beside=f"op {commit_max} was committed")
    return Accept()
