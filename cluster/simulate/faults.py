"""Which faults there are, and which of them a seed has to live with (swarm testing: each seed draws its own few)."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final


class Fault(StrEnum):
    """What can go wrong. Each can be chosen by its name."""

    LOSS = "loss"
    """A frame between replicas never arrives; a connection of a client is reset, or waits until something is sent again."""
    DUPLICATE = "duplicate"
    """A frame arrives more than once."""
    REORDER = "reorder"
    """A frame is overtaken by later ones."""
    DELAY = "delay"
    """Frames take long, those of clients too."""
    PARTITION = "partition"
    """The members fall into two camps that do not hear each other; a client and a member do not for a while."""
    ONE_WAY = "one-way"
    """One member hears another one that does not hear it; so with a client and a member."""
    PAUSE = "pause"
    """A member stands still for a while, then handles its whole backlog."""
    CRASH = "crash"
    """A member stops at any step, or in the middle of a call to its disk, and is started again."""
    LOST_UNSYNCED = "lost-unsynced"
    """A crash loses what no sync covered."""
    TORN = "torn"
    """A crash keeps parts of what no sync covered."""
    BIT_ROT = "bit-rot"
    """Bits on a disk change, or a read returns wrong ones."""
    EIO = "eio"
    """Calls to a disk fail."""
    ENOSPC = "enospc"
    """A disk is full for a while."""
    SLOW_DISK = "slow-disk"
    """Calls to a disk take milliseconds."""
    HUNG_DISK = "hung-disk"
    """Calls to a disk do not return for seconds."""
    CLOCK_SKEW = "clock-skew"
    """Wall clocks differ."""
    CLOCK_JUMP = "clock-jump"
    """A wall clock is set to another time."""
    WIPE = "wipe"
    """A disk is lost, and its member comes back without a past."""


DATA_LOSS: Final = frozenset({Fault.BIT_ROT, Fault.WIPE})
"""Faults that take from a member what it has promised to keep: one member at a time may suffer them."""

_STRIKES: Final = (
    Fault.PARTITION,
    Fault.ONE_WAY,
    Fault.PAUSE,
    Fault.CRASH,
    Fault.BIT_ROT,
    Fault.EIO,
    Fault.ENOSPC,
    Fault.HUNG_DISK,
    Fault.SLOW_DISK,
    Fault.CLOCK_JUMP,
    Fault.WIPE,
)
_PAIRED: Final = frozenset({Fault.PARTITION, Fault.ONE_WAY, *DATA_LOSS})
"""Faults that need somebody else: a member of its own is not struck by them."""

_MEAN_SHORTEST_MS: Final = 1_000.0
_MEAN_LONGEST_MS: Final = 20_000.0


def parse_faults(text: str) -> tuple[Fault, ...]:
    """`all`, `none`, or names with commas between them. ValueError names the first one that is unknown."""
    if text == "all":
        return tuple(Fault)
    if text == "none":
        return ()
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    known = {fault.value for fault in Fault}
    for name in wanted:
        if name not in known:
            raise ValueError(f"no fault is called {name!r}; there are: {', '.join(Fault)}")
    return tuple(fault for fault in Fault if fault.value in wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """What one seed has drawn. `mean_ms`: virtual milliseconds between two strikes of a fault, on average."""

    chosen: tuple[Fault, ...]
    mean_ms: dict[Fault, float]
    loss: float
    duplicate: float
    reorder: float
    delay_ms: int
    """The longest delay of an ordinary frame."""
    slow_us: int
    """The longest that a call to a slow disk takes."""

    def has(self, fault: Fault) -> bool:
        """Whether this seed has it."""
        return fault in self.chosen


def draw_plan(random: Random, allowed: tuple[Fault, ...], *, alone: bool, rarity: int = 1) -> FaultPlan:
    """The faults of a seed out of those that are allowed. One seed in eight has them all.

    They strike so many times less often as their `rarity` says.
    """
    candidates = [fault for fault in allowed if not (alone and fault in _PAIRED)]
    everything = random.random() < 0.125
    odds = random.choice((0.25, 0.5, 0.75))
    chosen = tuple(fault for fault in candidates if random.random() < odds or everything)
    span = _MEAN_LONGEST_MS / _MEAN_SHORTEST_MS
    means = {fault: _MEAN_SHORTEST_MS * span ** random.random() for fault in _STRIKES}
    return FaultPlan(
        chosen=chosen,
        mean_ms={fault: means[fault] * rarity for fault in _STRIKES if fault in chosen},
        loss=_rate(random, Fault.LOSS in chosen, 0.3),
        duplicate=_rate(random, Fault.DUPLICATE in chosen, 0.3),
        reorder=_rate(random, Fault.REORDER in chosen, 0.5),
        delay_ms=random.choice((1, 5, 30, 200)) if Fault.DELAY in chosen else 0,
        slow_us=random.choice((1_000, 10_000, 60_000)) if Fault.SLOW_DISK in chosen else 0,
    )


def _rate(random: Random, chosen: bool, most: float) -> float:
    drawn = most * random.random() ** 2
    return drawn if chosen else 0.0
