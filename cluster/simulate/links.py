"""The links between the members as a seed's plan has them: loss, copies, delays, camps, one-way cuts."""

from collections.abc import Callable, Sequence
from random import Random

from levrier.cluster.simulate.faults import FaultPlan

_AT_ONCE = (0,)
_REORDER_MS_MAX = 20


class FaultyLinks:
    """A `LinkPolicy`. `sent` hears of every frame that somebody sends. The nemesis cuts and heals; `calm` ends every fault, `calm_all_but`
    those of a core."""

    def __init__(self, random: Random, plan: FaultPlan, sent: Callable[[int, bytes], None]) -> None:
        self._random = random
        self._plan = plan
        self._sent = sent
        self._camp: frozenset[int] = frozenset()
        self._cuts: dict[tuple[int, int], int] = {}
        self._outside: frozenset[int] | None = None
        """Where everything is good but the links of some members: who those are."""
        self._deaf: frozenset[int] = frozenset()
        self._mute: frozenset[int] = frozenset()
        self._calm = not (plan.loss or plan.duplicate or plan.reorder or plan.delay_ms)

    def part(self, camp: frozenset[int]) -> None:
        """Let nothing through between these members and the others; nobody: no camps."""
        self._camp = camp

    def cut(self, source: int, target: int) -> None:
        """Let nothing through in this direction, until as many `mend`."""
        pair = (source, target)
        self._cuts[pair] = self._cuts.get(pair, 0) + 1

    def mend(self, source: int, target: int) -> None:
        """Undo one `cut`."""
        self._cuts[source, target] = max(0, self._cuts.get((source, target), 0) - 1)

    def take(self, plan: FaultPlan) -> None:
        """Be bad again, as this plan says."""
        self._plan = plan
        self._calm = not (plan.loss or plan.duplicate or plan.reorder or plan.delay_ms)

    def calm_all_but(self, outside: frozenset[int], *, deaf: frozenset[int], mute: frozenset[int]) -> None:
        """Be perfect from now on, but as bad as now where one of these members is concerned. The `deaf` ones hear nobody
        any more, the `mute` ones are not heard.
        """
        self._outside, self._deaf, self._mute = outside, deaf, mute

    def calm(self) -> None:
        """Be perfect from now on."""
        self._camp = frozenset()
        self._cuts.clear()
        self._outside = None
        self._deaf = self._mute = frozenset()
        self._calm = True

    def is_cut(self, source: int, target: int) -> bool:
        """Whether nothing gets through now."""
        if self._outside is not None:
            if self._is_good(source, target):
                return False
            if source in self._mute or target in self._deaf:
                return True
        if self._camp and (source in self._camp) != (target in self._camp):
            return True
        return bool(self._cuts) and self._cuts.get((source, target), 0) > 0

    def copies(self, source: int, target: int, frame: bytes) -> Sequence[int]:
        """The delays of the copies that arrive."""
        self._sent(source, frame)
        if self._calm or self._is_good(source, target):
            return _AT_ONCE
        plan, chance = self._plan, self._random.random
        if plan.loss and chance() < plan.loss:
            return ()
        count = 2 if plan.duplicate and chance() < plan.duplicate else 1
        return tuple(self._delay() for _ in range(count))

    def _is_good(self, source: int, target: int) -> bool:
        """Whether this is a link of a healed core."""
        return self._outside is not None and source not in self._outside and target not in self._outside

    def _delay(self) -> int:
        plan, chance = self._plan, self._random.random
        delay = int(plan.delay_ms * chance() ** 3 + 0.5) if plan.delay_ms else 0
        if plan.reorder and chance() < plan.reorder:
            delay += 1 + int(_REORDER_MS_MAX * chance())
        return delay
