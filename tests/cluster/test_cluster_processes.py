"""Three processes, `kill -9`, and the official SDK as the client that must not notice more than a pause."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("apache_iggy", reason="the official SDK is not installed")

from apache_iggy import IggyClient

from tests.cluster.member_processes import Processes
from tests.cluster.three_nodes import caught_up, primary_among
from tests.sdk.running import reconnecting

pytestmark = [pytest.mark.process, pytest.mark.sdk]
STREAMS = 30


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Processes]:
    """Three processes, ready; killed at the end."""
    with ExitStack() as stack:
        processes = Processes(tmp_path, stack)
        for replica in range(3):
            processes.spawn(replica)
        for process in processes.running.values():
            process.ready()
        yield processes


def test_the_sdk_goes_on_when_the_primary_is_killed(three: Processes) -> None:
    """Nothing acknowledged is lost or doubled, no new credentials are given, the killed node comes back and catches up."""

    async def story() -> None:
        leader = await primary_among(three.members)
        client = reconnecting(str(three.members[(leader.replica + 1) % 3].client_address))
        await client.connect()
        await client.login_user("iggy", "iggy")
        for number in range(STREAMS):
            await client.create_stream(name=f"before-{number}")
        three.running[leader.replica].kill()
        unsure = await create_until_it_works(client, "after")
        for number in range(STREAMS):
            await client.create_stream(name=f"then-{number}")
        for number in range(STREAMS):
            assert await client.get_stream(f"before-{number}") is not None
            assert await client.get_stream(f"then-{number}") is not None
        assert unsure <= 3
        three.spawn(leader.replica).ready()
        async with asyncio.timeout(60):
            while not await caught_up(three.members, leader.replica):
                await asyncio.sleep(0.1)

    asyncio.run(story())


async def create_until_it_works(client: IggyClient, name: str) -> int:
    """Create streams, each under a name of its own, until one is acknowledged. How many were not."""
    for attempt in range(100):
        try:
            async with asyncio.timeout(40):
                await client.create_stream(name=f"{name}-{attempt}")
        except RuntimeError:  # The outcome is unknown; the SDK has told it and reconnects.
            await asyncio.sleep(0.1)
        else:
            return attempt
    raise AssertionError("nothing is served any more")


def test_every_member_ends_in_order(three: Processes) -> None:
    """SIGTERM to all of a serving cluster: status 0, and the same command starts it again with what it had."""

    async def born() -> None:
        await primary_among(three.members)

    asyncio.run(born())
    for replica in range(3):
        assert three.running[replica].terminate().status == 0
    for replica in range(3):
        three.spawn(replica)
    for process in three.running.values():
        process.ready()
    asyncio.run(born())
