"""Runs that take minutes: what grows, what a checkpoint costs, how long a restart takes."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from levrier.cluster.address import Address
from levrier.cluster.bench import BenchReport, BenchSettings, Load, run_bench
from tests.cluster.processes import NodeProcess, Spawn

pytestmark = [pytest.mark.process, pytest.mark.long]

MEBIBYTE = 1024 * 1024
OPERATIONS = 200_000
FIRST_OPERATIONS = 20_000
LOG_MAX = 160 * MEBIBYTE
GROWTH_MAX = 1.2
RESTART_SECONDS_MAX = 3.0

MANY_STREAMS = 10_000
CHECKPOINTS_WANTED = 2
ATTEMPTS = 3
CHECKPOINT_WAIT_MS = 50.0
SYNCS = 2_000
RECORD_SIZE = 512


def load(node: NodeProcess, log: Path, *, operations: int, streams: int, concurrency: int) -> tuple[BenchReport, int]:
    """Rename streams; the report, and the largest size that the log file had."""
    largest = 0

    def watch(_line: str) -> None:
        nonlocal largest
        largest = max(largest, log.stat().st_size)

    settings = BenchSettings(
        address=Address(host=node.host, port=node.port),
        username="iggy",
        password="iggy",
        load=Load.UPDATE_STREAM,
        concurrency=concurrency,
        operations=operations,
        streams=streams,
    )
    report = asyncio.run(run_bench(settings, tell=watch))
    watch("the end")
    return report, largest


def append_and_sync_p99_ms(directory: Path) -> float:
    """The 99th percentile of appending a record to a zero-filled file of this disk and syncing it, in milliseconds."""
    path = directory / "probe"
    taken = []
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        os.write(descriptor, bytes(RECORD_SIZE * SYNCS))
        os.fsync(descriptor)
        for number in range(SYNCS):
            began = time.perf_counter()
            os.pwrite(descriptor, b"x" * RECORD_SIZE, number * RECORD_SIZE)
            os.fdatasync(descriptor)
            taken.append(time.perf_counter() - began)
    finally:
        os.close(descriptor)
        path.unlink()
    return sorted(taken)[SYNCS * 99 // 100] * 1e3


def test_200_000_operations(spawn: Spawn, tmp_path: Path) -> None:
    """Checkpoints happen, log and memory stay bounded when the catalogue does not grow, a killed node is back in 3 s."""
    data = tmp_path / "data"
    log = data / "metadata" / "journal.wal"
    node = spawn(data).ready()
    first, _ = load(node, log, operations=FIRST_OPERATIONS, streams=1_000, concurrency=32)
    early = node.resident_bytes()
    rest, largest = load(node, log, operations=OPERATIONS - FIRST_OPERATIONS, streams=1_000, concurrency=32)
    late = node.resident_bytes()
    node.kill()
    began = time.monotonic()
    spawn(data).ready()
    restart_seconds = time.monotonic() - began
    print(
        f"{first.operations + rest.operations} operations, {rest.per_s} per s, {first.checkpoints + rest.checkpoints} "
        f"checkpoints; log at most {largest / MEBIBYTE:.0f} MiB; resident {early / MEBIBYTE:.1f} then "
        f"{late / MEBIBYTE:.1f} MiB; p99 {rest.p99_ms} ms, max {rest.max_ms} ms; restart {restart_seconds:.2f} s"
    )
    assert first.operations + rest.operations == OPERATIONS
    assert first.errors == rest.errors == 0
    assert rest.checkpoints > 10
    assert largest < LOG_MAX
    assert late <= GROWTH_MAX * early
    assert restart_seconds < RESTART_SECONDS_MAX


@pytest.mark.parametrize("concurrency", [1, 32])
def test_no_commit_waits_long_for_a_checkpoint(spawn: Spawn, tmp_path: Path, concurrency: int) -> None:
    """With 10,000 streams: at most 50 ms plus three times the disk's own 99th percentile.

    The bound is on every commit, so it holds in each of three runs or it does not hold. Wants a machine of its own.
    """
    data = tmp_path / "data"
    log = data / "metadata" / "journal.wal"
    node = spawn(data).ready()
    load(node, log, operations=1, streams=MANY_STREAMS, concurrency=1)
    margins = []
    for _ in range(ATTEMPTS):
        p99 = append_and_sync_p99_ms(tmp_path)
        report, _ = load(node, log, operations=20_000, streams=MANY_STREAMS, concurrency=concurrency)
        allowed = CHECKPOINT_WAIT_MS + 3 * max(p99, append_and_sync_p99_ms(tmp_path))
        print(
            f"{concurrency} connections, {report.checkpoints} checkpoints of {MANY_STREAMS} streams, {report.per_s} per s: "
            f"p50 {report.p50_ms}, p99 {report.p99_ms}, max {report.max_ms} ms of {allowed:.1f} ms allowed"
        )
        assert report.checkpoints >= CHECKPOINTS_WANTED
        margins.append(allowed - report.max_ms)
    assert min(margins) >= 0.0
