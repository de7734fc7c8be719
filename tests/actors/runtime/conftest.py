"""Fixtures for the tests of the runtime."""

import sys
from collections.abc import Iterator

import pytest

from tests.actors.runtime.threaded_node import Node


@pytest.fixture
def hasty_switching() -> Iterator[None]:
    """Have the interpreter switch threads as often as it can, so that the narrow gaps are hit."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.runtime.stop()
    made.failures.assert_silent()
