"""Cutting a byte stream into frames (wire specification 1).

Every frame starts with a 256-byte header whose size field (u32 at offset 48) counts header and body. A size out of range
cannot be skipped over, so it ends the stream. The decoder holds at most the frame that is still incomplete.
"""

from struct import Struct
from typing import Final

from levrier.wire.errors import FrameSizeOutOfRange

HEADER_SIZE: Final = 256
FRAME_SIZE_MAX: Final = 64 * 1024 * 1024
SIZE_OFFSET: Final = 48
COMMAND_OFFSET: Final = 60

_SIZE_END: Final = SIZE_OFFSET + 4
_SIZE: Final = Struct("<I")


def frame_size(frame: bytes | bytearray) -> int:
    """The size field of a header."""
    return int.from_bytes(frame[SIZE_OFFSET:_SIZE_END], "little")


class FrameDecoder:
    """Collects bytes in any split and hands out whole frames in order.

    A size below a header or above `max_size` raises `FrameSizeOutOfRange` as soon as the field is readable; from then on
    the decoder refuses everything, since nothing behind that point can be trusted to be a frame.
    """

    __slots__ = ("_buffer", "_failure", "_max_size")

    def __init__(self, max_size: int = FRAME_SIZE_MAX) -> None:
        assert max_size >= HEADER_SIZE
        self._max_size = max_size
        self._buffer = bytearray()
        self._failure: str | None = None

    @property
    def buffered(self) -> int:
        """The number of bytes of the incomplete frame that are held back."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the stream; return the frames that they complete."""
        if self._failure is not None:
            raise FrameSizeOutOfRange(self._failure, "size")
        buffer = self._buffer
        if buffer:
            buffer += data
            frames, offset = self._cut(buffer)
            if offset:
                del buffer[:offset]
            return frames
        if len(data) >= HEADER_SIZE and _SIZE.unpack_from(data, SIZE_OFFSET)[0] == len(data) <= self._max_size:
            return [data]
        # Most reads end where a frame ends: nothing is held, and frames are cut from what was read, without a second copy.
        frames, offset = self._cut(data)
        if offset != len(data):
            buffer += data[offset:] if offset else data
        return frames

    def _cut(self, stream: bytes | bytearray) -> tuple[list[bytes], int]:
        """The whole frames that `stream` begins with, and where they end."""
        size_at = _SIZE.unpack_from
        frames: list[bytes] = []
        offset, end = 0, len(stream)
        while end - offset >= _SIZE_END:
            (size,) = size_at(stream, offset + SIZE_OFFSET)
            if not HEADER_SIZE <= size <= self._max_size:
                self._failure = f"{size} is not between {HEADER_SIZE} and {self._max_size}"
                self._buffer.clear()
                raise FrameSizeOutOfRange(self._failure, "size", frames=tuple(frames))
            if end - offset < size:
                break
            frames.append(bytes(stream[offset : offset + size]))
            offset += size
        return frames, offset
