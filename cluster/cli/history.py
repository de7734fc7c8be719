"""`levrier history`: what history may be reclaimed, and who holds it back (acknowledgements 5)."""

from collections.abc import Mapping
from typing import Any

from levrier.cluster.cli.asking import Asking
from levrier.cluster.cli.node_facts import RoughSize
from levrier.cluster.cli.output import CommandFailed, Instant, print_json, print_rows, say


def history(asking: Asking) -> None:
    """Show what every replica says that it has durably applied, and who blocks reclaiming, from which op.

    History is safe to reclaim up to the op that every replica of the membership, and of every membership that a replica
    named, has durably applied. A replica that has said nothing blocks all of it, however long it is silent.

    Example: `levrier history --connect 127.0.0.1:8090 --json`
    """
    found = asking.run(lambda client: client.status()).get("history")
    if not found:
        raise CommandFailed(f"{asking.address} says nothing of its history: is it a levrier that knows of it?")
    if asking.as_json:
        print_json(found)
        return
    say(summary(found))
    if found["archive"] is not None:
        say(kept(found["archive"]))
    rows = [
        {
            "replica": each["replica_id"],
            "node": each["node"],
            "applied": each["applied"] if each["acknowledged"] else None,
            "said_at": Instant(each["produced_at_ms"] * 1_000),
            "blocks_from": each["blocks_from"] or None,
        }
        for each in found["replicas"]
    ]
    print_rows(rows, as_json=False, empty="no replica is required")


def kept(archive: Mapping[str, Any]) -> str:
    """What is kept beside the log, in one sentence."""
    if not archive["segments"]:
        return "nothing is kept beside the log"
    limit = f", above the limit of {RoughSize(archive['limit']).shown()}" if archive["over_limit"] else ""
    return f"ops {archive['first_op']} to {archive['last_op']} are kept beside the log, {RoughSize(archive['bytes']).shown()}{limit}"


def summary(found: Mapping[str, Any]) -> str:
    """The evidence in one sentence."""
    blocking = ", ".join(
        f"{each['node'] or each['replica_id']} from op {each['from_op']}" for each in found["blocking"]
    )
    if found["evidence"] == "blocked":
        return (
            f"nothing may be reclaimed: blocked by {blocking}"
            if blocking
            else "nothing may be reclaimed: no replica is known"
        )
    behind = f"; behind op {found['applied']}: {blocking}" if blocking else ""
    return f"safe to reclaim through op {found['safe_op']}{behind}"
