"""The story behind `levrier demo`: three nodes, clients that write all the time, and the primary killed under them.

In each round the primary is killed with -9 somewhere in the middle of a write. The clients keep the login they had and go
on at its successor; meanwhile the dead node is started again by the command it had, and catches up under load. Every write
creates a stream of a name of its own. In the end all nodes are read: each acknowledged name has to be on each of them, once. A
write that got no answer may have been executed or not.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Final

from levrier.cluster.demo import WRITERS, DemoFailed
from levrier.cluster.demo_account import Outcome, Written, compare
from levrier.cluster.demo_clients import CLIENT_ERRORS, USER, Clients, Create, clients
from levrier.cluster.local_cluster import ClusterPlan, LocalCluster
from levrier.cluster.watch import ClusterWatch, NodeStanding, as_user, serving

STEP_SECONDS: Final = 60.0
"""How long each step may take, an election and the way back of a node among them."""

ASK_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.05
_RETRY_SECONDS: Final = 0.05
_SAMPLE_MILLISECONDS: Final = 100


class Step(Enum):
    """What a line of the story tells."""

    PREPARED = "ready"
    WRITING = "writing"
    KILLED = "kill -9"
    ELECTED = "elected"
    RETURNED = "returned"


Tell = Callable[[Step, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One kill. `gap_milliseconds` lies between the last write that the dead primary acknowledged and the first of its successor.

    `pulse` is how many writes were acknowledged in each tenth of a second, `killed_at` in which of them the kill was.
    """

    killed: int
    successor: int
    view_before: int
    view_after: int
    gap_milliseconds: int
    returned_milliseconds: int
    pulse: tuple[int, ...]
    killed_at: int


@dataclass(slots=True, kw_only=True)
class ClusterOutcome(Outcome):
    """The outcome of the whole story, and each kill."""

    nodes: int
    rounds: list[Round] = field(default_factory=list)


async def run_cluster_demo(
    folder: Path, plan: ClusterPlan, *, operations: int, kills: int, tell: Tell
) -> ClusterOutcome:
    """Write at least `operations` streams before and after each of `kills` kills. Raises `DemoFailed`, `NodeDidNotStart`."""
    cluster = LocalCluster(folder, plan)
    kind = clients()
    written = Written()
    outcome = ClusterOutcome(client=kind.name, nodes=plan.count)
    await asyncio.to_thread(cluster.start)
    try:
        async with ClusterWatch(cluster.addresses, login=as_user(USER, USER), deadline_seconds=ASK_SECONDS) as watch:
            story = _Story(cluster, watch, kind, written, operations=operations, tell=tell)
            for number in range(1, kills + 1):
                outcome.rounds.append(await story.round(number))
            await story.settle()
        await compare(cluster.addresses, written, outcome)
    finally:
        await asyncio.to_thread(cluster.stop)
    return outcome


