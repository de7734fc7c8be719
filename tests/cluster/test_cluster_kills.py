"""kill -9 of members, again and again, under the load of the official SDK and of a client that keeps every answer.

The SDK's client is one and the same throughout: it is given its credentials once.
"""

import asyncio
import re
import socket
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("apache_iggy", reason="the official SDK is not installed")

from apache_iggy import IggyClient

from levrier.cluster.config import Member
from tests.cluster.ledger import Ledger
from tests.cluster.member_processes import Processes
from tests.cluster.raw_client import RawClient, code
from tests.cluster.recorder import Recorder
from tests.cluster.test_process_kill import RECORDING_CLIENT, catalogue
from tests.cluster.three_nodes import caught_up, primary_among, until
from tests.sdk.running import reconnecting

pytestmark = [pytest.mark.process, pytest.mark.sdk]

KILLS = 2
LONG_PRIMARY_KILLS = 100
LONG_KILLS_OF_ANY = 50
SECONDS_MAX = 0.5
SMALL_LOG = "\n[metadata]\njournal_slots = 512\n"
"""A checkpoint every 256 ops, so that a member that is away for some of them finds its log left behind."""

REPLAYED = re.compile(r"replayed (\d+) ops on top of op (\d+)")
TRANSFER_BEGINS = re.compile(r"state transfer \d+ from replica \d+ begins")
TRANSFER_INSTALLED = re.compile(r"state transfer \d+ is installed")

OPS_AWAY = 600
LEAVE_BEHIND_EACH = 5
GO_ON_SECONDS = 60.0


class Story:
    """A cluster under load whose members are shot, and what it promised."""

    def __init__(self, processes: Processes, seed: int) -> None:
        self.processes = processes
        self.random = Random(f"cluster kills/{seed}")
        self.ledger = Ledger(Random(f"cluster sdk/{seed}"))
        self.recorder = Recorder(Random(f"cluster recorder/{seed}"), RECORDING_CLIENT)
        self.interruptions: list[float] = []
        """Seconds from each kill of a primary to the next operation of the SDK that was acknowledged."""

        self.transferred = 0
        self.repaired = 0
        """Members that came back by the state of another one, and by single entries where these are all that it takes."""

    async def run(self, *, kills: int, is_primary: bool) -> None:
        """Shoot, see everything kept, bring the member back; `kills` times."""
        leader = await primary_among(self.processes.members)
        client = reconnecting(str(leader.client_address))
        await client.connect()
        await client.login_user("iggy", "iggy")
        for number in range(1, kills + 1):
            victim = leader.replica if is_primary else self.random.randrange(3)
            shot = await self._load_until_shot(client, leader, victim)
            leader = await primary_among(self._others(victim))
            await self._check(leader)
            await self._go_on(client, leader)
            self.interruptions.append(time.monotonic() - shot)
            is_left_behind = number % LEAVE_BEHIND_EACH == 0
            for _ in range(OPS_AWAY if is_left_behind else 0):
                await self.ledger.advance(client)
            said_before = len(self.processes.running[victim].log)
            process = self.processes.spawn(victim).ready()
            await until(partial(caught_up, self.processes.members, victim), f"node {victim} in step")
            if is_left_behind:
                assert TRANSFER_INSTALLED.search(process.log[said_before:])
                self.transferred += 1
            else:
                await asyncio.to_thread(self._see_repaired, victim, process.log[said_before:])
            leader = await primary_among(self.processes.members)

    def _others(self, replica: int) -> tuple[Member, ...]:
        return tuple(member for member in self.processes.members if member.replica != replica)

    def _see_repaired(self, victim: int, said: str) -> None:
        """In step again without a transfer, though it missed at the least what the SDK had acknowledged after the shot.

        Unless another one has a checkpoint above what the member had when it started, and keeps no entries below that.
        """
        replayed = REPLAYED.search(said)
        assert replayed is not None
        applied_at_start = sum(map(int, replayed.groups()))
        assert status(self.processes.members[victim])["applied"] > applied_at_start
        if max(status(other)["checkpoint"] for other in self._others(victim)) <= applied_at_start:
            assert not TRANSFER_BEGINS.search(said)
            self.repaired += 1

    async def _load_until_shot(self, client: IggyClient, leader: Member, victim: int) -> float:
        """Both clients work until the member is shot, and as long as they are not interrupted by that. When it was."""
        with RawClient(leader.ip, leader.tcp, client=RECORDING_CLIENT) as connection:
            assert code(await asyncio.to_thread(connection.register)) == 0
            recording = asyncio.create_task(asyncio.to_thread(self._record, connection))
            working = asyncio.create_task(self._work(client))
            await asyncio.sleep(self.random.uniform(0.0, SECONDS_MAX))
            assert not working.done(), "the SDK lost its connection by itself"
            assert not recording.done(), "the recorder lost its connection by itself"
            process = self.processes.running[victim]
            process.kill()
            shot = time.monotonic()
            if victim != leader.replica:
                await asyncio.sleep(self.random.uniform(0.0, SECONDS_MAX))
                assert not working.done(), "a backup's end interrupted the SDK"
                self.stopping = True
                connection.socket.shutdown(socket.SHUT_RDWR)
            await recording
            await asyncio.wait([working])
        return shot

    def _record(self, connection: RawClient) -> None:
        """Work until the connection ends. The fence that the one before has left holds the last answer only."""
        del self.recorder.answers[:-1]
        try:
            while True:
                self.recorder.ask(connection)
        except OSError:
            return

    async def _work(self, client: IggyClient) -> None:
        self.stopping = False
        while not self.stopping:
            try:
                await self.ledger.advance(client)
            except RuntimeError:
                return  # Whether the operation under way has happened is seen on the next primary.

    async def _go_on(self, client: IggyClient, leader: Member) -> None:
        """The SDK comes back by itself, with the credentials that it was given at the beginning."""
        deadline = time.monotonic() + GO_ON_SECONDS
        while True:
            try:
                await self.ledger.advance(client)
            except RuntimeError:
                assert time.monotonic() < deadline, "the SDK does not find the new primary"
                await asyncio.sleep(0.1)
                await self._check(leader)
            else:
                return

    async def _check(self, leader: Member) -> None:
        """Every promise is kept: the catalogue is what was acknowledged, the recorder's answers have the same bytes."""

        def check() -> None:
            with RawClient(leader.ip, leader.tcp, client=RECORDING_CLIENT) as connection:
                assert code(connection.register()) == 0
                self.recorder.replay(connection, checkpointed=True)
                recorded, others = catalogue(connection)
            assert recorded == self.recorder.streams
            self.ledger.settle(others)

        await asyncio.to_thread(check)


