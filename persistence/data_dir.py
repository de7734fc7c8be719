"""Where the files of a node lie, and who may use them.

`node.lock` is held (flock) while a node runs: two nodes never share a directory (design section 6). Everything of one
consensus group lies in one sub-directory, `metadata` for the metadata group.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from levrier.persistence.storage import Lock, Storage

TEMPORARY_SUFFIX = ".tmp"


def temporary(path: Path) -> Path:
    """Where a replacement of `path` is written before it is renamed. Never read; a stale one is overwritten."""
    return path.with_name(path.name + TEMPORARY_SUFFIX)


@dataclass(frozen=True, slots=True)
class GroupPaths:
    """The files of one consensus group."""

    directory: Path

    @property
    def journal(self) -> Path:
        return self.directory / "journal.wal"

    @property
    def superblock_a(self) -> Path:
        return self.directory / "superblock.a"

    @property
    def superblock_b(self) -> Path:
        return self.directory / "superblock.b"

    @property
    def snapshot(self) -> Path:
        return self.directory / "snapshot.bin"

    @property
    def acknowledgements(self) -> Path:
        return self.directory / "acknowledgements.bin"

    @property
    def archive(self) -> Path:
        """A directory: what left the log and is kept (`levrier.persistence.archive`)."""
        return self.directory / "archive"


class DataDirectory:
    """A data directory that this process holds. `close` gives it back."""

    def __init__(self, *, root: Path, lock: Lock) -> None:
        self.root = root
        self.metadata = GroupPaths(root / "metadata")
        self._lock = lock

    @staticmethod
    def lock_path(root: Path) -> Path:
        """The file whose flock says that a node runs on `root`."""
        return root / "node.lock"

    @classmethod
    def check_unused(cls, storage: Storage, path: Path) -> None:
        """Raises `DirectoryInUse` if a node runs on `path`. Touches nothing."""
        storage.check_unlocked(cls.lock_path(path))

    @classmethod
    def open(cls, storage: Storage, path: Path) -> DataDirectory:
        """Create what is missing and lock it. Raises `DirectoryInUse` naming the process that holds it.

        The names in it are synced: what a process that was killed renamed last is durable before anybody reads it.
        """
        storage.make_directory(path)
        lock = storage.lock(cls.lock_path(path))
        try:
            directory = cls(root=path, lock=lock)
            storage.make_directory(directory.metadata.directory)
            for each in (path, directory.metadata.directory):
                storage.sync_directory(each)
        except BaseException:
            lock.close()
            raise
        return directory

    def close(self) -> None:
        """Release the lock. Safe to repeat."""
        self._lock.close()
