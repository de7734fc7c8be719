"""What a node knows of its process and its machine: the node's part of GET_STATS, and the files of a diagnostics archive.

Read from the operating system's calls, without a file being opened. No secret gets into an archive: of the configuration only
the settings that are listed here are shown, so that a setting added later is left out until somebody lists it (D-20).
"""

import json
import os
import resource
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from levrier.actors.bus.archive import FILE_OF_SECTION, Section
from levrier.actors.runtime import Clock
from levrier.cluster.config import NodeConfig
from levrier.cluster.version import VERSION
from levrier.wire.responses.system import Stats

RECENT_LOG_LINES: Final = 1_000

SHOWN_SETTINGS: Final = (
    "data",
    "listen",
    "cluster_name",
    "node_name",
    "replica",
    "replica_count",
    "prepare_queue_depth",
    "journal_slots",
    "clients_table_max",
    "connections_max",
    "frame_size_max",
    "max_tokens_per_user",
    "arrangement",
)
"""The settings that an archive shows. The root user is not among them."""

_BLOCK: Final = 512


class RecentLog:
    """The last lines that were logged, for a diagnostics archive. A sink of the logger, fed by any thread."""

    def __init__(self, lines_max: int = RECENT_LOG_LINES) -> None:
        self._lines: deque[str] = deque(maxlen=lines_max)

    def keep(self, line: str) -> None:
        """One formatted line, with its end."""
        self._lines.append(str(line))  # Without the record that the logger hangs on it.

    def lines(self) -> tuple[str, ...]:
        """What is kept, oldest first."""
        return tuple(self._lines)


class ProcessFigures:
    """Asked for the figures of the process again and again: processor use is that since the last time."""

    def __init__(self, *, clock: Clock, data: Path) -> None:
        self._clock = clock
        self._data = data
        self._started_at = clock.now_micros()
        self._started_nanos = clock.monotonic_nanos()
        self._before = (self._started_nanos, _cpu_seconds(resource.getrusage(resource.RUSAGE_SELF)))

    def __call__(self) -> Stats:
        """Everything but the catalogue. Memory use is the peak so far, processor use of the machine the load of
        the last minute; a figure that the system does not tell is 0."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        now, cpu = self._clock.monotonic_nanos(), _cpu_seconds(usage)
        (before, cpu_before), self._before = self._before, (now, cpu)
        seconds = (now - before) / 1e9
        free, total = _disk_space(self._data)
        machine = os.uname()
        return Stats(
            process_id=os.getpid(),
            cpu_usage=100 * (cpu - cpu_before) / seconds if seconds > 0 else 0.0,
            total_cpu_usage=min(100.0, 100 * os.getloadavg()[0] / (os.cpu_count() or 1)),
            memory_usage=usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
            total_memory=_pages("SC_PHYS_PAGES"),
            available_memory=_pages("SC_AVPHYS_PAGES"),
            run_time=(now - self._started_nanos) // 1_000,
            start_time=self._started_at,
            read_bytes=usage.ru_inblock * _BLOCK,
            written_bytes=usage.ru_oublock * _BLOCK,
            hostname=machine.nodename,
            os_name=machine.sysname,
            os_version=machine.version,
            kernel_version=machine.release,
            server_version=VERSION,
            server_semver=_numeric_version(VERSION),
            threads_count=threading.active_count(),
            free_disk_space=free,
            total_disk_space=total,
        )


def _numeric_version(version: str) -> int:
    """Three digits each of major, minor and patch, as the reference's stats have it: 1,002,003 for 1.2.3."""
    major, minor, patch = (int(part) for part in version.split("-", 1)[0].split("."))
    return (major * 1_000 + minor) * 1_000 + patch


def diagnostic_files(
    config: NodeConfig, figures: Callable[[], Stats], recent_log: Callable[[], Iterable[str]]
) -> dict[str, bytes]:
    """The files of an archive by name. Called in a worker thread: it walks the data directory."""
    stats = figures()
    contents: dict[Section, bytes] = {
        Section.FILE_SYSTEM: _json(
            {
                "data": str(config.data.absolute()),
                "free_disk_space": stats.free_disk_space,
                "total_disk_space": stats.total_disk_space,
                "files": dict(_file_sizes(config.data)),
            }
        ),
        Section.PROCESSES: _json(
            {
                "process_id": stats.process_id,
                "python": sys.version,
                "threads": sorted(thread.name for thread in threading.enumerate()),
            }
        ),
        Section.RESOURCES: _json(
            {
                "cpu_usage": stats.cpu_usage,
                "total_cpu_usage": stats.total_cpu_usage,
                "memory_usage": stats.memory_usage,
                "total_memory": stats.total_memory,
                "available_memory": stats.available_memory,
                "run_time": stats.run_time,
                "read_bytes": stats.read_bytes,
                "written_bytes": stats.written_bytes,
                "hostname": stats.hostname,
                "os_name": stats.os_name,
                "kernel_version": stats.kernel_version,
                "server_version": stats.server_version,
            }
        ),
        Section.CONFIGURATION: _json({name: str(getattr(config, name)) for name in SHOWN_SETTINGS}),
    }
    lines = tuple(recent_log())
    if lines:
        contents[Section.LOGS] = "".join(lines).encode()
    return {FILE_OF_SECTION[section]: content for section, content in contents.items()}


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, indent=2).encode()


def _file_sizes(directory: Path) -> Iterator[tuple[str, int]]:
    """The files below a directory with their sizes; one that goes meanwhile is left out."""
    for root, directories, names in os.walk(directory):
        directories.sort()
        for name in sorted(names):
            path = Path(root, name)
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                continue
            yield str(path.relative_to(directory)), size


def _cpu_seconds(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def _pages(name: str) -> int:
    """A number of memory pages in bytes."""
    if name not in os.sysconf_names:
        return 0
    return max(0, os.sysconf(name)) * os.sysconf("SC_PAGE_SIZE")


def _disk_space(data: Path) -> tuple[int, int]:
    """Free and total bytes of the file system that holds the data, 0 where that cannot be told."""
    try:
        space = os.statvfs(data)
    except OSError:
        return 0, 0
    return space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize
