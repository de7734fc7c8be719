"""What the Superblock accepts. It merges the latest of both kinds when it writes and never regresses either."""

from dataclasses import dataclass

from levrier.persistence.superblock import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistView:
    """Make (view, log_view) durable. Answered to Consensus by ViewPersisted or ViewPersistFailed.

    `settles_cut`: a view has told what the log holds, so that it counts as cut no longer (D-24).
    """

    view: int
    log_view: int
    commit_max: int
    settles_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCheckpoint:
    """Name the snapshot of `op` with the hash of its payload. Answered to the coordinator."""

    op: int
    checksum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistBirth:
    """Make this step of the birth durable. Answered to the member-state actor by BirthPersisted or BirthPersistFailed.

    The phase never goes back, and an id that was written once stays. A step that failed is forgotten, not kept for the next
    write: whoever asked decides anew.
    """

    birth_id: int
    phase: Phase
    voter: bool


Command = PersistView | RecordCheckpoint | PersistBirth
