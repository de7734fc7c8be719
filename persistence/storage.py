"""The only door to the disk: two protocols and their real implementation.

Everything that persists goes through a `Storage`, so the simulator can put a faulty disk in its place
(`levrier.persistence.simulated_storage`). A call that the system refuses raises `IoFailed`; nothing is retried here.
Callers must assume of a failed `write` that any part of it was written, and of a failed `datasync` or `sync` that the
bytes may or may not reach the disk, ever.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Protocol

from levrier.persistence.errors import DirectoryInUse, DirectoryUnusable, FileMissing, IoFailed, NotADirectory

Data = bytes | bytearray | memoryview

READ_SIZE_MAX = 0x7FFF_F000
"""What one `pread` or `pwrite` of Linux transfers at most, in bytes."""


_OF_THE_PLACE = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP})
"""Why a directory cannot be made or written to, whatever state its disk is in."""


class Lock(Protocol):
    """A held directory lock; `close` releases it."""

    def close(self) -> None: ...


class File(Protocol):
    """An open file that is read and written at explicit byte offsets."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end of the file."""
        ...

    def write(self, offset: int, data: Data) -> None:
        """All of `data` at `offset`, not durable before a `datasync` or `sync`."""
        ...

    def size(self) -> int:
        """The length of the file in bytes."""
        ...

    def truncate(self, size: int) -> None:
        """Cut or extend (with zeros) to `size` bytes."""
        ...

    def datasync(self) -> None:
        """Make what was written durable: data, and the length if it changed."""
        ...

    def sync(self) -> None:
        """As `datasync`, with all metadata of the file."""
        ...

    def close(self) -> None:
        """Close it; never raises, never syncs. Safe to repeat."""
        ...


class Storage(Protocol):
    """A file system, as far as levrier uses one."""

    def make_directory(self, path: Path) -> None:
        """Create `path` and its parents, durably; nothing happens if it exists.

        `NotADirectory` if a file is in the way, `DirectoryUnusable` if none can be made there.
        """
        ...

    def exists(self, path: Path) -> bool: ...

    def open(self, path: Path, create: bool) -> File:
        """Open for reading and writing; `FileMissing` if it is not there and `create` is not set."""
        ...

    def read_all(self, path: Path) -> bytes:
        """The whole content; `FileMissing` if it is not there."""
        ...

    def replace(self, source: Path, target: Path) -> None:
        """Rename atomically over `target`; durable after `sync_directory`."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Make the names in the directory `path` durable."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file; `FileMissing` if it is not there."""
        ...

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory; `FileMissing` if it is not there. Durable after `sync_directory` of its parent."""
        ...

    def is_directory(self, path: Path) -> bool:
        """Whether there is a directory of this name."""
        ...

    def list(self, path: Path) -> tuple[str, ...]:
        """The names in a directory, sorted."""
        ...

    def lock(self, path: Path) -> Lock:
        """Take the lock file `path` for this process; `DirectoryInUse` if somebody holds it.

        `DirectoryUnusable` if this process may not write there.
        """
        ...

    def check_unlocked(self, path: Path) -> None:
        """`DirectoryInUse` if somebody holds the lock file `path`, which is left as it is and need not be there.

        A process of another machine or container is not seen: only taking the lock is proof.
        """
        ...

    def free_space(self, path: Path) -> int:
        """Bytes that may still be written on the disk that holds `path`."""
        ...


def _unusable(path: Path, call: str, error: OSError) -> DirectoryUnusable | IoFailed:
    """What to say of a directory that could not be made, or not written to."""
    if error.errno in _OF_THE_PLACE:
        return DirectoryUnusable(file=path, reason=os.strerror(error.errno or 0))
    return _failed(path, call, error)


def _failed(path: Path, call: str, error: OSError) -> IoFailed:
    if error.errno == errno.ENOENT:
        return FileMissing(file=path, call=call)
    return IoFailed(file=path, call=call, error=error.errno or 0)


class DiskFile:
    """A `File` on the real disk. Plain system calls: whoever uses it has a thread of its own."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def read(self, offset: int, size: int) -> bytes:
        assert offset >= 0
        assert size >= 0
        try:
            data = os.pread(self._descriptor, min(size, READ_SIZE_MAX), offset)
            if len(data) == size or not data:
                return data
            parts = [data]
            have = len(data)
            while have < size:  # A short read before the end is allowed, though rare.
                data = os.pread(self._descriptor, min(size - have, READ_SIZE_MAX), offset + have)
                if not data:
                    break
                parts.append(data)
                have += len(data)
        except OSError as error:
            raise _failed(self._path, "read", error) from error
        return b"".join(parts)

    def write(self, offset: int, data: Data) -> None:
        assert offset >= 0
        try:
            written = os.pwrite(self._descriptor, data, offset)
            if written == len(data):
                return
            rest = memoryview(data)
            while written < len(rest):
                count = os.pwrite(self._descriptor, rest[written:], offset + written)
                if count == 0:
                    raise IoFailed(file=self._path, call="write", error=errno.ENOSPC)
                written += count
        except OSError as error:
            raise _failed(self._path, "write", error) from error

    def size(self) -> int:
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            raise _failed(self._path, "fstat", error) from error

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise _failed(self._path, "truncate", error) from error

    def datasync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise _failed(self._path, "fdatasync", error) from error

    def sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise _failed(self._path, "fsync", error) from error

    def close(self) -> None:
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        try:
            os.close(descriptor)
        except OSError:
            # Nothing depends on it: what had to be durable was synced before, and the descriptor is gone anyway.
            return


