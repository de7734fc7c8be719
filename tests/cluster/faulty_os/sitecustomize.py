"""Disk calls that hang or find no space, in a real process: put this directory on PYTHONPATH and name a directory in FAULTY_OS.

While that directory holds a file `hang`, a sync does not return; while it holds `full`, every write finds no space left.
Which of the two is there is looked up at each call, so that a test switches them on and off while the process runs.
"""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PLACE = os.environ.get("FAULTY_OS", "")
POLL_SECONDS = 0.02


def _hanging(call: Callable[[int], None]) -> Callable[[int], None]:
    def sync(descriptor: int) -> None:
        while Path(PLACE, "hang").exists():
            time.sleep(POLL_SECONDS)
        call(descriptor)

    return sync


def _finding_no_space(call: Callable[..., int]) -> Callable[..., int]:
    def write(*arguments: Any) -> int:
        if Path(PLACE, "full").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return call(*arguments)

    return write


if PLACE:
    os.fsync = _hanging(os.fsync)  # type: ignore[assignment]
    os.fdatasync = _hanging(os.fdatasync)  # type: ignore[assignment]
    os.pwrite = _finding_no_space(os.pwrite)
