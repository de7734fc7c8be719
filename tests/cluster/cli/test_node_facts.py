"""What a node tells about itself and its connections, and the names of Iggy's own tool."""

import os
import zipfile
from pathlib import Path

import pytest

from levrier.cluster.cli.node_facts import RoughSize, RunTime
from levrier.cluster.config import NodeConfig
from tests.cluster.cli.running import CommandLine
from tests.cluster.cli.test_catalogue import ISO

CLIENT_KEYS = ["client_id", "user_id", "transport", "address", "groups"]


def test_me_is_among_the_clients(levrier: CommandLine) -> None:
    mine = levrier.read("me")
    assert list(mine) == [*CLIENT_KEYS, "memberships"]
    assert (mine["user_id"], mine["transport"], mine["groups"]) == (0, "tcp", 0)
    assert levrier.ask("me").lines[2] == "transport  tcp"


def test_clients_are_listed(levrier: CommandLine) -> None:
    assert list(levrier.read("clients", "list")[0]) == CLIENT_KEYS
    lines = levrier.ask("client", "list").lines
    assert lines[0].split() == ["client", "id", "user", "id", "transport", "address", "groups"]


def test_a_client_that_is_not_there_ends_with_1(levrier: CommandLine) -> None:
    ran = levrier.ask("clients", "get", "4294967294")
    assert ran.status == 1
    assert ran.complaint == f"no client 4294967294 on {levrier.address}"


def test_stats_in_json_are_numbers(levrier: CommandLine) -> None:
    found = levrier.read("stats")
    assert found["process_id"] == os.getpid()
    assert isinstance(found["memory_usage"], int)
    assert isinstance(found["cpu_usage"], float)
    assert found["cache_metrics"] == []


def test_stats_as_a_table_have_units(levrier: CommandLine) -> None:
    fields = {line[:23].strip(): line[23:] for line in levrier.ask("stats").lines}
    assert fields["memory usage"].endswith("MiB")
    assert fields["cpu usage"].endswith(" %")
    assert ISO.fullmatch(fields["start time"])
    assert "cache metrics" not in fields


@pytest.mark.parametrize(
    ("size", "shown"), [(0, "0"), (1023, "1023"), (1536, "1.5KiB"), (5 << 30, "5.0GiB"), (1 << 41, "2.0TiB")]
)
def test_a_measured_size_is_rounded(size: int, shown: str) -> None:
    assert RoughSize(size).shown() == shown


def test_a_run_time_is_shown_to_the_second() -> None:
    assert RunTime(90_061_999_999).shown() == "1 day, 1:01:01"


def test_the_options_of_a_topic_are_described(levrier: CommandLine) -> None:
    found = {row["key"]: row for row in levrier.read("options")}
    assert list(found["segment_size"]) == ["key", "kind", "default", "description"]
    assert (found["segment_size"]["kind"], found["segment_size"]["default"]) == ("uint64", 1 << 30)
    assert found["compression_algorithm"]["default"] == "none"
    row = next(line for line in levrier.ask("options", "topic").lines if line.startswith("segment_size "))
    assert row.split()[1:3] == ["uint64", "1GiB"]


@pytest.mark.parametrize("scope", ["stream", "user"])
def test_streams_and_users_have_no_options(levrier: CommandLine, scope: str) -> None:
    assert levrier.ask("options", scope).out == f"a {scope} has no options\n"
    assert levrier.read("options", scope) == []


@pytest.mark.parametrize("compression", ["stored", "deflated", "bzip2", "lzma"])
def test_the_archive_is_written(levrier: CommandLine, tmp_path: Path, compression: str) -> None:
    file = tmp_path / "node.zip"
    ran = levrier.ask("snapshot-file", "--output", str(file), "--compression", compression)
    assert ran.out == f"wrote {file}, {file.stat().st_size} bytes\n"
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert "status.json" in archive.namelist()
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_is_there_is_kept(levrier: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "node.zip"
    file.write_text("mine")
    ran = levrier.ask("snapshot-file", "--output", str(file))
    assert ran.status == 2
    assert ran.complaint == f"{file} exists; --force replaces it, --output names another file"
    assert file.read_text() == "mine"
    assert levrier.read("snapshot-file", "--output", str(file), "--force") == {
        "file": str(file),
        "bytes": file.stat().st_size,
    }
    assert zipfile.is_zipfile(file)


def test_a_directory_that_is_not_there_is_named(levrier: CommandLine, tmp_path: Path) -> None:
    ran = levrier.ask("snapshot-file", "--output", str(tmp_path / "no" / "node.zip"))
    assert ran.status == 2
    assert ran.complaint == f"{tmp_path / 'no'} is no directory; create it first"


def test_what_the_system_says_about_the_file_is_said(levrier: CommandLine) -> None:
    ran = levrier.ask("snapshot-file", "--output", "x" * 300)
    assert ran.status == 2
    assert ran.complaint == f"{'x' * 300}: File name too long"


def test_the_nodes_of_the_cluster_are_listed(levrier: CommandLine) -> None:
    found = levrier.read("cluster", "metadata")
    assert found["name"] == NodeConfig().cluster_name
    (node,) = found["nodes"]
    assert (f"{node['ip']}:{node['tcp']}", node["role"], node["status"]) == (levrier.address, "leader", "healthy")
    ran = levrier.ask("cluster", "metadata")
    assert ran.err == f"cluster {found['name']}\n"
    assert ran.lines[0].split() == ["name", "ip", "tcp", "quic", "http", "websocket", "role", "status"]


@pytest.mark.parametrize(
    "command", [("stats",), ("options",), ("cluster", "metadata"), ("clients", "list"), ("users", "list")], ids=" ".join
)
def test_tables_fit_a_terminal(levrier: CommandLine, terminal: int, command: tuple[str, ...]) -> None:
    lines = levrier.ask(*command).lines
    assert max(map(len, lines)) <= terminal


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("stream", "streams"),
        ("topic", "topics"),
        ("partition", "partitions"),
        ("segment", "segments"),
        ("consumer-group", "groups"),
        ("user", "users"),
        ("pat", "tokens"),
        ("client", "clients"),
    ],
)
def test_a_name_of_iggys_own_tool_has_the_same_commands_and_is_listed_once(
    levrier: CommandLine, alias: str, name: str
) -> None:
    assert levrier(alias, "--help").lines[2:] == levrier(name, "--help").lines[2:]
    listed = [line.split()[1] for line in levrier("--help").lines if line.startswith("│ ")]
    assert name in listed
    assert alias not in listed


@pytest.mark.parametrize(
    "command",
    [
        *(
            f"users {name}"
            for name in ("list", "get", "create", "update", "delete", "change-password", "name", "status")
        ),
        *(f"permissions {name}" for name in ("show", "set", "clear")),
        *(f"tokens {name}" for name in ("list", "create", "delete")),
        *(f"groups {name}" for name in ("list", "get", "create", "delete")),
        *(f"partitions {name}" for name in ("create", "delete")),
        *("segments delete", "clients list", "clients get", "cluster metadata"),
        *("me", "stats", "options", "snapshot-file"),
    ],
)
def test_help_of_every_command_has_an_example_and_fits_a_terminal(
    levrier: CommandLine, terminal: int, command: str
) -> None:
    ran = levrier(*command.split(), "--help")
    assert ran.status == 0
    assert f"Example: levrier {command.split(maxsplit=1)[0].removesuffix('s')}" in "\n".join(ran.lines)
    assert "`" not in ran.out
    assert "…" not in ran.out
    assert max(map(len, ran.lines)) <= terminal
