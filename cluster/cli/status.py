"""`levrier status`: how every node of a cluster stands."""

import asyncio
from datetime import timedelta
from typing import Any, Final

from levrier.cluster.cli.asking import Asking
from levrier.cluster.cli.output import CommandFailed, print_json, print_table, say
from levrier.cluster.cli.standing_table import standing_table
from levrier.cluster.standing import ClusterStanding, awaited, survey

_TROUBLED: Final = frozenset({"blocked", "restarting", "broken"})
"""States of a plugin that an operator should hear of."""


def status(asking: Asking) -> None:
    """Say how each node of the cluster stands: its role, its log, its checkpoint, and what it waits for.

    One node is asked, and then every other one that its roster names. `op` is the head of a log, `commit` what is decided,
    `applied` what the state reflects, `lag` how many decided operations are not applied there yet.

    Where a quorum is lost, the members that a node waits for are named; in JSON they are in `waiting_for`.

    The exit status is 0 if a primary serves, 1 if none does, 2 if nobody could be asked. A node that cannot be reached is listed as such. Where nobody can log in, because a cluster waits for its members, what they wait for is told without a login.

    Example: `levrier status --connect 127.0.0.1:8090 --json`
    """
    found = asyncio.run(survey(str(asking.address), login=asking.log_in, seconds=asking.timeout, tls=asking.tls))
    _show(asking, found)
    if found.asked.error is not None:
        raise found.asked.error
    if found.primary is None:
        waiting = "; ".join(dict.fromkeys(awaited(row) for row in found.rows if row["waiting"]))
        raise CommandFailed(f"no primary serves{': ' if waiting else ''}{waiting}")


def _show(asking: Asking, found: ClusterStanding) -> None:
    details: dict[str, Any] = dict(found.asked.facts)
    if asking.as_json:
        print_json({"cluster": found.cluster, "nodes": [dict(row) for row in found.rows], "details": details})
        return
    if details:
        uptime = timedelta(seconds=details["uptime_seconds"])
        say(f"cluster {found.cluster}, levrier {details['version']}, up {uptime}")
    for row in found.rows:
        if row["waiting"] and found.primary is not None:
            say(f"replica {row['replica']}: {awaited(row)}")
    for plugin in details.get("plugins", ()):
        if plugin["state"] in _TROUBLED:
            why = f": {plugin['last_error']}" if plugin["last_error"] else ""
            say(f"plugin {plugin['name']} is {plugin['state']}{why}")
    print_table(standing_table(found.rows, primary=found.primary))
