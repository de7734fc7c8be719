"""Commands about the node through the official SDK: typed where it has a call, raw where it has none."""

import zipfile
from io import BytesIO

import pytest

from levrier.cluster.testing import Server
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.partitions import DeleteSegments
from levrier.wire.requests.system import GetClient, GetSnapshotFile
from levrier.wire.responses.system import ClientDetails, ClientList
from tests.sdk.running import logged_in, run

pytestmark = pytest.mark.sdk

GET_SNAPSHOT_FILE, GET_ME, GET_CLIENT, GET_CLIENTS = 11, 20, 21, 22


def test_stats_count_the_catalogue(server: Server, stream: str) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            before = await client.get_stats()
            await client.create_stream(stream)
            await client.create_topic(stream, "t", 3)
            await client.create_consumer_group(stream, "t", "g")
            after = await client.get_stats()
            assert after.streams_count - before.streams_count == 1
            assert after.topics_count - before.topics_count == 1
            assert after.partitions_count - before.partitions_count == 3
            assert after.consumer_groups_count - before.consumer_groups_count == 1
            assert after.clients_count >= 1
            assert after.messages_count == 0
            await client.delete_stream(stream)
            gone = await client.get_stats()
            assert (gone.streams_count, gone.topics_count) == (before.streams_count, before.topics_count)
            assert gone.partitions_count == before.partitions_count
            assert gone.consumer_groups_count == before.consumer_groups_count

    run(body)


def test_stats_describe_process_and_machine(server: Server) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            stats = await client.get_stats()
            assert stats.process_id > 0
            assert stats.memory_usage > 1_000_000
            assert stats.total_memory >= stats.memory_usage
            assert stats.hostname
            assert stats.os_name
            assert stats.kernel_version
            assert stats.iggy_server_version

    run(body)


def test_the_own_connection_shows_its_groups(server: Server, stream: str) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "t", 1)
            for name in ("g", "h"):
                await client.create_consumer_group(stream, "t", name)
                await client.join_consumer_group(stream, "t", name)
            found = await client.get_stream(stream)
            assert found is not None
            me = ClientDetails.decode(bytes(await client.send_binary_request(GET_ME, b"")))
            assert me.client.user_id == 0
            assert [(each.stream_id, each.topic_id, each.group_id) for each in me.groups] == [
                (found.id, 0, 0),
                (found.id, 0, 1),
            ]
            same = await client.send_binary_request(GET_CLIENT, GetClient(client_id=me.client.client_id).encode())
            assert ClientDetails.decode(bytes(same)) == me
            listed = ClientList.decode(bytes(await client.send_binary_request(GET_CLIENTS, b""))).clients
            assert me.client in listed
            assert bytes(await client.send_binary_request(GET_CLIENT, GetClient(client_id=2**32 - 1).encode())) == b""

    run(body)


@pytest.mark.parametrize("compression", [1, 2, 3, 5])
def test_the_archive_is_a_zip_file(server: Server, compression: int) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            request = GetSnapshotFile(compression=compression, types=(100,)).encode()
            data = bytes(await client.send_binary_request(GET_SNAPSHOT_FILE, request))
            with zipfile.ZipFile(BytesIO(data)) as archive:
                assert archive.testzip() is None
                assert {"status.json", "configuration.json", "resources.json"} <= set(archive.namelist())

    run(body)


def test_an_archive_in_a_compression_that_is_not_served_is_refused(server: Server) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            with pytest.raises(RuntimeError, match=r"(?i)snapshot file"):
                await client.send_binary_request(GET_SNAPSHOT_FILE, GetSnapshotFile(compression=4, types=()).encode())

    run(body)


def test_segments_are_deleted_without_an_error_and_of_what_is_missing_with_one(server: Server, stream: str) -> None:
    """State-machine 8.3: the reply has the operation of the truncation, which the SDK takes for a result."""

    def request(topic: str, partition: int) -> bytes:
        return DeleteSegments(
            stream=Identifier(stream), topic=Identifier(topic), partition_id=partition, segments_count=1
        ).encode()

    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "t", 1)
            assert bytes(await client.send_binary_request(503, request("t", 0))) == b""
            with pytest.raises(RuntimeError, match=r"(?i)topic"):
                await client.send_binary_request(503, request("absent", 0))
            with pytest.raises(RuntimeError, match=r"(?i)partition"):
                await client.send_binary_request(503, request("t", 9))
            await client.get_streams()

    run(body)


@pytest.mark.parametrize("code", [100, 102, 120])
def test_reads_of_messages_are_unavailable_at_once(server: Server, code: int) -> None:
    """D-18."""

    async def body() -> None:
        async with logged_in(server.address) as client:
            with pytest.raises(RuntimeError, match=r"(?i)feature is unavailable"):
                await client.send_binary_request(code, b"")
            await client.ping()

    run(body)


def test_the_options_of_topics_are_described(server: Server) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            described = await client.describe_options("topic")
            assert {"message_expiry", "max_topic_size", "segment_size"} <= {option.key for option in described}

    run(body)
