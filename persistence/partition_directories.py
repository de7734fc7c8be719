"""One directory for each partition: `<root>/<stream>/<topic>/<partition>.<epoch>`, the epoch being the revision that created it.

The epoch is part of the name, so one look at the names tells which incarnation of a reused id a directory belongs to, and no
file can disagree with it. What has another kind of name is not ours: it is neither listed nor touched, and keeps its parents.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from levrier.persistence.errors import FileMissing
from levrier.persistence.storage import Storage

_ID: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_PARTITION: Final = re.compile(r"(0|[1-9][0-9]{0,9})\.(0|[1-9][0-9]{0,19})")


class PartitionKey(NamedTuple):
    """Which partition, and which incarnation of it."""

    stream: int
    topic: int
    partition: int
    epoch: int


class PartitionDirectories:
    """The directories of the partitions of this node."""

    def __init__(self, storage: Storage, root: Path) -> None:
        self._storage = storage
        self._root = root

    def all(self) -> tuple[PartitionKey, ...]:
        """Every partition that has a directory, ascending. Raises `StorageError`."""
        found: list[PartitionKey] = []
        for stream in self._numbers(self._root):
            for topic in self._numbers(self._root / str(stream)):
                matches = map(_PARTITION.fullmatch, self._names(self._root / str(stream) / str(topic)))
                keys = [PartitionKey(stream, topic, int(match[1]), int(match[2])) for match in matches if match]
                found.extend(sorted(keys))
        return tuple(found)

    def path(self, key: PartitionKey) -> Path:
        """Where the directory of a partition is."""
        return self._root / str(key.stream) / str(key.topic) / f"{key.partition}.{key.epoch}"

    def create(self, key: PartitionKey) -> None:
        """Make it, durably; nothing happens if it exists. Raises `StorageError`."""
        self._storage.make_directory(self.path(key))

    def delete(self, key: PartitionKey) -> None:
        """Remove it and everything in it, durably; nothing happens if it is gone. Raises `StorageError`."""
        path = self.path(key)
        if self._storage.is_directory(path):
            self._empty(path)
            self._storage.remove_directory(path)
            self._storage.sync_directory(path.parent)
        for parent in (path.parent, path.parent.parent):
            if self._names(parent) or not self._storage.is_directory(parent):
                return
            self._storage.remove_directory(parent)
            self._storage.sync_directory(parent.parent)

    def _empty(self, path: Path) -> None:
        for name in self._storage.list(path):
            each = path / name
            if self._storage.is_directory(each):
                self._empty(each)
                self._storage.remove_directory(each)
            else:
                self._storage.remove(each)

    def _numbers(self, path: Path) -> list[int]:
        return sorted(int(name) for name in self._names(path) if _ID.fullmatch(name))

    def _names(self, path: Path) -> tuple[str, ...]:
        try:
            return self._storage.list(path)
        except FileMissing:
            return ()
