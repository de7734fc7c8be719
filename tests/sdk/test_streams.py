"""Streams through the official SDK: each command by name and by id, and what it refuses."""

from collections.abc import Awaitable, Callable

import pytest

from levrier.cluster.testing import Server
from tests.sdk.running import logged_in, run

pytestmark = pytest.mark.sdk


def test_create_and_get_by_name_and_by_id(server: Server, stream: str) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            by_name = await client.get_stream(stream)
            assert by_name is not None
            by_id = await client.get_stream(by_name.id)
            assert by_id is not None
            assert (by_id.id, by_id.name, by_id.created_at) == (by_name.id, stream, by_name.created_at)
            assert by_name.created_at > 0
            assert (by_name.topics_count, by_name.messages_count, by_name.size) == (0, 0, 0)
            assert by_name.topics == []

    run(body)


def test_all_streams_are_listed_by_id(server: Server, stream: str) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            for number in (3, 1, 2):
                await client.create_stream(f"{stream}-{number}")
            listed = await client.get_streams()
            assert [found.id for found in listed] == sorted(found.id for found in listed)
            own = [found.name for found in listed if found.name.startswith(stream)]
            assert own == [f"{stream}-3", f"{stream}-1", f"{stream}-2"]

    run(body)


def test_what_does_not_exist_is_none(server: Server, stream: str) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            assert await client.get_stream(stream) is None
            assert await client.get_stream(4_000_000) is None

    run(body)


@pytest.mark.parametrize("by_id", [False, True], ids=["by-name", "by-id"])
def test_update_renames_and_keeps_the_rest(server: Server, stream: str, by_id: bool) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "topic", 2)
            before = await client.get_stream(stream)
            assert before is not None
            await client.update_stream(before.id if by_id else stream, f"{stream}-renamed")
            assert await client.get_stream(stream) is None
            after = await client.get_stream(f"{stream}-renamed")
            assert after is not None
            assert (after.id, after.created_at, after.topics_count) == (before.id, before.created_at, 1)
            await client.create_stream(stream)

    run(body)


@pytest.mark.parametrize("by_id", [False, True], ids=["by-name", "by-id"])
def test_purge_keeps_the_stream_and_its_topics(server: Server, stream: str, by_id: bool) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "topic", 2)
            before = await client.get_stream(stream)
            assert before is not None
            await client.purge_stream(before.id if by_id else stream)
            after = await client.get_stream(stream)
            assert after is not None
            assert (after.id, after.topics_count, after.messages_count) == (before.id, 1, 0)

    run(body)


@pytest.mark.parametrize("by_id", [False, True], ids=["by-name", "by-id"])
def test_delete_takes_the_topics_along(server: Server, stream: str, by_id: bool) -> None:
    """A stream that is made anew under the freed id starts empty (D-02)."""

    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "topic", 2)
            before = await client.get_stream(stream)
            assert before is not None
            await client.delete_stream(before.id if by_id else stream)
            assert await client.get_stream(stream) is None
            assert await client.get_topics(stream) == []
            await client.create_stream(stream)
            again = await client.get_stream(stream)
            assert again is not None
            assert (again.id, again.topics_count) == (before.id, 0)

    run(body)


def test_a_taken_name_is_refused(server: Server, stream: str) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            await client.create_stream(f"{stream}-other")
            with pytest.raises(RuntimeError, match="already exists"):
                await client.create_stream(stream)
            with pytest.raises(RuntimeError, match="already exists"):
                await client.update_stream(f"{stream}-other", stream)

    run(body)


def test_every_name_of_1_to_255_bytes_is_taken(server: Server) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            for name in ("b", "a" * 255, "é" * 127, "with space/and:signs.", "   ", "😀" * 60):
                await client.create_stream(name)
                found = await client.get_stream(name)
                assert found is not None
                assert found.name == name

    run(body)


def test_other_names_are_refused(server: Server) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            for name in ("", "a" * 256, "é" * 128):
                with pytest.raises(RuntimeError, match=r"(?i)invalid"):
                    await client.create_stream(name)
            await client.ping()

    run(body)


def test_commands_on_a_missing_stream_are_refused(server: Server, stream: str) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            refusals: list[Callable[[], Awaitable[None]]] = [
                lambda: client.update_stream(stream, f"{stream}-renamed"),
                lambda: client.purge_stream(stream),
                lambda: client.delete_stream(stream),
                lambda: client.delete_stream(4_000_000),
            ]
            for ask in refusals:
                with pytest.raises(RuntimeError, match=r"(?i)not found"):
                    await ask()
            await client.ping()

    run(body)
