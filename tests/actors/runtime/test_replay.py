"""A run is replayed bit for bit from its seed, in another process and under another hash seed too (design 4, 5)."""

import os
import subprocess
import sys

import pytest

from levrier.actors.runtime import Probe, SteppedRuntime
from tests.actors.runtime.ledger import Statement, expected, open_bank

DEPOSITS = 25
NODES = ("n0", "n1", "n2")


def digest(seed: int) -> str:
    """Three banks in one world, one of which crashes and is opened again: the digest of its whole trace."""
    world = SteppedRuntime(seed, trace_messages=True)
    for name in NODES:
        open_bank(world.node(name), Probe[tuple[Statement, ...]](name), deposits=DEPOSITS)
    for _ in range(200):
        world.step()
    world.crash_node("n1")
    audited = Probe[tuple[Statement, ...]]("n1")
    open_bank(world.node("n1"), audited, deposits=DEPOSITS)
    world.run()
    assert audited.take() == expected(deposits=DEPOSITS)
    return world.trace_digest()


def test_a_seed_gives_the_same_trace_twice() -> None:
    assert [digest(seed) for seed in range(5)] == [digest(seed) for seed in range(5)]


def test_different_seeds_give_different_traces() -> None:
    assert len({digest(seed) for seed in range(5)}) == 5


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_a_seed_gives_the_same_trace_under_another_hash_seed(hash_seed: str) -> None:
    code = "from tests.actors.runtime.test_replay import digest; print(digest(11))"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    replay = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )

    assert replay.stdout.strip() == digest(11)


def test_the_trace_says_who_told_whom_what_and_when() -> None:
    runtime = SteppedRuntime(1, trace_messages=True)
    probe = runtime.probe("journal")
    runtime.after(3, runtime.address("journal"), "tick")
    runtime.address("journal").tell("append")
    runtime.advance(5)

    assert runtime.trace == [
        "1 0 start>node/journal start",
        "2 0 outside>node/journal 'append'",
        "3 3000 timer>node/journal 'tick'",
    ]
    assert probe.count == 2


def test_the_digest_covers_what_was_told() -> None:
    digests = set()
    for message in ("append", "truncate"):
        runtime = SteppedRuntime(1, trace_messages=True)
        runtime.probe("journal")
        runtime.address("journal").tell(message)
        runtime.run()
        digests.add(runtime.trace_digest())

    assert len(digests) == 2
