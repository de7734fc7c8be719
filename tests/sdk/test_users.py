"""Users, permissions, passwords and tokens through the official SDK; what it has no call for comes from our own client."""

import pytest
from apache_iggy import (
    AutoLogin,
    GlobalPermissions,
    IggyClient,
    Permissions,
    StreamPermissions,
    TcpConfig,
    TcpReconnectionConfig,
    TopicPermissions,
    UserStatus,
)

from levrier.cluster.client import Client
from levrier.cluster.testing import Server
from tests.actors.metadata.support import GLOBAL_FLAGS, STREAM_FLAGS, TOPIC_FLAGS
from tests.sdk.running import logged_in, never_reconnecting, run

pytestmark = pytest.mark.sdk

MANAGE_STREAMS = Permissions(GlobalPermissions(manage_streams=True))


@pytest.fixture
def user(request: pytest.FixtureRequest) -> str:
    """A user name that no other test uses."""
    name: str = request.node.name
    return name.removeprefix("test_")[:50]


async def signed_in(server: Server, username: str, password: str) -> IggyClient:
    """A client as that user."""
    client = never_reconnecting(server.address)
    await client.connect()
    await client.login_user(username, password)
    return client


async def with_token(server: Server, token: str) -> IggyClient:
    """A client that logs in with a token."""
    client = IggyClient(
        TcpConfig(
            server_address=server.address,
            auto_login=AutoLogin.personal_access_token(token),
            reconnection=TcpReconnectionConfig(enabled=False),
        )
    )
    await client.connect()
    return client


async def created_token(server: Server, name: str, *, username: str = "iggy", password: str = "iggy") -> str:
    """A new token of the user. The SDK can use one but not make one."""
    async with await Client.connect(server.host, server.port) as client:
        await client.login(username, password)
        return await client.create_token(name)


def test_a_user_is_shown_by_name_and_by_id(server: Server, user: str) -> None:
    async def body() -> None:
        async with logged_in(server.address) as root:
            await root.create_user(user, "secret")
            by_name = await root.get_user(user)
            assert by_name is not None
            by_id = await root.get_user(by_name.id)
            assert by_id is not None
            assert (by_id.id, by_id.username, by_id.created_at) == (by_name.id, user, by_name.created_at)
            assert (by_name.status, by_name.permissions) == (UserStatus.Active, None)
            assert user in [listed.username for listed in await root.get_users()]
            assert await root.get_user("nobody") is None

    run(body)


def flags(permissions: Permissions) -> list[object]:
    """Every flag of a record; the objects of the SDK do not compare."""
    everywhere = permissions.global_permissions
    found: list[object] = [[getattr(everywhere, flag) for flag in GLOBAL_FLAGS]]
    for stream_id, stream in sorted((permissions.streams or {}).items()):
        topics = sorted((stream.topics or {}).items())
        found.append([stream_id, *(getattr(stream, flag) for flag in STREAM_FLAGS)])
        found += [[topic_id, *(getattr(topic, flag) for flag in TOPIC_FLAGS)] for topic_id, topic in topics]
    return found


def test_permissions_come_back_as_they_were_sent(server: Server, user: str) -> None:
    async def body() -> None:
        async with logged_in(server.address) as root:
            topics = {4: TopicPermissions(read_topic=True), 1: TopicPermissions(send_messages=True)}
            sent = Permissions(
                GlobalPermissions(read_servers=True, poll_messages=True),
                {7: StreamPermissions(manage_topics=True, topics=topics), 2: StreamPermissions(read_stream=True)},
            )
            await root.create_user(user, "secret", permissions=sent)
            shown = await root.get_user(user)
            assert shown is not None
            assert shown.permissions is not None
            assert flags(shown.permissions) == flags(sent)

    run(body)


def test_root_may_everything_and_stays(server: Server) -> None:
    """D-03: it cannot be deleted, deactivated or stripped of its rights."""

    async def body() -> None:
        async with logged_in(server.address) as root:
            shown = await root.get_user(0)
            assert shown is not None
            assert shown.permissions is not None
            assert shown.permissions.global_permissions.manage_servers
            for attempt in (
                root.delete_user("iggy"),
                root.update_user(0, status=UserStatus.Inactive),
                root.update_permissions(0, None),
            ):
                with pytest.raises(RuntimeError):
                    await attempt

    run(body)


def test_rename_and_deactivate(server: Server, user: str) -> None:
    async def body() -> None:
        async with logged_in(server.address) as root:
            await root.create_user(user, "secret")
            await root.update_user(user, username="renamed")
            client = await signed_in(server, "renamed", "secret")
            await client.logout_user()
            await root.update_user("renamed", status=UserStatus.Inactive)
            with pytest.raises(RuntimeError, match=r"(?i)invalid credentials"):
                await signed_in(server, "renamed", "secret")

    run(body)


def test_a_taken_name_and_an_impossible_one_are_refused(server: Server, user: str) -> None:
    async def body() -> None:
        async with logged_in(server.address) as root:
            await root.create_user(user, "secret")
            with pytest.raises(RuntimeError, match="already exists"):
                await root.create_user(user, "secret")
            with pytest.raises(RuntimeError):
                await root.create_user("ab", "secret")
            with pytest.raises(RuntimeError):
                await root.delete_user("nobody")

    run(body)


