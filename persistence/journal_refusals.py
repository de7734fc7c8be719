"""What the log refuses to take before any byte is written (persistence 2.3): an entry that is none, and a slot that is taken."""

from collections.abc import Sequence
from pathlib import Path

from levrier.persistence.errors import EntryInvalid, SlotCollision
from levrier.persistence.journal_format import ENTRY_SIZE_MAX, PREPARE_HEADER_SIZE
from levrier.persistence.journal_index import SlotIndex
from levrier.wire.prepare import Prepare


def refuse(prepares: Sequence[Prepare], *, path: Path, index: SlotIndex, slots: int, snapshot_op: int) -> None:
    """Raise `EntryInvalid` or `SlotCollision` for the first entry of a batch that the log cannot take; else do nothing."""
    taken: dict[int, int] = {}
    for prepare in prepares:
        header, size = prepare.header, len(prepare.frame)
        op = header.op
        if size != header.size or size < PREPARE_HEADER_SIZE:
            raise EntryInvalid(file=path, op=op, reason=f"{size} bytes, its header says {header.size}")
        if size > ENTRY_SIZE_MAX:
            raise EntryInvalid(file=path, op=op, reason=f"{size} bytes, at most {ENTRY_SIZE_MAX} fit")
        slot = op % slots
        occupant = index.headers[slot]
        occupant_op = taken.get(slot, -1 if occupant is None else occupant.op)
        if occupant_op > snapshot_op or slot in taken:
            raise SlotCollision(file=path, op=op, occupant=occupant_op, snapshot_op=snapshot_op)
        taken[slot] = op
