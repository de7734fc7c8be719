"""What the members of a group said of their state, and what follows from it (D-17). Pure.

Equal logs make equal states, so members that differ at one op show a fault in one of them: of its memory, or of the code
that applies. Who is wrong is only known when more than half of all members, silent ones included, agree against it.
"""

from collections import Counter
from enum import Enum
from typing import Final

OPS_KEPT_MAX: Final = 8
"""Ops whose digests are kept for each member: as far as members may be apart and still be compared."""


class Standing(Enum):
    """How the own state stands at an op."""

    EQUAL = "equal"
    """Nobody who has spoken differs."""
    UNDECIDED = "undecided"
    """Some differ, and those who are silent may still make a majority."""
    MAJORITY = "majority"
    """More than half of all members agree with the own state, and some do not."""
    MINORITY = "minority"
    """More than half of all members agree on another state."""
    SPLIT = "split"
    """Some differ, and no state has more than half of the members."""


class DigestBook:
    """Digests by op, of this replica and of the others, the newest `OPS_KEPT_MAX` of each."""

    __slots__ = ("_by_replica", "_count", "_replica")

    def __init__(self, *, replica: int, replica_count: int) -> None:
        self._replica = replica
        self._count = replica_count
        self._by_replica: dict[int, dict[int, int]] = {}

    def note(self, replica: int, op: int, digest: int) -> None:
        """A member has applied `op`, and this is its state."""
        assert 0 <= replica < self._count
        noted = self._by_replica.setdefault(replica, {})
        noted[op] = digest
        if len(noted) > OPS_KEPT_MAX:
            del noted[min(noted)]

    def own(self) -> tuple[int, int] | None:
        """The newest op that was noted here, and its digest."""
        noted = self._by_replica.get(self._replica)
        return max(noted.items()) if noted else None

    def forget_own(self) -> None:
        """The own state was replaced: what it was says nothing any more."""
        self._by_replica.pop(self._replica, None)

    def differing(self, op: int) -> tuple[int, ...]:
        """The members whose state at `op` is known and is not the own one, ascending."""
        own = self._by_replica.get(self._replica, {}).get(op)
        known = self._at(op)
        return tuple(replica for replica in sorted(known) if known[replica] != own)

    def is_shared(self, op: int) -> bool:
        """Whether more than half of all members have told a digest of this op."""
        return 2 * len(self._at(op)) > self._count

    def judge(self, op: int) -> Standing | None:
        """How the own state stands at an op; None when it is not known here."""
        known = self._at(op)
        own = known.get(self._replica)
        if own is None:
            return None
        if len(set(known.values())) == 1:
            return Standing.EQUAL
        digest, agreeing = Counter(known.values()).most_common(1)[0]
        if 2 * agreeing > self._count:
            return Standing.MAJORITY if digest == own else Standing.MINORITY
        silent = self._count - len(known)
        return Standing.UNDECIDED if 2 * (agreeing + silent) > self._count else Standing.SPLIT

    def _at(self, op: int) -> dict[int, int]:
        return {replica: noted[op] for replica, noted in self._by_replica.items() if op in noted}
