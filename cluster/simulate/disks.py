"""How much the members keep on their disks, and how much that may be; and which disks are bad.

The bound follows from the configuration: a log never holds more entries than it has slots; beside it lies at most another one
while it is rewritten, and one whose blocks are still being given back. Everybody who is up says often enough what is
safe, so what is kept of the history is never much more than what one log holds. States are small, as long as the clients
delete as much as they make.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from levrier.cluster.simulate.checkers import Rule, Violation
from levrier.cluster.simulate.cluster import METADATA
from levrier.persistence.data_dir import GroupPaths
from levrier.persistence.journal import PREALLOCATE_STEP
from levrier.persistence.simulated_storage import SimulatedStorage

LOGS_MAX: Final = 3
"""The log, its successor while it is rewritten, and its predecessor while that is given back."""

ARCHIVED_LOGS_MAX: Final = 16
"""How many logs full of entries the archive may keep: a member that is away for minutes misses some of them."""

SNAPSHOTS_SIZE_MAX: Final = 1024 * 1024
"""Snapshots, whole and half-written, and everything that is small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUse:
    """Bytes on the disk of one member."""

    logs: int
    archive: int
    others: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.logs + self.archive + self.others


def disk_use(sizes: Mapping[Path, int]) -> DiskUse:
    """Sum up the sizes of the files of a member."""
    paths = GroupPaths(METADATA)
    logs = archive = others = 0
    for path, size in sizes.items():
        if path.parent == paths.archive:
            archive += size
        elif path.name.startswith(paths.journal.name):
            logs += size
        else:
            others += size
    return DiskUse(logs=logs, archive=archive, others=others)


def check_bounded(replica: int, use: DiskUse, *, slots: int, largest: int) -> None:
    """Raise `Violation` for more than a member with a log of so many `slots` may keep of entries of `largest` bytes."""
    entries = slots * largest
    log = entries + 2 * PREALLOCATE_STEP
    for what, size, bound in (
        ("logs", use.logs, LOGS_MAX * log),
        ("archive", use.archive, ARCHIVED_LOGS_MAX * entries),
        ("everything else", use.others, SNAPSHOTS_SIZE_MAX),
    ):
        if size > bound:
            raise Violation(Rule.DISK_IS_BOUNDED, f"node-{replica} keeps {size} bytes of {what}, {bound} are allowed")


def has_faulty_disk(storage: SimulatedStorage) -> bool:
    """Whether calls to it may fail now, or give wrong bytes."""
    faults = storage.faults
    return faults.error_probability > 0 or faults.read_flip_probability > 0 or faults.write_budget is not None


def is_slow(storage: SimulatedStorage) -> bool:
    """Whether calls to it take time now."""
    return storage.faults.delay_probability > 0 and storage.faults.delay_us_max > 0
