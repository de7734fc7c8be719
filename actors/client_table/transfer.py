"""The client table as one replica sends it to another (client-table 10). Little-endian:

    magic 4 bytes: "ICT3"; "ICT2" is the same without the fence part
    count u32; per entry, in slot order: client u128, epoch u64, user u32, watermark u64, watermark_checksum u128,
                                         ring_len u8, ring_len x (reply_len u32, frame)
    fence_count u32; per fence, oldest first: the same five fields, reply_len u32 (0 is none), frame
    trailer: XXH3-64 of everything before it, u64

The whole ring travels. Slots do not: entries are numbered from 0 on arrival, which changes nothing that is replicated.
"""

from struct import Struct
from typing import Final

from levrier.actors.client_table.capture import CapturedTable
from levrier.actors.client_table.entries import (
    RING_MAX,
    SLOT_COUNT_MAX,
    Entry,
    Fence,
    check_ring,
    reply_of_frame,
)
from levrier.actors.client_table.errors import (
    BadMagic,
    DuplicateClientId,
    EmptyRing,
    MalformedTable,
    RingTooLong,
    TooManyEntries,
)
from levrier.actors.client_table.fences import Fences
from levrier.actors.client_table.snapshot import with_frame
from levrier.actors.client_table.table import ClientTable
from levrier.wire.checksums import xxh3
from levrier.wire.errors import ChecksumMismatch, Truncated

MAGIC: Final = b"ICT3"
MAGIC_WITHOUT_FENCES: Final = b"ICT2"

_SESSION: Final = Struct("<16sQIQ16s")
_U32: Final = Struct("<I")
_U8: Final = Struct("<B")
_TRAILER: Final = Struct("<Q")


def encode(captured: CapturedTable) -> bytes:
    """The bytes of a captured table."""
    entries = [entry for entry in captured.slots if entry is not None]
    parts = [MAGIC, _U32.pack(len(entries))]
    for entry in entries:
        parts += (_session_bytes(entry), _U8.pack(len(entry.ring)))
        for reply in entry.ring:
            parts += (_U32.pack(len(reply.frame)), reply.frame)
    parts.append(_U32.pack(len(captured.fences)))
    for fence in captured.fences:
        frame = b"" if fence.reply is None else fence.reply.frame
        parts += (_session_bytes(fence), _U32.pack(len(frame)), frame)
    content = b"".join(parts)
    return content + _TRAILER.pack(xxh3(content))


def decode(data: bytes, min_slots: int) -> ClientTable:
    """The table in `data`, with room for `min_slots` sessions or for all it carries, whichever is more.

    Raises `Truncated` (too short, or bytes left over), `ChecksumMismatch`, `BadMagic`, `TooManyEntries`, `EmptyRing`,
    `RingTooLong`, `InvalidReply`, `DuplicateClientId`, `InvalidFenceReply`, `DuplicateFence`, `MalformedTable`.
    """
    reader = _Reader(_checked_content(data))
    magic = reader.take(len(MAGIC), "magic")
    if magic not in (MAGIC, MAGIC_WITHOUT_FENCES):
        raise BadMagic(f"{magic!r} is no known layout", "magic")
    entries = _read_entries(reader)
    fences = _read_fences(reader) if magic == MAGIC else Fences()
    reader.finish()
    return ClientTable.rebuild(max(min_slots, len(entries)), enumerate(entries), fences)


def _session_bytes(session: Entry | Fence) -> bytes:
    return _SESSION.pack(
        session.client.to_bytes(16, "little"),
        session.epoch,
        session.user_id,
        session.watermark,
        session.watermark_checksum.to_bytes(16, "little"),
    )


def _checked_content(data: bytes) -> memoryview:
    size = len(data) - _TRAILER.size
    if size < 0:
        raise Truncated(f"{len(data)} bytes hold no trailer", "trailer")
    content = memoryview(data)[:size]
    if _TRAILER.unpack_from(data, size)[0] != xxh3(content):
        raise ChecksumMismatch("the trailer does not match the table", "trailer")
    return content


def _read_entries(reader: "_Reader") -> list[Entry]:
    count = reader.count("entry count")
    entries: list[Entry] = []
    index_of: dict[int, int] = {}
    for index in range(count):
        where = f"entry {index}"
        client, epoch, user_id, watermark, watermark_checksum = reader.session(where)
        size = reader.u8(f"{where}: ring length")
        if size == 0:
            raise EmptyRing("no reply", where)
        if size > RING_MAX:
            raise RingTooLong(f"{size} replies, at most {RING_MAX}", where)
        frames = [reader.frame(f"{where}: reply {number}") for number in range(size)]
        ring = tuple(reply_of_frame(frame, client=client, where=where) for frame in frames)
        check_ring(ring, watermark=watermark, where=where)
        if client in index_of:
            first = index_of[client]
            raise DuplicateClientId(
                f"client {client:#x} in entries {first} and {index}", where, first=first, second=index
            )
        index_of[client] = index
        entries.append(Entry(client, epoch, user_id, watermark, watermark_checksum, ring))
    return entries


def _read_fences(reader: "_Reader") -> Fences:
    count = reader.count("fence count")
    fences: list[Fence] = []
    for index in range(count):
        where = f"fence {index}"
        client, epoch, user_id, watermark, watermark_checksum = reader.session(where)
        frame = reader.frame(f"{where}: reply")
        fence = Fence(client, user_id, epoch, watermark, watermark_checksum, None)
        fences.append(with_frame(fence, frame, where))
    return Fences(fences)


class _Reader:
    """Takes fields off the front of the content."""

    __slots__ = ("_content", "_offset")

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._offset = 0

    def take(self, size: int, where: str) -> bytes:
        end = self._offset + size
        if end > len(self._content):
            raise Truncated(f"{len(self._content) - self._offset} of {size} bytes", where)
        taken = bytes(self._content[self._offset : end])
        self._offset = end
        return taken

    def u8(self, where: str) -> int:
        return self.take(1, where)[0]

    def u32(self, where: str) -> int:
        return int.from_bytes(self.take(_U32.size, where), "little")

    def count(self, where: str) -> int:
        count = self.u32(where)
        if count > SLOT_COUNT_MAX:
            raise TooManyEntries(f"{count}, at most {SLOT_COUNT_MAX}", where)
        return count

    def frame(self, where: str) -> bytes:
        return self.take(self.u32(where), where)

    def session(self, where: str) -> tuple[int, int, int, int, int]:
        client, epoch, user_id, watermark, checksum = _SESSION.unpack(self.take(_SESSION.size, where))
        number = int.from_bytes(client, "little")
        if number == 0:
            raise MalformedTable("0 is not a client", f"{where}: client")
        return number, epoch, user_id, watermark, int.from_bytes(checksum, "little")

    def finish(self) -> None:
        """Raise `Truncated` for bytes left over: the count in front of them was cut."""
        if self._offset != len(self._content):
            raise Truncated(f"{len(self._content) - self._offset} bytes are left over", "end")
