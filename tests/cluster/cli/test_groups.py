"""`levrier groups`: the consumer groups of a topic."""

import asyncio
from collections.abc import Iterator

import pytest

from levrier.cluster.client import Client
from levrier.cluster.testing import Server
from tests.cluster.cli.running import CommandLine

KEYS = ["id", "name", "partitions", "members"]


@pytest.fixture
def topic(levrier: CommandLine, stream: str) -> str:
    """A topic of the stream of the test, with three partitions."""
    assert levrier.ask("topics", "create", stream, "placed", "--partitions", "3").status == 0
    return "placed"


@pytest.fixture
def member(server: Server, levrier: CommandLine, stream: str, topic: str) -> Iterator[str]:
    """A group that somebody is a member of, as long as the test runs."""
    levrier.ask("groups", "create", stream, topic, "billing")
    with asyncio.Runner() as runner:

        async def join() -> Client:
            client = await Client.connect(server.host, server.port)
            await client.login("iggy", "iggy")
            await client.join_group(stream, topic, "billing")
            return client

        client = runner.run(join())
        yield "billing"
        runner.run(client.close())


def test_a_created_group_is_shown(levrier: CommandLine, stream: str, topic: str) -> None:
    created = levrier.read("groups", "create", stream, topic, "billing")
    assert list(created) == KEYS
    assert (created["name"], created["partitions"], created["members"]) == ("billing", 3, 0)


def test_groups_are_listed(levrier: CommandLine, stream: str, topic: str) -> None:
    assert levrier.ask("groups", "list", stream, topic).out == f"no groups in topic placed of stream {stream}\n"
    assert levrier.read("groups", "list", stream, topic) == []
    levrier.ask("groups", "create", stream, topic, "billing")
    assert levrier.ask("groups", "list", stream, topic).lines == [
        "id  name     partitions  members",
        " 0  billing           3        0",
    ]


def test_one_group_is_shown_with_its_members(levrier: CommandLine, stream: str, topic: str, member: str) -> None:
    lines = levrier.ask("groups", "get", stream, topic, member).lines
    assert lines[:5] == ["id          0", "name        billing", "partitions  3", "members     1", ""]
    assert lines[5].split() == ["member", "partition", "ids"]
    assert lines[6].endswith("0, 1, 2")
    found = levrier.read("groups", "get", stream, topic, member)
    assert [row["partition_ids"] for row in found["members_with_partitions"]] == [[0, 1, 2]]


@pytest.mark.usefixtures("member")
def test_a_client_is_shown_with_its_memberships(levrier: CommandLine) -> None:
    found = next(row for row in levrier.read("clients", "list") if row["groups"] == 1)
    shown = levrier.read("clients", "get", str(found["client_id"]))
    assert [row["group_id"] for row in shown["memberships"]] == [0]
    assert levrier.ask("clients", "get", str(found["client_id"])).lines[-2].split() == [
        *("stream", "id", "topic", "id", "group", "id")
    ]


def test_a_group_is_found_by_its_id(levrier: CommandLine, stream: str, topic: str) -> None:
    levrier.ask("groups", "create", stream, topic, "billing")
    assert levrier.read("consumer-group", "get", stream, topic, "id:0")["name"] == "billing"


def test_a_group_is_deleted(levrier: CommandLine, stream: str, topic: str) -> None:
    levrier.ask("groups", "create", stream, topic, "billing")
    ran = levrier.ask("groups", "delete", stream, topic, "billing")
    assert ran.out == f"deleted group billing of topic placed of stream {stream}\n"
    ran = levrier.ask("groups", "get", stream, topic, "billing")
    assert ran.complaint == f"no group billing in topic placed of stream {stream} on {levrier.address}"


@pytest.mark.parametrize(
    "command",
    [
        ("list", "nowhere", "t"),
        ("get", "nowhere", "t", "g"),
        ("create", "nowhere", "t", "g"),
        ("delete", "nowhere", "t", "g"),
    ],
    ids=" ".join,
)
def test_what_is_not_there_ends_with_1(levrier: CommandLine, command: tuple[str, ...]) -> None:
    ran = levrier.ask("groups", *command)
    assert ran.status == 1
    assert ran.complaint == f"{levrier.address} refused: there is no such stream (code 1009)"


def test_a_refusal_says_what_about_the_group(levrier: CommandLine, stream: str, topic: str) -> None:
    ran = levrier.ask("groups", "delete", stream, topic, "nope")
    assert ran.complaint == f"{levrier.address} refused: there is no such group (code 5000)"
    levrier.ask("groups", "create", stream, topic, "billing")
    ran = levrier.ask("groups", "create", stream, topic, "billing")
    assert ran.complaint == f"{levrier.address} refused: a group of this name exists (code 5004)"
    ran = levrier.ask("groups", "list", stream, "nope")
    assert ran.complaint == f"{levrier.address} refused: there is no such topic (code 2010)"
