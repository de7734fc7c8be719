"""`levrier bench`: load a running node and say what it did."""

import asyncio
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from levrier.actors.runtime import new_event_loop
from levrier.cluster.bench import BenchFailed, BenchSettings, Load, Tell, run_bench
from levrier.cluster.bench_scale import ScaleSettings, run_scale
from levrier.cluster.cli.asking import Asking
from levrier.cluster.cli.output import CommandFailed, print_record, say

_LOADS = ", ".join(Load)


def bench(  # noqa: PLR0917 - each is an option of the command line.
    asking: Asking,
    operation: Annotated[
        Load, typer.Option("--operation", "-o", metavar="NAME", help=f"What each request does: {_LOADS}.")
    ] = Load.UPDATE_STREAM,
    concurrency: Annotated[
        int,
        typer.Option(
            "--concurrency", "-n", metavar="N", min=1, max=4000, help="Connections, each with one request outstanding."
        ),
    ] = 1,
    seconds: Annotated[
        float, typer.Option("--seconds", "-s", metavar="SECONDS", min=0.1, help="How long to measure.")
    ] = 5.0,
    operations: Annotated[
        int | None, typer.Option("--operations", metavar="N", min=1, help="End after so many instead.")
    ] = None,
    streams: Annotated[
        int, typer.Option("--streams", metavar="N", min=1, help="Streams to update, to read or to create.")
    ] = 1_000,
    name_size: Annotated[
        int, typer.Option("--name-size", metavar="BYTES", min=40, max=255, help="Bytes of the written names.")
    ] = 200,
    scale: Annotated[
        bool,
        typer.Option("--scale", metavar="", help="Fill a node of its own instead, and say what the catalogue costs."),
    ] = False,
    topics: Annotated[
        int, typer.Option("--topics", metavar="N", min=0, max=4096, help="With --scale: topics of each stream.")
    ] = 10,
) -> None:
    """Load a node with a closed loop and measure it.

    `checkpoints` counts those that the node finished meanwhile; `max_ms` includes what they cost. The streams that the
    load needs are created first, with names that begin with `bench-`, and stay; no other stream is touched. Of a cluster
    the primary is loaded with writes, whichever member is named.

    With `--scale` no running node is asked: one is started in a temporary directory, filled with `--streams` streams of
    `--topics` topics each (or until it has 4 GiB resident), listed, ended and started again.

    Examples:

    `levrier bench --concurrency 64 --seconds 10 --json`

    `levrier bench --scale --streams 100000 --topics 10`
    """
    tell = say if sys.stderr.isatty() else _silent
    if scale:
        _scale(ScaleSettings(streams=streams, topics=topics), tell=tell, as_json=asking.as_json)
        return
    settings = BenchSettings(
        address=asking.address,
        username=asking.username,
        password=asking.password,
        load=operation,
        concurrency=concurrency,
        seconds=seconds,
        operations=operations,
        streams=streams,
        name_size=name_size,
        timeout=asking.timeout,
        tls=asking.tls,
    )
    _load(settings, tell=tell, asking=asking)


def _load(settings: BenchSettings, *, tell: Tell, asking: Asking) -> None:
    try:
        with asyncio.Runner(loop_factory=lambda: new_event_loop(use_uvloop=True)) as runner:
            report = runner.run(run_bench(settings, tell=tell))
    except BenchFailed as error:
        raise CommandFailed(f"{asking.connect}: {error}") from error
    print_record(asdict(report), as_json=asking.as_json)
    if report.errors:
        raise CommandFailed(f"{report.errors} operations failed; the first: {report.first_error}")


def _scale(settings: ScaleSettings, *, tell: Tell, as_json: bool) -> None:
    try:
        report = asyncio.run(run_scale(settings, tell=tell))
    except BenchFailed as error:
        raise CommandFailed(str(error)) from error
    print_record(asdict(report), as_json=as_json)


def _silent(_line: str) -> None:
    """Progress is for a person who waits."""
