"""Reading the client-table section of a snapshot back (client-table 9; the layout stands in `capture`).

The section carries the newest reply of each ring and that of the watermark request: older retries are answered as already
applied, never executed.
"""

from typing import Final

from levrier.actors.client_table.entries import (
    REGISTER_REQUEST,
    SLOT_COUNT_MAX,
    Entry,
    Fence,
    Reply,
    check_ring,
    reply_of_frame,
)
from levrier.actors.client_table.errors import (
    DuplicateClientId,
    DuplicateSlot,
    InvalidFenceReply,
    InvalidReply,
    MalformedTable,
    SlotOutOfRange,
)
from levrier.actors.client_table.fences import Fences
from levrier.actors.client_table.table import ClientTable

_U32_MAX: Final = 2**32 - 1
_U64_MAX: Final = 2**64 - 1
_SESSION_FIELDS: Final = 6
_ENTRY_FIELDS_MAX: Final = 7


def restore(section: object, min_slots: int) -> ClientTable:
    """The table of a decoded section, with room for `min_slots` sessions or up to the highest occupied slot.

    Raises `SlotOutOfRange` before anything is allocated, then for each entry `InvalidReply`, `DuplicateClientId`,
    `DuplicateSlot`; `InvalidFenceReply`, `DuplicateFence`; `MalformedTable` for anything of the wrong shape. A section
    without the second part has no fences.
    """
    parts = _sequence(section, "client_table")
    if len(parts) not in (1, 2):
        raise MalformedTable(f"{len(parts)} parts, not 1 or 2", "client_table")
    records = [_record(record, index) for index, record in enumerate(_sequence(parts[0], "slots"))]
    slots = [slot for slot, _ in records]
    if slots and max(slots) >= SLOT_COUNT_MAX:
        raise SlotOutOfRange(f"slot {max(slots)} is not below {SLOT_COUNT_MAX}", "slots")
    placed: dict[int, Entry] = {}
    slot_of: dict[int, int] = {}
    for slot, fields in records:
        entry = _entry(fields, f"slot {slot}")
        if entry.client in slot_of:
            first = slot_of[entry.client]
            raise DuplicateClientId(
                f"client {entry.client:#x} in slots {first} and {slot}", f"slot {slot}", first=first, second=slot
            )
        if slot in placed:
            raise DuplicateSlot(f"clients {placed[slot].client:#x} and {entry.client:#x}", f"slot {slot}")
        placed[slot] = entry
        slot_of[entry.client] = slot
    raw_fences = _sequence(parts[1], "fences") if len(parts) == 2 else ()
    fences = Fences(_fence(fields, f"fence {index}") for index, fields in enumerate(raw_fences))
    return ClientTable.rebuild(max(min_slots, max(slots, default=-1) + 1), placed.items(), fences)


def _record(record: object, index: int) -> tuple[int, object]:
    where = f"entry {index}"
    pair = _sequence(record, where)
    if len(pair) != 2:
        raise MalformedTable(f"{len(pair)} fields, not 2", where)
    return _integer(pair[0], _U32_MAX, f"{where}: slot"), pair[1]


def _entry(fields: object, where: str) -> Entry:
    values = _sequence(fields, where)
    client, epoch, user_id, watermark, watermark_checksum, frame = _session(values[:_SESSION_FIELDS], where)
    ring: tuple[Reply, ...] = (reply_of_frame(frame, client=client, where=where),)
    for frame_before in values[_SESSION_FIELDS:]:
        if len(values) > _ENTRY_FIELDS_MAX or not isinstance(frame_before, bytes):
            raise MalformedTable(f"{len(values)} fields, not {_SESSION_FIELDS} or a reply more", where)
        answer = reply_of_frame(frame_before, client=client, where=where)
        if answer.request != watermark:
            raise InvalidReply(f"a reply to request {answer.request} at the watermark {watermark}", where)
        ring = (answer, *ring)
    check_ring(ring, watermark=watermark, where=where)
    return Entry(client, epoch, user_id, watermark, watermark_checksum, ring)


def _fence(fields: object, where: str) -> Fence:
    client, epoch, user_id, watermark, watermark_checksum, frame = _session(fields, where)
    return with_frame(Fence(client, user_id, epoch, watermark, watermark_checksum, None), frame, where)


def with_frame(fence: Fence, frame: bytes, where: str) -> Fence:
    """The fence with its decoded reply; an empty frame is no reply. Raises `InvalidFenceReply`."""
    if not frame:
        return fence
    try:
        reply = reply_of_frame(frame, client=fence.client, where=where)
    except InvalidReply as error:
        raise InvalidFenceReply(error.what, where) from error
    if reply.request != fence.watermark or reply.request == REGISTER_REQUEST:
        raise InvalidFenceReply(f"a reply to request {reply.request} at the watermark {fence.watermark}", where)
    return fence._replace(reply=reply)


def _session(fields: object, where: str) -> tuple[int, int, int, int, int, bytes]:
    values = _sequence(fields, where)
    if len(values) != _SESSION_FIELDS:
        raise MalformedTable(f"{len(values)} fields, not {_SESSION_FIELDS}", where)
    client, epoch, user_id, watermark, watermark_checksum, reply = values
    if not isinstance(reply, bytes):
        raise MalformedTable(f"{type(reply).__name__} is not a bin", f"{where}: reply")
    number = _wide_integer(client, f"{where}: client")
    if number == 0:
        raise MalformedTable("0 is not a client", f"{where}: client")
    return (
        number,
        _integer(epoch, _U64_MAX, f"{where}: epoch"),
        _integer(user_id, _U32_MAX, f"{where}: user_id"),
        _integer(watermark, _U64_MAX, f"{where}: watermark"),
        _wide_integer(watermark_checksum, f"{where}: watermark_checksum"),
        reply,
    )


def _sequence(value: object, where: str) -> list[object] | tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise MalformedTable(f"{type(value).__name__} is not an array", where)
    return value


def _integer(value: object, highest: int, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= highest:
        raise MalformedTable(f"{value!r:.40} is not an integer in 0..={highest}", where)
    return value


def _wide_integer(value: object, where: str) -> int:
    if not isinstance(value, bytes) or len(value) != 16:
        raise MalformedTable(f"{type(value).__name__} is not a bin of 16 bytes", where)
    return int.from_bytes(value, "little")
