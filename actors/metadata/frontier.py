"""What of the log is applied, for each origin: a function of the log, part of the replicated state (acknowledgements 1, D-22).

An origin is the replica that prepared an op (`replica` in the prepare header). An op that was rejected is applied like any
other. An identity is a consensus-group id; it counts as handed out whether or not its create was rejected, as in D-07.
"""

from collections.abc import Iterable
from typing import Final

from levrier.wire.acknowledgement import ORIGINS_MAX

Pairs = tuple[tuple[int, int], ...]
"""Origin and position, ascending by origin; no position is 0."""

ORIGIN_MAX: Final = 255
"""A prepare header has one byte for the replica."""

assert ORIGIN_MAX < ORIGINS_MAX


class AppliedFrontier:
    """The highest applied op, and the highest identity that was handed out, for each origin."""

    __slots__ = ("_identities", "_positions")

    def __init__(self, positions: Pairs = (), identities: Pairs = ()) -> None:
        self._positions = dict(positions)
        self._identities = dict(identities)

    def note(self, origin: int, op: int) -> None:
        """The op that this replica prepared is being applied. Ops ascend."""
        self._positions[origin] = op

    def note_identities(self, origin: int, assignments: Iterable[tuple[int, int]]) -> None:
        """The pairs of partition and consensus group that an op of that origin hands out."""
        for _, group in assignments:
            if group > self._identities.get(origin, 0):
                self._identities[origin] = group

    def positions(self) -> Pairs:
        """The highest applied op of each origin."""
        return tuple(sorted(self._positions.items()))

    def identities(self) -> Pairs:
        """The highest identity of each origin."""
        return tuple(sorted(self._identities.items()))