class DiskLock:
    """An flock on a file that names its owner's process id."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        """Release it. Safe to repeat."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


def _owner(descriptor: int) -> int | None:
    """The process that a lock file names."""
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class DiskStorage:
    """The real disk."""

    __slots__ = ()

    def make_directory(self, path: Path) -> None:
        if path.is_dir():
            return
        try:
            missing = [path, *path.parents]
            missing = missing[: next(index for index, each in enumerate(missing) if each.is_dir())]
            for each in reversed(missing):
                each.mkdir(exist_ok=True)
                self.sync_directory(each.parent)
        except (FileExistsError, NotADirectoryError) as error:
            raise NotADirectory(file=path) from error
        except OSError as error:
            raise _unusable(path, "mkdir", error) from error

    def exists(self, path: Path) -> bool:
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _failed(path, "stat", error) from error
        return True

    def open(self, path: Path, create: bool) -> DiskFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return DiskFile(path, os.open(path, flags, 0o600))
        except OSError as error:
            raise _failed(path, "open", error) from error

    def read_all(self, path: Path) -> bytes:
        file = self.open(path, create=False)
        try:
            return file.read(0, file.size())
        finally:
            file.close()

    def replace(self, source: Path, target: Path) -> None:
        try:
            os.replace(source, target)
        except OSError as error:
            raise _failed(source, "rename", error) from error

    def sync_directory(self, path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _failed(path, "fsync", error) from error

    def remove(self, path: Path) -> None:
        try:
            os.unlink(path)
        except OSError as error:
            raise _failed(path, "unlink", error) from error

    def remove_directory(self, path: Path) -> None:
        try:
            os.rmdir(path)
        except OSError as error:
            raise _failed(path, "rmdir", error) from error

    def is_directory(self, path: Path) -> bool:
        return path.is_dir()

    def list(self, path: Path) -> tuple[str, ...]:
        try:
            return tuple(sorted(os.listdir(path)))
        except OSError as error:
            raise _failed(path, "listdir", error) from error

    def lock(self, path: Path) -> DiskLock:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(path, "open", error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError as error:
            pid = _owner(descriptor)
            os.close(descriptor)
            raise DirectoryInUse(file=path, pid=pid) from error
        except OSError as error:
            os.close(descriptor)
            raise _failed(path, "lock", error) from error
        return DiskLock(descriptor)

    def check_unlocked(self, path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise _unusable(path, "open", error) from error
        try:
            pid = _owner(descriptor)
            if pid is not None and not _is_there(pid):
                return  # Whoever starts a node in this moment is not in the way of a look.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DirectoryInUse(file=path, pid=pid) from error
        except OSError as error:
            raise _failed(path, "lock", error) from error
        finally:
            os.close(descriptor)

    def free_space(self, path: Path) -> int:
        try:
            status = os.statvfs(path)
        except OSError as error:
            raise _failed(path, "statvfs", error) from error
        return status.f_bavail * status.f_frsize
