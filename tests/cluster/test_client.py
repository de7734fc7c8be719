"""Our own client against a scripted node: sessions, numbers, replays, refusals, deadlines (wire 9, 10.3)."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable

import pytest

from levrier.cluster.client import Client, DeadlineExceeded, Disconnected, Evicted, IggyError
from levrier.cluster.client_errors import EVICTION_CODES, ClientError, NotTaken
from levrier.wire.checksums import xxh3
from levrier.wire.codes import LEVRIER_STATUS, CommandCode, EvictionReason, NodeRole, Operation
from levrier.wire.options import KIND_STRING, OptionEntry, encode_block
from levrier.wire.protocol_version import CURRENT, WINDOW
from levrier.wire.replies import denial, eviction, rejection
from levrier.wire.requests.login import LoginWithPassword
from levrier.wire.requests.streams import CreateStream, UpdateStream
from levrier.wire.requests.topics import CreateTopic
from levrier.wire.responses.streams import StreamDetails, StreamHeader, StreamList
from levrier.wire.responses.system import ClusterMetadata, ClusterNode
from levrier.wire.responses.topics import TopicDetails, TopicHeader, TopicList
from tests.cluster.fake_node import CLOSE, SILENCE, Asked, FakeNode, fake_node

BODY = CreateStream(name="prod").encode()
STREAM = StreamHeader(id=3, created_at=7, name="prod")
TOPIC = TopicHeader(
    id=1, created_at=8, partitions_count=0, message_expiry=0, compression_algorithm=1, max_topic_size=0, name="events"
)


def refuse(code: int) -> Callable[[Asked], bytes]:
    """A refusal in a result section."""
    return lambda asked: rejection(asked.header, code=code, commit=1)


def deny(code: int) -> Callable[[Asked], bytes]:
    """A refusal as a status."""
    return lambda asked: denial(asked.header, status=code, commit=1)


def evict(reason: EvictionReason) -> Callable[[Asked], bytes]:
    """The end of a session."""
    window = WINDOW if reason is EvictionReason.INCOMPATIBLE_PROTOCOL else None
    return lambda asked: eviction(asked.header.client, int(reason), window)


def payload(node: FakeNode, body: bytes) -> Callable[[Asked], bytes]:
    """Success with a payload."""
    return lambda asked: node.success(asked, body)


def run(scenario: Callable[[FakeNode, Client], Awaitable[None]], *, deadline_seconds: float = 20.0) -> None:
    """Run a scenario with a node and a client that is logged in; pauses take no time."""

    async def pause(_seconds: float) -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        async with fake_node() as node:
            client = await Client.connect("127.0.0.1", node.port, deadline_seconds=deadline_seconds, pause=pause)
            async with client:
                await client.login("iggy", "iggy")
                node.asked.clear()
                await scenario(node, client)

    asyncio.run(main())


def test_a_login_is_the_password_form_with_our_version_and_names_the_epoch() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        await client.logout()
        session = await client.login("iggy", "iggy")
        assert (session.epoch, session.user_id) == (node.op, 0)
        asked = node.asked[-1]
        login = LoginWithPassword.decode(asked.body)
        assert (login.protocol_version, login.username) == (CURRENT, "iggy")
        header = asked.header
        assert (header.operation, header.session, header.request) == (Operation.REGISTER, 0, 0)
        assert header.request_checksum == xxh3(asked.body)

    run(scenario)


def test_requests_count_from_one_and_queries_take_no_number() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        epoch = client.session.epoch if client.session else 0
        await client.request(Operation.CREATE_STREAM, BODY)
        await client.query(CommandCode.GET_STREAMS)
        await client.request(Operation.CREATE_STREAM, BODY)
        headers = [asked.header for asked in node.asked]
        assert [header.request for header in headers] == [1, 2, 2]
        assert {header.session for header in headers} == {epoch}
        assert {header.client for header in headers} == {client.client_id}
        assert [header.request_checksum for header in headers] == [xxh3(BODY), 0, xxh3(BODY)]
        assert headers[1].code == CommandCode.GET_STREAMS

    run(scenario)


def test_a_new_login_is_a_new_client_and_logs_the_old_one_out() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        before = client.client_id
        await client.request(Operation.CREATE_STREAM, BODY)
        await client.login("iggy", "iggy")
        await client.request(Operation.CREATE_STREAM, BODY)
        assert node.operations == [
            Operation.CREATE_STREAM,
            Operation.LOGOUT,
            Operation.REGISTER,
            Operation.CREATE_STREAM,
        ]
        assert client.client_id != before
        assert [asked.header.request for asked in node.asked] == [1, 2, 0, 1]

    run(scenario)


def test_not_committed_is_answered_by_the_same_frame_again() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        node.script.extend([refuse(57), refuse(57), payload(node, b"done")])
        assert await client.request(Operation.CREATE_STREAM, BODY) == b"done"
        assert len({asked.frame for asked in node.asked}) == 1
        assert len(node.asked) == 3

    run(scenario)


def test_not_accepted_is_answered_by_the_same_frame_and_after_a_while_by_a_new_number() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        node.script.extend([refuse(58)] * 45)
        await client.request(Operation.CREATE_STREAM, BODY)
        assert [asked.header.request for asked in node.asked] == [1] * 40 + [2] * 6

    run(scenario)


def test_a_register_is_sent_again_as_it_is() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        node.script.extend([refuse(58)] * 45 + [refuse(57)])
        await client.login("iggy", "iggy")
        registers = [asked.frame for asked in node.asked if asked.header.operation == Operation.REGISTER]
        assert len(set(registers)) == 1

    async def main(node: FakeNode, client: Client) -> None:
        await client.logout()
        node.asked.clear()
        await scenario(node, client)

    run(main)


def test_a_transient_query_is_asked_again() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        node.script.extend([deny(57), deny(58), payload(node, b"x")])
        assert await client.query(CommandCode.GET_STREAMS) == b"x"

    run(scenario)


@pytest.mark.parametrize("answer", [refuse(1012), deny(1012)])
def test_a_refusal_carries_its_code_and_the_address_and_keeps_the_session(answer: Callable[[Asked], bytes]) -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        node.script.append(answer)
        with pytest.raises(
            IggyError, match=rf"127\.0\.0\.1:{node.port}: .*STREAM_NAME_ALREADY_EXISTS \(1012\)"
        ) as caught:
            await client.request(Operation.CREATE_STREAM, BODY)
        assert caught.value.code == 1012
        assert client.session is not None
        assert client.unsettled is None

    run(scenario)


@pytest.mark.parametrize("reason", sorted(EVICTION_CODES))
def test_an_eviction_ends_the_session_and_carries_reason_and_code(reason: EvictionReason) -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        node.script.append(evict(reason))
        with pytest.raises(Evicted) as caught:
            await client.request(Operation.CREATE_STREAM, BODY)
        assert (caught.value.reason, caught.value.code) == (reason, EVICTION_CODES[reason])
        assert client.session is None
        assert client.connected

    run(scenario)


def test_a_broken_connection_leaves_the_request_unsettled_and_resume_settles_it_under_the_same_number() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        await client.request(Operation.CREATE_STREAM, BODY)
        client_id, epoch = client.client_id, client.session.epoch if client.session else 0
        node.script.append(CLOSE)
        with pytest.raises(Disconnected):
            await client.request(Operation.PURGE_STREAM, BODY)
        assert client.unsettled is not None
        assert client.unsettled.number == 2
        assert not client.connected

        node.script.extend([node.success, payload(node, b"settled")])
        assert await client.resume() == b"settled"
        register, again = (asked.header for asked in node.asked[-2:])
        assert (register.operation, register.client) == (Operation.REGISTER, client_id)
        assert (again.operation, again.request, again.client) == (Operation.PURGE_STREAM, 2, client_id)
        assert again.session > epoch
        assert client.unsettled is None

        await client.request(Operation.CREATE_STREAM, BODY)
        assert node.asked[-1].header.request == 3

    run(scenario)


def test_a_resume_that_breaks_too_may_be_tried_again() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        node.script.append(CLOSE)
        with pytest.raises(Disconnected):
            await client.request(Operation.PURGE_STREAM, BODY)
        node.script.extend([node.success, CLOSE])
        with pytest.raises(Disconnected):
            await client.resume()
        with pytest.raises(Disconnected):
            await client.request(Operation.CREATE_STREAM, BODY)
        assert client.unsettled is not None
        assert (client.unsettled.number, client.unsettled.operation) == (1, Operation.PURGE_STREAM)
        await client.resume()
        assert node.asked[-1].header.request == 1

    run(scenario)


def test_a_request_that_was_refused_before_the_break_is_settled_by_the_number_it_was_last_sent_under() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        node.script.extend([refuse(58)] * 40 + [CLOSE])
        with pytest.raises(Disconnected):
            await client.request(Operation.CREATE_STREAM, BODY)
        assert client.unsettled is not None
        assert client.unsettled.number == 2

    run(scenario)


def test_reconnect_begins_a_new_session() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        before = client.client_id
        node.script.append(CLOSE)
        with pytest.raises(Disconnected):
            await client.request(Operation.CREATE_STREAM, BODY)
        await client.reconnect()
        assert client.client_id != before
        assert client.unsettled is None
        await client.request(Operation.CREATE_STREAM, BODY)
        assert node.asked[-1].header.request == 1

    run(scenario)


def test_silence_ends_at_the_deadline_and_gives_the_connection_up() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        node.script.append(SILENCE)
        with pytest.raises(DeadlineExceeded, match=rf"127\.0\.0\.1:{node.port}"):
            await client.request(Operation.CREATE_STREAM, BODY, deadline_seconds=0.02)
        assert not client.connected
        assert client.unsettled is not None

    run(scenario)


def test_transient_answers_end_at_the_deadline() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        node.script.append(refuse(57))
        with pytest.raises(NotTaken, match=r"not committed until the deadline \(code 57\)"):
            await client.request(Operation.CREATE_STREAM, BODY, deadline_seconds=0.04)
        assert len(node.asked) == 1
        assert client.unsettled is not None

    run(scenario)


def test_a_caller_that_gives_up_takes_the_connection_with_it() -> None:
    """The late answer must not be taken for that of the next request."""

    async def scenario(node: FakeNode, client: Client) -> None:
        node.script.append(SILENCE)
        task = asyncio.create_task(client.request(Operation.CREATE_STREAM, BODY))
        await node.wait(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not client.connected
        with pytest.raises(Disconnected):
            await client.query(CommandCode.PING)
        assert client.unsettled is not None
        await client.resume()
        assert [asked.header.request for asked in node.asked if asked.header.operation == 128] == [1, 1]

    run(scenario)


def test_calls_of_several_tasks_are_sent_one_at_a_time() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        await asyncio.gather(*(client.request(Operation.CREATE_STREAM, BODY) for _ in range(10)))
        assert [asked.header.request for asked in node.asked] == list(range(1, 11))

    run(scenario)


@pytest.mark.parametrize(
    "frame",
    [
        b"\x00" * 256,
        b"\xff" * 256,
        (256).to_bytes(4, "little").rjust(52, b"\x00").ljust(256, b"\x00"),
        eviction(1, 1)[:255] + b"\x63",
    ],
)
def test_what_no_node_sends_ends_the_connection(frame: bytes) -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        node.script.append(frame)
        with pytest.raises(ClientError):
            await client.request(Operation.CREATE_STREAM, BODY)
        assert not client.connected
        assert client.unsettled is not None

    run(scenario)


def test_an_empty_success_of_a_result_framed_operation_is_no_success() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        node.script.append(
            lambda asked: node.success(asked)[:48] + (256).to_bytes(4, "little") + node.success(asked)[52:256]
        )
        with pytest.raises(ClientError, match="result"):
            await client.request(Operation.CREATE_STREAM, BODY)

    run(scenario)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Disconnected, match=rf"127\.0\.0\.1:{port}: cannot connect"):
        asyncio.run(Client.connect("127.0.0.1", port))


def test_a_wrong_password_shows_neither_in_the_error_nor_in_the_client() -> None:
    async def main() -> None:
        async with fake_node() as node:
            node.script.append(evict(EvictionReason.INVALID_CREDENTIALS))
            async with await Client.connect("127.0.0.1", node.port) as client:
                with pytest.raises(Evicted) as caught:
                    await client.login("iggy", "hunter2")
                assert "hunter2" not in f"{caught.value!r} {client!r} {vars(client)!r}"

    asyncio.run(main())


def test_ping_needs_no_login() -> None:
    async def main() -> None:
        async with fake_node() as node, await Client.connect("127.0.0.1", node.port) as client:
            await client.ping()
            assert node.asked[0].header.session == 0

    asyncio.run(main())


def test_streams() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        details = StreamDetails(stream=STREAM)
        node.script.append(payload(node, details.encode()))
        assert await client.create_stream("prod") == STREAM
        node.script.append(payload(node, details.encode()))
        assert await client.get_stream("prod") == details
        assert await client.get_stream(9) is None
        node.script.append(payload(node, StreamList(streams=(STREAM, STREAM)).encode()))
        assert await client.get_streams() == (STREAM, STREAM)
        await client.update_stream(3, "prod2")
        assert UpdateStream.decode(node.asked[-1].body).name == "prod2"
        await client.purge_stream("prod2")
        await client.delete_stream("prod2")
        assert [operation for operation in node.operations if operation != 2] == [128, 129, 131, 130]

    run(scenario)


def test_topics() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        details = TopicDetails(topic=TOPIC)
        options = (OptionEntry("compression_algorithm", KIND_STRING, b"gzip"),)
        node.script.append(payload(node, details.encode()))
        assert await client.create_topic("prod", "events", partitions_count=3, options=options) == details
        created = CreateTopic.decode(node.asked[-1].body)
        assert (created.partitions_count, created.options) == (3, encode_block(options))
        node.script.append(payload(node, details.encode()))
        assert await client.get_topic("prod", 1) == details
        assert await client.get_topic("prod", 2) is None
        node.script.append(payload(node, TopicList(topics=(TOPIC,)).encode()))
        assert await client.get_topics("prod") == (TOPIC,)
        await client.update_topic("prod", "events", "events2")
        await client.create_partitions("prod", "events2", 2)
        await client.delete_partitions("prod", "events2", 2)
        await client.purge_topic("prod", "events2")
        await client.delete_topic("prod", "events2")
        assert [operation for operation in node.operations if operation != 2] == [132, 133, 136, 137, 135, 134]

    run(scenario)


def test_the_cluster_and_the_status() -> None:
    async def scenario(node: FakeNode, client: Client) -> None:
        nodes = (ClusterNode(name="n0", ip="127.0.0.1", tcp=8090, role=int(NodeRole.LEADER)),)
        cluster = ClusterMetadata(name="c", nodes=nodes)
        node.cluster = cluster
        assert await client.cluster_metadata() == cluster
        node.script.append(payload(node, json.dumps({"op": 7}).encode()))
        assert await client.status() == {"op": 7}
        assert node.asked[-1].header.code == LEVRIER_STATUS
        for broken in (b"{", b"[]", b"\xff"):
            node.script.append(payload(node, broken))
            with pytest.raises(ClientError, match="status"):
                await client.status()

    run(scenario)
