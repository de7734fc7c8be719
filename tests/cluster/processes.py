"""Real node processes for tests: the command line itself, its ready line, its exit status, and no process left behind.

Nothing here sleeps: a test waits for a line on stdout, for the end of the process, or for a deadline.
"""

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
SMALL_NODE = "tests.cluster.small_node"
"""A node with limits that the command line does not offer; same ready line, same exit statuses."""

START_SECONDS = 60.0
END_SECONDS = 60.0
READY = re.compile(r"^ready tcp=(?P<host>\S+):(?P<port>\d+) http=(?P<http>\S+) data=(?P<data>.+) pid=(?P<pid>\d+)$")
_CHUNK = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a process ended, and what it said on stderr."""

    status: int
    log: str


class NotReady(AssertionError):
    """The process ended, or said something else, instead of getting ready."""


def serve_command(data: Path, listen: str) -> list[str]:
    """The command line of a user."""
    return [sys.executable, "-m", "levrier.cluster", "serve", "--data", str(data), "--listen", listen]


def small_command(data: Path, listen: str, **limits: int | str) -> list[str]:
    """A node with other limits: keyword arguments are fields of `NodeConfig`."""
    settings = [f"{name}={value}" for name, value in limits.items()]
    return [sys.executable, "-m", SMALL_NODE, str(data), listen, *settings]


@dataclass
class NodeProcess:
    """One node in a process of its own. As a context manager it never outlives the block."""

    command: list[str]
    log_file: Path
    environment: dict[str, str] = field(default_factory=dict)
    host: str = ""
    port: int = 0

    def __post_init__(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("IGGY_")}
        environment.update(self.environment)
        with self.log_file.open("ab") as log:
            self.popen = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=log, cwd=ROOT, env=environment)

    @property
    def address(self) -> str:
        """`host:port`, once it is ready."""
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> str:
        """What it has said on stderr."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def ready(self) -> Self:
        """Wait for the ready line. `NotReady` when there is another line, none in time, or an end."""
        line = self._read_line()
        match = READY.match(line)
        if match is None:
            self.kill()
            raise NotReady(f"{line!r} is no ready line\n{self.log}")
        assert int(match["pid"]) == self.popen.pid
        self.host, self.port = match["host"], int(match["port"])
        return self

    def _read_line(self) -> str:
        assert self.popen.stdout is not None
        deadline = time.monotonic() + START_SECONDS
        descriptor = self.popen.stdout.fileno()
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(deadline - time.monotonic()):
                    self.kill()
                    raise NotReady(f"not ready within {START_SECONDS} s\n{self.log}")
                chunk = os.read(descriptor, _CHUNK)
                if not chunk:
                    ended = self.wait()
                    raise NotReady(f"ended with {ended.status} instead of getting ready\n{ended.log}")
                line += chunk
        return line.decode().rstrip("\n")

    def kill(self) -> None:
        """kill -9, and wait for the end."""
        self.popen.kill()
        self.wait()

    def shoot(self) -> None:
        """kill -9 without waiting."""
        self.popen.kill()

    def terminate(self) -> Ended:
        """SIGTERM, and wait for the end."""
        self.popen.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> Ended:
        """Wait for the end."""
        status = self.popen.wait(END_SECONDS)
        if self.popen.stdout is not None:
            self.popen.stdout.close()
        return Ended(status=status, log=self.log)

    def resident_bytes(self) -> int:
        """The resident size of the process."""
        text = Path(f"/proc/{self.popen.pid}/status").read_text(encoding="ascii")
        found = re.search(r"^VmRSS:\s+(\d+) kB$", text, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.wait()


Spawn = Callable[..., NodeProcess]
"""`spawn(data, listen=..., environment=..., **limits)`: start a process; it is killed when the test ends."""
