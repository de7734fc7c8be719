"""Users, permissions and tokens by our own client, against a real node."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from levrier.cluster.client import Client, Evicted, IggyError
from levrier.cluster.testing import Server
from levrier.wire.codes import EvictionReason
from levrier.wire.permissions import GlobalPermissions, Permissions, StreamPermissions

RIGHTS = Permissions(GlobalPermissions(read_streams=True), ((3, StreamPermissions(manage_stream=True)),))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One node for all tests of the module; each has a user of its own."""
    with Server() as node:
        yield node


def run(server: Server, body: Callable[[Client], Awaitable[None]]) -> None:
    """Run the body as root."""

    async def bounded() -> None:
        async with asyncio.timeout(30), await Client.connect(server.host, server.port) as root:
            await root.login("iggy", "iggy")
            await body(root)

    asyncio.run(bounded())


async def refusal(attempt: Awaitable[object]) -> int:
    """The code that the attempt is refused with."""
    with pytest.raises(IggyError) as refused:
        await attempt
    return refused.value.code


async def eviction(attempt: Awaitable[object]) -> EvictionReason:
    """Why the attempt ended the session."""
    with pytest.raises(Evicted) as evicted:
        await attempt
    return evicted.value.reason


def test_the_life_of_a_user(server: Server) -> None:
    async def body(root: Client) -> None:
        created = await root.create_user("alice", "secret", permissions=RIGHTS)
        assert (created.user.username, created.user.status, created.permissions) == ("alice", 1, RIGHTS)
        assert await root.get_user("alice") == created
        assert await root.get_user(created.user.id) == created
        assert created.user in await root.get_users()
        assert await refusal(root.create_user("alice", "secret")) == 46
        await root.update_user("alice", username="alicia")
        await root.update_permissions("alicia", None)
        shown = await root.get_user(created.user.id)
        assert shown is not None
        assert (shown.user.username, shown.permissions) == ("alicia", None)
        await root.delete_user("alicia")
        assert await root.get_user("alicia") is None
        assert await refusal(root.delete_user("alicia")) == 20

    run(server, body)


def test_an_inactive_user_cannot_log_in(server: Server) -> None:
    async def body(root: Client) -> None:
        await root.create_user("bob", "secret", active=False)
        async with await Client.connect(server.host, server.port) as bob:
            assert await eviction(bob.login("bob", "secret")) is EvictionReason.INVALID_CREDENTIALS
            await root.update_user("bob", active=True)
            await bob.login("bob", "secret")
            await root.update_user("bob", active=False)
            assert await eviction(bob.reconnect()) is EvictionReason.INVALID_CREDENTIALS

    run(server, body)


def test_a_password_is_changed(server: Server) -> None:
    async def body(root: Client) -> None:
        await root.create_user("carol", "secret")
        assert await refusal(root.change_password("carol", "wrong", "other")) == 42
        await root.change_password("carol", "secret", "other")
        async with await Client.connect(server.host, server.port) as carol:
            assert await eviction(carol.login("carol", "secret")) is EvictionReason.INVALID_CREDENTIALS
            await carol.login("carol", "other")
            await carol.change_password("carol", "other", "third")
            assert await refusal(carol.change_password("iggy", "iggy", "stolen")) == 41

    run(server, body)


def test_a_token_logs_in_and_again_after_the_connection_broke(server: Server) -> None:
    async def body(root: Client) -> None:
        created = await root.create_user("dora", "secret", permissions=RIGHTS)
        async with await Client.connect(server.host, server.port) as dora:
            await dora.login("dora", "secret")
            token = await dora.create_token("ci", expiry_micros=3_600_000_000)
            assert await refusal(dora.create_token("ci")) == 51
            never = await dora.create_token("always")
            assert never != token
            shown = {found.name: found.expires_at for found in await dora.get_tokens()}
            assert list(shown) == ["always", "ci"]
            assert shown["always"] == 0 < shown["ci"]
        async with await Client.connect(server.host, server.port) as bearer:
            session = await bearer.login_with_token(token)
            assert session.user_id == created.user.id
            await bearer.get_streams()
            assert (await bearer.reconnect()).user_id == created.user.id
            await bearer.delete_token("ci")
            assert await eviction(bearer.reconnect()) is EvictionReason.INVALID_TOKEN
            assert token not in repr(vars(bearer))

    run(server, body)


def test_the_session_of_a_deleted_user_is_over(server: Server) -> None:
    """BR-38: reads are refused at once, and the first write finds no session any more."""

    async def body(root: Client) -> None:
        everything = Permissions.root()
        await root.create_user("erin", "secret", permissions=everything)
        async with await Client.connect(server.host, server.port) as erin:
            await erin.login("erin", "secret")
            await erin.create_stream("by-erin")
            await root.delete_user("erin")
            await root.create_user("erin", "secret", permissions=everything)
            assert await refusal(erin.get_streams()) == 41
            assert await eviction(erin.create_stream("by-a-ghost")) is EvictionReason.NO_SESSION
            assert await refusal(erin.get_streams()) == 40
            await erin.login("erin", "secret")
            assert [stream.name for stream in await erin.get_streams()] == ["by-erin"]

    run(server, body)
