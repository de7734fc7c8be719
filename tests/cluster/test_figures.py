"""What a node tells of its process and its machine, and which settings an archive shows (requests 9.2, 9.6; D-20)."""

import dataclasses
import json
import os
from pathlib import Path

import pytest

from levrier.cluster.config import NodeConfig, RootUser
from levrier.cluster.figures import SHOWN_SETTINGS, ProcessFigures, RecentLog, diagnostic_files
from levrier.wire.responses.system import Stats


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.nanos = 5_000_000_000

    def now_micros(self) -> int:
        return 1_700_000_000_000_000 + self.nanos // 1_000

    def monotonic_nanos(self) -> int:
        return self.nanos


def test_figures_are_those_of_this_process(tmp_path: Path) -> None:
    watch = Watch()
    figures = ProcessFigures(clock=watch, data=tmp_path)
    watch.nanos += 2_500_000
    stats = figures()
    assert stats.process_id == os.getpid()
    assert stats.hostname == os.uname().nodename
    assert (stats.run_time, stats.start_time) == (2_500, 1_700_000_005_000_000)
    assert 1_000_000 < stats.memory_usage <= stats.total_memory
    assert 0 < stats.free_disk_space <= stats.total_disk_space
    assert stats.threads_count >= 1
    assert Stats.decode(stats.encode()).process_id == os.getpid()


def test_a_machine_with_more_to_do_than_processors_is_used_entirely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1_000_000.0, 0.0, 0.0))
    assert ProcessFigures(clock=Watch(), data=tmp_path)().total_cpu_usage == 100


def test_the_version_is_also_told_as_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the reference's stats have it."""
    monkeypatch.setattr("levrier.cluster.figures.VERSION", "1.2.30-edge.4")
    stats = ProcessFigures(clock=Watch(), data=tmp_path)()
    assert (stats.server_version, stats.server_semver) == ("1.2.30-edge.4", 1_002_030)


def test_no_time_between_two_looks_is_no_use_of_the_processor(tmp_path: Path) -> None:
    figures = ProcessFigures(clock=Watch(), data=tmp_path)
    assert figures().cpu_usage == 0


def test_a_directory_that_is_gone_has_no_space(tmp_path: Path) -> None:
    stats = ProcessFigures(clock=Watch(), data=tmp_path / "absent")()
    assert (stats.free_disk_space, stats.total_disk_space) == (0, 0)


def test_the_recent_log_keeps_the_last_lines() -> None:
    recent = RecentLog(2)
    for number in range(4):
        recent.keep(f"line {number}\n")
    assert recent.lines() == ("line 2\n", "line 3\n")


def test_d_20_the_root_user_is_no_setting_that_is_shown(tmp_path: Path) -> None:
    """D-20: every setting is shown or left out on purpose."""
    config = NodeConfig(data=tmp_path, root=RootUser(username="marker", password="marker-password"))
    (tmp_path / "file").write_bytes(b"12345")
    files = diagnostic_files(config, Stats, lambda: ("a line\n",))
    assert b"marker" not in b"".join(content for name, content in files.items() if name != "file_system.json")
    assert json.loads(files["file_system.json"])["files"] == {"file": 5}
    assert files["logs.txt"] == b"a line\n"
    assert json.loads(files["configuration.json"])["node_name"] == "iggy-node"
    known = {field.name for field in dataclasses.fields(NodeConfig)}
    assert set(SHOWN_SETTINGS) <= known


def test_without_log_lines_there_is_no_log_file(tmp_path: Path) -> None:
    assert "logs.txt" not in diagnostic_files(NodeConfig(data=tmp_path), Stats, tuple)
