"""A disk in memory that fails the way disks do, as told by a seed.

Same contract as `DiskStorage` (one conformance suite runs against both). On top of it:

* `crash()` loses what no sync covered: unsynced bytes (torn by sector, by prefix, or gone) and unsynced names. A synced file
  whose name was not synced is gone too. Files opened before are dead afterwards, locks are released.
* A failed sync leaves its bytes undecided: each sector is on the disk or will never be, and a later sync that succeeds
  does not change that. The running process goes on reading what it wrote.
* A failed write has written some prefix. `crash_after` ends the world after the n-th call with `Crashed`, which is no
  `StorageError`, so nobody cleans up behind it.
* Slow and hung calls are reported to a hook and never slept.

Everything random comes from the generator that the constructor got; nothing iterates over a set.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random

from levrier.persistence.errors import DirectoryInUse, FileMissing, IoFailed
from levrier.persistence.storage import Data

SECTOR_SIZE = 512
AUDIT_CALLS_MAX = 100_000
FREE_SPACE_UNLIMITED = 1 << 40

_SPACE_CALLS = frozenset({"write", "create", "truncate", "mkdir"})


class Crashed(Exception):
    """The simulated machine stopped in the middle of this call."""


class Tear(Enum):
    """What of the unsynced bytes and names survives a crash."""

    LOSE = "lose"
    KEEP = "keep"
    PREFIX = "prefix"
    SECTORS = "sectors"
    ANY = "any"


@dataclass(slots=True, kw_only=True)
class DiskFaults:
    """What goes wrong. Mutable: a test or the simulator changes it while the disk is in use.

    `crash_after`: the call with this number is the last one that returns. `fail_at`: call number -> errno.
    `error_probability`: of any call to fail with one of `errors`. `write_budget`: bytes that may still be written, overwrites
    included, before ENOSPC; `capacity`: sum of all file lengths before ENOSPC. `read_flip_probability`: of one wrong bit in
    what a read returns. `delay_probability`, `delay_us_max`, `sync_delay_us`: microseconds reported to the delay hook.
    `failures_tear`: a call that fails may have done a part of its work; without it a failed write has written nothing, and a
    failed sync has lost nothing.
    """

    crash_after: int | None = None
    fail_at: dict[int, int] = field(default_factory=dict)
    error_probability: float = 0.0
    errors: tuple[int, ...] = (errno.EIO, errno.ENOSPC)
    write_budget: int | None = None
    capacity: int | None = None
    read_flip_probability: float = 0.0
    delay_probability: float = 0.0
    delay_us_max: int = 0
    sync_delay_us: int = 0
    tear: Tear = Tear.ANY
    failures_tear: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One line of the audit log; `error` is the errno it failed with, 0 if it succeeded."""

    number: int
    name: str
    path: Path
    offset: int
    size: int
    error: int


@dataclass(slots=True)
class _Write:
    offset: int
    data: bytes


@dataclass(slots=True)
class _Resize:
    size: int


@dataclass(slots=True)
class _Inode:
    current: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[_Write | _Resize] = field(default_factory=list)


@dataclass(slots=True)
class _Created:
    path: Path
    inode: _Inode


@dataclass(slots=True)
class _Renamed:
    source: Path
    target: Path


@dataclass(slots=True)
class _Removed:
    path: Path


_NameChange = _Created | _Renamed | _Removed


