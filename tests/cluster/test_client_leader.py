"""Our own client in a cluster: it writes at the node that leads, and comes back at another one when its own is gone (10.2)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from levrier.cluster.client import Client, Disconnected
from levrier.wire.codes import NodeRole, Operation
from levrier.wire.requests.streams import CreateStream
from levrier.wire.responses.system import ClusterMetadata, ClusterNode
from tests.cluster.fake_node import CLOSE, FakeNode, fake_node
from tests.cluster.test_client import refuse

BODY = CreateStream(name="prod").encode()
REGISTER, CREATE = int(Operation.REGISTER), int(Operation.CREATE_STREAM)


def listing(leader: FakeNode, other: FakeNode, *, status: int = 0) -> ClusterMetadata:
    """Both nodes, as a node lists them."""
    nodes = (
        ClusterNode(name="n0", ip="127.0.0.1", tcp=leader.port, role=int(NodeRole.LEADER), status=status),
        ClusterNode(name="n1", ip="127.0.0.1", tcp=other.port, role=int(NodeRole.FOLLOWER)),
    )
    return ClusterMetadata(name="c", nodes=nodes)


Story = Callable[[FakeNode, FakeNode, Client], Awaitable[None]]


def run(story: Story, *, host: str = "127.0.0.1") -> None:
    """`story(follower, leader, client)`, the client logged in to the follower; pauses take no time."""

    async def main() -> None:
        async with fake_node() as follower, fake_node() as leader:
            follower.cluster = leader.cluster = listing(leader, follower)
            client = await Client.connect(host, follower.port, pause=lambda _seconds: asyncio.sleep(0))
            async with client:
                await client.login("iggy", "iggy")
                await story(follower, leader, client)

    asyncio.run(main())


def test_a_write_that_a_follower_does_not_take_is_made_at_the_leader_under_a_new_session() -> None:
    async def story(follower: FakeNode, leader: FakeNode, client: Client) -> None:
        before = client.client_id
        follower.script.append(refuse(58))
        await client.request(Operation.CREATE_STREAM, BODY)
        await client.request(Operation.CREATE_STREAM, BODY)
        assert follower.operations == [REGISTER, CREATE]
        assert leader.operations == [REGISTER, CREATE, CREATE]
        assert [asked.header.request for asked in leader.asked] == [0, 1, 2]
        assert client.client_id != before
        assert client.address == f"127.0.0.1:{leader.port}"

    run(story)


def test_who_is_at_the_leader_stays_there() -> None:
    """Also under its name."""

    async def story(follower: FakeNode, leader: FakeNode, client: Client) -> None:
        follower.cluster = listing(follower, leader)
        follower.script.extend([refuse(58)] * 3)
        await client.request(Operation.CREATE_STREAM, BODY)
        assert follower.operations == [REGISTER] + [CREATE] * 4
        assert leader.asked == []

    run(story)
    run(story, host="localhost")


def test_nobody_leads_while_they_elect_and_then_somebody_does() -> None:
    async def story(follower: FakeNode, leader: FakeNode, client: Client) -> None:
        follower.cluster = listing(leader, follower, status=1)
        follower.script.extend([refuse(58)] * 20)
        writing = asyncio.create_task(client.request(Operation.CREATE_STREAM, BODY))
        await follower.wait(4)
        follower.cluster = listing(leader, follower)
        await writing
        assert leader.operations == [REGISTER, CREATE]

    run(story)


def test_two_that_name_each_other_are_not_followed_without_a_pause() -> None:
    async def story(follower: FakeNode, leader: FakeNode, client: Client) -> None:
        leader.cluster = listing(follower, leader)
        follower.script.append(refuse(58))
        leader.script.extend([leader.success, *[refuse(58)] * 4])
        await client.request(Operation.CREATE_STREAM, BODY)
        assert follower.operations == [REGISTER, CREATE]
        assert leader.operations == [REGISTER] + [CREATE] * 5

    run(story)


def test_when_its_node_is_gone_it_comes_back_at_another_that_it_was_told_of() -> None:
    async def story(follower: FakeNode, leader: FakeNode, client: Client) -> None:
        follower.script.append(refuse(58))
        leader.script.extend([leader.success, CLOSE])
        with pytest.raises(Disconnected):
            await client.request(Operation.CREATE_STREAM, BODY)
        await leader.stop_listening()
        assert await client.resume() is not None
        assert client.address == f"127.0.0.1:{follower.port}"
        assert follower.operations == [REGISTER, CREATE, REGISTER, CREATE]

    run(story)
