"""The table of acceptance cases tells the truth."""

from tests.tidy.cases import CASES, WAITS, citations, render, rows


def test_the_table_is_what_the_suite_proves() -> None:
    assert rows() == {
        line.split(" | ")[0].removeprefix("| "): line.split(" | ", 1)[1].removesuffix(" |")
        for line in render(citations(), rows()).splitlines()
        if line.startswith("| ") and not line.startswith("| case")
    }


def test_every_case_is_proven_or_says_why_it_waits() -> None:
    table = rows()
    assert [case for case in CASES if case not in table or table[case] == WAITS] == []


def test_no_test_cites_a_case_that_does_not_exist() -> None:
    assert sorted(set(citations()) - set(CASES)) == []
