"""`levrier dev`: a cluster on this machine to try things out on, with a table of its nodes that keeps itself up to date."""

import asyncio
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from levrier.cluster.cli.output import say
from levrier.cluster.cli.standing_table import standing_table
from levrier.cluster.dev import DevCluster, Sight, look_until_ended
from levrier.cluster.local_cluster import NODES_MAX, ClusterPlan
from levrier.cluster.standing import awaited

BASE_PORT: Final = 8090


def dev(
    nodes: Annotated[int, typer.Option("--nodes", "-n", metavar="N", min=1, max=NODES_MAX, help="How many nodes.")] = 3,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            "-d",
            metavar="DIR",
            help="Keep the files there.",
            show_default="a directory that is removed at the end",
        ),
    ] = None,
    base_port: Annotated[
        int, typer.Option("--base-port", min=1, metavar="P", help="Node i: clients P + 10 i, replicas P + 10 i + 2.")
    ] = BASE_PORT,
    heartbeat: Annotated[
        str, typer.Option("--heartbeat", metavar="TIME", help="After how long without its primary a cluster elects.")
    ] = "2 s",
) -> None:
    """Run a cluster on this machine: a process for each node, and a table that shows how they stand. Ctrl-C ends all.

    When a primary serves, one line on stdout says so: `ready tcp=HOST:PORT nodes=N data=DIR pid=N`, with the address of the
    primary. The user is iggy, the password iggy. DIR/node-0 holds the files of node 0, its log (node.log) and the id of its
    process (node.pid), and so on.

    A node that ends is shown as down, one that is paused as not reachable. To try out what a cluster does, kill one, and start it
    again in another terminal with the command that is shown then: `levrier serve --config DIR/cluster.toml --replica-id 0`. It
    logs to that terminal; its process id is in node.pid as before, and Ctrl-C here ends it too.

    Examples:

    `levrier dev`

    `levrier dev --nodes 5 --data ./dev --base-port 7000`
    """
    plan = ClusterPlan(name="dev", count=nodes, base_port=base_port, heartbeat=heartbeat)
    root = data if data is not None else Path(tempfile.mkdtemp(prefix="levrier-dev-"))
    try:
        cluster = DevCluster(root, plan)
        try:
            _run(cluster)
        finally:
            for replica, pid in cluster.close().items():
                say(f"node {replica} runs on, process {pid}: this user may not end it")
    finally:
        if data is None:
            shutil.rmtree(root, ignore_errors=True)


def _run(cluster: DevCluster) -> None:
    terminal = Console(markup=False, emoji=False, highlight=False)
    if not terminal.is_terminal:
        asyncio.run(look_until_ended(cluster, Lines(cluster).show))
    else:
        with Live(Text("starting ..."), console=terminal, auto_refresh=False) as live:
            asyncio.run(look_until_ended(cluster, Screen(cluster, live).show))
    say(f"ending {cluster.local.count} nodes")
    for replica, pid in cluster.strangers().items():
        say(f"node {replica} was started by hand, process {pid}: it ends with the others")


