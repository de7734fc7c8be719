"""`levrier streams` and `levrier topics`: every command, as a table and as JSON, and what it refuses."""

import re

import pytest

from tests.cluster.cli.running import CommandLine

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
STREAM_KEYS = ["id", "name", "topics", "messages", "bytes", "created_at"]
TOPIC_KEYS = ["id", "name", "partitions", "messages", "bytes", "created_at"]


def test_a_created_stream_is_shown(levrier: CommandLine) -> None:
    created = levrier.read("streams", "create", "shown-created")
    assert list(created) == STREAM_KEYS
    assert (created["name"], created["topics"]) == ("shown-created", 0)
    assert isinstance(created["created_at"], int)


def test_streams_are_listed_in_a_table(levrier: CommandLine, stream: str) -> None:
    lines = levrier.ask("streams", "list").lines
    assert lines[0].split() == ["id", "name", "topics", "messages", "bytes", "created", "at"]
    row = next(line.split() for line in lines if stream in line)
    assert row[1:5] == [stream, "0", "0", "0"]
    assert ISO.fullmatch(row[5])


def test_a_list_says_the_same_in_json(levrier: CommandLine, stream: str) -> None:
    found = next(row for row in levrier.read("streams", "list") if row["name"] == stream)
    assert list(found) == STREAM_KEYS
    assert found == {**found, "topics": 0, "messages": 0, "bytes": 0}


def test_piped_tables_have_no_colours_and_no_blanks_at_the_end(levrier: CommandLine, stream: str) -> None:
    out = levrier.ask("streams", "list").out
    assert "\x1b" not in out
    assert [line for line in out.splitlines() if line != line.rstrip()] == []


def test_one_stream_is_shown_with_its_topics(levrier: CommandLine, stream: str) -> None:
    for topic in ("first", "second"):
        levrier.ask("topics", "create", stream, topic)
    assert "topic names  first, second" in levrier.ask("streams", "get", stream).lines
    assert levrier.read("streams", "get", stream)["topic_names"] == ["first", "second"]


def test_a_stream_is_found_by_its_id(levrier: CommandLine, stream: str) -> None:
    number = levrier.read("streams", "get", stream)["id"]
    assert levrier.read("streams", "get", f"id:{number}")["name"] == stream


def test_a_name_that_looks_like_an_id_is_written_out(levrier: CommandLine) -> None:
    levrier.ask("streams", "create", "id:77")
    assert levrier.read("streams", "get", "name:id:77")["name"] == "id:77"
    assert levrier.ask("streams", "get", "id:77").status == 1


def test_a_stream_is_renamed(levrier: CommandLine, stream: str) -> None:
    ran = levrier.ask("streams", "update", stream, f"{stream}-new")
    assert ran.out == f"renamed stream {stream} to {stream}-new\n"
    assert levrier.ask("streams", "get", stream).status == 1
    assert levrier.read("streams", "get", f"{stream}-new")["name"] == f"{stream}-new"


def test_a_stream_is_deleted(levrier: CommandLine, stream: str) -> None:
    assert levrier.read("streams", "delete", stream) == {"stream": stream}
    assert levrier.ask("streams", "get", stream).complaint == f"no stream {stream} on {levrier.address}"


def test_a_purged_stream_keeps_its_topics(levrier: CommandLine, stream: str) -> None:
    levrier.ask("topics", "create", stream, "kept")
    assert levrier.ask("streams", "purge", stream).out == f"purged stream {stream}\n"
    assert levrier.read("streams", "get", stream)["topic_names"] == ["kept"]


def test_a_topic_is_created_with_its_options(levrier: CommandLine, stream: str) -> None:
    created = levrier.read(
        *("topics", "create", stream, "placed", "--partitions", "3"),
        *("-o", "message_expiry=7days", "-o", "max_topic_size=10GiB", "-o", "compression_algorithm=gzip"),
    )
    assert list(created) == [*TOPIC_KEYS, "partition_ids", "options"]
    assert (created["partitions"], created["partition_ids"]) == (3, [0, 1, 2])
    assert created["options"]["message_expiry"] == 7 * 86_400_000_000
    assert created["options"]["max_topic_size"] == 10 << 30
    assert created["options"]["compression_algorithm"] == "gzip"


def test_options_are_shown_as_they_are_written(levrier: CommandLine, stream: str) -> None:
    levrier.ask("topics", "create", stream, "t", "-o", "message_expiry=36h", "-o", "segment_size=512MiB")
    fields = {line[:35].strip(): line[35:] for line in levrier.ask("topics", "get", stream, "t").lines}
    assert fields["message expiry"] == "36h"
    assert fields["segment size"] == "512MiB"
    assert fields["max topic size"] == "unlimited"
    assert fields["enforce fsync"] == "no"
    assert ISO.fullmatch(fields["created at"])


