"""A cluster of real processes on this machine: its ports, its configuration file, and the processes by replica id.

Behind `levrier dev`, `levrier demo` and `levrier.cluster.testing.Cluster`. Each member has a directory `node-<id>` with its
data, its log (`node.log`) and the id of its process (`node.pid`). A member is always started with the very same command
line, `levrier serve --config FILE --replica-id N`: the first time, after a kill, and after its disk was lost.

Members whose links can be cut have a configuration file each, in which only the replica ports of the others differ. That is
no difference in identity: a member is known by cluster name, replica id, number of replicas and birth, never by an address.
"""

import json
import shutil
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

from levrier.actors.consensus.timeouts import TICK_MILLISECONDS
from levrier.cluster.config import HEARTBEAT_TICKS_MIN
from levrier.cluster.config_values import at_least
from levrier.cluster.links import HOST, Links
from levrier.cluster.process import NodeProcess
from levrier.cluster.refused import ConfigError
from levrier.persistence.data_dir import DataDirectory
from levrier.persistence.errors import DirectoryInUse
from levrier.persistence.storage import DiskStorage

NODES_MAX: Final = 32
PORTS_PER_NODE: Final = 10
"""With a base port P, node i has P + 10 i for clients, P + 10 i + 1 for HTTP and P + 10 i + 2 for replicas (design 9)."""

_REPLICA: Final = 2
HEARTBEAT: Final = "2 s"
"""The shortest that a node accepts: four heartbeats."""

_LOG: Final = "node.log"
_PID: Final = "node.pid"


