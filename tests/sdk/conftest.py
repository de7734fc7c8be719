"""Fixtures of the tests that use the official SDK; they are skipped where it is not installed."""

from collections.abc import Iterator

import pytest

from levrier.cluster.testing import Server

pytest.importorskip("apache_iggy", reason="the official SDK is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One node for all tests of a module; each test names its own streams."""
    with Server() as node:
        yield node


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> str:
    """A stream name that no other test uses."""
    return f"of-{request.node.name}"[:200]
