"""What the member-state actor accepts: frames of other members, links that come and go, answers, time (birth specification)."""

from dataclasses import dataclass

from levrier.actors.bus.messages import PeerDown, PeerUp, ReplicaFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class BirthPersisted:
    """The superblock durably says what was asked for: id, phase and voter of the record."""

    birth_id: int
    is_born: bool
    voter: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BirthPersistFailed:
    """The superblock could not be written; it is asked for again at a tick."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The answer to consensus.StandingWanted.

    `view` is the live view; `is_settled` says that the replica is Normal in it and that the superblock says so. `op` and
    `checksum` name the durable head (checksum 0: not in the log any more); `holds` is about the entry that was asked for.
    """

    token: int
    view: int
    is_settled: bool
    is_primary: bool
    op: int
    checksum: int
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """50 milliseconds have passed."""


SuperblockAnswer = BirthPersisted | BirthPersistFailed
"""What the Superblock answers."""

Command = ReplicaFrame | PeerUp | PeerDown | SuperblockAnswer | Standing | Tick
