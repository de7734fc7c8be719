"""What StateTransfer accepts: when to fetch, the steps of an install, frames of peers, time (consensus specification 11).

StateTransfer owns the one fetch session, its nonce, budget and bytes; Consensus owns the stage, because it decides who may
vote and commit meanwhile. Every message of one attempt carries its number; a number that is not the present one is stale.

    Consensus                     StateTransfer
    FetchRequired(attempt, peer) ->                     RequestStateTransfer to the peer, descriptor, chunks
                                 <- TransferAccepted    the descriptor was accepted: stage Fetching
                                 <- InstallReady        everything is here, verified, decoded and coherent
    (waits until the commit stream is empty, decides is_ahead, cuts the log above the snapshot)
    PlaceSnapshot(attempt)       ->                     only when ahead: have the Checkpoint coordinator write the file
                                 <- SnapshotPlaced      the file is durable under its name
    (Install goes down the commit stream: Metadata, ClientTable, back as consensus.Installed)
    InstallFinished(attempt, ..) ->                     record the pairing in the superblock, drain the log, free the bytes

At any time StateTransfer may answer TransferFailed, and Consensus may say FetchCanceled, both of which end the attempt.
The frames of a transfer between replicas go from the Bus to StateTransfer and never pass through Consensus; neither does a
byte of the state: the snapshot is handed through by reference.
"""

from dataclasses import dataclass

from levrier.actors.bus.messages import ReplicaFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequired:
    """Begin attempt `attempt`: fetch the state of the group from replica `peer`. Replaces any attempt under way.

    `view` is the view to stamp on the frames. `snapshot_op` is the newest snapshot of this replica.
    """

    attempt: int
    peer: int
    view: int
    snapshot_op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchCanceled:
    """The attempt is over: nothing of it is wanted any more. No answer."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceSnapshot:
    """The log holds nothing above the snapshot any more: write the file. Answered by SnapshotPlaced or TransferFailed."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallFinished:
    """State machine and client table are installed; `applied_op` is what they reflect now.

    `is_ahead` says that the snapshot was newer than the local state: then its pairing is due in the superblock. A failure to
    record it is a degraded success, not an error.
    """

    attempt: int
    applied_op: int
    is_ahead: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferVerdict:
    """The answer to consensus.OfferWanted.

    When `granted`, the snapshot file of `snapshot_op` may be served as the state of this replica, whose commit point was
    `commit_max` in view `view`; the client table in it shares the frontier. Otherwise the target is unavailable for now.
    """

    token: int
    granted: bool
    snapshot_op: int = 0
    commit_op: int = 0
    commit_max: int = 0
    view: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewObserved:
    """The view of this replica is now `view`; StateTransfer stamps it on its frames."""

    view: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedPlaced:
    """The coordinator's answer to checkpoint.PlaceReceived: the snapshot of this attempt is the durable one."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedNotPlaced:
    """The coordinator's other answer: the snapshot of this attempt is not known to be in place, as `reason` says."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One tick has passed; stalls and expiries are counted in these."""


ConsensusCommand = FetchRequired | FetchCanceled | PlaceSnapshot | InstallFinished | OfferVerdict | ViewObserved
"""What Consensus may tell."""

CheckpointAnswer = ReceivedPlaced | ReceivedNotPlaced
"""What the Checkpoint coordinator answers."""

Command = ConsensusCommand | CheckpointAnswer | ReplicaFrame | Tick
"""Everything that StateTransfer accepts. Of frames the Bus routes commands 22 to 25 to it."""