def test_topics_are_listed(levrier: CommandLine, stream: str) -> None:
    assert levrier.ask("topics", "list", stream).out == f"no topics in {stream}\n"
    levrier.ask("topics", "create", stream, "one", "--partitions", "2")
    (found,) = levrier.read("topics", "list", stream)
    assert list(found) == TOPIC_KEYS
    assert (found["name"], found["partitions"]) == ("one", 2)
    assert levrier.ask("topics", "list", stream).lines[1].split()[:3] == ["0", "one", "2"]


def test_an_update_of_a_topic_keeps_the_options_that_it_does_not_name(levrier: CommandLine, stream: str) -> None:
    levrier.ask("topics", "create", stream, "old", "-o", "max_topic_size=10GiB")
    ran = levrier.ask("topics", "update", stream, "old", "new", "-o", "message_expiry=1day")
    assert ran.out == f"updated topic old of stream {stream}, now called new\n"
    options = levrier.read("topics", "get", stream, "new")["options"]
    assert (options["message_expiry"], options["max_topic_size"]) == (86_400_000_000, 10 << 30)


def test_a_topic_is_deleted(levrier: CommandLine, stream: str) -> None:
    levrier.ask("topics", "create", stream, "gone")
    assert levrier.read("topics", "delete", stream, "gone") == {"stream": stream, "topic": "gone"}
    assert levrier.ask("topics", "get", stream, "gone").complaint.startswith("no topic gone in stream ")


def test_a_purged_topic_stays(levrier: CommandLine, stream: str) -> None:
    levrier.ask("topics", "create", stream, "kept")
    assert levrier.ask("topics", "purge", stream, "kept").out == f"purged topic kept of stream {stream}\n"
    assert levrier.ask("topics", "get", stream, "kept").status == 0


@pytest.mark.parametrize(
    "command",
    [
        ("streams", "get", "nowhere"),
        ("streams", "update", "nowhere", "else"),
        ("streams", "delete", "nowhere"),
        ("streams", "purge", "nowhere"),
        ("topics", "list", "nowhere"),
        ("topics", "get", "nowhere", "t"),
        ("topics", "create", "nowhere", "t"),
        ("topics", "update", "nowhere", "t", "u"),
        ("topics", "delete", "nowhere", "t"),
        ("topics", "purge", "nowhere", "t"),
    ],
    ids=" ".join,
)
def test_what_is_not_there_ends_with_1(levrier: CommandLine, command: tuple[str, ...]) -> None:
    ran = levrier.ask(*command)
    assert ran.status == 1
    assert levrier.address in ran.complaint


def test_a_refusal_says_who_refused_what(levrier: CommandLine, stream: str) -> None:
    ran = levrier.ask("streams", "create", stream)
    assert ran.status == 1
    assert ran.complaint == f"{levrier.address} refused: a stream of this name exists (code 1012)"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("streams", "create", ""), "'' is no name"),
        (("streams", "create", "x" * 256), "is no name"),
        (("streams", "create", "\udcff"), "is no name"),
        (("streams", "get", "id:seven"), "a number is expected behind id:"),
        (("streams", "get", "id:4294967296"), "a number is expected behind id:"),
        (("topics", "create", "s", "t", "-o", "message_expiry"), "KEY=VALUE is expected"),
        (("topics", "create", "s", "t", "-o", "mesage_expiry=1day"), "did you mean message_expiry?"),
        (("topics", "create", "s", "t", "-o", "qqq=1"), "known are compression_algorithm, message_expiry"),
        (("topics", "create", "s", "t", "-o", "compression_algorithm=zip"), "none or gzip"),
    ],
    ids=lambda value: " ".join(value)[:40].encode("ascii", "replace").decode() if isinstance(value, tuple) else "",
)
def test_misuse_is_found_before_anybody_is_asked(levrier: CommandLine, command: tuple[str, ...], said: str) -> None:
    ran = levrier(*command, "--connect", "127.0.0.1:1")
    assert ran.status == 2
    assert said in ran.complaint


def test_a_name_is_not_read_as_markup(levrier: CommandLine, terminal: int) -> None:
    levrier.ask("streams", "create", "[red]not red[/red] :smile:")
    assert any("[red]not red[/red] :smile:" in line for line in levrier.ask("streams", "list").lines)


def test_a_name_does_not_steer_the_terminal(levrier: CommandLine, terminal: int) -> None:
    levrier.ask("streams", "create", "a\x1b]0;title\x07\nb")
    assert any(r"a\x1b]0;title\x07\nb" in line for line in levrier.ask("streams", "list").lines)


def test_a_long_name_is_folded_in_a_terminal_and_kept_whole_in_a_pipe(
    levrier: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "long-" + "n" * 250
    levrier.ask("streams", "create", name)
    assert any(name in line for line in levrier.ask("streams", "list").lines)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    lines = levrier.ask("streams", "list").lines
    assert max(map(len, lines)) <= 100
    assert sum("nnnn" in line for line in lines) > 1
