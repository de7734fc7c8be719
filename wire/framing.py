"""Cutting a byte stream into frames (wire specification 1).

Every frame starts with a 256-byte header whose size field (u32 at offset 48) counts header and body. A size out of range
cannot be skipped over, so it ends the stream. The decoder holds at most the frame that is still incomplete.
"""

from typing import Final

from levrier.wire.errors import FrameSizeOutOfRange

HEADER_SIZE: Final = 256
FRAME_SIZE_MAX: Final = 64 * 1024 * 1024
SIZE_OFFSET: Final = 48
COMMAND_OFFSET: Final = 60

_SIZE_END: Final = SIZE_OFFSET + 4


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
        if not self._buffer and self._failure is None and len(data) >= HEADER_SIZE:
            size = int.from_bytes(data[SIZE_OFFSET:_SIZE_END], "little")
            if size == len(data) and size <= self._max_size:
                return [data]
        return self._feed_slowly(data)

    def _feed_slowly(self, data: bytes) -> list[bytes]:
        if self._failure is not None:
            raise FrameSizeOutOfRange(self._failure, "size")
        buffer = self._buffer
        buffer += data
        frames: list[bytes] = []
        offset, end = 0, len(buffer)
        while end - offset >= _SIZE_END:
            size = int.from_bytes(buffer[offset + SIZE_OFFSET : offset + _SIZE_END], "little")
            if not HEADER_SIZE <= size <= self._max_size:
                self._failure = f"{size} is not between {HEADER_SIZE} and {self._max_size}"
                buffer.clear()
                raise FrameSizeOutOfRange(self._failure, "size", frames=tuple(frames))
            if end - offset < size:
                break
            frames.append(bytes(buffer[offset : offset + size]))
            offset += size
        if offset:
            del buffer[:offset]
        return frames
