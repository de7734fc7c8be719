"""`levrier demo`: nodes are killed under load and come back; what was acknowledged is counted."""

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from levrier.cluster.cli.output import CommandFailed, Exit, print_json, print_record, say
from levrier.cluster.demo import run_demo
from levrier.cluster.demo_cluster import ClusterOutcome, Round, Step, run_cluster_demo
from levrier.cluster.local_cluster import HEARTBEAT, ClusterPlan

_STYLES: Final = {
    Step.PREPARED: ("●", "cyan"),
    Step.WRITING: ("▸", "cyan"),
    Step.KILLED: ("✗", "bold red"),
    Step.ELECTED: ("✓", "bold green"),
    Step.RETURNED: ("✓", "bold green"),
}
_LEVELS: Final = " ▁▂▃▄▅▆▇█"
_WIDTH: Final = 72
_VERDICT: Final = "everything that was acknowledged is there, once"


def demo(
    nodes: Annotated[
        int, typer.Option("--nodes", "-n", metavar="N", min=1, max=7, help="How many nodes; 1 for one that restarts.")
    ] = 3,
    operations: Annotated[
        int,
        typer.Option("--operations", metavar="N", min=10, help="Acknowledged writes before each kill, and after it."),
    ] = 500,
    kills: Annotated[
        int | None,
        typer.Option("--kills", metavar="N", min=1, max=50, help="How often.", show_default="1, of one node 3"),
    ] = None,
    heartbeat: Annotated[
        str, typer.Option("--heartbeat", metavar="TIME", help="After how long without its primary a cluster elects.")
    ] = HEARTBEAT,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print JSON.")] = False,
) -> None:
    """Start three nodes, write to them, kill -9 the primary under load, and count what was kept.

    The clients keep their login and go on at the new primary; the killed node is started again and catches up under load.
    `gap` is how long no write was acknowledged; `lost` and `doubled` have to be 0, on every node. `unanswered` writes were under
    way at the instant of a kill: they may have been executed or not, and `unanswered kept` says how many were.

    With `--nodes 1` the only node is killed and started again. Everything happens in a temporary directory. The clients are the official SDK if it is installed (`pip install apache-iggy`), else levrier's own.

    Examples:

    `levrier demo`

    `levrier demo --nodes 5 --kills 3 --json`
    """
    if nodes == 2:
        raise CommandFailed("--nodes 2: two nodes need each other, none may be killed; take 3", Exit.COULD_NOT_ASK)
    plan = ClusterPlan(name="demo", count=nodes, heartbeat=heartbeat)  # Refuses before anything is made or said.
    with tempfile.TemporaryDirectory(prefix="levrier-demo-") as folder:
        if nodes == 1:
            outcome = asyncio.run(run_demo(Path(folder), operations=operations, kills=kills or 3, tell=say))
            print_record(asdict(outcome), as_json=as_json)
            _judge(lost=outcome.lost, doubled=outcome.doubled)
            say(_VERDICT)
            return
        narrator = Narrator(nodes)
        found = asyncio.run(
            run_cluster_demo(Path(folder), plan, operations=operations, kills=kills or 1, tell=narrator.tell)
        )
    narrator.end(found)
    if as_json:
        print_json(as_document(found))
    else:
        print_record(_as_record(found), as_json=False)
    _judge(lost=found.lost, doubled=found.doubled)
    narrator.praise()


def _judge(*, lost: int, doubled: int) -> None:
    if lost or doubled:
        raise CommandFailed("what was acknowledged is not what is there")


class Narrator:
    """Tells the story on stderr, while it happens."""

    def __init__(self, nodes: int) -> None:
        self._console = Console(stderr=True, markup=False, emoji=False, highlight=False)
        self._line(
            Text.assemble(("levrier demo", "bold"), f"  {nodes} nodes on this machine, and the primary is killed")
        )

    def tell(self, step: Step, text: str) -> None:
        """One thing that has happened."""
        mark, style = _STYLES[step]
        self._line(Text.assemble("  ", (f"{mark} {step.value:<9}", style), text))

    def end(self, outcome: ClusterOutcome) -> None:
        """What the clients felt of it."""
        for each in outcome.rounds:
            self._line(Text())
            self._line(Text(f"  writes acknowledged, kill of node {each.killed}", style="dim"))
            self._line(_pulse(each))
        self._line(Text())

    def praise(self) -> None:
        """It was as it has to be."""
        self._line(Text(f"\n{_VERDICT}", style="bold green"))

    def _line(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


def _pulse(each: Round) -> Text:
    """A bar for each stretch of time, from the first write to the last; the kill is marked below."""
    size = -(-len(each.pulse) // _WIDTH)
    bars = [sum(each.pulse[at : at + size]) for at in range(0, len(each.pulse), size)]
    highest = max(bars, default=0) or 1
    text = Text("  ")
    for bar in bars:
        text.append(_LEVELS[-(-bar * (len(_LEVELS) - 1) // highest)], style="green")
    killed = each.killed_at // size
    text.append(f"  {size * 100 / 1e3:g} s each\n")
    text.append(" " * (2 + killed))
    text.append("↑ kill -9", style="red")
    return text


def as_document(outcome: ClusterOutcome) -> Mapping[str, Any]:
    """For `--json`: the sums first, then each kill."""
    first, last = outcome.rounds[0], outcome.rounds[-1]
    rounds = [
        {name: value for name, value in asdict(each).items() if name not in {"pulse", "killed_at"}}
        for each in outcome.rounds
    ]
    return {
        "client": outcome.client,
        "nodes": outcome.nodes,
        "acknowledged": outcome.acknowledged,
        "kept": outcome.kept,
        "lost": outcome.lost,
        "doubled": outcome.doubled,
        "unanswered": outcome.unanswered,
        "unanswered_kept": outcome.unanswered_kept,
        "gap_ms": max(each.gap_milliseconds for each in outcome.rounds),
        "view_before": first.view_before,
        "view_after": last.view_after,
        "kills": rounds,
    }


def _as_record(outcome: ClusterOutcome) -> Mapping[str, object]:
    document = dict(as_document(outcome))
    gaps = ", ".join(f"{each.gap_milliseconds:,} ms" for each in outcome.rounds)
    views = " -> ".join(str(view) for view in (document["view_before"], *(each.view_after for each in outcome.rounds)))
    for name in ("gap_ms", "view_before", "view_after", "kills"):
        del document[name]
    return {**document, "gap of writes": gaps, "view": views}
