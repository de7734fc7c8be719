"""Fixtures for the tests of the runtime."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def hasty_switching() -> Iterator[None]:
    """Have the interpreter switch threads as often as it can, so that the narrow gaps are hit."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
