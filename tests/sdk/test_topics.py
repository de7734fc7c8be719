"""Topics through the official SDK: each command by name and by id, options read back, and what is refused."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from apache_iggy import HeaderKey, HeaderValue, IggyClient, IggyExpiry, MaxTopicSize

from levrier.cluster.testing import Server
from tests.sdk.running import logged_in, run

pytestmark = pytest.mark.sdk

BY = pytest.mark.parametrize("by_id", [False, True], ids=["by-name", "by-id"])
TWO_GIGABYTES = 2_000_000_000


async def ids(client: IggyClient, stream: str, topic: str) -> tuple[int, int]:
    """The numbers of a topic and its stream."""
    found_stream, found_topic = await client.get_stream(stream), await client.get_topic(stream, topic)
    assert found_stream is not None
    assert found_topic is not None
    return found_stream.id, found_topic.id


@BY
def test_create_and_get(server: Server, stream: str, by_id: bool) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "topic", 3)
            names: tuple[str | int, str | int] = await ids(client, stream, "topic") if by_id else (stream, "topic")
            topic = await client.get_topic(*names)
            assert topic is not None
            assert (topic.name, topic.partitions_count, topic.messages_count, topic.size) == ("topic", 3, 0, 0)
            assert topic.created_at > 0
            assert [partition.id for partition in topic.partitions] == [0, 1, 2]
            assert all(partition.created_at > 0 for partition in topic.partitions)
            found = await client.get_stream(stream)
            assert found is not None
            assert [each.name for each in found.topics] == ["topic"]

    run(body)


@BY
def test_list(server: Server, stream: str, by_id: bool) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            assert await client.get_topics(stream) == []
            for number in (3, 1, 2):
                await client.create_topic(stream, f"topic-{number}", 1)
            number, _ = await ids(client, stream, "topic-1")
            listed = await client.get_topics(number if by_id else stream)
            assert [(topic.id, topic.name) for topic in listed] == [(0, "topic-3"), (1, "topic-1"), (2, "topic-2")]

    run(body)


@BY
def test_update(server: Server, stream: str, by_id: bool) -> None:
    """Name and the named options change; partitions and creation time stay."""

    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "topic", 2, compression_algorithm="gzip")
            before = await client.get_topic(stream, "topic")
            assert before is not None
            names: tuple[str | int, str | int] = await ids(client, stream, "topic") if by_id else (stream, "topic")
            await client.update_topic(
                *names,
                "renamed",
                compression_algorithm="gzip",
                message_expiry=IggyExpiry.ExpireDuration(timedelta(hours=1)),
                max_topic_size=MaxTopicSize.Custom(TWO_GIGABYTES),
            )
            assert await client.get_topic(stream, "topic") is None
            after = await client.get_topic(stream, "renamed")
            assert after is not None
            assert (after.id, after.created_at, after.partitions_count) == (before.id, before.created_at, 2)
            assert after.compression_algorithm == "gzip"
            assert isinstance(after.message_expiry, IggyExpiry.ExpireDuration)
            assert after.message_expiry.duration == timedelta(hours=1)
            assert isinstance(after.max_topic_size, MaxTopicSize.Custom)
            assert after.max_topic_size.bytes == TWO_GIGABYTES

    run(body)


@BY
def test_purge(server: Server, stream: str, by_id: bool) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "topic", 2)
            names: tuple[str | int, str | int] = await ids(client, stream, "topic") if by_id else (stream, "topic")
            await client.purge_topic(*names)
            topic = await client.get_topic(stream, "topic")
            assert topic is not None
            assert (topic.partitions_count, topic.messages_count) == (2, 0)

    run(body)


@BY
def test_delete(server: Server, stream: str, by_id: bool) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "gone", 2)
            await client.create_topic(stream, "kept", 1)
            names: tuple[str | int, str | int] = await ids(client, stream, "gone") if by_id else (stream, "gone")
            await client.delete_topic(*names)
            assert await client.get_topic(stream, "gone") is None
            assert [topic.name for topic in await client.get_topics(stream)] == ["kept"]

    run(body)


@BY
def test_partitions_are_added_and_taken_away(server: Server, stream: str, by_id: bool) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "topic", 2)
            names: tuple[str | int, str | int] = await ids(client, stream, "topic") if by_id else (stream, "topic")
            await client.create_partitions(*names, 3)
            grown = await client.get_topic(stream, "topic")
            assert grown is not None
            assert [partition.id for partition in grown.partitions] == [0, 1, 2, 3, 4]
            await client.delete_partitions(*names, 4)
            shrunk = await client.get_topic(stream, "topic")
            assert shrunk is not None
            assert [partition.id for partition in shrunk.partitions] == [0]

    run(body)


def test_given_options_are_read_back_as_explicit(server: Server, stream: str) -> None:
    """Typed fields, the explicit block, and the derived block that holds the rest."""

    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            await client.create_topic(
                stream,
                "topic",
                1,
                compression_algorithm="gzip",
                message_expiry=IggyExpiry.ExpireDuration(timedelta(seconds=5)),
                max_topic_size=MaxTopicSize.Custom(TWO_GIGABYTES),
            )
            topic = await client.get_topic(stream, "topic")
            assert topic is not None
            assert topic.compression_algorithm == "gzip"
            assert isinstance(topic.message_expiry, IggyExpiry.ExpireDuration)
            assert topic.message_expiry.duration == timedelta(seconds=5)
            assert isinstance(topic.max_topic_size, MaxTopicSize.Custom)
            assert topic.max_topic_size.bytes == TWO_GIGABYTES
            explicit, derived = dict(topic.options), dict(topic.derived_options)
            assert explicit[HeaderKey.String("compression_algorithm")] == HeaderValue.String("gzip")
            assert explicit[HeaderKey.String("message_expiry")] == HeaderValue.UnsignedInt64(5_000_000)
            assert explicit[HeaderKey.String("max_topic_size")] == HeaderValue.UnsignedInt64(TWO_GIGABYTES)
            assert HeaderKey.String("segment_size") in derived
            assert explicit.keys().isdisjoint(derived.keys())

    run(body)


def test_options_that_were_not_given_are_derived(server: Server, stream: str) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "topic", 1)
            topic = await client.get_topic(stream, "topic")
            assert topic is not None
            assert topic.compression_algorithm == "none"
            assert isinstance(topic.message_expiry, IggyExpiry.NeverExpire)
            assert isinstance(topic.max_topic_size, MaxTopicSize.Unlimited)
            listed = (await client.get_topics(stream))[0]
            assert dict(listed.options) == dict(topic.options)
            assert dict(listed.derived_options) == dict(topic.derived_options)

    run(body)


def test_options_survive_a_restart(stream: str) -> None:
    with Server() as node:

        async def options() -> tuple[object, ...]:
            async with logged_in(node.address) as client:
                topic = await client.get_topic(stream, "topic")
                assert topic is not None
                return dict(topic.options), dict(topic.derived_options), topic.created_at, topic.partitions_count

        async def create() -> None:
            async with logged_in(node.address) as client:
                await client.create_stream(stream)
                await client.create_topic(stream, "topic", 4, max_topic_size=MaxTopicSize.Custom(TWO_GIGABYTES))

        run(create)
        before = run(options)
        node.restart()
        assert run(options) == before


@pytest.mark.parametrize("partitions", [0, 1, 1000])
def test_up_to_1000_partitions_are_taken(server: Server, stream: str, partitions: int) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "topic", partitions)
            topic = await client.get_topic(stream, "topic")
            assert topic is not None
            assert topic.partitions_count == len(topic.partitions) == partitions

    run(body)


def test_what_breaks_a_rule_is_refused_and_changes_nothing(server: Server, stream: str) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "topic", 1)
            small = MaxTopicSize.Custom(4563)
            refusals: list[tuple[Callable[[], Awaitable[None]], str]] = [
                (lambda: client.create_topic(stream, "topic", 1), "already exists"),
                (lambda: client.create_topic(stream, "many", 1001), r"(?i)too many partitions"),
                (lambda: client.create_topic(stream, "small", 1, max_topic_size=small), r"(?i)max topic size"),
                (lambda: client.create_topic(f"{stream}-missing", "topic", 1), r"(?i)not found"),
                (lambda: client.create_topic(stream, "a" * 256, 1), r"(?i)invalid"),
                (lambda: client.update_topic(stream, "missing", "name"), r"(?i)not found"),
                (lambda: client.purge_topic(stream, "missing"), r"(?i)not found"),
                (lambda: client.delete_topic(stream, "missing"), r"(?i)not found"),
                (lambda: client.delete_topic(stream, 4_000_000), r"(?i)not found"),
            ]
            for ask, why in refusals:
                with pytest.raises(RuntimeError, match=why):
                    await ask()
            assert [topic.name for topic in await client.get_topics(stream)] == ["topic"]

    run(body)
