"""One node under crashes at any step, disk calls cut in the middle, full disks: what was answered is there, nothing twice."""

import os
import subprocess
import sys

import pytest

from tests.cluster.processes import ROOT
from tests.simulation.single_node import play

SEEDS = 30
LONG_SEEDS = 1_000


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_seed_keeps_every_promise(seed: int) -> None:
    """BR-51 and BR-52 on one node: after a crash or a full disk everything acknowledged is there, without a manual step."""
    node = play(seed)
    assert node.crashes >= node.crashes_wanted
    assert node.highest_checkpoint > 0


@pytest.mark.long
def test_1000_seeds_keep_every_promise() -> None:
    """The same, as often as it takes to meet what is rare."""
    for seed in range(SEEDS, SEEDS + LONG_SEEDS):
        play(seed)


def test_a_seed_is_replayed_bit_for_bit() -> None:
    """The same trace in three processes, whatever the order of their sets."""
    command = [sys.executable, "-m", "tests.simulation.single_node", "7"]
    digests = {
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert digests == {f"{play(7).world.trace_digest()}\n"}
