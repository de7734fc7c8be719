"""What the persistence layer refuses, one type per reason.

Every error names the file, what was found (with the op or the byte offset where there is one) and the next step a
person can take. Errors are about bytes and calls from outside; mistakes of our own code are assertions.
"""

from __future__ import annotations

import errno
from pathlib import Path

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

RESTORE = (
    "keep the directory as it is for a look (`levrier inspect`); a member of a cluster begins with an empty one and learns "
    "from the others, for an old copy forgets what it promised; only a node of its own may start from a copy that was taken "
    "before"
)


class StorageError(Exception):
    """A file that cannot be used as it is, or a call that the system refused.

    Attributes: `file` (which), `what` (what was found), `next_step` (what to do about it).
    """

    def __init__(self, *, file: Path | str, what: str, next_step: str) -> None:
        super().__init__(f"{file}: {what}; {next_step}")
        self.file = str(file)
        self.what = what
        self.next_step = next_step


class IoFailed(StorageError):
    """A system call on a file failed. `call` names it, `errno` is the system's number."""

    def __init__(self, *, file: Path | str, call: str, error: int) -> None:
        name = errno.errorcode.get(error, str(error))
        next_step = "free space on this disk" if error in _FULL else "check the disk, then restart"
        super().__init__(file=file, what=f"{call} failed with {name}", next_step=next_step)
        self.call = call
        self.errno = error


def is_for_want_of_space(error: StorageError) -> bool:
    """Whether the disk is only full: freeing some of it is enough, and nothing is broken (BR-51)."""
    return isinstance(error, IoFailed) and error.errno in _FULL


class FileMissing(IoFailed):
    """A file that should be read is not there."""

    def __init__(self, *, file: Path | str, call: str) -> None:
        super().__init__(file=file, call=call, error=errno.ENOENT)


class DirectoryUnusable(StorageError):
    """A directory that cannot be made there or written to: not for its disk's sake, but for its place. `reason` is the system's."""

    def __init__(self, *, file: Path | str, reason: str) -> None:
        super().__init__(
            file=file,
            what=f"cannot be made or written to ({reason})",
            next_step="name a directory that this user may make and write to",
        )
        self.reason = reason


class NotADirectory(StorageError):
    """Where a directory is wanted stands a file, at the path or above it."""

    def __init__(self, *, file: Path | str) -> None:
        super().__init__(
            file=file, what="is a file or lies below one, a directory is wanted", next_step="name another directory"
        )


class InvalidInput(StorageError):
    """The caller asked for something that no file can hold; nothing was touched."""


class DirectoryInUse(StorageError):
    """Another process holds the lock of this directory. `pid` is its process id where it could be read."""

    def __init__(self, *, file: Path | str, pid: int | None) -> None:
        owner = f"process {pid}" if pid is not None else "another process"
        super().__init__(file=file, what=f"held by {owner}", next_step="stop it or use another data directory")
        self.pid = pid


class UnsupportedVersion(StorageError):
    """A file of a format version that this build does not read."""

    def __init__(self, *, file: Path | str, found: int, expected: int) -> None:
        super().__init__(
            file=file,
            what=f"format version {found}, expected {expected}",
            next_step="run the release that wrote it, or clear the directory and let this member rejoin",
        )
        self.found = found
        self.expected = expected


class JournalDamaged(StorageError):
    """Damage inside the log, in bytes that were durable once (D-24). The file is left as it is.

    `offset` is where the damaged record starts; `op` is the op that was expected there, where it is known.
    """

    def __init__(self, *, file: Path | str, offset: int, op: int | None, reason: str) -> None:
        place = f"offset {offset}" if op is None else f"offset {offset} (op {op})"
        super().__init__(
            file=file,
            what=f"damage inside the log at {place}: {reason}",
            next_step=RESTORE,
        )
        self.offset = offset
        self.op = op
        self.reason = reason


class ForeignJournal(StorageError):
    """The log of another consensus group."""

    def __init__(self, *, file: Path | str, found: int, expected: int) -> None:
        super().__init__(
            file=file,
            what=f"belongs to group {found}, expected group {expected}",
            next_step="put each group's files back into its own directory",
        )
        self.found = found
        self.expected = expected


class JournalPoisoned(StorageError):
    """The log failed after a rewrite was renamed into place; only reopening it helps (persistence 2.4)."""

    def __init__(self, *, file: Path | str, reason: str) -> None:
        super().__init__(file=file, what=f"poisoned: {reason}", next_step="restart this node")
        self.reason = reason


class JournalBusy(StorageError):
    """A drain or a truncation is running; nothing was touched."""

    def __init__(self, *, file: Path | str) -> None:
        super().__init__(file=file, what="a rewrite is already running", next_step="ask again when it is done")


class AppendRefused(StorageError):
    """An earlier append failed; nothing is accepted until `truncate_from(failed_from)` or lower (D-25)."""

    def __init__(self, *, file: Path | str, op: int, failed_from: int) -> None:
        super().__init__(
            file=file,
            what=f"op {op} refused, an append failed before it",
            next_step=f"truncate the log from op {failed_from} first",
        )
        self.op = op
        self.failed_from = failed_from


class EntryInvalid(StorageError):
    """A prepare whose bytes do not match its own size, or that is too large; nothing was written."""

    def __init__(self, *, file: Path | str, op: int, reason: str) -> None:
        super().__init__(file=file, what=f"op {op} refused: {reason}", next_step="drop this prepare")
        self.op = op
        self.reason = reason