def test_a_password_is_changed_with_the_current_one(server: Server, user: str) -> None:
    """D-20: and what was changed holds after a restart of the node."""

    async def body() -> None:
        async with logged_in(server.address) as root:
            await root.create_user(user, "secret")
        client = await signed_in(server, user, "secret")
        with pytest.raises(RuntimeError, match=r"(?i)invalid credentials"):
            await client.change_password(user, "wrong", "other")
        await client.change_password(user, "secret", "other")
        with pytest.raises(RuntimeError, match=r"(?i)invalid credentials"):
            await signed_in(server, user, "secret")
        await signed_in(server, user, "other")
        with pytest.raises(RuntimeError, match=r"(?i)unauthorized"):
            await client.change_password("iggy", "iggy", "stolen")

    run(body)
    server.restart()

    async def later() -> None:
        await signed_in(server, user, "other")

    run(later)


def test_rights_change_with_the_next_request(server: Server, user: str) -> None:
    """BR-38: of a session that is under way."""

    async def body() -> None:
        async with logged_in(server.address) as root:
            await root.create_user(user, "secret")
            client = await signed_in(server, user, "secret")
            with pytest.raises(RuntimeError, match=r"(?i)unauthorized"):
                await client.create_stream(user)
            with pytest.raises(RuntimeError, match=r"(?i)unauthorized"):
                await client.get_streams()
            await root.update_permissions(user, MANAGE_STREAMS)
            await client.create_stream(user)
            assert user in [found.name for found in await client.get_streams()]
            await root.update_permissions(user, None)
            with pytest.raises(RuntimeError, match=r"(?i)unauthorized"):
                await client.delete_stream(user)
            with pytest.raises(RuntimeError, match=r"(?i)unauthorized"):
                await client.get_streams()

    run(body)


def test_one_reads_oneself_and_nobody_else(server: Server, user: str) -> None:
    """BR-35."""

    async def body() -> None:
        async with logged_in(server.address) as root:
            await root.create_user(user, "secret")
        client = await signed_in(server, user, "secret")
        own = await client.get_user(user)
        assert own is not None
        assert await client.get_user(own.id) is not None
        with pytest.raises(RuntimeError, match=r"(?i)unauthorized"):
            await client.get_user("iggy")
        with pytest.raises(RuntimeError, match=r"(?i)unauthorized"):
            await client.get_users()

    run(body)


def test_the_sessions_of_a_deleted_user_end(server: Server, user: str) -> None:
    """BR-38, D-02: and a namesake who is created next is not mistaken for it."""

    async def body() -> None:
        async with logged_in(server.address) as root:
            await root.create_user(user, "secret", permissions=MANAGE_STREAMS)
            reader = await signed_in(server, user, "secret")
            writer = await signed_in(server, user, "secret")
            before = await root.get_user(user)
            await root.delete_user(user)
            await root.create_user(user, "another", permissions=MANAGE_STREAMS)
            with pytest.raises(RuntimeError):
                await reader.get_streams()
            with pytest.raises(RuntimeError):
                await writer.create_stream(user)
            assert await root.get_stream(user) is None
            after = await root.get_user(user)
            assert before is not None
            assert after is not None
            assert after.id > before.id
            with pytest.raises(RuntimeError, match=r"(?i)invalid credentials"):
                await signed_in(server, user, "secret")

    run(body)


def test_a_token_logs_in_until_it_is_deleted(server: Server, user: str) -> None:
    """D-19: made through one connection and used through another, before and after a restart of the node."""

    async def used() -> str:
        async with logged_in(server.address) as root:
            await root.create_user(user, "secret", permissions=MANAGE_STREAMS)
        token = await created_token(server, "ci", username=user, password="secret")
        client = await with_token(server, token)
        own = await client.get_user(user)
        assert own is not None
        await client.create_stream(user)
        return token

    async def deleted(token: str) -> None:
        client = await with_token(server, token)
        assert await client.get_stream(user) is not None
        async with await Client.connect(server.host, server.port) as ours:
            await ours.login(user, "secret")
            assert [shown.name for shown in await ours.get_tokens()] == ["ci"]
            await ours.delete_token("ci")
            assert await ours.get_tokens() == ()
        with pytest.raises(RuntimeError, match=r"(?i)personal access token"):
            await with_token(server, token)

    token = run(used)
    server.restart()
    run(lambda: deleted(token))
    server.restart()

    async def refused() -> None:
        with pytest.raises(RuntimeError, match=r"(?i)personal access token"):
            await with_token(server, token)

    run(refused)


def test_the_tokens_of_a_deleted_user_are_worthless(server: Server, user: str) -> None:
    """D-02."""

    async def body() -> None:
        async with logged_in(server.address) as root:
            await root.create_user(user, "secret")
            token = await created_token(server, "ci", username=user, password="secret")
            await with_token(server, token)
            await root.delete_user(user)
            with pytest.raises(RuntimeError, match=r"(?i)personal access token"):
                await with_token(server, token)

    run(body)


def test_a_user_option_is_not_supported(server: Server, user: str) -> None:
    """State-machine 9.2: users have no options, 4041."""

    async def body() -> None:
        async with logged_in(server.address) as root:
            await root.create_user(user, "secret")
            with pytest.raises(RuntimeError):
                await root.update_user(user, options={"colour": "red"})
            described = await root.describe_options("user")
            assert list(described) == []

    run(body)
