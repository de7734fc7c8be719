"""Fixtures for the tests of people whose code talks to Iggy. Loaded by pytest itself, so it imports pytest only.

async def test_my_service(levrier_server):
    client = IggyClient(levrier_server.address)
    await client.connect()
    await client.login_user("iggy", "iggy")

@pytest.mark.levrier_cluster(nodes=3)
def test_my_service_survives(levrier_cluster):
    levrier_cluster.kill(levrier_cluster.primary())
    levrier_cluster.wait_for_primary()
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from levrier.cluster.testing import Cluster, Server

_MARK: Final = "levrier_cluster"
_LOG_LINES: Final = 30


def _server() -> Iterator[Server]:
    from levrier.cluster.testing import Server  # noqa: PLC0415

    with Server() as server:
        yield server


@pytest.fixture
def levrier_server() -> Iterator[Server]:
    """A blank node of this test's own; the user is iggy, the password iggy."""
    yield from _server()


@pytest.fixture(scope="session")
def levrier_server_session() -> Iterator[Server]:
    """One node for the whole test run: faster, and shared, so use names of your own."""
    yield from _server()


@pytest.fixture
def levrier_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three nodes of this test's own, in processes that can be killed, paused and cut; a primary serves.

    The mark `levrier_cluster` gives other arguments to `levrier.cluster.testing.Cluster`, such as `nodes=5`.
    """
    mark = request.node.get_closest_marker(_MARK)
    yield from _cluster(**(mark.kwargs if mark is not None else {}))


@pytest.fixture(scope="session")
def levrier_cluster_session() -> Iterator[Cluster]:
    """Three nodes for the whole test run: faster, and shared. What one test kills the next one finds dead."""
    yield from _cluster()


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers", f"{_MARK}(nodes=3, heartbeat='2 s', settings=...): what levrier_cluster is made of"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the nodes said in the report of a test that failed."""
    report = yield
    used = getattr(item, "funcargs", {})
    if report.failed and report.when == "call":
        for name in (_MARK, f"{_MARK}_session"):
            if name in used:
                report.sections.extend(_logs(used[name]))
    return report


def _logs(cluster: Cluster) -> Iterator[tuple[str, str]]:
    for replica in range(cluster.nodes):
        lines = cluster.log(replica).splitlines()
        yield f"log of node {replica}", "\n".join(lines[-_LOG_LINES:])


def _cluster(**arguments: Any) -> Iterator[Cluster]:
    from levrier.cluster.testing import Cluster  # noqa: PLC0415

    with Cluster(**arguments) as cluster:
        yield cluster
