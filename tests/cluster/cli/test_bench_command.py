"""`levrier bench`: each load for a moment, and the shape of its report."""

import pytest

from levrier.cluster.bench import Load
from tests.cluster.cli.running import CommandLine

KEYS = [
    *("operation", "concurrency", "seconds", "operations", "per_s", "p50_ms", "p99_ms", "max_ms", "errors"),
    *("checkpoints", "first_error"),
]


@pytest.mark.parametrize("load", list(Load))
def test_each_load_is_measured(levrier: CommandLine, load: Load) -> None:
    report = levrier.read("bench", "--operation", load, "--operations", "40", "-n", "3", "--streams", "4")
    assert list(report) == KEYS
    assert (report["operation"], report["concurrency"], report["operations"]) == (load, 3, 40)
    assert 0 < report["p50_ms"] <= report["p99_ms"] <= report["max_ms"]
    assert report["per_s"] * report["seconds"] == pytest.approx(40, abs=report["per_s"] * 0.001)
    assert (report["errors"], report["first_error"]) == (0, None)
    assert report["checkpoints"] == 0


def test_a_run_by_time_does_not_count_its_warm_up(levrier: CommandLine) -> None:
    report = levrier.read("bench", "--operation", "ping", "--seconds", "0.2")
    assert report["seconds"] == 0.2
    assert report["operations"] > 0


def test_the_report_is_a_table_too(levrier: CommandLine) -> None:
    ran = levrier.ask("bench", "--operation", "ping", "--operations", "10")
    assert [line[:13].strip() for line in ran.lines] == [key.replace("_", " ") for key in KEYS]
    assert ran.err == ""


def test_no_stream_but_its_own_is_touched(levrier: CommandLine, stream: str) -> None:
    before = levrier.read("streams", "get", stream)
    levrier.read("bench", "--operations", "20", "--streams", "2")
    assert levrier.read("streams", "get", stream) == before


def test_streams_of_an_earlier_run_serve_again(levrier: CommandLine) -> None:
    levrier.read("bench", "--operations", "4", "--streams", "6")
    count = len(levrier.read("streams", "list"))
    levrier.read("bench", "--operations", "4", "--streams", "6")
    assert len(levrier.read("streams", "list")) == count


def test_a_wrong_password_is_refused_with_1(levrier: CommandLine) -> None:
    ran = levrier.ask("bench", "--password", "another", "--operation", "ping")
    assert ran.status == 1
    assert "wrong user name or password" in ran.complaint
