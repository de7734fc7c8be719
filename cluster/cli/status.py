"""`levrier status`: how a node stands."""

from typing import Any

from levrier.cluster.cli.asking import Asking
from levrier.cluster.cli.output import print_json, print_rows, say

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

    `op` is the head of its log, `commit` what is decided, `applied` what its state reflects, `lag` the difference.

    Example: `levrier status --connect 127.0.0.1:8090 --json`
    """
    answer = dict(asking.run(lambda client: client.status()))
    node = _node(answer)
    if asking.as_json:
        print_json({"cluster": answer.get("cluster"), "nodes": [node], "details": answer})
        return
    say(f"cluster {answer.get('cluster')}, levrier {answer.get('version')}, up {answer.get('uptime_seconds')} s")
    print_rows([{field: node[field] for field in NODE_FIELDS}], as_json=False, empty="")


def _node(answer: dict[str, Any]) -> dict[str, object]:
    return {
        **{field: answer.get(field) for field in NODE_FIELDS},
        "role": "primary" if answer.get("is_primary") else "backup",
        "lag": int(answer["commit"]) - int(answer["applied"]),
        "reachable": True,
    }
