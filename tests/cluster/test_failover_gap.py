"""The gap that a killed primary leaves is about the timeout by which the others notice it, and not much more."""

import statistics

import pytest

from levrier.actors.consensus.timeouts import TICK_MILLISECONDS
from levrier.cluster.config import NodeConfig
from tests.cluster.failover_gap import measure

pytestmark = [pytest.mark.process, pytest.mark.long]

DEFAULT_SECONDS = NodeConfig().heartbeat_ticks * TICK_MILLISECONDS / 1_000
KILLS = 10
ELECTION_SECONDS_MAX = 0.5
"""What an election and the first write after it may take on top of the timeout."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seconds", [DEFAULT_SECONDS, 2.0], ids=["default", "short"])
def test_a_killed_primary_leaves_no_longer_gap_than_its_timeout_and_an_election(seconds: float) -> None:
    """The median of some kills; the distribution is printed."""
    gaps = sorted(measure(kills=KILLS, heartbeat=f"{seconds:g} s"))
    print(f"heartbeat timeout {seconds:g} s, {KILLS} kills: {', '.join(f'{gap:.3f}' for gap in gaps)} s")
    assert statistics.median(gaps) <= seconds + ELECTION_SECONDS_MAX