class _Story:
    def __init__(
        self,
        cluster: LocalCluster,
        watch: ClusterWatch,
        kind: Clients,
        written: Written,
        *,
        operations: int,
        tell: Tell,
    ) -> None:
        self._cluster = cluster
        self._watch = watch
        self._kind = kind
        self._written = written
        self._operations = operations
        self._tell = tell
        self._ended = False

    async def round(self, number: int) -> Round:
        """Load, kill, go on, come back."""
        leader, view = await self._primary()
        pids = ", ".join(f"node {each} pid {self._cluster.process(each).pid}" for each in range(self._cluster.count))
        self._tell(Step.PREPARED, f"{pids}; node {leader} leads, view {view}")
        self._ended = False
        others = [replica for replica in range(self._cluster.count) if replica != leader]
        addresses = [self._cluster.addresses[others[each % len(others)]] for each in range(WRITERS)]
        creates = await connect_all(self._kind, addresses)
        began, before = time.monotonic(), len(self._written.acknowledged)
        writers = [
            asyncio.create_task(self._write(f"demo-{number}-{each}", create)) for each, create in enumerate(creates)
        ]
        try:
            await self._acknowledged(before + self._operations, writers)
            rate = (len(self._written.acknowledged) - before) / (time.monotonic() - began)
            self._tell(
                Step.WRITING,
                f"{len(self._written.acknowledged) - before:,} writes acknowledged to {WRITERS} clients, {rate:,.0f}/s",
            )
            await asyncio.sleep(random.random() * 0.02)  # Anywhere inside a write.
            killed = time.monotonic()
            await asyncio.to_thread(self._cluster.kill, leader)
            self._tell(Step.KILLED, f"node {leader}, the primary, in the middle of the load")
            successor, new_view = await self._primary(other_than=leader)
            at_least = len(self._written.acknowledged) + self._operations
            await self._acknowledged(len(self._written.acknowledged) + 1, writers)
            gap = longest_gap(self._written.times, killed)
            self._tell(Step.ELECTED, f"node {successor} leads, view {new_view}; no write for {gap * 1e3:,.0f} ms")
            returned = await self._bring_back(leader)
            await self._acknowledged(at_least, writers)
            self._tell(
                Step.RETURNED,
                f"node {leader}, by the same command; caught up after {returned:.1f} s, under load",
            )
        finally:
            await self._end(writers)
        pulse, killed_at = pulse_of(self._written.times, began, killed)
        return Round(
            killed=leader,
            successor=successor,
            view_before=view,
            view_after=new_view,
            gap_milliseconds=round(gap * 1e3),
            returned_milliseconds=round(returned * 1e3),
            pulse=pulse,
            killed_at=killed_at,
        )

    async def settle(self) -> None:
        """Wait until every node answers and has applied everything that any of them knows to be decided."""
        await self._until(_is_settled, "everything on every node")

    async def _write(self, prefix: str, create: Create) -> None:
        number = 0
        while not self._ended:
            stream = f"{prefix}-{number}"
            number += 1
            self._written.asked(stream)
            try:
                await create(stream)
            except CLIENT_ERRORS:  # Nobody knows what became of it; the client goes on with the next one.
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self._written.answered(stream)

    async def _acknowledged(self, count: int, writers: Sequence["asyncio.Task[None]"]) -> None:
        """Wait until so many writes are acknowledged."""
        deadline = time.monotonic() + STEP_SECONDS
        while len(self._written.acknowledged) < count:
            for writer in writers:
                if writer.done():
                    raise DemoFailed(f"a client gave up: {writer.exception()}") from writer.exception()
            if time.monotonic() > deadline:
                raise DemoFailed(
                    f"no more than {len(self._written.acknowledged)} of {count} writes within {STEP_SECONDS:g} s"
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def _end(self, writers: Sequence["asyncio.Task[None]"]) -> None:
        """Let each client finish the write that it is at."""
        self._ended = True
        _, late = await asyncio.wait(writers, timeout=STEP_SECONDS)
        for writer in late:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)

    async def _primary(self, *, other_than: int | None = None) -> tuple[int, int]:
        """Who serves, and in which view."""
        found: list[tuple[int, int]] = []

        def look(standings: Sequence[NodeStanding]) -> bool:
            leader = serving(standings)
            if leader is None or leader == other_than:
                return False
            found.append((leader, standings[leader].view))
            return True

        await self._until(look, "a primary")
        return found[0]

    async def _bring_back(self, replica: int) -> float:
        """Seconds from its start until it has applied what was decided when it was ready to serve."""
        began = time.monotonic()
        await asyncio.to_thread(self._cluster.restart, replica)
        goal = _decided(await self._watch.ask())
        await self._until(
            lambda standings: int(standings[replica].facts.get("applied", -1)) >= goal, f"node {replica} at op {goal}"
        )
        return time.monotonic() - began

    async def _until(self, condition: Callable[[Sequence[NodeStanding]], bool], what: str) -> None:
        deadline = time.monotonic() + STEP_SECONDS
        while not condition(await self._watch.ask()):
            if time.monotonic() > deadline:
                raise DemoFailed(f"{what} did not come about within {STEP_SECONDS:g} s")
            await asyncio.sleep(_LOOK_SECONDS)


async def connect_all(kind: Clients, addresses: Sequence[str]) -> list[Create]:
    """A client at each address, logged in. Before anybody is killed: the SDK does not try a first login again. Raises
    `DemoFailed`.
    """
    try:
        return await asyncio.gather(*(kind.connect(address) for address in addresses))
    except CLIENT_ERRORS as error:
        raise DemoFailed(f"a client could not log in: {error}") from error


def _is_settled(standings: Sequence[NodeStanding]) -> bool:
    return min(int(standing.facts.get("applied", -1)) for standing in standings) >= _decided(standings)


def _decided(standings: Sequence[NodeStanding]) -> int:
    return max(int(standing.facts.get("commit", 0)) for standing in standings)


def longest_gap(times: Sequence[float], killed: float) -> float:
    """The longest pause around a kill: an answer of the dead primary may still be read a moment later."""
    around = [moment for moment in times if moment > killed - 1.0]
    return max((later - sooner for sooner, later in pairwise(around)), default=0.0)


def pulse_of(times: Sequence[float], began: float, killed: float) -> tuple[tuple[int, ...], int]:
    """Acknowledgements in each tenth of a second from `began` on, and in which of them the kill was."""

    def sample(moment: float) -> int:
        return int((moment - began) * 1e3 / _SAMPLE_MILLISECONDS)

    counts = Counter(sample(moment) for moment in times if moment >= began)
    return tuple(counts[each] for each in range(max(counts, default=0) + 1)), sample(killed)
