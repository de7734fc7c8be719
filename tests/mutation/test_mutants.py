"""The rules that are broken on purpose: each mutant still has its place, and somebody who notices."""

import pytest

from tests.mutation.__main__ import summary
from tests.mutation.hunt import ROOT, CannotTell, Found, control, hunt, mutated
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
