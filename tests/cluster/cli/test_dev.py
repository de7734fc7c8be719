"""`levrier dev`: real processes below one directory, what it says while things happen to them, and its end."""

import io
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from rich.live import Live

from levrier.cluster.cli.dev import Lines, News, Screen
from levrier.cluster.dev import DevCluster, DevRefused, Sight
from levrier.cluster.local_cluster import ClusterPlan, LocalCluster, free_ports
from levrier.cluster.process import NodeProcess
from levrier.cluster.standing import FIELDS
from tests.cluster.cli.running import CommandLine
from tests.cluster.processes import ROOT

SECONDS = 60.0


def base_port(nodes: int) -> int:
    """One from which on all ports of a plan are free."""
    for base in free_ports(50):
        if base + 10 * nodes < 65_535 and all(
            is_free(base + 10 * each + more) for each in range(nodes) for more in (0, 2)
        ):
            return base
    raise AssertionError("no base port in fifty tries")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return probe.connect_ex(("127.0.0.1", port)) != 0


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


class Dev:
    """A `levrier dev` of a test, as a script runs it."""

    def __init__(self, data: Path, base: int, *, nodes: int) -> None:
        command = [sys.executable, "-m", "levrier.cluster", "dev", "--data", str(data), "--base-port", str(base)]
        self.popen = subprocess.Popen(
            [*command, "--nodes", str(nodes)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )

        self.last_words = ""
        """What it said on stderr while it ended."""

    def line(self) -> str:
        """The next one on stdout."""
        assert self.popen.stdout is not None
        return self.popen.stdout.readline().rstrip("\n")

    def until(self, text: str) -> str:
        """The first line on stderr with this text in it."""
        assert self.popen.stderr is not None
        for line in self.popen.stderr:
            if text in line:
                return line.rstrip("\n")
        raise AssertionError(f"{text!r} was not said")

    def end(self, number: signal.Signals) -> int:
        """Its exit status."""
        self.popen.send_signal(number)
        _, self.last_words = self.popen.communicate(timeout=SECONDS)
        return self.popen.returncode


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Where the cluster of a test lies."""
    return tmp_path / "cluster"


@pytest.fixture
def spare(data: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that a test leaves behind when it fails."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for popen in started:
        if popen.poll() is None:
            popen.kill()
        popen.communicate()
    for file in data.glob("node-*/node.pid"):
        os.kill(int(file.read_text()), signal.SIGKILL)


@pytest.mark.process
def test_three_nodes_from_the_first_to_the_last(
    data: Path, spare: list[subprocess.Popen[str]], levrier: CommandLine
) -> None:
    """Ready, a second one refused, a node killed and started by the command that is shown, and an end without a trace."""
    base = base_port(3)
    dev = Dev(data, base, nodes=3)
    spare.append(dev.popen)
    ready = re.fullmatch(r"ready tcp=127\.0\.0\.1:(\d+) nodes=3 data=(.+) pid=(\d+)", dev.line())
    assert ready is not None
    assert int(ready[1]) in {base, base + 10, base + 20}
    assert (ready[2], int(ready[3])) == (str(data), dev.popen.pid)
    pids = [int((data / f"node-{each}" / "node.pid").read_text()) for each in range(3)]
    assert all(map(alive, pids))
    assert all((data / f"node-{each}" / "node.log").read_text() for each in range(3))

    second = levrier("dev", "--data", str(data), "--base-port", str(base_port(3)))
    assert second.status == 2
    assert second.complaint.startswith(f"{data}: another levrier dev, process {dev.popen.pid}, runs there; ")

    victim = next(each for each in range(3) if base + 10 * each != int(ready[1]))
    os.kill(pids[victim], signal.SIGKILL)
    assert dev.until("is down").endswith(f"node {victim} is down: killed by SIGKILL")
    hint = dev.until("again in another terminal")
    _, _, command = hint.partition("which gets its log: levrier serve ")
    again = NodeProcess(command.split(), log=data.parent / "terminal.log")
    again.wait_until_ready()
    assert dev.until("is back").endswith(f"node {victim} is back, process {again.pid}")
    assert (data / f"node-{victim}" / "node.pid").read_text() == f"{again.pid}\n"

    again.pause()
    assert dev.until(f"node {victim} ").endswith(f"node {victim} does not answer")
    again.resume()
    assert dev.until(f"node {victim} ").endswith(f"node {victim} is back")
    again.pause()
    assert dev.until(f"node {victim} ").endswith(f"node {victim} does not answer")

    assert dev.end(signal.SIGINT) == 0
    assert f"node {victim} was started by hand, process {again.pid}: it ends with the others\n" in dev.last_words
    assert again.status == 0
    again.end()
    assert not any(map(alive, pids))
    assert list(data.glob("node-*/node.pid")) == []
    assert all(is_free(base + 10 * each + more) for each in range(3) for more in (0, 2))


@pytest.mark.process
def test_it_ends_with_0_also_when_it_is_asked_to_while_it_starts(
    data: Path, spare: list[subprocess.Popen[str]]
) -> None:
    dev = Dev(data, base_port(1), nodes=1)
    spare.append(dev.popen)
    while not (data / "node-0" / "node.pid").exists():
        assert dev.popen.poll() is None
    assert dev.end(signal.SIGTERM) == 0
    assert dev.popen.returncode == 0
    assert list(data.glob("node-*/node.pid")) == []


@pytest.mark.process
def test_a_node_of_a_dev_that_was_killed_is_named_and_left_alone(data: Path, levrier: CommandLine) -> None:
    plan = ClusterPlan(count=1)
    with LocalCluster(data, plan) as left_behind:
        ran = levrier("dev", "--data", str(data), "--nodes", "1", "--base-port", str(base_port(1)))
        pid = left_behind.process(0).pid
        assert ran.status == 2
        assert ran.complaint == (
            f"{data / 'node-0'}: a node of an earlier levrier dev still runs there, process {pid}; "
            f"end it with `kill {pid}`, or name another --data"
        )
        assert left_behind.running(0)


def test_a_port_that_is_taken_is_named_before_anything_starts(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DevRefused, match=f"^port {port}, where node 0 is to listen for clients: .*--base-port"):
            DevCluster(data, ClusterPlan(count=1, base_port=port))
    assert list(data.glob("node-*")) == []
    DevCluster(data, ClusterPlan(count=1)).close()


@pytest.mark.parametrize("command", ["dev", "demo"])
def test_a_heartbeat_that_no_node_accepts_is_misuse(
    levrier: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Said as it was given, before a file is made or a process started."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ran = levrier(command, "--heartbeat", "10ms")
    assert ran.status == 2
    assert ran.complaint == "heartbeat is 10ms: at least 2 s"
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_there_is_misuse(levrier: CommandLine) -> None:
    ran = levrier("dev", "--data", "/proc/nope")
    assert ran.status == 2
    assert ran.complaint.startswith("/proc/nope: cannot be made or written to (")
    assert ran.complaint.endswith("; name a directory that this user may make and write to")


def test_more_ports_than_there_are_is_misuse(levrier: CommandLine) -> None:
    ran = levrier("dev", "--base-port", "65530")
    assert ran.status == 2
    assert "65552" in ran.complaint


# What is said, of clusters that never ran.


@pytest.fixture
def cluster(data: Path) -> Iterator[DevCluster]:
    """Three members; their processes are of no interest here, save that they have ended."""
    made = DevCluster(data, ClusterPlan(count=3, base_port=base_port(3)))
    yield made
    made.close()


def sight(
    *,
    primary: int | None = 0,
    view: int = 0,
    gone: tuple[int, ...] = (),
    waiting: str | None = None,
    names: tuple[str, ...] = (),
    runners: tuple[int | None, ...] = (100, 101, 102),
) -> Sight:
    def row(replica: int) -> dict[str, object]:
        known: dict[str, object] = {"replica": replica, "tcp": f"127.0.0.1:{7000 + replica}"}
        if replica not in gone:
            role = "primary" if replica == primary else "backup"
            known |= {"role": role, "view": view, "op": 9, "commit": 9, "applied": 9, "checkpoint": 0, "lag": 0}
        return {
            **dict.fromkeys(FIELDS),
            **known,
            "reachable": replica not in gone,
            "waiting": waiting,
            "waiting_for": names,
        }

    return Sight(rows=tuple(row(each) for each in range(3)), primary=primary, runners=runners)


def test_only_what_is_new_is_said(cluster: DevCluster) -> None:
    news = News(cluster)
    assert news.of(sight(primary=None)) == []
    assert news.of(sight()) == ["node 0 leads, view 0"]
    assert news.of(sight()) == []
    assert news.of(sight(primary=None, gone=(0,))) == ["node 0 does not answer", "no primary serves"]
    assert news.of(sight(primary=1, view=1, gone=(0,))) == ["node 1 leads, view 1"]
    assert news.of(sight(primary=1, view=1)) == ["node 0 is back"]


@pytest.mark.process
def test_a_member_that_is_started_by_hand_is_known_by_its_own_process(data: Path) -> None:
    """As long as it runs; and of its end nothing is claimed that holds for the process before it."""
    dev = DevCluster(data, ClusterPlan(count=1))
    try:
        dev.start()
        local, news = dev.local, News(dev)
        assert news.of(sight(runners=(*local.note_runners(), 101, 102))) == ["node 0 leads, view 0"]
        local.kill(0)
        by_hand = NodeProcess(local.command(0)[1:], log=data / "terminal.log")
        by_hand.wait_until_ready()
        assert (local.running(0), dev.strangers()) == (True, {0: by_hand.pid})
        assert local.note_runners() == (by_hand.pid,)
        assert local.pid_file(0).read_text() == f"{by_hand.pid}\n"
        assert news.of(sight(gone=(0,), runners=(by_hand.pid, 101, 102))) == ["node 0 does not answer"]
        by_hand.kill()
        assert (local.running(0), dev.strangers()) == (False, {})
        assert local.note_runners() == (None,)
        assert not local.pid_file(0).exists()
        said = news.of(sight(gone=(0,), runners=(None, 101, 102)))
        assert said == [f"node 0 is down: process {by_hand.pid} has ended"]
    finally:
        dev.close()


def test_the_ready_line_comes_once(cluster: DevCluster, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(cluster)
    for each in (sight(primary=None), sight(primary=2), sight(primary=None), sight(primary=1)):
        lines.show(each)
    address = cluster.local.addresses[2]
    assert capsys.readouterr().out == f"ready tcp={address} nodes=3 data={cluster.local.root} pid={os.getpid()}\n"


def test_on_a_terminal_there_is_a_table_and_what_is_waited_for(cluster: DevCluster) -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=110, highlight=False)
    with Live(console=console, auto_refresh=False) as live:
        screen = Screen(cluster, live)
        screen.show(sight())
        screen.show(sight(primary=None, gone=(1, 2), waiting="waiting for quorum: 1 of 3", names=("node-1",)))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.getvalue())
    assert "node 0 leads, view 0" in shown
    assert f"ready tcp={cluster.local.addresses[0]} nodes=3 " in shown
    assert "node 0: waiting for quorum: 1 of 3, node-1 does not answer" in shown
    assert re.search(r"^ *1 +- +127\.0\.0\.1:7001 .* no *$", shown, re.MULTILINE)
    assert "Ctrl-C ends all of it" in shown
