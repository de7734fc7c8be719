"""Fixtures of the tests that tell stories in virtual time."""

from collections.abc import Iterator

import pytest
from loguru import logger


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    """Nobody reads the log of thousands of virtual seconds."""
    logger.disable("levrier")
    yield
    logger.enable("levrier")
