"""Fixtures of the tests that run real nodes."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.processes import NodeProcess, Spawn, serve_command, small_command


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    """Start node processes; whatever still runs at the end of the test is killed."""
    with ExitStack() as running:
        count = 0

        def start(
            data: Path, *, listen: str = "127.0.0.1:0", environment: dict[str, str] | None = None, **limits: int | str
        ) -> NodeProcess:
            nonlocal count
            count += 1
            command = small_command(data, listen, **limits) if limits else serve_command(data, listen)
            process = NodeProcess(command, tmp_path / f"node-{count}.log", environment or {})
            return running.enter_context(process)

        yield start
