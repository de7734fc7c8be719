"""What the Superblock accepts. It merges the latest of both kinds when it writes and never regresses either."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistView:
    """Make (view, log_view) durable. Answered to Consensus by ViewPersisted or ViewPersistFailed."""

    view: int
    log_view: int
    commit_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCheckpoint:
    """Name the snapshot of `op` with the hash of its payload. Answered to the coordinator."""

    op: int
    checksum: int


Command = PersistView | RecordCheckpoint
