"""Break each rule on purpose, and show who notices: `python -m tests.mutation [NAME ...]`.

The cases, and the seeds if any are asked for, run on an unbroken copy first: where one fails there, nothing is hunted.

The exit status is 0 when every mutant is found by a case or by the simulator, 1 when one is not, 2 for an unknown name and for
a control that fails.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from rich.console import Console
from rich.table import Table

from tests.mutation.hunt import CannotTell, Found, control, hunt
from tests.mutation.mutants import MUTANTS, Mutant


def main(arguments: list[str]) -> int:
    """Hunt the mutants that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants to hunt; all when none is named")
    parser.add_argument("--seeds", type=int, default=200, help="seeds of the simulator to try; 0: only the cases")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at a time")
    given = parser.parse_args(arguments)
    known = {mutant.name: mutant for mutant in MUTANTS}
    unknown = [name for name in given.names if name not in known]
    if unknown:
        print(f"no such mutant: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in given.names] or list(MUTANTS)
    console = Console()
    cases = sorted({case for mutant in chosen for case in mutant.cases})
    console.print(
        f"control: {', '.join(cases)}{f' and {given.seeds} seeds' if given.seeds else ''}, with nothing broken"
    )
    try:
        control(cases, seeds=given.seeds)
    except CannotTell as error:
        print(f"{error}\nmend that first: it would be taken for a find of every mutant", file=sys.stderr)
        return 2
    try:
        found = _hunted(chosen, console, seeds=given.seeds, jobs=given.jobs)
    except CannotTell as error:
        print(error, file=sys.stderr)
        return 2
    console.print(_table(found))
    console.print(summary(found))
    return 0 if all(each.is_found for each in found) else 1


def _hunted(chosen: Sequence[Mutant], console: Console, *, seeds: int, jobs: int) -> list[Found]:
    """Hunt these, several at a time, and tell of each as it comes."""
    found: list[Found] = []
    with ThreadPoolExecutor(jobs) as pool:
        for each in pool.map(lambda mutant: hunt(mutant, seeds=seeds), chosen):
            found.append(each)
            console.print(f"{len(found)}/{len(chosen)} {each.mutant}: {'found' if each.is_found else 'NOT FOUND'}")
    return found


def summary(found: Sequence[Found]) -> str:
    """One line: how many were found, by whom, and which were not."""
    by_cases = sum(bool(each.by_case) for each in found)
    by_simulator = sum(bool(each.by_simulator) for each in found)
    missed = [each.mutant for each in found if not each.is_found]
    told = f"{len(found) - len(missed)} of {len(found)} found: {by_cases} by cases, {by_simulator} by the simulator"
    return f"{told}; not: {', '.join(missed)}" if missed else told


def _table(found: list[Found]) -> Table:
    table = Table("mutant", "rule", "found by the case", "found by the simulator")
    for each in found:
        table.add_row(each.mutant, each.rule, each.by_case or "-", each.by_simulator or "-")
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
