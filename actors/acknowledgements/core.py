"""When a replica speaks, whom it believes, and what is to be written (acknowledgements 1, 4, 5). Pure.

It acts on nothing by itself: it records and computes. What arrives between two ticks is held and written in one go, because
a rewrite costs three syncs; it is evidence only once it is durable.

Nothing is said or written before this replica has applied something: until then it has nothing to say, and a directory
without a superblock holds no other file.

Deviation: what was said is said again after `REPEAT_TICKS`, moved or not. A frame can be lost, and an idle cluster
would otherwise keep what it knew before for ever; people see a replica that is alive and stuck. A peer that comes up as a
learner has lost its disk: what it said before is about a log that it no longer has, and is forgotten.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from levrier.actors.metadata.messages import FrontierApplied
from levrier.wire.acknowledgement import Acknowledgement, Frontier, replica_id
from levrier.wire.errors import WireError

REPEAT_TICKS: Final = 20
"""Intervals after which an unmoved frontier is stated again."""


class Refusal(IntEnum):
    """Why a frame was no acknowledgement."""

    UNDECODABLE = 0
    SENDER = 1
    """It names another replica than the one at the other end of the link (A-015)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who speaks: cluster id, index, the node's name, and how many replicas the membership has."""

    cluster: int
    replica: int
    replica_count: int
    node_id: str

    @property
    def replica_id(self) -> str:
        """The identity of this replica."""
        return replica_id(self.cluster, self.replica)

    @property
    def membership(self) -> tuple[str, ...]:
        """The identities of all replicas of this node's membership, ascending."""
        return tuple([replica_id(self.cluster, each) for each in range(self.replica_count)])


@dataclass(frozen=True, slots=True, kw_only=True)
class AskFrontier:
    """Ask the state machine how far it is applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Send the statement to one peer, or to all (`replica` None)."""

    replica: int | None
    acknowledgement: Acknowledgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Make this durable, in order: what is `forgotten`, then what was said. Answered by on_recorded or on_record_failed."""

    forgotten: tuple[str, ...]
    acknowledgements: tuple[Acknowledgement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A frame of that peer was dropped. `count` is how many of this kind there were."""

    replica: int
    refusal: Refusal
    detail: str
    count: int


AcknowledgementEffect: TypeAlias = AskFrontier | Say | Record | Refused


class AcknowledgementsCore:
    """One replica's side of the exchange."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._membership = identity.membership
        self._said: Acknowledgement | None = None
        self._said_ticks = 0
        self._held: dict[str, Acknowledgement] = {}
        self._forgotten: dict[str, None] = {}
        self._refusals = dict.fromkeys(Refusal, 0)

    @property
    def membership(self) -> tuple[str, ...]:
        """Whom this node's own membership requires."""
        return self._membership

    @property
    def refusals(self) -> int:
        """Frames that were dropped."""
        return sum(self._refusals.values())

    def on_tick(self) -> list[AcknowledgementEffect]:
        """One interval has passed."""
        self._said_ticks += 1
        self._assert_invariants()
        return [AskFrontier()]

    def on_applied(self, applied: FrontierApplied, *, now_ms: int) -> list[AcknowledgementEffect]:
        """The state machine answers: speak if there is something to say, and write what was held."""
        if not applied.op:
            return []
        effects: list[AcknowledgementEffect] = []
        frontier = Frontier(applied.positions)
        said = self._said
        if said is None or said.applied_frontier != frontier or self._said_ticks >= REPEAT_TICKS:
            own = Acknowledgement(
                replica_id=self._identity.replica_id,
                node_id=self._identity.node_id,
                applied_frontier=frontier,
                origin_sequence_high_water=Frontier(applied.identities),
                membership_view=self._membership,
                produced_at_ms=now_ms,
            )
            self._said, self._said_ticks = own, 0
            self._hold(own)
            effects.append(Say(replica=None, acknowledgement=own))
        if self._held or self._forgotten:
            record = Record(forgotten=tuple(self._forgotten), acknowledgements=tuple(self._held.values()))
            self._held, self._forgotten = {}, {}
            effects.insert(0, record)
        self._assert_invariants()
        return effects

    def on_record_failed(self, record: Record) -> None:
        """Nothing of it is durable: it is tried again at the next tick, unless something newer was said meanwhile."""
        newer, self._held = self._held, {}
        forgotten, self._forgotten = self._forgotten, dict.fromkeys(record.forgotten)
        for acknowledgement in record.acknowledgements:
            self._hold(acknowledgement)
        for identity in forgotten:
            self._forget(identity)
        for acknowledgement in newer.values():
            self._hold(acknowledgement)
        self._assert_invariants()

    def on_frame(self, sender: int, body: bytes) -> list[AcknowledgementEffect]:
        """An Acknowledgement frame of that authenticated peer."""
        try:
            said = Acknowledgement.decode(body)
        except WireError as error:
            return [self._refuse(sender, Refusal.UNDECODABLE, str(error))]
        expected = replica_id(self._identity.cluster, sender)
        if said.replica_id != expected:
            return [self._refuse(sender, Refusal.SENDER, f"it speaks for {said.replica_id}, it is {expected}")]
        self._hold(said)
        self._assert_invariants()
        return []

    def on_peer_admitted(self, replica: int, *, voter: bool) -> list[AcknowledgementEffect]:
        """A peer is admitted to its link: tell it what was said last. A learner has lost what it said before."""
        if not voter:
            self._forget(replica_id(self._identity.cluster, replica))
        self._assert_invariants()
        return [] if self._said is None else [Say(replica=replica, acknowledgement=self._said)]

    def _hold(self, said: Acknowledgement) -> None:
        """Keep it until it is written. One that goes backwards is dropped here as the store would refuse it (A-002)."""
        held = self._held.get(said.replica_id)
        if held is None or said.applied_frontier.dominates(held.applied_frontier):
            self._held[said.replica_id] = said

    def _forget(self, identity: str) -> None:
        self._held.pop(identity, None)
        self._forgotten[identity] = None

    def _refuse(self, sender: int, refusal: Refusal, detail: str) -> Refused:
        self._refusals[refusal] += 1
        return Refused(replica=sender, refusal=refusal, detail=detail, count=self._refusals[refusal])

    def _assert_invariants(self) -> None:
        said, own = self._said, self._identity.replica_id
        if said is not None:
            assert said.replica_id == own
            assert said.membership_view == self._membership
        assert len(self._held) <= len(self._membership)
        for identity, held in self._held.items():
            assert held.replica_id == identity
        assert own not in self._forgotten, "this replica knows what it said itself"