class News:
    """What has changed from one sight of a cluster to the next, in words."""

    def __init__(self, cluster: DevCluster) -> None:
        self._local = cluster.local
        self._last: Sight | None = None
        self._runners: dict[int, int] = {}
        """The last process of each member."""
        self._answering: dict[int, int] = {}
        """The last process of each member that answered."""
        self._is_ready = False

    def of(self, sight: Sight) -> list[str]:
        """Since the last one; at first, who is not there."""
        last, self._last = self._last, sight
        lines = []
        for replica, row in enumerate(sight.rows):
            was_reachable = last is None or last.rows[replica]["reachable"]
            was_down = last is not None and replica in last.down
            if replica in sight.down and not was_down:
                lines.append(f"node {replica} is down: {self._end_of(replica)}")
            elif not row["reachable"] and was_reachable and replica not in sight.down:
                lines.append(f"node {replica} does not answer")
            elif row["reachable"] and not was_reachable:
                lines.append(f"node {replica} is back{self._anew(replica, sight.runners[replica])}")
        for replica, runner in enumerate(sight.runners):
            if runner is not None:
                self._runners[replica] = runner
                if sight.rows[replica]["reachable"]:
                    self._answering[replica] = runner
        if sight.primary is None and last is not None and last.primary is not None:
            lines.append("no primary serves")
        elif sight.primary is not None and (last is None or last.primary != sight.primary):
            lines.append(f"node {sight.primary} leads, view {sight.rows[sight.primary]['view']}")
        return lines

    def _anew(self, replica: int, runner: int | None) -> str:
        """The process of a member that answers again, where it is another one than before."""
        if runner is None or runner == self._answering.get(replica, runner):
            return ""
        return f", process {runner}"

    def _end_of(self, replica: int) -> str:
        """How its last process has ended: that of one which was started by hand, nobody here is told."""
        process = self._local.process(replica)
        runner = self._runners.get(replica, process.pid)
        return _end(process.status) if runner == process.pid else f"process {runner} has ended"

    @property
    def down(self) -> tuple[int, ...]:
        """Who was down in the last sight."""
        return self._last.down if self._last is not None else ()

    def ready_line(self, sight: Sight) -> str | None:
        """What scripts wait for, once: when the first primary serves."""
        if self._is_ready or sight.primary is None:
            return None
        self._is_ready = True
        local = self._local
        return f"ready tcp={local.addresses[sight.primary]} nodes={local.count} data={local.root} pid={os.getpid()}"


class Screen:
    """For a terminal: a table that stays where it is, and what has happened above it."""

    def __init__(self, cluster: DevCluster, live: Live) -> None:
        self._cluster = cluster
        self._live = live
        self._news = News(cluster)

    def show(self, sight: Sight) -> None:
        """Bring the terminal up to date."""
        down_before = self._news.down
        for line in self._news.of(sight):
            self._live.console.print(Text.assemble((_now(), "dim"), "  ", line))
        for replica in sight.down:
            if (
                replica not in down_before
            ):  # Above the table, where the terminal wraps it: it can be copied in one piece.
                self._live.console.print(Text(restart_hint(self._cluster, replica), style="cyan"), soft_wrap=True)
        ready = self._news.ready_line(sight)
        if ready is not None:
            self._live.console.print(Text(ready, style="bold"), soft_wrap=True)
        table = standing_table(sight.rows, primary=sight.primary)
        self._live.update(Group("", table, "", *self._hints(sight)), refresh=True)

    def _hints(self, sight: Sight) -> list[Text]:
        waiting = [f"node {row['replica']}: {awaited(row)}" for row in sight.rows if row["waiting"]]
        return [
            *(Text(line, style="yellow") for line in waiting),
            Text("Ctrl-C ends all of it", style="dim"),
        ]


class Lines:
    """For a pipe: the ready line on stdout, what happens on stderr."""

    def __init__(self, cluster: DevCluster) -> None:
        self._cluster = cluster
        self._news = News(cluster)

    def show(self, sight: Sight) -> None:
        """Say what is new."""
        down_before = self._news.down
        for line in self._news.of(sight):
            say(f"{_now()}  {line}")
        for replica in sight.down:
            if replica not in down_before:
                say(f"{_now()}  {restart_hint(self._cluster, replica)}")
        ready = self._news.ready_line(sight)
        if ready is not None:
            sys.stdout.write(f"{ready}\n")
            sys.stdout.flush()


def restart_hint(cluster: DevCluster, replica: int) -> str:
    """How whoever watches starts a node that has ended."""
    command = shlex.join(("levrier", *cluster.local.command(replica)))
    return f"start node {replica} again in another terminal, which gets its log: {command}"


def _end(status: int | None) -> str:
    if status is not None and status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"


def _now() -> str:
    return time.strftime("%H:%M:%S")
