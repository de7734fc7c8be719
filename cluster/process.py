"""A node in a process of its own, as a parent sees it: started, ready, killed, ended."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

READY_SECONDS = 30.0
ROOT_VARIABLES = "IGGY_ROOT_"
TAIL_LINES = 5


class NodeDidNotStart(Exception):
    """The process ended, or said nothing, instead of serving."""


class NodeProcess:
    """One `levrier serve`. Made by `start`, which returns when it serves."""

    def __init__(self, process: asyncio.subprocess.Process, facts: dict[str, str], log: Path) -> None:
        self._process = process
        self._facts = facts
        self.log = log

    @classmethod
    async def start(
        cls,
        data: Path,
        *,
        listen: str = "127.0.0.1:0",
        arguments: Sequence[str] = (),
        ready_seconds: float = READY_SECONDS,
    ) -> Self:
        """Start it on `data`; its log goes to `data/../NAME.log`. Raises `NodeDidNotStart` with the end of that log.

        The root user is iggy / iggy, whatever the environment of this process names.
        """
        log = data.with_suffix(".log")
        with log.open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "levrier.cluster",
                "serve",
                "--data",
                str(data),
                "--listen",
                listen,
                *arguments,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                env={name: value for name, value in os.environ.items() if not name.startswith(ROOT_VARIABLES)},
            )
        assert process.stdout is not None
        try:
            line = await asyncio.wait_for(process.stdout.readline(), ready_seconds)
        except TimeoutError:
            line = b""
        if not line.startswith(b"ready "):
            if process.returncode is None:
                process.kill()
            await process.wait()
            tail = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-TAIL_LINES:]
            raise NodeDidNotStart("\n".join([f"the node on {data} ended with status {process.returncode}", *tail]))
        facts = dict(word.split("=", 1) for word in line.decode().split()[1:])
        return cls(process, facts, log)

    @property
    def address(self) -> str:
        """`host:port` of its clients."""
        return self._facts["tcp"]

    @property
    def port(self) -> int:
        """The port of its clients."""
        return int(self.address.rpartition(":")[2])

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def kill(self) -> None:
        """kill -9, at once; returns when it is gone."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def end(self) -> int:
        """SIGTERM; its exit status."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()
