"""The rules that are broken on purpose: each mutant still has its place, and somebody who notices."""

import pytest

from tests.mutation.hunt import ROOT, hunt, mutated
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


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_found(mutant: Mutant) -> None:
    """By a case or by the simulator."""
    assert hunt(mutant, seeds=200).is_found
