"""What the Checkpoint coordinator accepts. One attempt at a time; its mailbox replaces the checkpoint lock.

Order of an attempt: snapshot file, superblock, drain (persistence 5).
"""

from dataclasses import dataclass

from levrier.actors.client_table.messages import CapturedClients
from levrier.actors.metadata.messages import CapturedMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """State machine and client table at exactly `op`: begin an attempt."""

    op: int
    metadata: CapturedMetadata
    clients: CapturedClients


@dataclass(frozen=True, slots=True, kw_only=True)
class Continue:
    """Told by the coordinator to itself: encode the next slice of attempt `attempt`."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecorded:
    """The superblock durably names the snapshot of `op`."""

    op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFailed:
    """The superblock could not be written."""

    op: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """The log holds nothing at or below `up_to`; `log_size` bytes are in use."""

    up_to: int
    log_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainFailed:
    """The log could not be rewritten; it is unchanged or poisoned, as `reason` says."""

    up_to: int
    reason: str


Command = Captured | Continue | CheckpointRecorded | RecordFailed | Drained | DrainFailed
