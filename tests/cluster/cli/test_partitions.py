"""`levrier partitions` and `levrier segments`."""

import pytest

from tests.cluster.cli.running import CommandLine


@pytest.fixture
def topic(levrier: CommandLine, stream: str) -> str:
    """A topic of the stream of the test, with one partition."""
    assert levrier.ask("topics", "create", stream, "placed").status == 0
    return "placed"


def partition_ids(levrier: CommandLine, stream: str) -> list[int]:
    """What partitions the topic has."""
    found: list[int] = levrier.read("topics", "get", stream, "placed")["partition_ids"]
    return found


def test_partitions_are_added_at_the_end_and_deleted_from_there(levrier: CommandLine, stream: str, topic: str) -> None:
    ran = levrier.ask("partitions", "create", stream, topic, "2")
    assert ran.out == f"added 2 partitions to topic placed of stream {stream}\n"
    assert partition_ids(levrier, stream) == [0, 1, 2]
    ran = levrier.ask("partition", "delete", stream, topic, "1")
    assert ran.out == f"deleted the last partition of topic placed of stream {stream}\n"
    assert partition_ids(levrier, stream) == [0, 1]


def test_both_say_in_json_what_they_did(levrier: CommandLine, stream: str, topic: str) -> None:
    added = levrier.read("partitions", "create", stream, topic, "1")
    assert added == {"stream": stream, "topic": topic, "partitions_added": 1}
    deleted = levrier.read("partitions", "delete", stream, topic, "2")
    assert deleted == {"stream": stream, "topic": topic, "partitions_deleted": 2}


def test_segments_are_deleted(levrier: CommandLine, stream: str, topic: str) -> None:
    ran = levrier.ask("segments", "delete", stream, topic, "0", "3")
    assert ran.out == (
        f"asked for the oldest 3 segments of partition 0, topic placed of stream {stream}, to be deleted\n"
    )
    assert levrier.read("segment", "delete", stream, topic, "0", "1") == {
        "stream": stream,
        "topic": topic,
        "partition": 0,
        "segments": 1,
    }


def test_more_partitions_than_there_are_cannot_be_deleted(levrier: CommandLine, stream: str, topic: str) -> None:
    ran = levrier.ask("partitions", "delete", stream, topic, "2")
    assert ran.status == 1
    assert ran.complaint == f"{levrier.address} refused: topic placed has fewer than 2 partitions (code 2019)"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("partitions", "create", "nowhere", "t", "1"), "there is no such stream"),
        (("partitions", "delete", "nowhere", "t", "1"), "there is no such stream"),
        (("segments", "delete", "nowhere", "t", "0", "1"), "there is no such stream"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_what_is_not_there_ends_with_1(levrier: CommandLine, command: tuple[str, ...], said: str) -> None:
    ran = levrier.ask(*command)
    assert ran.status == 1
    assert said in ran.complaint


def test_a_partition_that_is_not_there_is_said_so(levrier: CommandLine, stream: str, topic: str) -> None:
    ran = levrier.ask("segments", "delete", stream, topic, "7", "1")
    assert ran.status == 1
    assert ran.complaint == f"{levrier.address} refused: there is no such partition (code 3007)"


@pytest.mark.parametrize(
    "command",
    [
        ("partitions", "create", "s", "t", "0"),
        ("partitions", "create", "s", "t", "1001"),
        ("partitions", "create", "s", "t", "many"),
        ("partitions", "delete", "s", "t"),
        ("segments", "delete", "s", "t", "first", "1"),
        ("segments", "delete", "s", "t", "0", "0"),
    ],
    ids=" ".join,
)
def test_a_count_that_cannot_be_is_misuse(levrier: CommandLine, command: tuple[str, ...]) -> None:
    ran = levrier(*command, "--connect", "127.0.0.1:1")
    assert (ran.status, ran.out) == (2, "")
    assert "Usage: levrier" in ran.err
