"""What the Acknowledgements actor accepts and answers: what others have durably applied, and what that permits.

`Blocked` and `SafeThrough` are two types on purpose: "no safe frontier yet" and "the safe frontier is empty" must not look
alike (acknowledgements 3).
"""

from dataclasses import dataclass

from levrier.actors.bus.messages import PeerAdmitted, ReplicaFrame
from levrier.actors.metadata.messages import FrontierApplied
from levrier.actors.runtime import Recipient
from levrier.wire.acknowledgement import Acknowledgement, Frontier


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Nothing may be reclaimed: these required replicas have not said anything, ascending. Empty: none is known at all."""

    waiting_on: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeThrough:
    """Every required replica (`covered`, ascending) has durably applied everything that `frontier` represents."""

    frontier: Frontier
    covered: tuple[str, ...]


Evidence = Blocked | SafeThrough


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceAnswer:
    """The answer to EvidenceQuery: the evidence, and the durable statements that it rests on, ascending by replica id."""

    token: int
    evidence: Evidence
    acknowledgements: tuple[Acknowledgement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceQuery:
    """What may be reclaimed, as far as is durably known here? Answered by EvidenceAnswer with the same token.

    Anybody may ask, a plugin for one; asking changes nothing.
    """

    token: int
    reply_to: Recipient[EvidenceAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveChanged:
    """What the Journal keeps beside its log, in bytes; the ops are 0 when that is nothing."""

    first_op: int
    last_op: int
    segments: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One interval has passed."""


Command = ReplicaFrame | PeerAdmitted | FrontierApplied | EvidenceQuery | ArchiveChanged | Tick
