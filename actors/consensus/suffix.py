"""What a replica says of its uncommitted log when views change (section 8.3): one slot for each op, and two bitsets.

A slot holds the header of the log, else the header that the adopted view named, else the blank placeholder. `present` tells
whose body can be had here; `nack` tells that this replica never held the op, which is what lets a merge discard it. Silence
is not a nack: at and below the commit point nothing is ever nacked. Pure; frames and votes are made of it elsewhere.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from levrier.wire.headers import PrepareHeader

DVC_HEADERS_MAX: Final = 128
"""Most slots in one suffix: the bitsets are 128 bits wide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suffix:
    """Slots from `head` downwards; bit i of a bitset is op `head - i`. An empty one says nothing at all."""

    head: int = 0
    headers: tuple[PrepareHeader, ...] = ()
    present: int = 0
    nack: int = 0

    @property
    def floor(self) -> int:
        """The lowest op with a slot; only of a suffix that is not empty."""
        assert self.headers
        return self.head - len(self.headers) + 1

    def covers(self, op: int) -> bool:
        """Whether there is a slot for this op."""
        return bool(self.headers) and self.floor <= op <= self.head

    def header(self, op: int) -> PrepareHeader | None:
        """The header in the slot of an op; None outside the window and for a blank."""
        if not self.covers(op):
            return None
        header = self.headers[self.head - op]
        return None if header.is_blank else header

    def offers(self, op: int) -> bool:
        """Whether the body of an op can be had from the sender."""
        return self.covers(op) and bool(self.present >> (self.head - op) & 1)

    def nacks(self, op: int) -> bool:
        """Whether the sender says outright that it never held an op."""
        return self.covers(op) and bool(self.nack >> (self.head - op) & 1)


def build_suffix(
    *,
    op: int,
    commit: int,
    journal_header: Callable[[int], PrepareHeader | None],
    adopted: Mapping[int, PrepareHeader],
    silent: Collection[int] = (),
    denies: bool = True,
) -> Suffix:
    """The suffix of a replica whose head is `op` and whose commit point is `commit`.

    `adopted` are the headers that a backup's view named, by op, blanks included; a primary-elect's own merge is never put
    in. A suffix wider than `DVC_HEADERS_MAX` loses its lowest ops. An op in `silent` is held, but cannot be vouched for: it is
    blank without a nack (D-16). Without `denies` nothing is nacked at all: the log was cut (D-24).
    """
    head = max(op, max(adopted, default=0))
    floor = max(commit, 1, head - DVC_HEADERS_MAX + 1)
    if head == 0 or floor > head:
        return Suffix()
    headers: list[PrepareHeader] = []
    present = nack = 0
    for index, slot in enumerate(range(head, floor - 1, -1)):
        held = None if slot in silent else journal_header(slot)
        named = adopted.get(slot)
        if held is not None:
            headers.append(held)
            present |= 1 << index
        elif named is not None and not named.is_blank:
            headers.append(named)
        else:
            headers.append(PrepareHeader.blank(slot))
            if denies and slot > commit and slot not in silent:
                nack |= 1 << index
    return Suffix(head=head, headers=tuple(headers), present=present, nack=nack)
