"""The cores of all members, told what the others say as a network would, with a superblock each that a crash spares."""

from dataclasses import dataclass, field
from typing import TypeVar

from levrier.actors.birth import core
from levrier.actors.birth.core import BirthCore, BirthEffect, Own
from levrier.actors.birth.member_state import MemberPhase
from levrier.actors.birth.messages import BirthPersisted, Standing

BLANK = Own(phase=MemberPhase.BLANK, birth_id=0, voter=False)
E = TypeVar("E")


def voter(birth_id: int = 7) -> Own:
    """A born voter."""
    return Own(phase=MemberPhase.BORN, birth_id=birth_id, voter=True)


def learner(birth_id: int = 7) -> Own:
    """A born learner."""
    return Own(phase=MemberPhase.BORN, birth_id=birth_id, voter=False)


def prepared(birth_id: int = 7) -> Own:
    """A prepared member."""
    return Own(phase=MemberPhase.PREPARED, birth_id=birth_id, voter=False)


@dataclass
class Machine:
    """One member: its core, what it wanted so far, and where its Consensus stands."""

    replica: int
    disk: Own
    core: BirthCore
    seen: list[BirthEffect] = field(default_factory=list)
    view: int = 0
    op: int = 0
    checksum: int = 0
    leads: bool = False
    holds: bool = False
    settled: bool = True

    def all(self, kind: type[E]) -> list[E]:
        """What it wanted of that kind, in order."""
        return [effect for effect in self.seen if isinstance(effect, kind)]


class Members:
    """`count` members. What is told is delivered at once, one effect after the other, unless the way is cut."""

    def __init__(self, disks: list[Own]) -> None:
        self.count = len(disks)
        self.minted = 100
        self.up: dict[int, Machine] = {}
        self.disks = dict(enumerate(disks))
        self.queue: list[tuple[int, BirthEffect]] = []

    def start(self, replica: int) -> Machine:
        """Boot it, and link it to whoever is up."""

        def mint() -> int:
            self.minted += 1
            return self.minted

        machine = Machine(
            replica=replica,
            disk=self.disks[replica],
            core=BirthCore(
                replica=replica,
                addresses=[f"host-{each}:90" for each in range(self.count)],
                own=self.disks[replica],
                mint=mint,
            ),
        )
        self.take(machine, machine.core.on_start())
        for other in list(self.up.values()):
            self.take(other, other.core.on_peer_up(replica))
            self.take(machine, machine.core.on_peer_up(other.replica))
        self.up[replica] = machine
        return machine

    def crash(self, replica: int) -> None:
        """It is gone; the others see that."""
        del self.up[replica]
        self.queue = [(who, effect) for who, effect in self.queue if who != replica]
        for other in self.up.values():
            self.take(other, other.core.on_peer_down(replica))

    def take(self, machine: Machine, effects: list[BirthEffect]) -> None:
        """Keep what it wanted until `step`."""
        machine.seen.extend(effects)
        self.queue.extend((machine.replica, effect) for effect in effects)

    def step(self) -> bool:
        """Carry out the oldest effect; False when there is none."""
        if not self.queue:
            return False
        who, effect = self.queue.pop(0)
        machine = self.up.get(who)
        if machine is not None:
            self.carry_out(machine, effect)
        return True

    def carry_out(self, machine: Machine, effect: BirthEffect) -> None:
        """What the neighbours of the member would do."""
        match effect:
            case core.Send(replica=None):
                raise AssertionError("members are told one by one")
            case core.Send(replica=int(target), body=body):
                other = self.up.get(target)
                if other is not None:
                    self.take(other, other.core.on_member_state(machine.replica, body))
            case core.Persist():
                self.disks[machine.replica] = Own(phase=effect.phase, birth_id=effect.birth_id, voter=effect.voter)
                written = BirthPersisted(
                    birth_id=effect.birth_id, is_born=effect.phase is MemberPhase.BORN, voter=effect.voter
                )
                self.take(machine, machine.core.on_persisted(written))
            case core.WantStanding(token=token):
                standing = Standing(
                    token=token,
                    view=machine.view,
                    is_settled=machine.settled,
                    is_primary=machine.leads,
                    op=machine.op,
                    checksum=machine.checksum,
                    holds=machine.holds,
                )
                self.take(machine, machine.core.on_standing(standing))
            case _:
                pass

    def run(self) -> None:
        """Until nothing is wanted any more."""
        for _ in range(10_000):
            if not self.step():
                return
        raise AssertionError("members talk without end")

    def tick(self, count: int = 1) -> None:
        """Time passes for everybody."""
        for _ in range(count):
            for machine in list(self.up.values()):
                self.take(machine, machine.core.on_tick())
            self.run()

    def started(self) -> "Members":
        """The same with everybody up."""
        for replica in range(self.count):
            self.start(replica)
        self.run()
        return self

    @property
    def voters(self) -> list[int]:
        """Who durably votes."""
        return [each for each, own in self.disks.items() if own.voter]
