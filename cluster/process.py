"""A node in a process of its own, as a parent sees it: started, ready, killed, paused, ended.

Everything here blocks for a moment at most, save waiting for the ready line and for the end; a coroutine does those in a
thread (`asyncio.to_thread`). A process is in a session of its own: Ctrl-C of its parent's terminal is the parent's affair.
"""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from levrier.cluster.refused import Refused

READY_SECONDS: Final = 30.0
END_SECONDS: Final = 30.0
TAIL_LINES: Final = 5
_LOOK_SECONDS: Final = 0.02
READY: Final = b"ready "

_OURS: Final = ("IGGY_ROOT_", "LEVRIER_")
"""Settings of the person who runs this; a node that we start is configured by us alone."""

_CHUNK: Final = 4_096


class NodeDidNotStart(Refused):
    """The process ended, or said nothing, instead of serving."""


def ask_stranger_to_end(pid: int) -> bool:
    """SIGTERM for a process that is no child of this one, also if it is paused. False if this user may not end it."""
    return _signalled(pid, signal.SIGTERM) and _signalled(pid, signal.SIGCONT)


def wait_for_stranger(pid: int, is_there: Callable[[], bool], seconds: float = END_SECONDS) -> None:
    """Return when it is not there any more. One that takes longer than `seconds` is killed."""
    deadline = time.monotonic() + seconds
    while is_there():
        if time.monotonic() > deadline:
            _signalled(pid, signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)


def _signalled(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


class NodeProcess:
    """One `levrier serve`. `arguments` are those behind `serve`; its log is appended to the file `log`.

    `wait_until_ready` returns when it serves. The root user is iggy / iggy unless `environment` says otherwise, whatever the
    environment of this process names.
    """

    def __init__(self, arguments: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        self._what = " ".join(arguments)
        self._facts: dict[str, str] = {}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "levrier.cluster", "serve", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**inherited, **(environment or {})},
                start_new_session=True,
            )

    @classmethod
    def start(cls, data: Path, *, listen: str = "127.0.0.1:0", ready_seconds: float = READY_SECONDS) -> Self:
        """A node of its own on `data`, ready; its log goes to `data/../NAME.log`. Raises `NodeDidNotStart`."""
        process = cls(["--data", str(data), "--listen", listen], log=data.with_suffix(".log"))
        process.wait_until_ready(ready_seconds)
        return process

    def wait_until_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait for its ready line. Raises `NodeDidNotStart` with the end of its log; it does not run then."""
        line = self._ready_line(seconds)
        if line is None:
            late = self._process.poll() is None
            self.kill()
            tail = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-TAIL_LINES:]
            end = f"said nothing for {seconds:g} s" if late else f"ended with status {self._process.returncode}"
            raise NodeDidNotStart("\n".join([f"levrier serve {self._what} {end}", *tail]))
        self._facts = dict(word.split("=", 1) for word in line.decode().split()[1:] if "=" in word)

    @property
    def address(self) -> str:
        """`host:port` of its clients, once it is ready."""
        return self._facts["tcp"]

    @property
    def port(self) -> int:
        """The port of its clients."""
        return int(self.address.rpartition(":")[2])

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there; one that is paused is."""
        return self._process.poll() is None

    @property
    def status(self) -> int | None:
        """What it exited with, the negative number of a signal that killed it; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """kill -9, at once; returns when it is gone. A process that is gone already is left alone."""
        self._process.kill()
        self._wait()

    def end(self, seconds: float = END_SECONDS) -> int:
        """SIGTERM; its exit status, also of one that has ended before. One that takes longer than `seconds` is killed."""
        self.resume()
        self._process.terminate()
        try:
            return self._wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._wait()

    def ask_to_end(self) -> None:
        """SIGTERM, without waiting: for several that end at the same time."""
        self.resume()
        self._process.terminate()

    def pause(self) -> None:
        """SIGSTOP: it stands still with its sockets open."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def _wait(self, seconds: float | None = None) -> int:
        status = self._process.wait(seconds)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return status

    def _ready_line(self, seconds: float) -> bytes | None:
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                chunk = os.read(self._process.stdout.fileno(), _CHUNK)
                if not chunk:
                    self._wait()
                    return None
                line += chunk
        return line if line.startswith(READY) else None
