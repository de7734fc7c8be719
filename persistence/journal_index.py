"""What a log holds, by op: two arrays over slots, slot = op mod slots (persistence 2.2). It never touches a file."""

from __future__ import annotations

from levrier.wire.headers import PrepareHeader

Entry = tuple[PrepareHeader, int]
"""A header and the offset of its record."""


class SlotIndex:
    """`headers` and `offsets` are parallel; `count` is how many slots are taken."""

    __slots__ = ("count", "headers", "offsets", "slots")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.headers: list[PrepareHeader | None] = [None] * slots
        self.offsets: list[int] = [0] * slots
        self.count = 0

    def header(self, op: int) -> PrepareHeader | None:
        """The header of `op`, if it is here and not another op of its slot."""
        header = self.headers[op % self.slots]
        return header if header is not None and header.op == op else None

    def offset(self, op: int) -> int:
        """Where the record in the slot of `op` stands; `header` says whether it is the one of `op`."""
        return self.offsets[op % self.slots]

    def put(self, header: PrepareHeader, offset: int) -> None:
        """Take an entry in, in the place of whatever its slot held."""
        slot = header.op % self.slots
        if self.headers[slot] is None:
            self.count += 1
        self.headers[slot] = header
        self.offsets[slot] = offset

    def entries(self) -> list[Entry]:
        """Everything, ascending by op."""
        entries = [
            (header, offset) for header, offset in zip(self.headers, self.offsets, strict=True) if header is not None
        ]
        entries.sort(key=_op_of_entry)
        return entries

    def holds_any_up_to(self, op: int) -> bool:
        """Whether there is an entry at or below `op`."""
        return self.header(op) is not None or any(header is not None and header.op <= op for header in self.headers)


def _op_of_entry(entry: Entry) -> int:
    return entry[0].op
