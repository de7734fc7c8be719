"""Consumer groups through the official SDK: every command, by name and by id, and what becomes of members."""

import asyncio

import pytest
from apache_iggy import IggyClient

from levrier.cluster.testing import Server
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.groups import SyncConsumerGroup
from levrier.wire.responses.groups import ConsumerGroupAssignment
from tests.sdk.running import logged_in, never_reconnecting, run

pytestmark = pytest.mark.sdk


async def topic_with_group(client: IggyClient, stream: str, partitions: int = 3) -> None:
    """Stream `stream` with topic `t` with group `g`."""
    await client.create_stream(stream)
    await client.create_topic(stream, "t", partitions)
    await client.create_consumer_group(stream, "t", "g")


async def members_of(client: IggyClient, stream: str, group: str | int = "g") -> list[tuple[int, list[int]]]:
    """Key and partitions of the members of a group."""
    found = await client.get_consumer_group(stream, "t", group)
    assert found is not None
    assert found.members_count == len(found.members)
    return [(member.id, list(member.partitions)) for member in found.members]


async def session(address: str) -> IggyClient:
    """A client of its own, whose session the test ends."""
    client = never_reconnecting(address)
    await client.connect()
    await client.login_user("iggy", "iggy")
    return client


def test_create_get_list_and_delete(server: Server, stream: str) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            await topic_with_group(client, stream)
            await client.create_consumer_group(stream, "t", "h")
            for name in ("g", 0):
                group = await client.get_consumer_group(stream, "t", name)
                assert group is not None
                assert (group.id, group.name, group.partitions_count, group.members_count) == (0, "g", 3, 0)
            listed = await client.get_consumer_groups(stream, "t")
            assert [(group.id, group.name) for group in listed] == [(0, "g"), (1, "h")]
            await client.delete_consumer_group(stream, "t", 1)
            assert await client.get_consumer_group(stream, "t", "h") is None
            await client.create_consumer_group(stream, "t", "h")
            found = await client.get_consumer_group(stream, "t", "h")
            assert found is not None
            assert found.id == 2

    run(body)


def test_join_and_leave(server: Server, stream: str) -> None:
    """S-080, S-084: joining twice is no error, leaving twice is."""

    async def body() -> None:
        async with logged_in(server.address) as client:
            await topic_with_group(client, stream)
            await client.join_consumer_group(stream, "t", "g")
            await client.join_consumer_group(stream, "t", 0)
            assert await members_of(client, stream) == [(0, [0, 1, 2])]
            await client.leave_consumer_group(stream, "t", "g")
            assert await members_of(client, stream) == []
            with pytest.raises(RuntimeError, match=r"(?i)consumer group member"):
                await client.leave_consumer_group(stream, "t", "g")

    run(body)


def test_br_44_members_share_the_partitions(server: Server, stream: str) -> None:
    """BR-44: four partitions, two members, two each."""

    async def body() -> None:
        async with logged_in(server.address) as first, logged_in(server.address) as second:
            await topic_with_group(first, stream, 4)
            await first.join_consumer_group(stream, "t", "g")
            await second.join_consumer_group(stream, "t", "g")
            assert await members_of(first, stream) == [(0, [0, 1]), (1, [3, 2])]

    run(body)


@pytest.mark.parametrize("partitions", [1, 2])
def test_new_and_deleted_partitions_are_dealt_out(server: Server, stream: str, partitions: int) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            await topic_with_group(client, stream, 1)
            await client.join_consumer_group(stream, "t", "g")
            await client.create_partitions(stream, "t", partitions)
            assert await members_of(client, stream) == [(0, list(range(1 + partitions)))]
            await client.delete_partitions(stream, "t", partitions)
            assert await members_of(client, stream) == [(0, [0])]

    run(body)


def test_a_logout_ends_the_membership(server: Server, stream: str) -> None:
    async def body() -> None:
        async with logged_in(server.address) as watcher:
            await topic_with_group(watcher, stream)
            member = await session(server.address)
            await member.join_consumer_group(stream, "t", "g")
            assert len(await members_of(watcher, stream)) == 1
            await member.logout_user()
            assert await members_of(watcher, stream) == []

    run(body)


def test_a_closed_connection_ends_the_membership(server: Server, stream: str) -> None:
    """Maintenance 5: the node logs the session out, and the partitions go to who is left."""

    async def body() -> None:
        async with logged_in(server.address) as watcher:
            await topic_with_group(watcher, stream)
            await watcher.join_consumer_group(stream, "t", "g")
            member = await session(server.address)
            await member.join_consumer_group(stream, "t", "g")
            assert len(await members_of(watcher, stream)) == 2
            del member
            while len(await members_of(watcher, stream)) > 1:
                await asyncio.sleep(0.01)
            assert await members_of(watcher, stream) == [(0, [0, 1, 2])]

    run(body)


def test_sync_tells_a_member_its_partitions_and_nobody_else_anything(server: Server, stream: str) -> None:
    """BR-30: an answer without a byte, which the SDK's consumer reports as 5006."""
    body_of_sync = SyncConsumerGroup(stream=Identifier(stream), topic=Identifier("t"), group=Identifier("g")).encode()

    async def body() -> None:
        async with logged_in(server.address) as member, logged_in(server.address) as other:
            await topic_with_group(member, stream)
            await member.join_consumer_group(stream, "t", "g")
            assignment = ConsumerGroupAssignment.decode(bytes(await member.send_binary_request(606, body_of_sync)))
            assert (assignment.generation, assignment.partitions) == (1, (0, 1, 2))
            assert bytes(await other.send_binary_request(606, body_of_sync)) == b""

    run(body)


REFUSED = [
    ("create_consumer_group", ("absent", "t", "new"), "stream"),
    ("create_consumer_group", ("@", "absent", "new"), "topic"),
    ("create_consumer_group", ("@", "t", "g"), "already exists"),
    ("delete_consumer_group", ("absent", "t", "g"), "stream"),
    ("delete_consumer_group", ("@", "absent", "g"), "topic"),
    ("delete_consumer_group", ("@", "t", "absent"), "consumer group"),
    ("join_consumer_group", ("absent", "t", "g"), "stream"),
    ("join_consumer_group", ("@", "absent", "g"), "topic"),
    ("join_consumer_group", ("@", "t", "absent"), "consumer group"),
    ("leave_consumer_group", ("absent", "t", "g"), "stream"),
    ("leave_consumer_group", ("@", "absent", "g"), "topic"),
    ("leave_consumer_group", ("@", "t", "absent"), "consumer group"),
    ("leave_consumer_group", ("@", "t", "g"), "member"),
    ("get_consumer_group", ("absent", "t", "g"), "stream"),
    ("get_consumer_group", ("@", "absent", "g"), "topic"),
    ("get_consumer_groups", ("absent", "t"), "stream"),
    ("get_consumer_groups", ("@", "absent"), "topic"),
]


@pytest.mark.parametrize(("call", "names", "message"), REFUSED, ids=[f"{row[0]}-{'-'.join(row[1])}" for row in REFUSED])
def test_br_43_what_is_missing_is_an_error(
    server: Server, stream: str, call: str, names: tuple[str, ...], message: str
) -> None:
    """BR-43 over TCP; a repeated call fails with the same error."""

    async def body() -> None:
        async with logged_in(server.address) as client:
            await topic_with_group(client, stream)
            messages = []
            for _ in range(2):
                with pytest.raises(RuntimeError) as error:
                    await getattr(client, call)(*(stream if name == "@" else name for name in names))
                messages.append(str(error.value))
            assert message in messages[0].lower()
            assert messages[0] == messages[1]

    run(body)
