"""Groups and commands about the node through our own client and a real node: sessions, restarts, archives."""

import asyncio
import json
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from io import BytesIO

import pytest

from levrier.cluster.client import Client, Evicted, IggyError
from levrier.cluster.testing import Server
from levrier.wire.codes import EvictionReason, OptionScope

PASSWORD = "a-marker-password-7f3c"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(password=PASSWORD) as node:
        yield node


def run(body: Callable[[], Awaitable[None]]) -> None:
    """Run the asynchronous body of a test, with a deadline."""

    async def bounded() -> None:
        async with asyncio.timeout(30):
            await body()

    asyncio.run(bounded())


async def logged_in(server: Server, *, client_id: int | None = None) -> Client:
    client = await Client.connect(server.host, server.port, client_id=client_id)
    await client.login(server.username, server.password)
    return client


async def members(client: Client, stream: str) -> list[tuple[int, ...]]:
    found = await client.get_group(stream, "t", "g")
    assert found is not None
    return [member.partitions for member in found.members]


async def topic_with_group(client: Client, stream: str) -> None:
    await client.create_stream(stream)
    await client.create_topic(stream, "t", partitions_count=3)
    created = await client.create_group(stream, "t", "g")
    assert (created.id, created.name, created.partitions_count) == (0, "g", 3)


def test_a_group_from_its_creation_to_its_end(server: Server) -> None:
    async def body() -> None:
        async with await logged_in(server) as client:
            await topic_with_group(client, "life")
            assert await client.sync_group("life", "t", "g") is None
            await client.join_group("life", "t", "g")
            assignment = await client.sync_group("life", "t", 0)
            assert assignment is not None
            assert (assignment.generation, assignment.partitions) == (1, (0, 1, 2))
            assert [group.members_count for group in await client.get_groups("life", "t")] == [1]
            await client.leave_group("life", "t", "g")
            with pytest.raises(IggyError) as error:
                await client.leave_group("life", "t", "g")
            assert error.value.code == 5006
            await client.delete_group("life", "t", "g")
            assert await client.get_group("life", "t", "g") is None

    run(body)


def test_memberships_survive_a_restart() -> None:
    """The log is replayed into the same groups; the session is taken up again and still a member."""

    async def body() -> None:
        with Server() as node:
            client = await logged_in(node)
            await topic_with_group(client, "kept")
            await client.join_group("kept", "t", "g")
            before = await client.sync_group("kept", "t", "g")
            node.restart()
            await client.resume()
            assert await client.sync_group("kept", "t", "g") == before
            assert await client.create_group("kept", "t", "next") is not None
            await client.close()

    run(body)


def test_br_29_the_end_of_an_older_session_leaves_the_newer_one_its_groups(server: Server) -> None:
    """BR-29: the same client id logs in again; the first connection closes, and the second is still a member."""

    async def body() -> None:
        first = await logged_in(server, client_id=0xC0FFEE)
        await topic_with_group(first, "twice")
        await first.join_group("twice", "t", "g")
        second = await logged_in(server, client_id=0xC0FFEE)
        await first.close()
        watcher = await logged_in(server)
        # Whoever closed after the first one is logged out after it: then the first logout was handled as well.
        last = await logged_in(server)
        await last.join_group("twice", "t", "g")
        await last.close()
        while len(await members(watcher, "twice")) > 1:
            await asyncio.sleep(0.01)
        assert await members(watcher, "twice") == [(0, 1, 2)]
        assert await second.sync_group("twice", "t", "g") is not None
        await second.close()
        await watcher.close()

    run(body)


def test_segments_of_a_partition_are_deleted_and_of_none_refused(server: Server) -> None:
    async def body() -> None:
        async with await logged_in(server) as client:
            await topic_with_group(client, "segments")
            await client.delete_segments("segments", "t", 2, 1)
            for names, code in (
                (("absent", "t", 0), 1009),
                (("segments", "absent", 0), 2010),
                (("segments", "t", 3), 3007),
            ):
                with pytest.raises(IggyError) as error:
                    await client.delete_segments(*names, 1)
                assert error.value.code == code
            await client.create_stream("the session goes on")

    run(body)


def test_clients_stats_and_options(server: Server) -> None:
    async def body() -> None:
        async with await logged_in(server) as client, await Client.connect(server.host, server.port):
            await topic_with_group(client, "told")
            await client.join_group("told", "t", "g")
            me = await client.get_me()
            assert me.client.consumer_groups_count == len(me.groups) == 1
            assert await client.get_client(me.client.client_id) == me
            assert await client.get_client(2**32 - 1) is None
            clients = await client.get_clients()
            assert me.client in clients
            assert 2**32 - 1 in [each.user_id for each in clients]
            stats = await client.get_stats()
            assert stats.clients_count == len(clients)
            assert stats.consumer_groups_count >= 1
            assert stats.run_time > 0
            assert len(await client.describe_options()) == 10
            assert await client.describe_options(OptionScope.USER) == ()

    run(body)


def test_d_20_the_archive_describes_the_node_and_holds_no_secret(server: Server) -> None:
    """D-20: the marker password of root is in none of its files, nor is any hash."""

    async def body() -> None:
        async with await logged_in(server) as client:
            await topic_with_group(client, "archived")
            packed = await client.snapshot_file(compression=1)
            with zipfile.ZipFile(BytesIO(packed)) as archive:
                files = {name: archive.read(name) for name in archive.namelist()}
            assert {"status.json", "configuration.json", "resources.json", "processes.json", "file_system.json"} <= set(
                files
            )
            assert json.loads(files["status.json"])["role"] == "primary"
            assert json.loads(files["configuration.json"])["replica_count"] == "1"
            assert json.loads(files["file_system.json"])["files"]
            for secret in (PASSWORD.encode(), b"argon2", b"password"):
                assert all(secret not in content for content in files.values())

    run(body)


def test_who_is_evicted_learns_it_from_the_next_request(server: Server) -> None:
    """The end of a session reaches our client as an eviction, not as a broken answer."""

    async def body() -> None:
        async with await Client.connect(server.host, server.port) as client:
            with pytest.raises(Evicted) as evicted:
                await client.join_group("absent", "t", "g")
            assert evicted.value.reason is EvictionReason.NO_SESSION

    run(body)
