"""Break each rule on purpose, and show who notices: `python -m tests.mutation [NAME ...]`.

The exit status is 0 when every mutant is found by a case or by the simulator, 1 when one is not, 2 for an unknown name.
"""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from rich.console import Console
from rich.table import Table

from tests.mutation.hunt import Found, hunt
from tests.mutation.mutants import MUTANTS


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
    found: list[Found] = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for each in pool.map(lambda mutant: hunt(mutant, seeds=given.seeds), chosen):
            found.append(each)
            console.print(f"{len(found)}/{len(chosen)} {each.mutant}: {'found' if each.is_found else 'NOT FOUND'}")
    console.print(_table(found))
    missed = [each.mutant for each in found if not each.is_found]
    console.print(
        f"{len(found) - len(missed)} of {len(found)} found" + (f"; not: {', '.join(missed)}" if missed else "")
    )
    return 1 if missed else 0


def _table(found: list[Found]) -> Table:
    table = Table("mutant", "rule", "found by the case", "found by the simulator")
    for each in found:
        table.add_row(each.mutant, each.rule, each.by_case or "-", each.by_simulator or "-")
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
