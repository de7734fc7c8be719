"""A primary that stops answering without ending: paused, its disk hung, its disk full. Nobody has to do anything about it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("apache_iggy", reason="the official SDK is not installed")

from apache_iggy import IggyClient

from levrier.cluster.address import Address
from levrier.cluster.config import Member
from tests.cluster.ledger import Ledger
from tests.cluster.member_processes import Processes
from tests.cluster.raw_client import RawClient, code
from tests.cluster.test_process_kill import catalogue
from tests.cluster.three_nodes import caught_up, primary_among, until
from tests.sdk.running import reconnecting

pytestmark = [pytest.mark.process, pytest.mark.sdk]

SECONDS_MAX = 60.0
OPERATIONS = 20
Fault = Callable[[Processes, int], None]


def pause(processes: Processes, replica: int) -> None:
    processes.pause(replica)


def resume(processes: Processes, replica: int) -> None:
    processes.resume(replica)


def hang(processes: Processes, replica: int) -> None:
    processes.break_disk(replica, "hang")


def unhang(processes: Processes, replica: int) -> None:
    processes.mend_disk(replica, "hang")


def fill(processes: Processes, replica: int) -> None:
    processes.break_disk(replica, "full")


def free(processes: Processes, replica: int) -> None:
    processes.mend_disk(replica, "full")


@pytest.mark.parametrize(
    ("strike", "mend", "tail", "answers"),
    [
        (pause, resume, "", False),
        (hang, unhang, "", False),
        (hang, unhang, "journal_thread = true\n", True),
        (fill, free, "", True),
    ],
    ids=["paused", "hung-disk", "hung-disk-journal-apart", "full-disk"],
)
def test_a_primary_that_stands_still_is_replaced_and_taken_back(
    tmp_path: Path, strike: Fault, mend: Fault, tail: str, answers: bool
) -> None:
    """BR-46, D-15: the others elect and serve, the SDK goes on; once the cause is gone the member is in step again.

    `tail` goes into the section `[system]`; `answers`: what stands still says so to its clients.
    """

    async def story(processes: Processes) -> None:
        leader = await primary_among(processes.members)
        client = reconnecting(str(leader.client_address))
        await client.connect()
        await client.login_user("iggy", "iggy")
        ledger = Ledger(Random("faults"))
        for _ in range(OPERATIONS):
            await ledger.advance(client)
        strike(processes, leader.replica)
        others = tuple(member for member in processes.members if member.replica != leader.replica)
        if not answers:
            # The system keeps the connections of a process that is paused, or waits for its disk in the thread of its sockets:
            # a client hears nothing and waits, another one is served.
            client = reconnecting(str(await leading_among(others)))
            await client.connect()
            await client.login_user("iggy", "iggy")
        await go_on(client, ledger, partial(leading_among, others))
        for _ in range(OPERATIONS):
            await ledger.advance(client)
        mend(processes, leader.replica)
        await until(partial(caught_up, processes.members, leader.replica), f"node {leader.replica} in step")
        await asyncio.to_thread(settle, ledger, await leading_among(processes.members))

    with ExitStack() as stack:
        processes = Processes(tmp_path, stack, tail=tail, disk_faults=True)
        processes.start_all()
        asyncio.run(story(processes))


async def go_on(client: IggyClient, ledger: Ledger, find: Callable[[], Awaitable[Address]]) -> None:
    """Until the SDK has an operation acknowledged; what was under way is looked up where `find` says that the primary is."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            async with asyncio.timeout(SECONDS_MAX):
                await ledger.advance(client)
        except RuntimeError:
            assert time.monotonic() < deadline, "the SDK does not find the new primary"
            await asyncio.to_thread(settle, ledger, await find())
        else:
            return


async def leading_among(members: tuple[Member, ...]) -> Address:
    """Where clients reach the primary."""
    return (await primary_among(members)).client_address


def settle(ledger: Ledger, address: Address) -> None:
    """The catalogue of the node there keeps every promise."""
    with RawClient(address.host, address.port) as connection:
        assert code(connection.register()) == 0
        _, found = catalogue(connection)
    ledger.settle(found)
