"""The command line, run in this process against one node that all its tests share."""

import os
from collections.abc import Iterator

import pytest

from levrier.cluster.testing import Server
from tests.cluster.cli.running import CommandLine


@pytest.fixture(autouse=True)
def _no_settings_of_the_person_who_runs_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("LEVRIER_", "IGGY_"))]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """One node for all of them; each test names its own streams."""
    with Server() as node:
        yield node


@pytest.fixture
def levrier(server: Server, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Runs a command line; `ask` adds the address of the node."""
    return CommandLine(capsys, server.address)


@pytest.fixture
def stream(request: pytest.FixtureRequest, levrier: CommandLine) -> str:
    """A stream that no other test uses."""
    name = f"of-{request.node.name}"[:200]
    assert levrier.ask("streams", "create", name).status == 0
    return name


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> int:
    """As if stdout were a terminal; how many columns it has."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    return 100
