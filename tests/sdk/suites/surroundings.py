"""What a suite finds around it: a node on the port that it names, fresh certificates, or a port where nobody answers."""

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cluster.processes import NodeProcess, serve_command

PORT = 8090
"""Both suites name it in some of their tests, whatever the environment says."""

INSIDE = Path(__file__).resolve().parent / "inside"
SERVE = [sys.executable, "-m", "levrier.cluster", "serve"]
COMMAND_SECONDS = 600.0
SUITE_SECONDS = 1200.0


class Unusable(Exception):
    """A suite cannot be run here; the message says why."""


def serve(directory: Path, *options: str) -> NodeProcess:
    """A blank node on PORT that serves already. Raises `Unusable` when somebody else has the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError as error:
            raise Unusable(f"the suites want a node on 127.0.0.1:{PORT}, and somebody has it: {error}") from error
    command = [*serve_command(directory / "data", f"127.0.0.1:{PORT}"), *options]
    return NodeProcess(command, directory / "node.log").ready()


def copy(checkout: Path, work: Path, *parts: str) -> None:
    """Bring parts of the checkout, files or folders, to the same places below `work`. Raises `Unusable`."""
    for part in parts:
        source, target = checkout / part, work / part
        if not source.exists():
            raise Unusable(f"{checkout} has no {part}: is it a checkout of the reference repository?")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
        else:
            shutil.copy(source, target)


def run(
    command: Sequence[str | Path],
    cwd: Path,
    *,
    environment: dict[str, str] | None = None,
    seconds: float = COMMAND_SECONDS,
) -> str:
    """Run a tool that has to succeed; its stdout. Raises `Unusable` with the end of what it said."""
    try:
        ended = subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except FileNotFoundError as error:
        raise Unusable(f"{command[0]} is not installed") from error
    if ended.returncode:
        said = (ended.stdout + ended.stderr).strip().splitlines()[-5:]
        raise Unusable("\n".join([f"{command[0]} ended with status {ended.returncode}", *said]))
    return ended.stdout


def surroundings(**variables: str) -> dict[str, str]:
    """The environment without what concerns Iggy or Python, and with `variables`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("IGGY_", "PYTHON", "PYTEST_"))}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **variables}


def make_certificates(directory: Path) -> None:
    """A certificate authority, and a certificate for localhost with its key, under the names that the suites use.

    Those of the reference repository are valid for a year from the day when they were made.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "leaf.cnf").write_text("subjectAltName=DNS:localhost\nbasicConstraints=critical,CA:FALSE\n")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    authority = ("-subj", "/CN=levrier suites", "-addext", "basicConstraints=critical,CA:TRUE", "-days", "2")
    run(["openssl", "req", "-x509", *key, "-keyout", "ca.key", "-out", "iggy_ca_cert.pem", *authority], directory)
    leaf = ("-keyout", "iggy_key.pem", "-out", "leaf.csr", "-subj", "/CN=localhost")
    run(["openssl", "req", "-new", *key, *leaf], directory)
    signed = ("-CA", "iggy_ca_cert.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "leaf.cnf", "-days", "2")
    run(["openssl", "x509", "-req", "-in", "leaf.csr", "-out", "iggy_cert.pem", *signed], directory)


class SilentPort:
    """Listens, counts who connects, and closes at once: where no server is."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self._thread = threading.Thread(target=self._count, daemon=True)

    def _count(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            caller.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
