"""The Python suite: `foreign/python/tests`, with the released wheel of the version that is installed here."""

import json
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from tests.cluster.processes import ROOT
from tests.sdk.suites.outcomes import Judged, Outcome, Status, Verdict, judge
from tests.sdk.suites.surroundings import (
    INSIDE,
    PORT,
    SERVE,
    SUITE_SECONDS,
    SilentPort,
    Unusable,
    copy,
    make_certificates,
    run,
    serve,
    surroundings,
)

FOLDER = "foreign/python"
SEVERITY = (Status.PASSED, Status.SKIPPED, Status.FAILED)


def run_suite(checkout: Path, work: Path) -> list[Judged]:
    """Run the whole suite; one verdict a test. Raises `Unusable`."""
    copy(checkout, work, f"{FOLDER}/tests", f"{FOLDER}/pyproject.toml")
    make_certificates(work / "core/certs")
    python = _install(work)
    with serve(work) as node:
        outcomes = _run(python, work, PORT, [])
        node.terminate()
    return [judge(_try_alone(python, work, each)) for each in outcomes]


def _install(work: Path) -> Path:
    """A virtual environment with what the suite says it needs; the path of its interpreter."""
    project = tomllib.loads((work / FOLDER / "pyproject.toml").read_text(encoding="utf-8"))
    needs = project["project"]["optional-dependencies"]["testing"]
    environment = work / "venv"
    run([SERVE[0], "-m", "venv", environment], work)
    python = environment / "bin/python"
    run([python, "-m", "pip", "install", "--quiet", f"apache-iggy=={version('apache-iggy')}", *needs], work)
    return python


def _run(python: Path, work: Path, port: int, names: Sequence[str]) -> list[Outcome]:
    """Run some tests, all when none is named."""
    report = work / "report.jsonl"
    report.unlink(missing_ok=True)
    environment = surroundings(
        IGGY_SERVER_TCP_PORT=str(port),
        LEVRIER_SUITE_REPORT=str(report),
        LEVRIER_SUITE_SERVE=json.dumps(["env", f"--chdir={ROOT}", "-u", "PYTHONPATH", *SERVE]),
        PYTHONPATH=str(INSIDE),
    )
    options = ["-p", "suite_observer", "-p", "no:cacheprovider", "-o", "addopts=", "--tb=short", "-q"]
    ended = subprocess.run(
        [python, "-m", "pytest", *options, *(names or ["tests"])],
        cwd=work / FOLDER,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS,
        check=False,
    )
    if not report.exists():
        raise Unusable(f"pytest ended with status {ended.returncode}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return merged(report.read_text(encoding="utf-8"))


def merged(report: str) -> list[Outcome]:
    """One outcome a test out of the lines of its phases: the worst of them."""
    found: dict[str, Outcome] = {}
    for line in report.splitlines():
        fields = json.loads(line)
        name = fields["name"].removeprefix("tests/")
        outcome = Outcome(**{**fields, "name": name, "status": Status(fields["status"])})
        known = found.get(outcome.name)
        if known is None or SEVERITY.index(outcome.status) > SEVERITY.index(known.status):
            found[outcome.name] = outcome
    return list(found.values())


def _try_alone(python: Path, work: Path, outcome: Outcome) -> Outcome:
    """Run a test that nothing else explains where no server is: does it fail alike, without having looked for one?"""
    if judge(outcome).verdict is not Verdict.OURS:
        return outcome
    with SilentPort() as silent:
        again = _run(python, work, silent.port, [f"tests/{outcome.name}"])
        untouched = silent.connections == 0
    return replace(outcome, alone=untouched and [each.error for each in again] == [outcome.error])
