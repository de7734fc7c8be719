"""`levrier bench --scale`: a node is filled, listed, ended and started again, and what that cost is told."""

import asyncio
import json
from dataclasses import fields
from pathlib import Path

import pytest

from levrier.cluster.bench_scale import ScaleReport, ScaleSettings, run_scale
from levrier.cluster.cli.app import run

pytestmark = pytest.mark.process


def check(report: ScaleReport) -> None:
    """Whatever the machine does: times are positive, and the parts fit together."""
    assert 0 < report.p50_last_ms <= report.p99_last_ms <= report.worst_stall_ms
    assert 0 < report.p50_first_ms <= report.p99_first_ms <= report.worst_stall_first_ms <= report.worst_stall_ms
    assert report.growth == pytest.approx(report.create_last_us / report.create_first_us, abs=0.01)
    assert report.creates_per_s > 0
    assert min(report.list_streams_ms, report.list_topics_ms, report.end_seconds) > 0
    assert min(report.restart_seconds, report.restart_after_kill_seconds) > 0
    assert report.resident >= report.resident_blank > 1 << 20


def test_a_small_catalogue_is_built_listed_and_found_again(capsys: pytest.CaptureFixture[str]) -> None:
    """On the command line, as JSON; no running node is asked."""
    arguments = ["--scale", "--streams", "30", "--topics", "4", "--connect", "127.0.0.1:1", "--json"]
    assert run(["bench", *arguments]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told) == [field.name for field in fields(ScaleReport)]
    report = ScaleReport(**told)
    check(report)
    assert (report.streams, report.topics, report.complete) == (30, 120, True)
    assert (report.checkpoints, report.checkpoint_ms, report.snapshot_size) == (0, None, 0)


def test_building_ends_at_the_limit_of_memory(tmp_path: Path) -> None:
    """One stage is enough to have a byte resident. Each step is told, and nothing is left behind."""
    told: list[str] = []
    settings = ScaleSettings(streams=40, topics=1, connections=2, resident_max=1, data=tmp_path)
    report = asyncio.run(run_scale(settings, tell=told.append))
    assert (report.streams, report.topics, report.complete) == (2, 2, False)
    assert [line.split()[1] for line in told] == ["created,", "again", "again"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_create_costs_at_the_end_what_it_did_at_the_beginning(tmp_path: Path) -> None:
    """At most 1.5 times as much with 200,000 topics there, checkpoints included."""
    report = asyncio.run(run_scale(ScaleSettings(streams=20_000, topics=10, data=tmp_path)))
    check(report)
    assert report.growth <= 1.5
    assert report.bytes_per_topic < 2_000
    assert report.checkpoints >= 10
