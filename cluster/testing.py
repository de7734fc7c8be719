"""A real node inside a test process: port 0, a temporary directory, ready when the constructor returns.

    with Server() as server:
        client = IggyClient(server.address)      # any Iggy SDK
        ...

Several run side by side in one process. `restart` boots anew from the same directory on the same port, as after a clean
stop; what was acknowledged is there. `stop` (or leaving the block) ends threads and sockets and removes the directory.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from levrier.cluster.boot import with_port
from levrier.cluster.config import Address, NodeConfig, RootUser
from levrier.cluster.node import Node


class Server:
    """One ephemeral node. `data` is a directory of your own for its files; it is then not removed.

    `config` sets limits of the node; its address and directory are replaced. Raises `BootRefused`.
    """

    def __init__(
        self,
        *,
        username: str = "iggy",
        password: str = "iggy",
        port: int = 0,
        data: Path | None = None,
        config: NodeConfig | None = None,
    ) -> None:
        self.username = username
        self.password = password
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="levrier-")
            data = Path(self._temporary.name) / "node"
        self.data = data
        self._stopped = False
        config = replace(
            config if config is not None else NodeConfig(),
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