class SlotCollision(StorageError):
    """The slot of this op still holds an entry that no snapshot covers; nothing was written."""

    def __init__(self, *, file: Path | str, op: int, occupant: int, snapshot_op: int) -> None:
        super().__init__(
            file=file,
            what=f"slot collision: op {op} would overwrite op {occupant}, the snapshot covers up to op {snapshot_op}",
            next_step="wait for a checkpoint, or raise metadata.journal_slots",
        )
        self.op = op
        self.occupant = occupant
        self.snapshot_op = snapshot_op


class SuperblockUnreadable(StorageError):
    """A copy of the superblock is damaged, so its newest content is unknown (D-08).

    `version` is the foreign format version when that is the reason, else None.
    """

    def __init__(self, *, file: Path | str, version: int | None, reason: str) -> None:
        super().__init__(
            file=file,
            what=f"unreadable: {reason}; the lost copy may have been the newer one",
            next_step=RESTORE,
        )
        self.version = version
        self.reason = reason


class SuperblockUndecodable(StorageError):
    """A checksum-clean superblock record whose payload makes no sense."""

    def __init__(self, *, file: Path | str, reason: str) -> None:
        super().__init__(file=file, what=f"undecodable: {reason}", next_step=RESTORE)
        self.reason = reason


class SuperblockDegraded(StorageError):
    """A write refused because a copy was damaged when the store was opened; both files stay as they are."""

    def __init__(self, *, file: Path | str) -> None:
        super().__init__(
            file=file, what="write refused, a copy is damaged", next_step="restart: the refusal says how to go on"
        )


class SuperblockMissing(StorageError):
    """A journal or a snapshot lies here without a superblock (birth specification, B-010)."""

    def __init__(self, *, file: Path | str, beside: str) -> None:
        super().__init__(
            file=file,
            what=f"missing although {beside} exists",
            next_step=RESTORE,
        )
        self.beside = beside


class JournalMissing(StorageError):
    """There is no log although a snapshot or a commit point says that there was one."""

    def __init__(self, *, file: Path | str, beside: str) -> None:
        super().__init__(
            file=file,
            what=f"missing although {beside}",
            next_step=f"put the file back, or {RESTORE}",
        )
        self.beside = beside


class SnapshotDamaged(StorageError):
    """A snapshot whose trailer, checksum or structure is wrong."""

    def __init__(self, *, file: Path | str, reason: str) -> None:
        super().__init__(file=file, what=f"damaged snapshot: {reason}", next_step=RESTORE)
        self.reason = reason


class ArchiveDamaged(StorageError):
    """A segment of the archive is not what was written. The node does without it; the file is left as it is."""

    def __init__(self, *, file: Path | str, reason: str) -> None:
        super().__init__(
            file=file,
            what=f"damaged archive segment: {reason}",
            next_step="members that lack its operations get a state transfer instead; move the file away to silence this",
        )


class AcknowledgementsDamaged(StorageError):
    """The store of acknowledgements is not what was written. It is never taken for an empty one."""

    def __init__(self, *, file: Path | str, reason: str) -> None:
        super().__init__(
            file=file,
            what=f"damaged acknowledgements: {reason}",
            next_step="move the file away: history is kept until every replica has spoken again",
        )


class SnapshotNotWritten(StorageError):
    """A stage of writing a snapshot failed: `stage` is create, write, sync, rename or sync-directory.

    Up to and including `rename` the previous snapshot is in place; after `sync-directory` failed it is one or the
    other.
    """

    def __init__(self, *, file: Path | str, stage: str, cause: StorageError) -> None:
        super().__init__(file=file, what=f"snapshot {stage} failed ({cause.what})", next_step=cause.next_step)
        self.stage = stage
        self.cause = cause


class SnapshotSuperseded(StorageError):
    """A newer snapshot arrived while this one was written (D-26); the file keeps the newer one."""

    def __init__(self, *, file: Path | str, op: int) -> None:
        super().__init__(
            file=file, what=f"snapshot at op {op} given up for a newer one", next_step="nothing to do, capture again"
        )
        self.op = op


class IdentityMismatch(StorageError):
    """The directory belongs to another member: `field` is cluster, replica_id or replica_count.

    A cluster is stored by its id alone, which is shown as on the replica links; `cluster_name` is the one configured.
    """

    def __init__(self, *, file: Path | str, field: str, found: int, expected: int, cluster_name: str = "") -> None:
        if field == "cluster":
            known = f" ({cluster_name})" if cluster_name else ""
            what = f"cluster id is {found:032x}, this node is configured with {expected:032x}{known}"
        else:
            what = f"{field} is {found}, this node is configured with {expected}"
        super().__init__(
            file=file,
            what=what,
            next_step="use the data directory of this member, or correct the configuration",
        )
        self.field = field
        self.found = found
        self.expected = expected


class CheckpointAhead(StorageError):
    """The superblock names a newer snapshot than the file holds (0 = no file)."""

    def __init__(self, *, file: Path | str, checkpoint_op: int, snapshot_op: int) -> None:
        holds = f"the file holds op {snapshot_op}" if snapshot_op else "there is no snapshot"
        super().__init__(
            file=file,
            what=f"the superblock names a snapshot at op {checkpoint_op}, {holds}",
            next_step=RESTORE,
        )
        self.checkpoint_op = checkpoint_op
        self.snapshot_op = snapshot_op


class CheckpointMismatch(StorageError):
    """Superblock and snapshot name the same op and different content."""

    def __init__(self, *, file: Path | str, op: int, expected: int, found: int) -> None:
        super().__init__(
            file=file,
            what=f"snapshot at op {op} has checksum {found:#x}, the superblock names {expected:#x}",
            next_step=RESTORE,
        )
        self.op = op
        self.expected = expected
        self.found = found