class SimulatedStorage:
    """The disk. `on_delay(call, path, microseconds)` is told about slow calls."""

    def __init__(
        self,
        random: Random,
        faults: DiskFaults | None = None,
        on_delay: Callable[[str, Path, int], None] | None = None,
    ) -> None:
        self.faults = faults if faults is not None else DiskFaults()
        self.audit: deque[Call] = deque(maxlen=AUDIT_CALLS_MAX)
        self.calls = 0
        self.durable_changes = 0
        """Counts what may have changed what a crash would leave."""
        self._random = random
        self.on_delay = on_delay
        self._names: dict[Path, _Inode] = {}
        self._durable_names: dict[Path, _Inode] = {}
        self._changes: dict[Path, list[_NameChange]] = {}
        self._directories: dict[Path, None] = {Path("/"): None}
        self._listings: dict[Path, tuple[str, ...]] = {}
        """What was found in directories since their names changed last."""
        self._locks: dict[Path, SimulatedLock] = {}
        self._generation = 0

    # The protocol

    def make_directory(self, path: Path) -> None:
        self._enter("mkdir", path)
        self._have_directories(path)

    def exists(self, path: Path) -> bool:
        self._enter("stat", path)
        return path in self._names or path in self._directories

    def open(self, path: Path, create: bool) -> SimulatedFile:
        inode = self._names.get(path)
        self._enter("create" if create and inode is None else "open", path)
        if inode is None:
            if not create or path.parent not in self._directories:
                raise FileMissing(file=path, call="open")
            inode = _Inode()
            self._names[path] = inode
            self._listings.pop(path.parent, None)
            self._change(path, _Created(path, inode))
        return SimulatedFile(self, path, inode, self._generation)

    def read_all(self, path: Path) -> bytes:
        file = self.open(path, create=False)
        return file.read(0, file.size())

    def replace(self, source: Path, target: Path) -> None:
        assert source.parent == target.parent, "a rename stays in its directory"
        self._enter("rename", source)
        if source not in self._names:
            raise FileMissing(file=source, call="rename")
        self._names[target] = self._names.pop(source)
        self._listings.pop(target.parent, None)
        self._change(source, _Renamed(source, target))

    def sync_directory(self, path: Path) -> None:
        self._enter("sync_directory", path)
        self.durable_changes += 1
        for change in self._changes.pop(path, []):
            _apply(self._durable_names, change)

    def remove(self, path: Path) -> None:
        self._enter("unlink", path)
        if path not in self._names:
            raise FileMissing(file=path, call="unlink")
        del self._names[path]
        self._listings.pop(path.parent, None)
        self._change(path, _Removed(path))

    def remove_directory(self, path: Path) -> None:
        self._enter("rmdir", path)
        if path not in self._directories:
            raise FileMissing(file=path, call="rmdir")
        if self._listing(path):
            raise IoFailed(file=path, call="rmdir", error=errno.ENOTEMPTY)
        del self._directories[path]
        self._listings.pop(path.parent, None)

    def is_directory(self, path: Path) -> bool:
        self._enter("stat", path)
        return path in self._directories

    def list(self, path: Path) -> tuple[str, ...]:
        self._enter("listdir", path)
        if path not in self._directories:
            raise FileMissing(file=path, call="listdir")
        return self._listing(path)

    def lock(self, path: Path) -> SimulatedLock:
        if path in self._locks:
            raise DirectoryInUse(file=path, pid=None)
        self.open(path, create=True)
        lock = SimulatedLock(self._locks, path)
        self._locks[path] = lock
        return lock

    def check_unlocked(self, path: Path) -> None:
        if path in self._locks:
            raise DirectoryInUse(file=path, pid=None)

    def free_space(self, path: Path) -> int:
        self._enter("statvfs", path)
        capacity = self.faults.capacity
        return FREE_SPACE_UNLIMITED if capacity is None else max(0, capacity - self._used())

    # What only a test or the simulator does

    def crash(self, *, tear: Tear | None = None, keep_bytes: int | None = None) -> None:
        """Stop the machine and start it again: only what is on the disk is left.

        `tear` overrides the one of `faults`; `keep_bytes` keeps exactly so many unsynced bytes of each file, in the order
        in which they were written.
        """
        self.durable_changes += 1
        how = tear if tear is not None else self.faults.tear
        for _, changes in sorted(self._changes.items()):
            for change in changes[: self._survivors(how, len(changes))]:
                _apply(self._durable_names, change)
        self._changes.clear()
        for path in sorted(self._durable_names):
            inode = self._durable_names[path]
            self._settle(inode, how, keep_bytes)
            inode.current = bytearray(inode.durable)
        self._names = dict(self._durable_names)
        self._listings.clear()
        self.kill()

    def kill(self) -> None:
        """End the process only: files and locks are closed, unsynced bytes and names stay as others see them."""
        self._locks.clear()
        self._generation += 1
        self.faults.crash_after = None

    def put(self, path: Path, content: bytes) -> None:
        """Have a file with this content, durably."""
        self.durable_changes += 1
        self._have_directories(path.parent)
        self._listings.pop(path.parent, None)
        inode = _Inode(bytearray(content), bytearray(content))
        self._names[path] = self._durable_names[path] = inode

    def content(self, path: Path) -> bytes | None:
        """What a file holds now, unsynced bytes included; None without a file."""
        inode = self._names.get(path)
        return None if inode is None else bytes(inode.current)

    def sizes(self) -> dict[Path, int]:
        """How many bytes each file holds now."""
        return {path: len(inode.current) for path, inode in self._names.items()}

    def is_durable(self, path: Path) -> bool:
        """Whether a crash now would lose neither name nor bytes of this file."""
        inode = self._names.get(path)
        return inode is not None and self._durable_names.get(path) is inode and inode.durable == inode.current

    def flip(self, path: Path, offset: int, bit: int = 0) -> None:
        """Turn one bit of a file, on the disk and in the cache."""
        self.durable_changes += 1
        inode = self._names[path]
        inode.current[offset] ^= 1 << bit
        inode.durable[offset] ^= 1 << bit

    def copy(self, random: Random) -> SimulatedStorage:
        """Another disk with the same names and bytes as a running process sees them here, all durable."""
        other = SimulatedStorage(random)
        other._directories = dict(self._directories)
        for path, inode in self._names.items():
            other.put(path, bytes(inode.current))
        return other

    def durable_content(self, path: Path) -> bytes | None:
        """What a crash now would leave of a file, at the least: no unsynced byte; None for a name that is not synced."""
        inode = self._durable_names.get(path)
        return None if inode is None else bytes(inode.durable)

    def durable_paths(self) -> tuple[Path, ...]:
        """The files whose names a crash now would leave, ascending."""
        return tuple(sorted(self._durable_names))

    # Inside

    def _have_directories(self, path: Path) -> None:
        for each in (path, *path.parents):
            if each not in self._directories:
                self._directories[each] = None
                self._listings.pop(each.parent, None)

    def _listing(self, path: Path) -> tuple[str, ...]:
        found = self._listings.get(path)
        if found is None:
            start = "/" if path == Path("/") else f"{path}/"
            everything = [str(each) for each in (*self._names, *self._directories)]
            inside = [each.removeprefix(start) for each in everything if each.startswith(start) and each != start]
            found = self._listings[path] = tuple(sorted(each for each in inside if "/" not in each))
        return found

    def _enter(self, name: str, path: Path, offset: int = 0, size: int = 0, generation: int | None = None) -> None:
        """Count a call, and let it fail, crash or be slow. `Crashed` or `IoFailed`."""
        error = self._begin(name, path, offset, size, generation)
        if error:
            raise IoFailed(file=path, call=name, error=error)

    def _begin(self, name: str, path: Path, offset: int, size: int, generation: int | None) -> int:
        faults = self.faults
        if generation is not None and generation != self._generation:
            raise Crashed
        if faults.crash_after is not None and self.calls >= faults.crash_after:
            raise Crashed
        self.calls += 1
        delay = faults.sync_delay_us if name in {"sync", "datasync"} else 0
        if faults.delay_probability and self._random.random() < faults.delay_probability:
            delay += self._random.randint(1, max(1, faults.delay_us_max))
        if delay and self.on_delay is not None:
            self.on_delay(name, path, delay)
        error = faults.fail_at.get(self.calls, 0)
        if not error and faults.error_probability and self._random.random() < faults.error_probability:
            error = self._random.choice(faults.errors)
            if error == errno.ENOSPC and name not in _SPACE_CALLS:
                error = errno.EIO
        self.audit.append(Call(number=self.calls, name=name, path=path, offset=offset, size=size, error=error))
        return error

    def _used(self) -> int:
        return sum(len(inode.current) for inode in self._names.values())

    def _change(self, path: Path, change: _NameChange) -> None:
        self._changes.setdefault(path.parent, []).append(change)

    def _survivors(self, how: Tear, count: int) -> int:
        """How many of the unsynced name changes survive: a journaled file system keeps a prefix of them."""
        if how is Tear.LOSE:
            return 0
        return count if how is Tear.KEEP else self._random.randint(0, count)

    def _settle(self, inode: _Inode, how: Tear, keep_bytes: int | None = None) -> None:
        """Decide the fate of unsynced bytes: afterwards nothing of this file is pending."""
        pending, inode.pending = inode.pending, []
        if not pending:
            return
        if keep_bytes is not None:
            _keep_prefix(inode.durable, pending, keep_bytes)
            return
        if how is Tear.ANY:
            how = self._random.choice((Tear.LOSE, Tear.KEEP, Tear.PREFIX, Tear.SECTORS))
        if how is Tear.KEEP:
            for change in pending:
                _write_or_resize(inode.durable, change)
        elif how is Tear.PREFIX:
            total = sum(len(change.data) for change in pending if isinstance(change, _Write))
            _keep_prefix(inode.durable, pending, self._random.randint(0, total))
        elif how is Tear.SECTORS:
            for change in pending:
                self._keep_sectors(inode.durable, change)

    def _keep_sectors(self, target: bytearray, change: _Write | _Resize) -> None:
        if isinstance(change, _Resize):
            if self._random.random() < 0.5:
                _write_or_resize(target, change)
            return
        start, end = change.offset, change.offset + len(change.data)
        while start < end:
            stop = min(end, (start // SECTOR_SIZE + 1) * SECTOR_SIZE)
            if self._random.random() < 0.5:
                piece = change.data[start - change.offset : stop - change.offset]
                _write_or_resize(target, _Write(start, piece))
            start = stop


class SimulatedFile:
    """An open file of a `SimulatedStorage`."""

    __slots__ = ("_generation", "_inode", "_path", "_storage")

    def __init__(self, storage: SimulatedStorage, path: Path, inode: _Inode, generation: int) -> None:
        self._storage = storage
        self._path = path
        self._inode = inode
        self._generation = generation

    def read(self, offset: int, size: int) -> bytes:
        storage = self._storage
        storage._enter("read", self._path, offset, size, self._generation)
        data = bytes(self._inode.current[offset : offset + size])
        probability = storage.faults.read_flip_probability
        if probability and data and storage._random.random() < probability:
            wrong = bytearray(data)
            wrong[storage._random.randrange(len(wrong))] ^= 1 << storage._random.randrange(8)
            return bytes(wrong)
        return data

    def write(self, offset: int, data: Data) -> None:
        storage = self._storage
        content = bytes(data)
        error = storage._begin("write", self._path, offset, len(content), self._generation)
        fits = self._fitting(offset, len(content))
        if error:
            fits = min(fits, storage._random.randint(0, len(content)))
        elif fits < len(content):
            error = errno.ENOSPC
        if error and not storage.faults.failures_tear:
            fits = 0
        if fits:
            change = _Write(offset, content[:fits])
            _write_or_resize(self._inode.current, change)
            self._inode.pending.append(change)
        if storage.faults.write_budget is not None:
            storage.faults.write_budget -= fits
        if error:
            raise IoFailed(file=self._path, call="write", error=error)

    def size(self) -> int:
        self._storage._enter("fstat", self._path, generation=self._generation)
        return len(self._inode.current)

    def truncate(self, size: int) -> None:
        self._storage._enter("truncate", self._path, 0, size, self._generation)
        change = _Resize(size)
        _write_or_resize(self._inode.current, change)
        self._inode.pending.append(change)

    def datasync(self) -> None:
        self._sync("datasync")

    def sync(self) -> None:
        self._sync("sync")

    def close(self) -> None:
        """Nothing is synced by it, and nothing fails."""

    def _sync(self, name: str) -> None:
        storage, inode = self._storage, self._inode
        error = storage._begin(name, self._path, 0, 0, self._generation)
        storage.durable_changes += 1
        if error:
            if storage.faults.failures_tear:
                storage._settle(inode, Tear.SECTORS)
            raise IoFailed(file=self._path, call=name, error=error)
        for change in inode.pending:
            _write_or_resize(inode.durable, change)
        inode.pending.clear()

    def _fitting(self, offset: int, size: int) -> int:
        """How many of `size` bytes at `offset` the disk takes before it is full."""
        faults, fits = self._storage.faults, size
        if faults.write_budget is not None:
            fits = min(fits, max(0, faults.write_budget))
        if faults.capacity is not None:
            length = len(self._inode.current)
            free = max(0, faults.capacity - self._storage._used())
            fits = min(fits, max(0, length + free - offset))
        return fits


class SimulatedLock:
    """A lock file held by this simulated machine."""

    __slots__ = ("_locks", "_path")

    def __init__(self, locks: dict[Path, SimulatedLock], path: Path) -> None:
        self._locks = locks
        self._path = path

    def close(self) -> None:
        """Release it. Safe to repeat, also after a crash and a new owner."""
        if self._locks.get(self._path) is self:
            del self._locks[self._path]


def _apply(names: dict[Path, _Inode], change: _NameChange) -> None:
    if isinstance(change, _Created):
        names[change.path] = change.inode
    elif isinstance(change, _Renamed):
        if change.source in names:
            names[change.target] = names.pop(change.source)
    else:
        names.pop(change.path, None)


def _write_or_resize(target: bytearray, change: _Write | _Resize) -> None:
    if isinstance(change, _Resize):
        if change.size <= len(target):
            del target[change.size :]
        else:
            target.extend(bytes(change.size - len(target)))
        return
    end = change.offset + len(change.data)
    if change.offset > len(target):
        target.extend(bytes(change.offset - len(target)))
    target[change.offset : end] = change.data


def _keep_prefix(target: bytearray, pending: list[_Write | _Resize], keep: int) -> None:
    """Apply changes in order until `keep` bytes were written; the write in which they run out is cut."""
    for change in pending:
        if isinstance(change, _Write) and len(change.data) > keep:
            if keep:
                _write_or_resize(target, _Write(change.offset, change.data[:keep]))
            return
        _write_or_resize(target, change)
        if isinstance(change, _Write):
            keep -= len(change.data)
