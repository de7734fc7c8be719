"""`levrier simulate`: whole clusters from seeds, with faults, and a verdict on each."""

import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer
from loguru import logger
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from levrier.actors.consensus.quorum import REPLICAS_MAX
from levrier.cluster.cli.output import CommandFailed, Exit, print_record
from levrier.cluster.simulate.batch import Totals, verdicts
from levrier.cluster.simulate.faults import Fault, parse_faults
from levrier.cluster.simulate.run import Settings, Verdict

EVENTS_SHOWN: Final = 40
_FAULTS: Final = ", ".join(Fault)


def simulate(  # noqa: PLR0917 - each is an option of the command line.
    seeds: Annotated[
        str, typer.Option("--seeds", "-s", metavar="N|A..B", help="How many seeds, from 0 on; or from A up to B.")
    ] = "100",
    replicas: Annotated[
        int, typer.Option("--replicas", "-r", metavar="N", min=1, max=REPLICAS_MAX, help="Members of each cluster.")
    ] = 3,
    operations: Annotated[
        int,
        typer.Option("--operations", "-n", metavar="N", min=1, help="What the clients of a cluster ask for, together."),
    ] = 300,
    hours: Annotated[
        float | None,
        typer.Option(
            "--hours", metavar="H", min=0.01, help="Virtual hours of a slow story, instead of a number of operations."
        ),
    ] = None,
    faults: Annotated[
        str,
        typer.Option("--faults", "-f", metavar="LIST", help=f"all, none, or some of: {_FAULTS}."),
    ] = "all",
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", min=1, help="Processes; as many as there are processors.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace", "-t", metavar="FILE", help="Write there what happened, seed by seed, good ones included."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="The summary as JSON.")] = False,
) -> None:
    """Simulate whole clusters with clients and faults, each from its seed, and judge every one.

    Each seed draws some of the faults and how hard they strike. When enough was answered they end for a core, a quorum of
    members, which must answer everything and be of one mind within bounded time while the others stay away for good, each as
    it is drawn: down, cut off, paused, with a bad disk. Then they end for all, and all must be of one mind. What is checked all along: nothing acknowledged is
    lost or doubled, writes are linearizable and reads monotonic on a connection, every replica applies the same log to the
    same state, and the invariants of each replica. A seed gives the same story each time, on every machine.

    With `--hours` each seed is a slow story: an operation every few seconds, bursts now and then, faults that are drawn anew
    after every hour, and in between a healed cluster that is judged. The four plugins run, history is kept until everybody
    has it, and the disk of every member must stay bounded. The timers of the members are ten times as long then.

    A seed that fails says which rule was broken, prints the command that replays it, and the last that happened.

    Examples:

    `levrier simulate --seeds 1000`

    `levrier simulate --seeds 500 --replicas 5 --faults crash,partition,torn`

    `levrier simulate --seeds 1234..1234 --trace 1234.txt`

    `levrier simulate --seeds 1..1 --replicas 5 --hours 24`
    """
    wanted = _seeds(seeds)
    try:
        settings = Settings(replicas=replicas, operations=operations, faults=parse_faults(faults), hours=hours or 0.0)
    except ValueError as error:
        raise CommandFailed(f"--faults: {error}", Exit.COULD_NOT_ASK) from error
    if trace is not None:
        _check_writable(trace)
    processes = 1 if trace is not None else min(jobs or os.cpu_count() or 1, len(wanted))
    found = verdicts(wanted, settings, jobs=processes, prepare=_be_quiet, keep_events=trace is not None)
    try:
        report(found, settings, count=len(wanted), trace=trace, as_json=as_json)
    finally:
        logger.enable("levrier")


def report(found: Iterable[Verdict], settings: Settings, *, count: int, trace: Path | None, as_json: bool) -> None:
    """Tell of each verdict as it comes and of all of them in the end. Raises `CommandFailed` when a seed failed."""
    totals, began = Totals(), time.monotonic()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True, soft_wrap=True),
        disable=not sys.stderr.isatty(),
    ) as progress:
        task = progress.add_task("seeds", total=count)
        for verdict in found:
            totals.add(verdict)
            if trace is not None:
                _write(trace, verdict)
            if verdict.rule is not None:
                progress.console.print(_failure(verdict, settings), markup=False, highlight=False)
            progress.update(task, advance=1, description=f"seeds, {len(totals.failed)} failed")
    _summarize(totals, time.monotonic() - began, as_json=as_json)
    if totals.failed:
        raise CommandFailed(f"{len(totals.failed)} of {totals.seeds} seeds failed: {_some(totals.failed)}")


def _seeds(text: str) -> Sequence[int]:
    first, dots, last = text.partition("..")
    try:
        wanted = range(int(first), int(last) + 1) if dots else range(int(text))
    except ValueError:
        wanted = range(0)
    if not wanted or wanted.start < 0:
        raise CommandFailed(
            f"--seeds {text}: a number of seeds such as 100, or a range such as 1200..1299, is expected",
            Exit.COULD_NOT_ASK,
        )
    return wanted


def _failure(verdict: Verdict, settings: Settings) -> str:
    seed, faults = verdict.seed, settings.faults
    named = "all" if faults == tuple(Fault) else ",".join(faults) or "none"
    length = f"--hours {settings.hours:g}" if settings.is_long else f"--operations {settings.operations}"
    command = (
        f"levrier simulate --seeds {seed}..{seed} --replicas {settings.replicas} "
        f"{length} --faults {named} --trace seed-{seed}.txt"
    )
    lines = [
        f"seed {seed}: {verdict.rule}: {verdict.text}",
        f"replay it with: {command}",
        f"{verdict.steps} steps, digest {verdict.digest}",
        *verdict.events[-EVENTS_SHOWN:],
    ]
    return "\n  ".join(lines)


def _summarize(totals: Totals, seconds: float, *, as_json: bool) -> None:
    print_record(
        {
            "seeds": totals.seeds,
            "passed": totals.passed,
            "failed": len(totals.failed),
            "failed_seeds": totals.failed,
            "operations": totals.operations,
            **asdict(totals.counts),
            "virtual_hours": round(totals.virtual_hours, 3),
            "seconds": round(seconds, 3),
            "seeds_per_s": round(totals.seeds / seconds, 3),
        },
        as_json=as_json,
    )


def _check_writable(trace: Path) -> None:
    try:
        trace.write_text("", encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"--trace {trace}: {error.strerror}", Exit.COULD_NOT_ASK) from error


def _write(trace: Path, verdict: Verdict) -> None:
    with trace.open("a", encoding="utf-8") as file:
        file.writelines(f"{event}\n" for event in verdict.events)
        file.write(f"seed {verdict.seed}: {verdict.rule or 'passed'}, {verdict.steps} steps, digest {verdict.digest}\n")


def _some(failed: Sequence[int]) -> str:
    shown = ", ".join(str(seed) for seed in failed[:10])
    return shown if len(failed) <= 10 else f"{shown} and more"


def _be_quiet() -> None:
    """What the nodes of a simulation log is nobody's log here: the trace tells the story."""
    logger.disable("levrier")
