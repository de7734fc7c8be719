"""Real nodes for tests: one inside the test process, or a cluster of processes that can be killed, paused and cut.

    with Server() as server:
        client = IggyClient(server.address)      # any Iggy SDK
        ...

    with Cluster(nodes=3) as cluster:
        client = IggyClient(cluster.address(0))
        ...
        cluster.kill(cluster.primary())
        cluster.wait_for_primary()
        ...

Both serve when their constructor returns. Several run side by side. `stop` (or leaving the block) ends threads, processes and
sockets and removes the directory.
"""

import asyncio
import atexit
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from levrier.cluster.address import Address
from levrier.cluster.background import BackgroundLoop
from levrier.cluster.boot import with_port
from levrier.cluster.config import NodeConfig, RootUser
from levrier.cluster.config_file import plugin_setups
from levrier.cluster.local_cluster import HEARTBEAT, ClusterPlan, LocalCluster, Setting
from levrier.cluster.node import Node
from levrier.cluster.watch import ClusterWatch, NodeStanding, as_user, serving

WAIT_SECONDS: Final = 60.0
_ASK_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.05


class Server:
    """One ephemeral node. `data` is a directory of your own for its files; it is then not removed.

    `config` sets limits of the node; its address and directory are replaced. `plugins` are the tables of installed plugins, as
    `[plugins]` of the configuration has them: `{"mine": {"interval": "1 s"}}`. Raises `BootRefused` and `ConfigError`.
    """

    def __init__(
        self,
        *,
        username: str = "iggy",
        password: str = "iggy",
        port: int = 0,
        data: Path | None = None,
        config: NodeConfig | None = None,
        plugins: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.username = username
        self.password = password
        config = config if config is not None else NodeConfig()
        if plugins is not None:
            running, others = plugin_setups(plugins)
            config = replace(config, plugins=running, other_plugins=others)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="levrier-")
            data = Path(self._temporary.name) / "node"
        self.data = data
        self._stopped = False
        config = replace(
            config,
            data=data,
            listen=Address(port=port),
            root=RootUser(username=username, password=password),
        )
        try:
            self._node: Node | None = Node(config)
        except BaseException:
            self._remove()
            raise
        self._config = with_port(config, self._node.address.port)

    @property
    def host(self) -> str:
        """The address it listens on."""
        return self._config.listen.host

    @property
    def port(self) -> int:
        """The port that it got; a restart keeps it."""
        return self._config.listen.port

    @property
    def address(self) -> str:
        """`host:port`."""
        return str(self._config.listen)

    @property
    def connection_string(self) -> str:
        """What the SDKs take: transport, credentials and address in one."""
        return f"iggy+tcp://{self.username}:{self.password}@{self.address}"

    @property
    def running(self) -> bool:
        """Whether it serves: it was not stopped, and it did not fail."""
        return self._node is not None and self._node.failure is None

    def restart(self) -> None:
        """Stop it and boot it anew: same directory, same port. A server that was stopped for good cannot."""
        if self._stopped:
            raise RuntimeError("this server was stopped, and its directory with it: make another one")
        self._end()
        self._node = Node(self._config)

    def stop(self) -> None:
        """End it without a trace. Safe to repeat."""
        self._stopped = True
        self._end()
        self._remove()

    def __repr__(self) -> str:
        return f"Server({self.address}, {'running' if self.running else 'stopped'})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _end(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            node.stop()

    def _remove(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()


class Cluster:
    """Nodes in processes of their own, on this machine, whose links can be cut. Nodes are named by replica id, from 0.

    `heartbeat` bounds how long a dead primary goes unnoticed, "2 s" at the least. `settings` are further keys of the
    configuration file, such as `{"metadata.journal_slots": 1024, "plugins.keeper.streams": ["a", "b"]}`; plugins are found as in
    this process, by `PYTHONPATH` also elsewhere. With `base_port` P node i listens on P + 10 i and, for
    replicas, on P + 10 i + 2; else on free ports. `data` is a directory of your own, which is then not removed.

    Methods that wait hold their caller: in a coroutine, `await asyncio.to_thread(cluster.wait_for_primary)`.
    Raises `NodeDidNotStart`, and `TimeoutError` when no primary serves in time.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        username: str = "iggy",
        password: str = "iggy",
        heartbeat: str = HEARTBEAT,
        settings: Mapping[str, Setting] | None = None,
        base_port: int | None = None,
        data: Path | None = None,
    ) -> None:
        plan = ClusterPlan(
            name="of-a-test",
            count=nodes,
            heartbeat=heartbeat,
            username=username,
            password=password,
            base_port=base_port,
            settings=settings if settings is not None else {},
            with_links=True,
        )
        self.username = username
        self.password = password
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="levrier-cluster-")
            data = Path(self._temporary.name)
        self._local = LocalCluster(data, plan)
        self._watch = ClusterWatch(
            self._local.addresses, login=as_user(username, password), deadline_seconds=_ASK_SECONDS
        )
        self._last: tuple[NodeStanding, ...] = ()
        self._background = BackgroundLoop("levrier-cluster-watch")
        atexit.register(self.stop)
        try:
            self._local.start()
            self.wait_for_primary()
        except BaseException:
            self.stop()
            raise

    # Who is there.

    @property
    def nodes(self) -> int:
        """How many nodes it has."""
        return self._local.count

    @property
    def addresses(self) -> tuple[str, ...]:
        """`host:port` for clients, by replica id. They stay the same."""
        return self._local.addresses

    def address(self, replica: int) -> str:
        """`host:port` of one node for clients."""
        self._local.process(replica)
        return self.addresses[replica]

    def connection_string(self, replica: int) -> str:
        """What the SDKs take: transport, credentials and address in one."""
        return f"iggy+tcp://{self.username}:{self.password}@{self.address(replica)}"

    def data(self, replica: int) -> Path:
        """Where the files of a node lie."""
        return self._local.directory(replica)

    def log(self, replica: int) -> str:
        """What a node has logged, over all its lives."""
        return self._local.log(replica).read_text(encoding="utf-8", errors="replace")

    def pid(self, replica: int) -> int:
        """The process id of a node."""
        return self._local.process(replica).pid

    def running(self, replica: int) -> bool:
        """Whether its process is there; one that is paused is."""
        return self._local.running(replica)

    # What happens to them.

    def kill(self, replica: int) -> None:
        """kill -9; returns when it is gone."""
        self._local.kill(replica)

    def end(self, replica: int) -> int:
        """SIGTERM; its exit status."""
        return self._local.end(replica)

    def restart(self, replica: int) -> None:
        """Start it with the same command line, after a clean end if it still runs; returns when it listens."""
        self._local.restart(replica)

    def wipe(self, replica: int) -> None:
        """It loses its disk: killed, and its files are gone. `restart` starts it blank, with the same command line."""
        self._local.wipe(replica)

    def pause(self, replica: int) -> None:
        """SIGSTOP: it stands still, and its sockets stay open."""
        self._local.process(replica).pause()

    def resume(self, replica: int) -> None:
        """SIGCONT."""
        self._local.process(replica).resume()

    def cut(self, source: int, target: int, *, one_way: bool = False) -> None:
        """Nothing passes between these two; `one_way`: nothing from `source` to `target`. Neither of them is told."""
        self._pair(source, target)
        self._local.links.cut(source, target)
        if not one_way:
            self._local.links.cut(target, source)

    def isolate(self, replica: int) -> None:
        """Cut every link of a node. Clients still reach it."""
        for other in self._others(replica):
            self.cut(replica, other)

    def heal(self, source: int | None = None, target: int | None = None) -> None:
        """Let everything pass again: everywhere, at one node (whichever of the two names it), or between two."""
        if source is not None and target is not None:
            pairs = [(source, target)]
        else:
            at = target if source is None else source
            pairs = [
                (one, other) for one in (range(self.nodes) if at is None else (at,)) for other in self._others(one)
            ]
        for one, other in pairs:  # All of them, before any is healed.
            self._pair(one, other)
        for one, other in pairs:
            self._local.links.mend(one, other)
            self._local.links.mend(other, one)

    def reset(self, one: int, other: int) -> None:
        """Break the connection between two; both are told and dial again."""
        self._pair(one, other)
        self._local.links.reset(one, other)

    # How they stand.

    def status(self) -> tuple[NodeStanding, ...]:
        """What each node says of itself now, by replica id; `facts` are those of `levrier status --json`."""
        return self._background.run(self._watch.ask(), seconds=WAIT_SECONDS)

    def primary(self) -> int | None:
        """The node that leads and serves now, None when there is none."""
        return serving(self.status())

    def wait_for_primary(self, *, other_than: int | None = None, seconds: float = WAIT_SECONDS) -> int:
        """The node that leads and serves, once there is one. Raises `TimeoutError`, which says how each node stands."""

        def found(standings: Sequence[NodeStanding]) -> int | None:
            leader = serving(standings)
            return None if leader == other_than else leader

        self._wait(lambda standings: found(standings) is not None, "no primary serves", seconds)
        leader = found(self._last)
        assert leader is not None
        return leader

    def wait_until_caught_up(self, replica: int, *, seconds: float = WAIT_SECONDS) -> None:
        """Return when a node has applied what was decided, as far as any node knew, when this was called. Raises `TimeoutError`."""
        standings = self.status()
        goal = max(int(standing.facts.get("commit", 0)) for standing in standings)
        view = max(standing.view for standing in standings)

        def is_there(standings: Sequence[NodeStanding]) -> bool:
            own = standings[replica]
            if not own.facts or own.waiting or own.view < view:
                return False
            return int(own.facts["applied"]) >= goal

        self._wait(is_there, f"replica {replica} has not caught up with op {goal}", seconds)

    def stop(self) -> None:
        """End it without a trace. Safe to repeat."""
        atexit.unregister(self.stop)
        self._local.stop(kill=True)
        if self._background.running:
            self._background.run(self._watch.close(), seconds=WAIT_SECONDS)
            self._background.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __repr__(self) -> str:
        return f"Cluster({', '.join(self.addresses)})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _others(self, replica: int) -> list[int]:
        return [other for other in range(self.nodes) if other != replica]

    def _pair(self, one: int, other: int) -> None:
        self._local.process(one)
        self._local.process(other)
        if one == other:
            raise ValueError(f"replica {one} has no link to itself")

    def _wait(self, condition: Callable[[Sequence[NodeStanding]], bool], complaint: str, seconds: float) -> None:
        async def poll() -> None:
            while True:
                self._last = await self._watch.ask()
                if condition(self._last):
                    return
                await asyncio.sleep(_POLL_SECONDS)

        try:
            self._background.run(poll(), seconds=seconds)
        except TimeoutError:
            said = "\n".join(_said(replica, standing) for replica, standing in enumerate(self._last))
            raise TimeoutError(f"{complaint} after {seconds:g} s\n{said}") from None


def _said(replica: int, standing: NodeStanding) -> str:
    if not standing.facts:
        return f"replica {replica} at {standing.address}: {standing.error}"
    facts = ", ".join(f"{name} {standing.facts.get(name)}" for name in ("role", "view", "op", "commit", "applied"))
    return f"replica {replica} at {standing.address}: {facts}{', ' if standing.waiting else ''}{standing.waiting}"
