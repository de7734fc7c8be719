"""Whole clusters from seeds: clients, faults and checkers, with the very actors that a process runs."""

import os
import subprocess
import sys

import pytest
from loguru import logger

from levrier.cluster.simulate.batch import Totals, verdicts
from levrier.cluster.simulate.run import Settings, Verdict, play

SEEDS_IN_CI = range(50)
GROUPS = 2
"""Tests that may run beside each other."""

OPERATIONS_IN_CI = 200
"""Enough for a checkpoint or two of each member."""


def quiet() -> None:
    """In each process that simulates."""
    logger.disable("levrier")


def told(verdict: Verdict) -> str:
    """A verdict as a failed assertion shows it."""
    return "\n".join([f"seed {verdict.seed}: {verdict.rule}: {verdict.text}", *verdict.events[-40:]])


@pytest.mark.parametrize("group", range(GROUPS))
def test_three_members_survive_every_fault(group: int) -> None:
    """Each group of seeds has been through everything that a cluster can be in the middle of, and through crashes there."""
    totals = Totals()
    for seed in SEEDS_IN_CI[group::GROUPS]:
        verdict = play(seed, Settings(operations=OPERATIONS_IN_CI))
        assert verdict.rule is None, told(verdict)
        totals.add(verdict)
    counts = totals.counts
    assert counts.cores >= 12
    assert counts.crashes >= 60
    assert counts.view_changes >= 12
    assert counts.checkpoints >= 50
    assert counts.transfers >= 5
    assert counts.crashes_in_checkpoint >= 3
    assert counts.crashes_in_transfer >= 1
    assert counts.crashes_in_view_change >= 4


@pytest.mark.parametrize("seed", range(5))
def test_five_members_survive_every_fault(seed: int) -> None:
    verdict = play(seed, Settings(replicas=5, operations=40))
    assert verdict.rule is None, told(verdict)


@pytest.mark.parametrize("seed", range(3))
def test_a_node_of_its_own_survives_every_fault(seed: int) -> None:
    verdict = play(seed, Settings(replicas=1, operations=100))
    assert verdict.rule is None, told(verdict)


def test_without_faults_everything_is_answered_in_the_first_view() -> None:
    verdict = play(0, Settings(faults=()))
    assert verdict.rule is None, told(verdict)
    assert verdict.operations >= 300
    assert verdict.counts.crashes == verdict.counts.view_changes == 0
    applied = [event.rpartition("(")[2] for event in verdict.events if "is the first to apply op" in event]
    assert {"bootstrap_root)", "register)", "create_stream)"} <= set(applied)
    assert not any("operation" in name for name in applied)


def test_one_seed_is_one_story_under_every_hash_seed() -> None:
    """C-275: two processes whose sets and dicts hash differently deliver the same messages at the same times."""
    code = (
        "from loguru import logger; logger.disable('levrier')\n"
        "from levrier.cluster.simulate.run import Settings, play\n"
        "verdict = play(3, Settings(operations=60))\n"
        "print(verdict.digest, verdict.steps, verdict.rule)"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("replicas", "operations", "seeds"),
    [(3, 300, range(2_000)), (5, 300, range(500)), (3, 5_000, range(100))],
    ids=["three members", "five members", "checkpoints and transfers many times over"],
)
def test_many_seeds_with_every_fault(replicas: int, operations: int, seeds: range) -> None:
    settings = Settings(replicas=replicas, operations=operations)
    failed = [
        told(verdict) for verdict in verdicts(seeds, settings, jobs=os.cpu_count() or 1, prepare=quiet) if verdict.rule
    ]
    assert failed == []
