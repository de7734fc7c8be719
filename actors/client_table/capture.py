"""A client table as it stood at one op, and its encoding inside the snapshot (client-table 9, D-35).

Layout, positional arrays of MessagePack:

    section = [slots, fences]
    slots   = [[slot, [client, epoch, user_id, watermark, watermark_checksum, reply]], ...]   occupied slots, in order;
              a seventh field, `answer`, where the newest reply is not the one to the watermark
    fences  = [[client, epoch, user_id, watermark, watermark_checksum, reply], ...]           oldest first

128-bit integers are 16 bytes, little-endian, as `bin`. `reply` is a whole reply frame as `bin`: the newest of the ring for
an entry; the watermark's, or empty, for a fence. `answer` is the watermark's reply of an entry whose newest reply is that of
a login: a client that logs in again after a crash may not have seen the answer yet. Equal tables give equal bytes (D-05).
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from msgpack import Packer

from levrier.actors.client_table.entries import Entry, Fence, fence_of

CHUNK_SIZE_MAX: Final = 64 * 1024


class CapturedTable(NamedTuple):
    """Slots (None is free) and fences of one moment. Immutable throughout, so any thread may encode it."""

    slots: tuple[Entry | None, ...]
    fences: tuple[Fence, ...]

    def chunks(self) -> Iterator[bytes]:
        """The encoding of the section in pieces of at most `CHUNK_SIZE_MAX` bytes."""
        return _in_chunks(self._parts())

    def _parts(self) -> Iterator[bytes]:
        packer = Packer()
        pack = packer.pack
        yield packer.pack_array_header(2)
        yield packer.pack_array_header(len(self.slots) - self.slots.count(None))
        for slot, entry in enumerate(self.slots):
            if entry is not None:
                yield pack((slot, _entry_fields(entry)))
        yield packer.pack_array_header(len(self.fences))
        for fence in self.fences:
            yield pack(_fields(fence, b"" if fence.reply is None else fence.reply.frame))


def _entry_fields(entry: Entry) -> tuple[bytes | int, ...]:
    newest, answer = entry.ring[-1], fence_of(entry).reply
    fields = _fields(entry, newest.frame)
    return fields if answer is None or answer is newest else (*fields, answer.frame)


def _fields(session: Entry | Fence, reply: bytes) -> tuple[bytes, int, int, int, bytes, bytes]:
    return (
        session.client.to_bytes(16, "little"),
        session.epoch,
        session.user_id,
        session.watermark,
        session.watermark_checksum.to_bytes(16, "little"),
        reply,
    )


def _in_chunks(parts: Iterable[bytes]) -> Iterator[bytes]:
    buffer = bytearray()
    for part in parts:
        buffer += part
        while len(buffer) >= CHUNK_SIZE_MAX:
            yield bytes(buffer[:CHUNK_SIZE_MAX])
            del buffer[:CHUNK_SIZE_MAX]
    if buffer:
        yield bytes(buffer)