Setting: TypeAlias = str | int | float | bool | Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPorts:
    """Where a member listens, on the loopback address."""

    tcp: int
    replica: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """What the members are told. `heartbeat` bounds how long a dead primary goes unnoticed."""

    name: str = "local"
    count: int = 3
    heartbeat: str = HEARTBEAT
    username: str = "iggy"
    password: str = "iggy"
    base_port: int | None = None
    """None: free ports that the system chooses."""

    settings: Mapping[str, Setting] = field(default_factory=dict)
    """More of the configuration file, by dotted key: `{"metadata.journal_slots": 1024}`."""

    with_links: bool = False
    """Whether links go through proxies, so that they can be cut."""

    def __post_init__(self) -> None:
        if not 1 <= self.count <= NODES_MAX:
            raise ConfigError(f"{self.count} nodes: 1 to {NODES_MAX} are allowed")
        at_least(self.heartbeat, "heartbeat", 1_000 * TICK_MILLISECONDS * HEARTBEAT_TICKS_MIN)
        if self.base_port is not None:
            last = self.base_port + PORTS_PER_NODE * (self.count - 1) + _REPLICA
            if self.base_port < 1 or last > 65_535:
                raise ConfigError(f"base port {self.base_port}: the ports up to {last} have to lie in 1 to 65535")

    def ports(self) -> tuple[MemberPorts, ...]:
        """The ports of the members by id."""
        if self.base_port is not None:
            firsts = [self.base_port + PORTS_PER_NODE * replica for replica in range(self.count)]
            return tuple(MemberPorts(tcp=first, replica=first + _REPLICA) for first in firsts)
        free = free_ports(2 * self.count)
        return tuple(MemberPorts(tcp=free[2 * each], replica=free[2 * each + 1]) for each in range(self.count))

    @property
    def environment(self) -> Mapping[str, str]:
        """The first user, as a node reads it."""
        return {"IGGY_ROOT_USERNAME": self.username, "IGGY_ROOT_PASSWORD": self.password}


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. Held together while they are picked, so that they differ."""
    with ExitStack() as held:
        ports = []
        for _ in range(count):
            listener = held.enter_context(socket.socket())
            listener.bind((HOST, 0))
            ports.append(listener.getsockname()[1])
        return ports


def config_text(plan: ClusterPlan, ports: Sequence[MemberPorts], data: Path) -> str:
    """The configuration file of a cluster whose members have these ports and data below `data`."""
    tables: dict[str, dict[str, Setting]] = {
        "cluster": {
            "name": plan.name,
            "heartbeat_timeout": plan.heartbeat,
            "view_change_timeout": plan.heartbeat,
        },
        "system": {"path": str(data)},
    }
    for key, value in plan.settings.items():
        table, _, name = key.rpartition(".")
        tables.setdefault(table, {})[name] = value
    lines = []
    for table, entries in tables.items():
        lines += [f"[{table}]", *(f"{name} = {_toml(value)}" for name, value in entries.items()), ""]
    for replica, each in enumerate(ports):
        lines += [
            "[[cluster.nodes]]",
            f'name = "node-{replica}"',
            f'ip = "{HOST}"',
            f"replica_id = {replica}",
            f"ports = {{ tcp = {each.tcp}, tcp_replica = {each.replica} }}",
            "",
        ]
    return "\n".join(lines)


def _toml(value: Setting) -> str:
    """Texts, numbers, switches and lists of texts are written in TOML as they are in JSON."""
    return json.dumps(value, ensure_ascii=False)


class LocalCluster:
    """The members below `root`. Nothing runs until `start`; `stop` ends every process and keeps the files."""

    def __init__(self, root: Path, plan: ClusterPlan) -> None:
        self.root = root.absolute()
        self.plan = plan
        self._ports = plan.ports()
        self._links: Links | None = None
        self._processes: dict[int, NodeProcess] = {}
        self._noted: dict[int, int] = {}
        """What the files with process ids say."""

    @property
    def count(self) -> int:
        """How many members it has."""
        return self.plan.count

    @property
    def ports(self) -> tuple[MemberPorts, ...]:
        """Where the members listen, by replica id."""
        return self._ports

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where clients connect, by replica id."""
        return tuple(f"{HOST}:{each.tcp}" for each in self._ports)

    @property
    def links(self) -> Links:
        """The ways between the members, of a plan `with_links`."""
        assert self._links is not None, "the links of this cluster are direct, or it does not run"
        return self._links

    def start(self) -> None:
        """Start every member; returns when each listens. Raises `NodeDidNotStart`, and then none of them runs."""
        try:
            if self.plan.with_links:
                self._links = Links([each.replica for each in self._ports], taken=[each.tcp for each in self._ports])
            for replica in range(self.count):
                self.directory(replica).mkdir(parents=True, exist_ok=True)
                self.config_file(replica).write_text(self._config(replica), encoding="utf-8")
            for replica in range(self.count):
                self._spawn(replica)
            for process in self._processes.values():
                process.wait_until_ready()
        except BaseException:
            self.stop(kill=True)
            raise

    def process(self, replica: int) -> NodeProcess:
        """The process of a member, the last one if it has ended. Raises `ConfigError` for an id that there is not."""
        if replica not in self._processes:
            raise ConfigError(f"replica {replica}: the cluster has 0 to {self.count - 1}")
        return self._processes[replica]

    def running(self, replica: int) -> bool:
        """Whether a process of it is there, whoever started it; one that is paused is."""
        return self.runner(replica) is not None

    def runner(self, replica: int) -> int | None:
        """The id of the process that runs a member now; None if there is none.

        It is ours, or that of whoever started the member by hand: the lock of its directory names it.
        """
        process = self.process(replica)
        if process.running:
            return process.pid
        try:
            DataDirectory.check_unused(DiskStorage(), self.directory(replica))
        except DirectoryInUse as error:
            return error.pid
        return None

    def strangers(self) -> dict[int, int]:
        """Members that run in a process which somebody else has started: its id by replica id."""
        runners = {replica: self.runner(replica) for replica in self._processes}
        return {
            replica: pid for replica, pid in runners.items() if pid is not None and pid != self._processes[replica].pid
        }

    def note_runners(self) -> tuple[int | None, ...]:
        """Who runs each member now, by replica id. The files with their process ids are brought up to date."""
        runners = tuple(self.runner(replica) for replica in range(self.count))
        for replica, pid in enumerate(runners):
            if pid is None:
                self._forget(replica)
            else:
                self._note(replica, pid)
        return runners

    def kill(self, replica: int) -> None:
        """kill -9; returns when it is gone."""
        self.process(replica).kill()
        self._forget(replica)

    def end(self, replica: int) -> int:
        """SIGTERM; its exit status."""
        status = self.process(replica).end()
        self._forget(replica)
        return status

    def restart(self, replica: int) -> None:
        """Start it with the same command line, after its end if it still runs. Raises `NodeDidNotStart`."""
        self.end(replica)
        self._spawn(replica)
        self.process(replica).wait_until_ready()

    def wipe(self, replica: int) -> None:
        """It loses its disk: killed, and everything in its directory is gone but its log."""
        self.kill(replica)
        for entry in self.directory(replica).iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != _LOG:
                entry.unlink()

    def stop(self, *, kill: bool = False) -> tuple[int, ...]:
        """End all of them, at the same time; their exit statuses by id. Safe to repeat."""
        processes = dict(self._processes)
        for process in processes.values():
            (process.kill if kill else process.ask_to_end)()
        statuses = tuple(process.end() for process in processes.values())
        for replica in processes:
            self._forget(replica)
        if self._links is not None:
            self._links.stop()
        return statuses

    def directory(self, replica: int) -> Path:
        """Where the files of a member lie."""
        return self.root / f"node-{replica}"

    def log(self, replica: int) -> Path:
        """What a member says."""
        return self.directory(replica) / _LOG

    def pid_file(self, replica: int) -> Path:
        """Holds the process id of a member while it runs."""
        return self.directory(replica) / _PID

    def config_file(self, replica: int) -> Path:
        """The configuration of a member: one file for all, save where each dials ports of its own."""
        return self.root / (f"node-{replica}.toml" if self.plan.with_links else "cluster.toml")

    def command(self, replica: int) -> tuple[str, ...]:
        """The arguments behind `levrier` that start this member."""
        return ("serve", "--config", str(self.config_file(replica)), "--replica-id", str(replica))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _spawn(self, replica: int) -> None:
        _, *arguments = self.command(replica)
        process = NodeProcess(arguments, log=self.log(replica), environment=self.plan.environment)
        self._processes[replica] = process
        self._note(replica, process.pid)

    def _note(self, replica: int, pid: int) -> None:
        if self._noted.get(replica) != pid:
            self.pid_file(replica).write_text(f"{pid}\n", encoding="ascii")
            self._noted[replica] = pid

    def _forget(self, replica: int) -> None:
        """Its process is gone, and its id may be given to another."""
        self.pid_file(replica).unlink(missing_ok=True)
        self._noted.pop(replica, None)

    def _config(self, replica: int) -> str:
        ports = list(self._ports)
        if self._links is not None:
            for target in range(replica + 1, self.count):
                ports[target] = replace(ports[target], replica=self._links.port(replica, target))
        data = self.root if self.count > 1 else self.directory(0)  # A node of its own takes the path as it is.
        return config_text(self.plan, ports, data)
