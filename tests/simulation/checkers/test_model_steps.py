"""The reference model understands the log of the product: every operation, field by field, and every read."""

import pytest

from levrier.cluster.simulate.checkers.model.machine import OPERATIONS, Model, Step
from levrier.cluster.simulate.checkers.model.reads import read_of
from levrier.cluster.simulate.checkers.model.steps import BODIES, step_of
from levrier.wire.prepare_header import PrepareHeader
from tests.actors.metadata.model_reads import every_read
from tests.actors.metadata.model_steps import KEYS, entry, first_step, for_model, make_step


@pytest.mark.parametrize("seed", range(3))
def test_an_entry_of_the_log_is_the_step_that_it_was_made_of(seed: int) -> None:
    model, time, met = Model(), 0, set()
    for op in range(1, 400):
        step = first_step() if op == 1 else make_step(seed * 100_000 + op, op, model, time=time)
        time = step.time
        known = Step(step.operation, step.user, step.client, step.time, _carried(step))
        assert step_of(*entry(step, op)) == known
        model.apply(for_model(step))
        met.add(step.operation)
    assert len(met) > 20


def _carried(step: Step) -> dict[str, object]:
    """The arguments that the body carries; an options block comes back in the order of its keys."""
    carried = {
        name: value
        for name, value in step.args.items()
        if step.operation in BODIES and name in BODIES[step.operation][1]
    }
    for name in ("options", "derived"):
        if name in carried:
            carried[name] = tuple(sorted(carried[name], key=lambda each: each[0].encode()))
    return carried


def test_every_operation_of_the_model_can_be_read_from_a_log() -> None:
    assert BODIES.keys() == OPERATIONS.keys()


def test_every_read_is_the_one_that_its_body_was_made_of() -> None:
    model = Model()
    for op in range(1, 200):
        model.apply(for_model(first_step() if op == 1 else make_step(op, op, model, time=op * 100)))
    reads = list(every_read(model, KEYS))
    assert len(reads) > 50
    assert [read_of(read.code, read.body) for read in reads] == reads


@pytest.mark.parametrize(("operation", "code"), [(0, 0), (2, 0), (160, 5), (132, 5)])
def test_what_is_no_operation_of_this_group_commits_code_5_and_what_has_no_effect_none(
    operation: int, code: int
) -> None:
    """State-machine 1, 12."""
    assert Model().apply(step_of(PrepareHeader(1, operation, client=7), b"")).code == code
