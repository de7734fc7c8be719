"""`levrier demo`: a node is killed under load and started again; what was acknowledged is counted."""

import asyncio
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from levrier.cluster.cli.output import CommandFailed, print_record, say
from levrier.cluster.demo import run_demo


def demo(
    operations: Annotated[int, typer.Option("--operations", min=10, help="Acknowledged writes before the kill.")] = 500,
    kills: Annotated[int, typer.Option("--kills", min=1, max=50, help="How often it is killed.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Start a node, write to it, kill -9 it, start it again, and count what was kept.

    `lost` and `doubled` have to be 0. `unanswered` writes were under way at the instant of a kill: they may have been
    executed or not, and `unanswered_kept` says how many were. Everything happens in a temporary directory. The clients are the official SDK if it is installed (`pip install apache-iggy`), else levrier's own.

    Example: `levrier demo --kills 5`
    """
    with tempfile.TemporaryDirectory(prefix="levrier-demo-") as folder:
        outcome = asyncio.run(run_demo(Path(folder), operations=operations, kills=kills, tell=say))
    print_record(asdict(outcome), as_json=as_json)
    if outcome.lost or outcome.doubled:
        raise CommandFailed("what was acknowledged is not what is there")
    say("everything that was acknowledged is there, once")
