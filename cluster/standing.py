"""How a whole cluster stands: one row for each node, whether it answers or not, as `levrier status` and `levrier dev` show it.

Whoever asks knows one address. The node there tells the roster, and then every other node of it is asked.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from levrier.cluster.client_tls import ClientTls
from levrier.cluster.watch import ClusterWatch, Login, NodeStanding, serving

OTHERS_SECONDS: Final = 3.0
"""How long the others may take: a node that stands still holds the answer of all for no longer."""

SETTLE_SECONDS: Final = 0.6
"""Our own logins are operations, of whose commit a backup hears with the next heartbeat, in half a second at most."""

FIELDS: Final = (
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
    "waiting",
    "waiting_for",
)
"""What a row says, in this order. `op` is the head of the log, `commit` what is decided, `applied` what the state reflects,
`lag` how many operations that any node knows to be decided it has yet to apply; `waiting` what it waits for, in words;
`waiting_for` the names of the members that it waits for, where a quorum is lost. What an unreachable node would have said is
None."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStanding:
    """Every node of the roster, by replica id."""

    cluster: str | None
    nodes: tuple[NodeStanding, ...]
    rows: tuple[Row, ...]
    asked: NodeStanding
    """The node whose address was known."""

    @property
    def primary(self) -> int | None:
        """The replica id of the node that leads and serves; None when there is none."""
        return serving(self.nodes)


async def survey(address: str, *, login: Login, seconds: float, tls: ClientTls | None = None) -> ClusterStanding:
    """Ask the node at `address`, then those that its roster names. `asked` says whether it answered, or why it did not.

    `seconds` is how long each call to it may take; the others have at most `OTHERS_SECONDS`.
    """
    async with ClusterWatch([address], login=login, deadline_seconds=seconds, tls=tls) as first:
        (asked,) = await first.ask()
        if not asked.facts and asked.reachable:
            (again,) = await first.ask()  # It answers, and did not let us in: it may have seen why by now.
            asked = again if again.facts else asked
        roster = _roster(asked)
        own = asked.facts.get("replica", 0)
        others = [member["tcp"] for member in roster if member["replica"] != own]
        async with ClusterWatch(others, login=login, deadline_seconds=min(seconds, OTHERS_SECONDS), tls=tls) as rest:

            async def ask() -> ClusterStanding:
                answers = iter(await rest.ask())
                nodes = tuple(asked if member["replica"] == own else next(answers) for member in roster)
                return ClusterStanding(
                    cluster=asked.facts.get("cluster"), nodes=nodes, rows=rows(nodes, roster), asked=asked
                )

            found = await ask()
            if any(0 < (row["lag"] or 0) <= len(roster) for row in found.rows):
                await asyncio.sleep(SETTLE_SECONDS)
                (again,) = await first.ask()
                asked = again if again.facts else asked
                found = await ask()
    return found


def awaited(row: Row) -> str:
    """What a node waits for, and who keeps it waiting: `waiting for quorum: 1 of 3, node-1 and node-2 do not answer`."""
    names = row["waiting_for"] or ()
    if not names:
        return str(row["waiting"] or "")
    *first, last = names
    who = f"{', '.join(first)} and {last} do" if first else f"{last} does"
    return f"{row['waiting']}, {who} not answer"


def rows(nodes: Sequence[NodeStanding], roster: Sequence[Row]) -> tuple[Row, ...]:
    """A row for each node. `roster` says what is known of it without its answer."""
    decided = max((int(node.facts.get("commit", 0)) for node in nodes), default=0)
    return tuple(_row(node, member, decided) for node, member in zip(nodes, roster, strict=True))


def _row(node: NodeStanding, member: Row, decided: int) -> Row:
    facts = {**node.facts, "replica": member["replica"], "tcp": member["tcp"], "reachable": node.reachable}
    facts["http"] = facts.get("http") or member.get("http")
    facts["waiting"] = node.waiting or None
    facts["waiting_for"] = facts.get("waiting_for") or None
    if node.facts:
        facts["lag"] = max(0, decided - int(facts["applied"]))
    return {name: facts.get(name) for name in FIELDS}


def _roster(asked: NodeStanding) -> Sequence[Row]:
    """What the node says; a node of its own, or one that said nothing, is all there is."""
    alone = [{"replica": asked.facts.get("replica"), "tcp": asked.facts.get("tcp", asked.address)}]
    return asked.facts.get("roster") or alone
