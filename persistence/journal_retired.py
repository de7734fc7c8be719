"""A log file that a rewrite has replaced: nobody reads it again, and its blocks are given back to the disk bit by bit.

To close it in one go would have the disk free all of them at once, which takes milliseconds that an append may be waiting.
"""

from typing import Final

from levrier.persistence.errors import StorageError
from levrier.persistence.storage import File

RELEASE_SIZE: Final = 512 * 1024
"""Bytes given back by one step."""


class RetiredFile:
    """Owns the open file, which has no name any more. To be used only once the new name is durable, else closed at once."""

    __slots__ = ("_file",)

    def __init__(self, file: File) -> None:
        self._file = file

    def release(self) -> bool:
        """Give a piece back. False when what is left is for `close`, as all of it is on a disk that fails."""
        try:
            left = self._file.size() - RELEASE_SIZE
            if left > 0:
                self._file.truncate(left)
        except StorageError:
            return False
        return left > 0

    def close(self) -> None:
        """Give all of it back."""
        self._file.close()
