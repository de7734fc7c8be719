"""One mutant: a copy of the sources with one rule broken, and who notices.

The copy lies in a temporary directory and shadows the installed packages there and nowhere else. A mutant is found by a case
when one of its tests fails, and by the simulator when a seed does. That says something only where neither fails in a copy
with nothing broken: see `control`.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutation.mutants import Mutant

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("wire", "persistence", "actors", "cluster")
CASES_SECONDS = 300
SIMULATION_SECONDS = 1_200
OPERATIONS = 300


class MutantStale(Exception):
    """The text that a mutant replaces is not there exactly once: the code has moved on, and the mutant has to follow."""


class CannotTell(Exception):
    """Somebody fails without a mutant, and would be said to have found every one; or does not even run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Who noticed: the first test that failed, and the seed with the rule that it broke. Empty: nobody there."""

    mutant: str
    rule: str
    by_case: str
    by_simulator: str

    @property
    def is_found(self) -> bool:
        """Whether anybody noticed."""
        return bool(self.by_case or self.by_simulator)


def mutated(mutant: Mutant, text: str) -> str:
    """The text of the file with the rule broken. `MutantStale` when the place is not unique."""
    count = text.count(mutant.before)
    if count != 1:
        raise MutantStale(f"{mutant.name}: {mutant.file} has {count} places that read {mutant.before!r}")
    return text.replace(mutant.before, mutant.after)


def hunt(mutant: Mutant, *, seeds: int, replicas: int = 3) -> Found:
    """Ask the cases first and the simulator second. `seeds` 0 asks the cases only."""
    with _copy(mutant) as place:
        by_case = _ask_cases(place, *mutant.cases)
        by_simulator = _ask_simulator(place, seeds=seeds, replicas=replicas) if seeds else ""
    return Found(mutant=mutant.name, rule=mutant.rule, by_case=by_case, by_simulator=by_simulator)


def control(cases: Iterable[str], *, seeds: int, replicas: int = 3) -> None:
    """Ask each of the cases, and the simulator unless `seeds` is 0, about a copy with nothing broken.

    `CannotTell` when one of them finds something there.
    """
    with _copy() as place:
        for each in cases:
            if failed := _ask_cases(place, each):
                raise CannotTell(f"{each} fails with nothing broken: {failed}")
        if seeds and (failed := _ask_simulator(place, seeds=seeds, replicas=replicas)):
            raise CannotTell(f"the simulator fails with nothing broken: {failed}")


@contextmanager
def _copy(mutant: Mutant | None = None) -> Iterator[Path]:
    with TemporaryDirectory(prefix="levrier-mutant-") as directory:
        place = Path(directory)
        for package in PACKAGES:
            shutil.copytree(ROOT / package, place / "levrier" / package, ignore=shutil.ignore_patterns("__pycache__"))
            (place / package).symlink_to(place / "levrier" / package)
        shutil.copytree(ROOT / "tests", place / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", place)
        if mutant is not None:
            broken = place / "levrier" / mutant.file
            broken.write_text(mutated(mutant, broken.read_text(encoding="utf-8")), encoding="utf-8")
        yield place


def _run(place: Path, *arguments: str, seconds: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def _ask_cases(place: Path, *cases: str) -> str:
    """The first test that fails; a test that hangs has noticed, too."""
    try:
        done = _run(place, "pytest", "-q", "-x", "-p", "no:cacheprovider", *cases, seconds=CASES_SECONDS)
    except subprocess.TimeoutExpired:
        return "no end"
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if failed:
        return failed[0].split(" ", 2)[1].split("[")[0].rpartition("/")[2]
    if done.returncode != 0:
        raise CannotTell(f"pytest {' '.join(cases)} ends with {done.returncode}: {_last_words(done)}")
    return ""


def _ask_simulator(place: Path, *, seeds: int, replicas: int) -> str:
    """The first seed that fails, with its rule."""
    for first in range(0, seeds, _CHUNK):
        last = min(first + _CHUNK, seeds) - 1
        arguments = ["--seeds", f"{first}..{last}", "--replicas", str(replicas), "--operations", str(OPERATIONS)]
        try:
            done = _run(place, "levrier.cluster", "simulate", *arguments, seconds=SIMULATION_SECONDS)
        except subprocess.TimeoutExpired:
            return f"seeds {first}..{last}: no end"
        if done.returncode == 0:
            continue
        failed = first_failure(done.stderr)
        if done.returncode != 1 or not failed:
            raise CannotTell(f"the simulator ends with {done.returncode}: {_last_words(done)}")
        return failed
    return ""


def first_failure(told: str) -> str:
    """The lowest seed that the simulator says has failed, with the rule that it broke. Empty: none."""
    failed = {int(seed): rule for seed, rule in _FAILURE.findall(told)}
    return f"seed {min(failed)}: {failed[min(failed)]}" if failed else ""


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stdout + done.stderr)[-2_000:].strip()


_FAILURE = re.compile(r"^seed (\d+): ([^:]+): ", re.MULTILINE)
_CHUNK = 5
