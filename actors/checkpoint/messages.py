"""What the Checkpoint coordinator accepts. One attempt at a time; its mailbox replaces the checkpoint lock.

Order of an attempt: snapshot file, superblock, drain (persistence 5). A snapshot that was received goes the same way, in two
parts: PlaceReceived has the file written before it is installed, FinishReceived has it named and the log drained behind it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from levrier.actors.client_table.messages import CapturedClients
from levrier.actors.metadata.messages import CapturedMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """State machine and client table at exactly `op`: begin an attempt.

    `table_frontier` is above `op` only while a table that was received ahead of its snapshot waits for the ops between.
    """

    op: int
    metadata: CapturedMetadata
    clients: CapturedClients
    table_frontier: int = 0


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


class ReceivedPayload(Protocol):
    """The payload of a snapshot that came from a peer, on the disk."""

    def chunks(self) -> Iterator[bytes]:
        """The payload in pieces of at most about 256 KiB. Raises `StorageError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceReceived:
    """Make this the snapshot file, verbatim; a capture that is being written is given up for it (D-26).

    The payload has `size` bytes and the XXH3 `checksum`. Answered to StateTransfer by ReceivedPlaced or ReceivedNotPlaced.
    """

    attempt: int
    op: int
    size: int
    checksum: int
    payload: ReceivedPayload


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishReceived:
    """The snapshot of `op`, placed before, is installed: name it in the superblock, then drain the log behind it.

    No answer. A failure is tried again until a checkpoint of our own has taken its place.
    """

    op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BirthKnown:
    """The cluster is born, or this member has joined it: snapshots carry this id from now on."""

    birth_id: int


Command = (
    BirthKnown
    | Captured
    | Continue
    | CheckpointRecorded
    | RecordFailed
    | Drained
    | DrainFailed
    | PlaceReceived
    | FinishReceived
)
