"""`python -m tests.cluster.small_node DATA HOST:PORT [LIMIT=NUMBER ...]`: a node with limits of the caller's choice.

The command line has no options for them. Everything else is as there: the ready line, SIGTERM, the exit statuses.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from levrier.cluster.address import Address
from levrier.cluster.boot import BootRefused
from levrier.cluster.config import Member, NodeConfig
from levrier.cluster.node import Node


def main(data: str, listen: str, *limits: str) -> int:
    """Serve until SIGTERM; the exit status."""
    settings: dict[str, Any] = {}
    for limit in limits:
        name, _, value = limit.partition("=")
        settings[name] = int(value) if value.isdigit() else value
    count = settings.get("replica_count", 1)
    if count > 1:
        settings["members"] = tuple(
            Member(name=f"node-{replica}", replica=replica, ip="127.0.0.1", tcp=0, tcp_replica=0)
            for replica in range(count)
        )
    config = NodeConfig(data=Path(data), listen=Address.parse(listen), **settings)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        node = Node(config, on_failure=lambda reason: os._exit(reason.status))
    except BootRefused as error:
        sys.stderr.write(f"{error}\n")
        return int(error.status)
    sys.stdout.write(f"ready tcp={node.address} http=- data={Path(data).absolute()} pid={os.getpid()}\n")
    sys.stdout.flush()
    signal.sigwait({signal.SIGTERM})
    node.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
