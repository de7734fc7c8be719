"""Two nodes that are fed the same log encode the same bytes at every op, over all operations (D-05, D-17; state-machine 15)."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from levrier.actors.metadata.machine import MetadataMachine
from levrier.cluster.simulate.checkers.model.machine import OPERATIONS, Model
from levrier.wire.headers import PrepareHeader
from tests.actors.metadata.model_steps import entry, first_step, for_model, make_step
from tests.actors.metadata.support import decoded, encoded

ROOT = Path(__file__).resolve().parents[3]
OPS = 250
LEFT_BEHIND = 40
"""A machine is restored this many ops before it is looked at."""


def log(seed: int) -> Iterator[tuple[PrepareHeader, bytes]]:
    """A log of random operations. The model makes it, so that no machine under test has a hand in it."""
    model = Model()
    time = 0
    for op in range(1, OPS + 1):
        step = first_step() if op == 1 else make_step(seed * 100_000 + op, op, model, time=time)
        time = step.time
        model.apply(for_model(step))
        yield entry(step, op)


@pytest.mark.parametrize("seed", range(6))
def test_two_nodes_encode_the_same_bytes_at_every_op(seed: int) -> None:
    """D-05: one lives through; another is restored from its own snapshot every few ops; a third is captured all the time."""
    live, restored, captured = MetadataMachine(), MetadataMachine(), MetadataMachine()
    for header, body in log(seed):
        applied = live.apply(header, body)
        assert restored.apply(header, body) == applied
        captured.capture(header.op, header.timestamp)
        assert captured.apply(header, body) == applied
        state = encoded(live)
        assert encoded(restored) == state, header
        assert encoded(captured) == state, header
        if header.op % 7 == seed:
            restored = decoded(state)


@pytest.mark.parametrize("seed", range(2))
def test_br_21_a_snapshot_of_any_op_and_the_rest_of_the_log_end_in_the_same_bytes(seed: int) -> None:
    """BR-21 over all operations: from each op on, the restored machine replies and encodes as the live one."""
    live = MetadataMachine()
    entries, states, replies = [], [encoded(live)], []
    for header, body in log(10 + seed):
        entries.append((header, body))
        replies.append(live.apply(header, body))
        states.append(encoded(live))
    for start in range(OPS):
        machine = decoded(states[start])
        end = min(start + LEFT_BEHIND, OPS)
        assert [machine.apply(*entries[index]) for index in range(start, end)] == replies[start:end]
        assert encoded(machine) == states[end]


def digest(seed: int) -> str:
    """A digest of the encoded state at every op."""
    machine = MetadataMachine()
    total = hashlib.sha256()
    for header, body in log(seed):
        applied = machine.apply(header, body)
        total.update(repr((applied, encoded(machine))).encode())
    return total.hexdigest()


def test_processes_that_hash_differently_encode_the_same_bytes_at_every_op() -> None:
    """Design 5: no order of a set or dict of hashes reaches the state. Two processes with other hash seeds agree with this one."""
    program = f"from {__name__} import digest; print(digest(3), end='')"
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        ran = subprocess.run(
            [sys.executable, "-c", program], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert ran.stdout == digest(3)


def test_the_logs_hold_every_operation() -> None:
    """What is compared above is compared for all of them."""
    held = {header.operation for seed in range(6) for header, _ in log(seed)}
    assert held == OPERATIONS.keys() | {1, 3}
