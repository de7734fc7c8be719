"""The command line of the runner; status 0 when no failure is ours, 1 when one is, 2 when the suite cannot be run."""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.sdk.suites import node_suite, python_suite
from tests.sdk.suites.outcomes import Judged, Verdict, records, table
from tests.sdk.suites.surroundings import Unusable

SUITES: dict[str, Callable[[Path, Path], list[Judged]]] = {
    "python": python_suite.run_suite,
    "node": node_suite.run_suite,
}


def run_suite(name: str, checkout: Path) -> list[Judged]:
    """Run one suite in a temporary directory. Raises `Unusable`."""
    with tempfile.TemporaryDirectory(prefix="levrier-suite-") as work:
        return SUITES[name](checkout.resolve(), Path(work))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a suite and say what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.sdk.suites", description=__doc__)
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("checkout", type=Path, help="a checkout of the reference repository; it is only read")
    parser.add_argument("--json", action="store_true", help="print records instead of a table")
    asked = parser.parse_args(arguments)
    try:
        judged = run_suite(asked.suite, asked.checkout)
    except Unusable as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write((json.dumps(records(judged), indent=1) if asked.json else table(judged)) + "\n")
    return int(any(each.verdict is Verdict.OURS for each in judged))


if __name__ == "__main__":
    sys.exit(main())
