"""The pytest fixtures, used by test files of somebody else's in a process of their own.

Where levrier is installed its entry point loads them; where it is only on the path, they are named.
"""

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.cluster.processes import ROOT

USER_SECONDS = 120.0
PLUGIN = () if entry_points(group="pytest11", name="levrier") else ("-p", "levrier.cluster.pytest_plugin")

USER_TESTS = """
import socket

seen = []


def test_a_node_of_its_own(levrier_server):
    socket.create_connection((levrier_server.host, levrier_server.port)).close()
    seen.append(levrier_server)


def test_the_one_before_is_gone(levrier_server):
    assert levrier_server is not seen[0]
    assert levrier_server.running and not seen[0].running
    assert not seen[0].data.exists()


def test_one_for_all(levrier_server_session, levrier_server):
    assert levrier_server_session.address != levrier_server.address
    seen.append(levrier_server_session)


def test_still_the_same(levrier_server_session):
    assert levrier_server_session is seen[-1]
    assert levrier_server_session.running
"""


CLUSTER_TESTS = """
import socket

import pytest


def reach(cluster):
    host, port = cluster.address(0).split(":")
    socket.create_connection((host, int(port))).close()


@pytest.mark.levrier_cluster(nodes=1, username="admin", password="a-password")
def test_as_the_mark_says(levrier_cluster):
    assert levrier_cluster.nodes == 1
    assert levrier_cluster.username == "admin"
    reach(levrier_cluster)


@pytest.mark.levrier_cluster(nodes=1)
def test_that_fails(levrier_cluster):
    raise AssertionError("on purpose")


def test_three_for_all(levrier_cluster_session):
    assert levrier_cluster_session.nodes == 3
    assert levrier_cluster_session.primary() is not None
    reach(levrier_cluster_session)


def test_still_the_same(levrier_cluster_session):
    reach(levrier_cluster_session)
"""


def run_python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=USER_SECONDS, cwd=cwd, check=False
    )


def test_both_fixtures_in_somebody_elses_tests(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(USER_TESTS)
    ended = run_python("-m", "pytest", "-q", *PLUGIN, "-W", "error", str(tmp_path), cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "4 passed" in ended.stdout


@pytest.mark.process
def test_the_cluster_fixtures_in_somebody_elses_tests(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(CLUSTER_TESTS)
    arguments = ("-q", *PLUGIN, "-W", "error", "--strict-markers", str(tmp_path))
    ended = run_python("-m", "pytest", *arguments, cwd=tmp_path)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "1 failed, 3 passed" in ended.stdout
    assert re.search(r"-- log of node 0 --(.*\n)+?.*node node-0 serves on 127", ended.stdout)


def test_a_run_that_does_not_use_them_imports_nothing_of_levrier(tmp_path: Path) -> None:
    """The plugin is loaded into every test run of its user: it costs nothing until it is used."""
    (tmp_path / "test_user.py").write_text(
        "import sys\n\n\ndef test_nothing():\n"
        "    loaded = sorted(name for name in sys.modules if name.startswith('levrier'))\n"
        "    assert loaded == ['levrier', 'levrier.cluster', 'levrier.cluster.pytest_plugin']\n"
        "    assert 'pykka' not in sys.modules\n"
    )
    ended = run_python("-m", "pytest", "-q", *PLUGIN, str(tmp_path), cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_nothing_starts_at_import() -> None:
    ended = run_python(
        "-c",
        "import threading, levrier.cluster.testing, levrier.cluster.pytest_plugin; print(threading.active_count())",
        cwd=ROOT,
    )
    assert (ended.returncode, ended.stdout) == (0, "1\n"), ended.stderr
