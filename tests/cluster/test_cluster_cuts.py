"""The link between the primary and the next member of its chain is cut for longer than the window, both ways or one way.

The third member hears both of them all the while, so writes go on, and nobody has to do anything about the cut.
"""

import asyncio
import time
from random import Random

import pytest

pytest.importorskip("apache_iggy", reason="the official SDK is not installed")

from apache_iggy import IggyClient

from levrier.cluster.address import Address
from levrier.cluster.client import Client
from levrier.cluster.client_errors import NotTaken
from levrier.cluster.standing import survey
from levrier.cluster.testing import Cluster
from levrier.cluster.watch import as_user
from levrier.wire.codes import NodeRole
from tests.cluster.ledger import Ledger
from tests.cluster.test_cluster_faults import OPERATIONS, go_on, settle
from tests.sdk.running import reconnecting

pytestmark = [pytest.mark.process, pytest.mark.sdk]

WINDOW_SECONDS = 2.0
"""The heartbeat timeout: a backup that does not hear its primary for so long wants another one."""

ANSWER_SECONDS = 2 * WINDOW_SECONDS
"""Within which a request is answered, if only to be asked again."""

CUT_SECONDS = 3 * WINDOW_SECONDS
"""Time for two elections: the first successor may be the very member that the old primary does not hear."""

GAP_SECONDS_MAX = 6 * WINDOW_SECONDS
"""The longest time without an acknowledgement: two elections, and as much again, because the SDK, whose connection is whole,
repeats its request at the old primary for four seconds before it asks who leads."""


@pytest.mark.parametrize(
    ("forth", "back", "elects"),
    [(True, True, True), (True, False, True), (False, True, False)],
    ids=["both-ways", "the-next-does-not-hear-it", "it-does-not-hear-the-next"],
)
def test_a_cut_behind_the_primary_stops_nobody_and_is_made_good_once_it_is_healed(
    forth: bool, back: bool, elects: bool
) -> None:
    """BR-46: only who does not hear the primary has another one elected; whom it does not hear follows as before.

    `forth` cuts what the primary sends to the next member, `back` what it hears from there.
    """
    with Cluster(heartbeat=f"{WINDOW_SECONDS:g} s") as cluster:

        async def story() -> None:
            leader, view = await leading(cluster), view_of(cluster)
            client = reconnecting(cluster.address(leader))
            await client.connect()
            await client.login_user("iggy", "iggy")
            ledger = Ledger(Random("cuts"))
            for _ in range(OPERATIONS):
                await ledger.advance(client)
            cut(cluster, leader, forth=forth, back=back)
            gap = await longest_gap(cluster, client, ledger)
            assert gap < (GAP_SECONDS_MAX if elects else WINDOW_SECONDS)
            print(f"{gap:.2f} s without an acknowledgement at most, in {ledger.acknowledged} operations")
            assert (view_of(cluster) > view) == elects
            cluster.heal()
            for replica in range(cluster.nodes):
                await asyncio.to_thread(cluster.wait_until_caught_up, replica)
            for replica in range(cluster.nodes):
                await asyncio.to_thread(settle, ledger, Address.parse(cluster.address(replica)))

        asyncio.run(story())


def test_a_primary_that_is_alone_says_so_and_leaves_nobody_without_an_answer() -> None:
    """It cannot know that it was replaced; it knows that nobody acknowledges, and lists nobody as leader then."""
    with Cluster(heartbeat=f"{WINDOW_SECONDS:g} s") as cluster:

        async def story() -> None:
            alone = await leading(cluster)
            where = Address.parse(cluster.address(alone))
            async with await Client.connect(where.host, where.port, deadline_seconds=ANSWER_SECONDS) as client:
                await client.login("iggy", "iggy")
                cluster.isolate(alone)
                with pytest.raises(NotTaken):
                    await client.create_stream("nobody-acknowledges")
                roles = [node.role for node in (await client.cluster_metadata()).nodes]
                assert NodeRole.LEADER not in roles
            successor = await asyncio.to_thread(cluster.wait_for_primary, other_than=alone)
            found = await survey(str(where), login=as_user("iggy", "iggy"), seconds=ANSWER_SECONDS)
            assert found.primary == successor
            names = [f"node-{replica}" for replica in range(cluster.nodes) if replica != alone]
            row = found.rows[alone]
            assert (row["waiting"], list(row["waiting_for"])) == ("waiting for quorum: 1 of 3", names)
            cluster.heal()
            await asyncio.to_thread(cluster.wait_until_caught_up, alone)

        asyncio.run(story())


def cut(cluster: Cluster, leader: int, *, forth: bool, back: bool) -> None:
    """Between the primary and the member that it hands its entries to."""
    following = (leader + 1) % cluster.nodes
    if forth:
        cluster.cut(leader, following, one_way=True)
    if back:
        cluster.cut(following, leader, one_way=True)


async def longest_gap(cluster: Cluster, client: IggyClient, ledger: Ledger) -> float:
    """Work on as long as the cut is to last; the longest time between two acknowledgements. The last one comes at its end."""

    async def find() -> Address:
        return Address.parse(cluster.address(await leading(cluster)))

    began = last = time.monotonic()
    longest = 0.0
    while last < began + CUT_SECONDS:
        await go_on(client, ledger, find)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    return longest


async def leading(cluster: Cluster) -> int:
    """The member that leads and serves."""
    return await asyncio.to_thread(cluster.wait_for_primary)


def view_of(cluster: Cluster) -> int:
    """The highest view that a member is in."""
    return max(standing.view for standing in cluster.status())
