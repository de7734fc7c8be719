"""`levrier demo`: a node is killed under load and started again; what was acknowledged is counted."""

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from levrier.cluster.cli.output import CommandFailed, say
from levrier.cluster.demo import Outcome, run_demo


def demo(
    operations: Annotated[int, typer.Option("--operations", min=10, help="Acknowledged writes before the kill.")] = 500,
    kills: Annotated[int, typer.Option("--kills", min=1, max=50, help="How often it is killed.")] = 3,
) -> None:
    """Start a node, write to it, kill -9 it, start it again, and count what was kept.

    The clients are the official SDK if it is installed (`pip install apache-iggy`), else levrier's own.

    Example: `levrier demo --kills 5`
    """
    with tempfile.TemporaryDirectory(prefix="levrier-demo-") as folder:
        outcome = asyncio.run(run_demo(Path(folder), operations=operations, kills=kills, tell=say))
    _conclude(outcome)


def _conclude(outcome: Outcome) -> None:
    typer.echo(f"acknowledged  {outcome.acknowledged}")
    typer.echo(f"kept          {outcome.kept}")
    typer.echo(f"lost          {outcome.lost}")
    typer.echo(f"doubled       {outcome.doubled}")
    typer.echo(
        f"unanswered    {outcome.unanswered} at the instant of a kill; {outcome.unanswered_kept} of them were executed"
    )
    if outcome.lost or outcome.doubled:
        raise CommandFailed("what was acknowledged is not what is there")
