"""`levrier plugins`: which plugins a node has, and how each fares."""

from collections.abc import Mapping
from typing import Any

from levrier.cluster.cli.asking import Asking
from levrier.cluster.cli.output import CommandFailed, print_json, print_rows


def plugins(asking: Asking) -> None:
    """Show the plugins of a node: those that run, those that are installed and not enabled, and those that cannot be loaded.

    `state` is running, blocked (in one handler for more than five seconds), restarting (it raised and pauses), disabled or
    broken. `committed` counts its submits that this node committed, `waiting` those with a key that it holds. In JSON there
    is more: its metrics, commits that it was not told of because it lagged, and calls that were refused.

    Examples:

    `levrier plugins`

    `levrier plugins --json --connect 127.0.0.1:8090`
    """
    found: list[Mapping[str, Any]] | None = asking.run(lambda client: client.status()).get("plugins")
    if found is None:
        raise CommandFailed(f"{asking.connect} says nothing of plugins: it is of an older version")
    if asking.as_json:
        print_json(found)
        return
    print_rows([_row(plugin) for plugin in found], as_json=False, empty="no plugins")


def _row(plugin: Mapping[str, Any]) -> dict[str, object]:
    return {
        "plugin": plugin["name"],
        "state": plugin["state"],
        "restarts": plugin["restarts"],
        "committed": plugin["committed"],
        "waiting": plugin["keyed_waiting"],
        "last_error": plugin["last_error"],
        "metrics": ", ".join(f"{name} {value:g}" for name, value in sorted(plugin["metrics"].items())),
    }
