"""The shared secret is replaced member by member, under load: the cluster serves throughout and loses nothing.

The acceptor, which has the higher id, proves itself first and with its `shared_secret`, so a member may only be given a new
one once all with lower ids accept it. That is so in two rounds of which the first goes upwards, and in three in any order.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from levrier.cluster.client import Client
from levrier.cluster.client_errors import ClientError
from levrier.cluster.config import Member
from tests.cluster.member_processes import Processes
from tests.cluster.three_nodes import caught_up, primary_among, until

pytestmark = pytest.mark.process

OLD: Final = 'shared_secret = "the old one"'
ADDED: Final = 'shared_secret = "the old one"\nprevious_shared_secret = "the new one"'
SWAPPED: Final = 'shared_secret = "the new one"\nprevious_shared_secret = "the old one"'
NEW: Final = 'shared_secret = "the new one"'

UPWARDS: Final = (0, 1, 2)
DOWNWARDS: Final = (2, 1, 0)
WINDOW_SECONDS: Final = 20.0
"""Ten times the heartbeat timeout: the longest time without a primary, and without an acknowledged write."""

DEADLINE_SECONDS: Final = 5.0
REFUSED: Final = "replica {} does not prove that it knows the shared secret"


class Load:
    """Creates streams one after the other, each under a name of its own, and remembers what was acknowledged, and when."""

    def __init__(self, members: tuple[Member, ...]) -> None:
        self.acknowledged: list[str] = []
        self.stopping = False
        self.longest = 0.0
        self._members = members
        self._last = time.monotonic()

    async def run(self) -> None:
        """Go on until `stopping`, with whichever member answers."""
        attempt = 0
        while not self.stopping:
            attempt += 1
            member = self._members[attempt % len(self._members)]
            with suppress(ClientError):  # The outcome of what was under way is unknown: its name is not used again.
                async with await Client.connect(member.ip, member.tcp, deadline_seconds=DEADLINE_SECONDS) as client:
                    await client.login("iggy", "iggy")
                    await self._create(client, attempt)
            await asyncio.sleep(0.05)

    async def _create(self, client: Client, attempt: int) -> None:
        number = 0
        while not self.stopping:
            name = f"{attempt}-{number}"
            await client.create_stream(name)
            self.acknowledged.append(name)
            now = time.monotonic()
            self.longest, self._last = max(self.longest, now - self._last), now
            number += 1
            await asyncio.sleep(0.01)


class Rotation:
    """Three members under load, restarted one by one with other secrets."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.load = Load(processes.members)

    async def round(self, secrets: str, order: Iterable[int]) -> None:
        """Each member ends in order and comes back with these secrets. The next one's turn comes when it has caught up."""
        for replica in order:
            await self.replace(replica, secrets)
            await until(partial(caught_up, self.processes.members, replica), f"node {replica} in step")

    async def replace(self, replica: int, secrets: str) -> None:
        """One member, with these secrets. A primary is there soon, whether or not the member is let in."""
        ended = await asyncio.to_thread(self.processes.running[replica].terminate)
        assert ended.status == 0
        since = time.monotonic()
        self.processes.configure(secrets)
        self.processes.spawn(replica)
        await primary_among(self.processes.members)
        assert time.monotonic() - since < WINDOW_SECONDS
        acknowledged = len(self.load.acknowledged)
        await until(lambda: self._more_than(acknowledged), "an acknowledged write")

    async def _more_than(self, count: int) -> bool:
        return len(self.load.acknowledged) > count

    async def is_said(self, replica: int, words: str) -> None:
        """Wait for the words in what the member says from now on."""
        process = self.processes.running[replica]
        before = len(process.log)

        async def said() -> bool:
            return words in process.log[before:]

        await until(said, f"{words!r} in the log of node {replica}")

    async def run(self, story: Callable[[], Awaitable[None]]) -> None:
        """Load, story, and then: everything that was acknowledged is there."""
        await primary_among(self.processes.members)
        working = asyncio.create_task(self.load.run())
        await story()
        self.load.stopping = True
        await working
        leader = await primary_among(self.processes.members)
        async with await Client.connect(leader.ip, leader.tcp) as client:
            await client.login("iggy", "iggy")
            found = [stream.name for stream in await client.get_streams()]
        assert len(found) == len(set(found))
        assert set(self.load.acknowledged) <= set(found)
        assert self.load.longest < WINDOW_SECONDS
        print(f"{len(self.load.acknowledged)} streams, {self.load.longest:.1f} s at most between two")


@pytest.fixture
def rotation(tmp_path: Path) -> Iterator[Rotation]:
    """Three members with the old secret, ready."""
    with ExitStack() as stack:
        processes = Processes(tmp_path, stack, more=OLD)
        processes.start_all()
        yield Rotation(processes)


@pytest.mark.timeout(300)
def test_two_rounds_are_enough_where_the_first_goes_upwards(rotation: Rotation) -> None:
    """And whoever still has the old secret alone is out: its log and those of the others say why."""

    async def story() -> None:
        await rotation.round(SWAPPED, UPWARDS)
        await rotation.round(NEW, DOWNWARDS)
        await rotation.replace(2, OLD)
        await rotation.is_said(0, REFUSED.format(2))
        await rotation.is_said(1, REFUSED.format(2))
        await rotation.is_said(2, "the shared secrets may differ")
        await rotation.round(NEW, (2,))
        await rotation.replace(0, OLD)
        await rotation.is_said(0, REFUSED.format(1))
        await rotation.is_said(1, "replica 0 ended the handshake")

    asyncio.run(rotation.run(story))


@pytest.mark.timeout(300)
def test_three_rounds_are_enough_in_any_order(rotation: Rotation) -> None:
    """Downwards, two are not: the others do not know the new secret that the first one begins with."""

    async def story() -> None:
        await rotation.replace(2, SWAPPED)
        await rotation.is_said(0, REFUSED.format(2))
        await rotation.is_said(1, REFUSED.format(2))
        for secrets in (ADDED, SWAPPED, NEW):
            await rotation.round(secrets, DOWNWARDS)

    asyncio.run(rotation.run(story))
