"""`levrier status`: how a node stands."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from levrier.cluster.cli.asking import Asking
from levrier.cluster.cli.output import print_json, print_rows, say
from levrier.cluster.client import Disconnected

NODE_FIELDS = (
    "replica",
    "role",
    "tcp",
    "http",
    "pid",
    "view",
    "op",
    "commit",
    "applied",
    "checkpoint",
    "lag",
    "reachable",
)


def status(asking: Asking) -> None:
    """Say how a node stands: its role, its log, its checkpoint.

    `op` is the head of its log, `commit` what is decided, `applied` what its state reflects, `lag` the operations in
    between. A node that cannot be reached is listed as such, and the exit status is 2. A member that waits for others lets
    nobody log in; it says what it waits for to whoever asks.

    Example: `levrier status --connect 127.0.0.1:8090 --json`
    """
    address = str(asking.address)
    try:
        early = asking.run_before_login(lambda client: client.status())
        answer = dict(early if early is not None else asking.run(lambda client: client.status()))
    except Disconnected:
        _show(asking, {"tcp": address, "reachable": False}, {})
        raise
    if not asking.as_json:
        uptime = timedelta(seconds=answer["uptime_seconds"])
        say(f"cluster {answer['cluster']}, levrier {answer['version']}, up {uptime}")
        if answer.get("waiting"):
            say(answer["waiting"])
    _show(asking, {**answer, "reachable": True}, answer)


def _show(asking: Asking, node: Mapping[str, Any], details: Mapping[str, Any]) -> None:
    row = {field: node.get(field) for field in NODE_FIELDS}
    if asking.as_json:
        print_json({"cluster": details.get("cluster"), "nodes": [row], "details": details})
    else:
        print_rows([row], as_json=False, empty="")
