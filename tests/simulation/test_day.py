"""A slow story of hours: five members with plugins, checkpoints, acknowledgements, retention and faults that come and go.

Everything that is checked of a short story is checked here, and that the disks stay bounded.
"""

import pytest

from levrier.cluster.simulate.run import Settings, Verdict, play
from tests.simulation.test_cluster_seeds import told

MINUTES = 2


def check(verdict: Verdict, *, hours: float) -> None:
    """Nothing was broken, and the time was filled."""
    assert verdict.rule is None, told(verdict)
    assert verdict.virtual_seconds >= hours * 3600
    assert verdict.operations > verdict.virtual_seconds / 60


def test_a_few_minutes_of_five_members() -> None:
    hours = MINUTES / 60
    check(play(1, Settings(replicas=5, hours=hours)), hours=hours)


@pytest.mark.long
def test_a_day_of_five_members() -> None:
    verdict = play(1, Settings(replicas=5, hours=24))
    check(verdict, hours=24)
    counts = verdict.counts
    assert min(counts.crashes, counts.view_changes, counts.checkpoints, counts.completions, counts.sweeps) > 10
    assert counts.archive_bytes_max > 0
