"""The rules that are broken on purpose: each mutant still has its place, and somebody who notices."""

from dataclasses import replace

import pytest

from levrier.cluster.cli.output import CommandFailed
from levrier.cluster.cli.simulate import report
from levrier.cluster.simulate.run import Settings, Verdict
from levrier.cluster.simulate.watch import Counts
from tests.mutation.__main__ import summary
from tests.mutation.hunt import ROOT, CannotTell, Found, control, first_failure, hunt, mutated
from tests.mutation.mutants import MUTANTS, OF_THE_ELEVEN_RULES, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_has_its_place(mutant: Mutant) -> None:
    """The code may move on; a mutant that broke nothing any more would be taken for a rule that is kept."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    broken = mutated(mutant, text)
    assert broken != text
    compile(broken, mutant.file, "exec")


def test_each_rule_of_the_design_is_broken() -> None:
    """Eleven rules, and at least twelve more."""
    assert {int(mutant.rule.split(":")[0]) for mutant in OF_THE_ELEVEN_RULES} == set(range(1, 12))
    assert len(MUTANTS) - len(OF_THE_ELEVEN_RULES) >= 12


def test_a_control_that_fails_is_no_find() -> None:
    """As an environment that lacks something would: the case fails with nothing broken."""
    with pytest.raises(CannotTell, match=r"tests/absent\.py ends with 4"):
        control(["tests/absent.py"], seeds=0)


def test_an_unbroken_copy_passes_the_control() -> None:
    control(["tests/mutation/test_mutants.py::test_the_summary_says_by_whom"], seeds=1)


def test_what_the_simulator_tells_of_a_seed_is_understood(capsys: pytest.CaptureFixture[str]) -> None:
    """As its report has it: the lowest seed that failed, by its rule."""
    counts = Counts(commits=12, crashes=1, view_changes=2, checkpoints=3, transfers=4)
    passed = Verdict(
        seed=3,
        rule=None,
        text="",
        faults=(),
        operations=10,
        counts=counts,
        steps=100,
        virtual_seconds=36.0,
        digest="ab",
        events=("t=0.100s node-1 view 3 -> 4",),
    )
    failed = [replace(passed, seed=seed, rule="progress", text="unanswered: client-1") for seed in (12, 7)]
    settings = Settings(replicas=3, operations=40, faults=())
    report([passed], settings, count=1, trace=None, as_json=False)
    assert first_failure(capsys.readouterr().err) == ""
    with pytest.raises(CommandFailed):
        report([passed, *failed], settings, count=3, trace=None, as_json=False)
    assert first_failure(capsys.readouterr().err) == "seed 7: progress"


def test_the_summary_says_by_whom() -> None:
    found = [
        Found(mutant="a", rule="1", by_case="test_a", by_simulator="seed 1: x"),
        Found(mutant="b", rule="2", by_case="test_b", by_simulator=""),
    ]
    assert summary(found) == "2 of 2 found: 2 by cases, 1 by the simulator"
    found.append(Found(mutant="c", rule="3", by_case="", by_simulator=""))
    assert summary(found) == "2 of 3 found: 2 by cases, 1 by the simulator; not: c"


@pytest.mark.long
def test_nothing_is_found_where_nothing_is_broken() -> None:
    """What every find below is worth."""
    control(sorted({case for mutant in MUTANTS for case in mutant.cases}), seeds=200)


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_found(mutant: Mutant) -> None:
    """By a case or by the simulator."""
    assert hunt(mutant, seeds=200).is_found
