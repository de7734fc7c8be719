"""What waits to be written to one peer: bounded in frames and in bytes, the oldest dropped first.

Replicas repeat what was lost, and never wait for a peer that does not read: so every frame may be dropped, and the oldest
is the one most likely to be overtaken by a later one. The frame pushed last is always kept.
"""

from collections import deque
from typing import Final

from levrier.wire.framing import FRAME_SIZE_MAX

FRAMES_MAX: Final = 1_024
SIZE_MAX: Final = FRAME_SIZE_MAX + 16 * 1024 * 1024

assert SIZE_MAX >= FRAME_SIZE_MAX, "one frame always fits"


class SendQueue:
    """Frames in the order they were pushed."""

    __slots__ = ("_frames", "_frames_max", "_size", "_size_max")

    def __init__(self, *, frames_max: int = FRAMES_MAX, size_max: int = SIZE_MAX) -> None:
        assert frames_max >= 1
        self._frames: deque[bytes] = deque()
        self._frames_max = frames_max
        self._size_max = size_max
        self._size = 0

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return self._size

    def push(self, frame: bytes) -> int:
        """Add a frame. Gives how many older ones had to go."""
        frames = self._frames
        frames.append(frame)
        self._size += len(frame)
        dropped = 0
        while len(frames) > 1 and (len(frames) > self._frames_max or self._size > self._size_max):
            self._size -= len(frames.popleft())
            dropped += 1
        return dropped

    def take(self) -> bytes:
        """Everything that waits, joined."""
        frames = self._frames
        if len(frames) == 1:
            self._size = 0
            return frames.popleft()
        data = b"".join(frames)
        frames.clear()
        self._size = 0
        return data

    def clear(self) -> int:
        """Forget everything. Gives how many frames that were."""
        count = len(self._frames)
        self._frames.clear()
        self._size = 0
        return count
