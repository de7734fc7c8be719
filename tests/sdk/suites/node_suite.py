"""The Node suite: `foreign/node`, its tests in `src/e2e`, each file in an interpreter of its own."""

import json
import shutil
import subprocess
from pathlib import Path

from tests.sdk.suites.outcomes import Judged, Outcome, Status, judge
from tests.sdk.suites.surroundings import (
    INSIDE,
    PORT,
    SUITE_SECONDS,
    Unusable,
    copy,
    make_certificates,
    run,
    serve,
    surroundings,
)

FOLDER = "foreign/node"
PREFIX = "e2e -> "
"""How the name of every test begins."""
SUBTESTS = "subtestsFailed"
"""Why a suite failed that is told by its tests already."""


def run_suite(checkout: Path, work: Path) -> list[Judged]:
    """Run every file; one verdict a test. Raises `Unusable`."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            raise Unusable(f"{tool} is not installed")
    copy(
        checkout, work, *(f"{FOLDER}/{part}" for part in ("src", "package.json", "package-lock.json", "tsconfig.json"))
    )
    certificates = work / "core/certs"
    make_certificates(certificates)
    run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], work / FOLDER)
    files = sorted((work / FOLDER / "src/e2e").glob("*.e2e.ts"))
    secure = [file for file in files if file.name.startswith("tls.")]
    tls = ["--tls-certificate", str(certificates / "iggy_cert.pem"), "--tls-key", str(certificates / "iggy_key.pem")]
    outcomes = _serve_and_run(work, "plain", [file for file in files if file not in secure], [])
    outcomes += _serve_and_run(work, "tls", secure, tls)
    return [judge(each) for each in outcomes]


def _serve_and_run(work: Path, name: str, files: list[Path], options: list[str]) -> list[Outcome]:
    directory = work / name
    directory.mkdir()
    with serve(directory, *options) as node:
        outcomes = [outcome for file in files for outcome in _run(file, work / FOLDER, secure=bool(options))]
        node.terminate()
    return outcomes


def _run(file: Path, folder: Path, *, secure: bool) -> list[Outcome]:
    environment = surroundings(
        IGGY_TCP_ADDRESS=f"127.0.0.1:{PORT}", **({"IGGY_TCP_TLS_ENABLED": "true"} if secure else {})
    )
    options = ["--import", "@swc-node/register/esm-register", "--test", "--test-force-exit"]
    ended = subprocess.run(
        ["node", *options, f"--test-reporter={(INSIDE / 'reporter.mjs').as_uri()}", file],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS,
        check=False,
    )
    outcomes = reported(file.name.removesuffix(".e2e.ts"), ended.stdout)
    if not outcomes:
        raise Unusable(f"{file.name} reported nothing, status {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return outcomes


def reported(file: str, lines: str) -> list[Outcome]:
    """The tests of a file, and those suites that failed or were skipped by themselves."""
    outcomes: list[Outcome] = []
    for line in lines.splitlines():
        if not line.startswith("{"):
            continue
        told = json.loads(line)
        if told["suite"] and (told["failure"] == SUBTESTS or (told["passed"] and told["skipped"] is False)):
            continue
        status = Status.FAILED if not told["passed"] else Status.PASSED if told["skipped"] is False else Status.SKIPPED
        error = str(told["skipped"]) if status is Status.SKIPPED else told["error"]
        outcomes.append(Outcome(name=f"{file}: {told['name'].removeprefix(PREFIX)}", status=status, error=error))
    return outcomes
