"""A pytest plugin for the suite's own interpreter: says what each test did, and runs a node where a container is wanted.

It is imported by name from a foreign environment, so it knows nothing but pytest. The environment tells it
LEVRIER_SUITE_REPORT, the file that gets a line of JSON for each phase of a test that matters, and LEVRIER_SUITE_SERVE, the
command line (as JSON) that serves a node.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

READY_SECONDS = 60.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note a finished test."""
    report: Any = yield
    if report.when == "call" or not report.passed:
        given = getattr(item, "callspec", None)
        line = {
            "name": item.nodeid,
            "status": report.outcome,
            "error": _error(report),
            "statement": "" if call.excinfo is None else running_statement(call.excinfo, item.path),
            "given": "" if given is None else " ".join(str(value) for value in given.params.values()),
        }
        with Path(os.environ["LEVRIER_SUITE_REPORT"]).open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
    return report  # type: ignore[no-any-return]


def _error(report: Any) -> str:
    if report.passed:
        return ""
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(report.longreprtext if crash is None else crash.message)


def running_statement(error: pytest.ExceptionInfo[BaseException], path: Path) -> str:
    """The source of the statement of the test's own file that was running; of a `with`, its body too."""
    lines = [entry.lineno + 1 for entry in error.traceback if Path(str(entry.path)) == path]
    if not lines:
        return ""
    source = path.read_text(encoding="utf-8")
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and node.lineno <= lines[-1] <= (node.end_lineno or node.lineno)
    ]
    smallest = min(around, key=lambda node: (node.end_lineno or node.lineno) - node.lineno, default=None)
    return "" if smallest is None else ast.get_source_segment(source, smallest) or ""


class DockerContainer:
    """What the suite uses of testcontainers' class, with a node in a process of its own instead of a container."""

    def __init__(self, image: str) -> None:
        self._image = image
        self._environment: dict[str, str] = {}
        self._volumes: dict[str, str] = {}
        self._process: subprocess.Popen[str] | None = None
        self._directory = tempfile.TemporaryDirectory(prefix="levrier-suite-")
        self.ready = ""

    def with_exposed_ports(self, *_ports: int) -> "DockerContainer":
        """Port 0 is listened on in any case."""
        return self

    def with_env(self, name: str, value: str) -> "DockerContainer":
        """Set a variable."""
        self._environment[name] = value
        return self

    def with_volume_mapping(self, host: str, container: str, *_mode: str) -> "DockerContainer":
        """Files under `container` are those under `host`."""
        self._volumes[container] = host
        return self

    def with_kwargs(self, **_docker: object) -> "DockerContainer":
        """Nothing of this concerns a process."""
        return self

    def start(self) -> "DockerContainer":
        """Serve, as the variables say."""
        command = [*json.loads(os.environ["LEVRIER_SUITE_SERVE"]), "--listen", "127.0.0.1:0"]
        command += ["--data", str(Path(self._directory.name) / "data")]
        if self._environment.get("IGGY_TCP_TLS_ENABLED") == "true":
            command += ["--tls-certificate", self._file("IGGY_TCP_TLS_CERT_FILE")]
            command += ["--tls-key", self._file("IGGY_TCP_TLS_KEY_FILE")]
        root = {name: value for name, value in self._environment.items() if name.startswith("IGGY_ROOT_")}
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **root}
        )
        assert self._process.stdout is not None
        self.ready = self._process.stdout.readline()
        return self

    def stop(self) -> None:
        """End the node."""
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()
        self._directory.cleanup()

    def get_exposed_port(self, _port: int) -> int:
        """The port that the node got."""
        return int(self.ready.split()[1].rpartition(":")[2])

    def _file(self, variable: str) -> str:
        path = self._environment[variable]
        inside = next(mount for mount in self._volumes if path.startswith(mount))
        return self._volumes[inside] + path.removeprefix(inside)


def wait_for_logs(container: DockerContainer, _text: str, **_limits: float) -> None:
    """`start` has waited for the ready line already."""
    assert container.ready.startswith("ready ")


def pytest_configure() -> None:
    """Let the suite import testcontainers from here."""
    container, waiting = (ModuleType(f"testcontainers.core.{name}") for name in ("container", "waiting_utils"))
    vars(container)["DockerContainer"] = DockerContainer
    vars(waiting)["wait_for_logs"] = wait_for_logs
    modules = {name: ModuleType(name) for name in ("testcontainers", "testcontainers.core")}
    sys.modules.update(modules)
    sys.modules.update({container.__name__: container, waiting.__name__: waiting})