def status(member: Member) -> dict[str, Any]:
    """How the member says that it stands."""
    with RawClient(member.ip, member.tcp) as connection:
        assert code(connection.register()) == 0
        return connection.status()


def tell(root: Path, *, kills: int, is_primary: bool, seed: int) -> Story:
    """The whole story; every process is gone at its end."""
    with ExitStack() as stack:
        processes = Processes(root, stack, tail=SMALL_LOG)
        processes.start_all()
        story = Story(processes, seed)
        asyncio.run(story.run(kills=kills, is_primary=is_primary))
    assert story.ledger.acknowledged > kills
    assert story.recorder.number > kills
    waits = sorted(story.interruptions)
    print(
        f"{kills} kills: {story.ledger.acknowledged} operations of the SDK and {story.recorder.number} of ours acknowledged; "
        f"{story.repaired} members came back by repair, {story.transferred} by a transfer; the SDK was interrupted for {waits[len(waits) // 2]:.2f} s (median), {waits[-1]:.2f} s at most"
    )
    return story


def test_the_primary_is_killed_under_load(tmp_path: Path) -> None:
    """Nothing acknowledged is lost or doubled, the SDK goes on without new credentials, the member comes back."""
    tell(tmp_path, kills=KILLS, is_primary=True, seed=1)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_100_kills_of_the_primary(tmp_path: Path) -> None:
    """As often as it takes to hit every kind of instant; every fifth time the log is left behind, else mostly it is repaired."""
    story = tell(tmp_path, kills=LONG_PRIMARY_KILLS, is_primary=True, seed=2)
    assert story.repaired > LONG_PRIMARY_KILLS // 4


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_50_kills_of_any_member(tmp_path: Path) -> None:
    """Backups, too: their end interrupts nobody."""
    story = tell(tmp_path, kills=LONG_KILLS_OF_ANY, is_primary=False, seed=3)
    assert story.repaired > 0
