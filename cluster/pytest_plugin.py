"""Fixtures for the tests of people whose code talks to Iggy. Loaded by pytest itself, so it imports pytest only.

async def test_my_service(levrier_server):
    client = IggyClient(levrier_server.address)
    await client.connect()
    await client.login_user("iggy", "iggy")
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from levrier.cluster.testing import Server


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
