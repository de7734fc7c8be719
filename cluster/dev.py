"""A throw-away cluster on this machine, watched until somebody ends it: behind `levrier dev`.

The members are processes of their own. One that ends is not started again: it is shown as down, and whoever tries out what a
cluster does starts it with the command line that it had. It is then no child of this process, but a member as before: the lock
of its directory names it, and it ends with the others. A lock on the whole directory keeps a second cluster away.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from levrier.cluster.links import HOST
from levrier.cluster.local_cluster import ClusterPlan, LocalCluster
from levrier.cluster.process import ask_stranger_to_end, wait_for_stranger
from levrier.cluster.refused import Refused
from levrier.cluster.standing import Row, rows
from levrier.cluster.watch import ClusterWatch, NodeStanding, as_user, serving
from levrier.persistence.data_dir import DataDirectory
from levrier.persistence.errors import DirectoryInUse
from levrier.persistence.storage import DiskStorage, Lock

LOCK: Final = "dev.lock"
ASK_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 0.25


class DevRefused(Refused):
    """The directory or a port is somebody else's. The message says whose, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The cluster at one moment. `rows` as in `levrier status`; `primary` is who serves."""

    rows: tuple[Row, ...]
    primary: int | None
    runners: tuple[int | None, ...]
    """The id of the process of each member, whoever started it; None if there is none."""

    @property
    def down(self) -> tuple[int, ...]:
        """Members that have no process and that nobody reaches."""
        return tuple(
            replica
            for replica, (row, runner) in enumerate(zip(self.rows, self.runners, strict=True))
            if runner is None and not row["reachable"]
        )


class DevCluster:
    """The directory is locked, and the ports are free, once it is made. Raises `DevRefused`."""

    def __init__(self, root: Path, plan: ClusterPlan) -> None:
        self.local = LocalCluster(root, plan)
        self._lock = hold(self.local)
        self._has_started = False

    def start(self) -> None:
        """Start every member. Raises `NodeDidNotStart`, and then none of them runs."""
        self.local.start()
        self._has_started = True

    def strangers(self) -> dict[int, int]:
        """Members that somebody has started anew by hand: their process ids by replica id."""
        return self.local.strangers() if self._has_started else {}

    def close(self) -> dict[int, int]:
        """End every member that still runs, and release the directory. Gives the strangers that this user may not end."""
        try:
            strangers = self.strangers()
            left = {replica: pid for replica, pid in strangers.items() if not ask_stranger_to_end(pid)}
            self.local.stop()
            for replica, pid in strangers.items():
                if replica not in left:
                    wait_for_stranger(pid, partial(self._runs, replica, pid))
            return left
        finally:
            self._lock.close()

    def _runs(self, replica: int, pid: int) -> bool:
        return self.local.runner(replica) == pid

    def watch(self) -> ClusterWatch:
        """Asks all of them."""
        plan = self.local.plan
        login = as_user(plan.username, plan.password)
        return ClusterWatch(self.local.addresses, login=login, deadline_seconds=ASK_SECONDS)

    def sight(self, standings: tuple[NodeStanding, ...]) -> Sight:
        """What is seen of it, given what each said."""
        addresses = self.local.addresses
        seen = rows(standings, [{"replica": replica, "tcp": address} for replica, address in enumerate(addresses)])
        return Sight(rows=seen, primary=serving(standings), runners=self.local.note_runners())


def hold(cluster: LocalCluster) -> Lock:
    """Lock the directory. Raises `DevRefused` for another `levrier dev`, and for nodes that one left behind."""
    storage = DiskStorage()
    storage.make_directory(cluster.root)
    try:
        lock = storage.lock(cluster.root / LOCK)
    except DirectoryInUse as error:
        raise DevRefused(
            f"{cluster.root}: another levrier dev, process {error.pid}, runs there; end it, or name another --data"
        ) from error
    try:
        for replica in range(cluster.count):
            _check_unused(storage, cluster, replica)
        _check_ports(cluster)
    except BaseException:
        lock.close()
        raise
    return lock


def _check_unused(storage: DiskStorage, cluster: LocalCluster, replica: int) -> None:
    """A node outlives a parent that was killed with -9."""
    directory = cluster.directory(replica)
    try:
        DataDirectory.check_unused(storage, directory)
    except DirectoryInUse as error:
        raise DevRefused(
            f"{directory}: a node of an earlier levrier dev still runs there, process {error.pid}; "
            f"end it with `kill {error.pid}`, or name another --data"
        ) from error


def _check_ports(cluster: LocalCluster) -> None:
    for replica, ports in enumerate(cluster.ports):
        for what, port in (("clients", ports.tcp), ("replicas", ports.replica)):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((HOST, port))
                except OSError as error:
                    raise DevRefused(
                        f"port {port}, where node {replica} is to listen for {what}: {os.strerror(error.errno or 0)}; "
                        "choose another --base-port"
                    ) from error


async def look_until_ended(dev: DevCluster, show: Callable[[Sight], None]) -> None:
    """Show how the cluster stands, again and again, until SIGINT or SIGTERM."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    starting = asyncio.create_task(asyncio.to_thread(dev.start))
    ending = asyncio.create_task(ended.wait())
    try:
        await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
        await starting  # A cluster that is asked to end while it starts is ended when all of it is there.
        async with dev.watch() as watch:
            while not ended.is_set():
                asking = asyncio.create_task(watch.ask())
                await asyncio.wait([asking, ending], return_when=asyncio.FIRST_COMPLETED)
                if not asking.done():
                    asking.cancel()
                    await asyncio.gather(asking, return_exceptions=True)
                    return
                show(dev.sight(asking.result()))
                await asyncio.wait([ending], timeout=LOOK_SECONDS)
    finally:
        ending.cancel()
