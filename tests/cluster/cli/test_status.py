"""`levrier status`, and what every command that asks has in common: whom it asks, as whom, and what it says when it cannot."""

import json
import os
import socket
from collections.abc import Iterator

import pytest

from levrier.cluster.config import NodeConfig
from levrier.cluster.testing import Server
from tests.cluster.cli.running import CommandLine

HEADINGS = ["#", "role", "tcp", "pid", "view", "op", "commit", "applied", "checkpoint", "lag", "up"]
"""Without `http`, which nobody serves; the table fits 80 columns."""

NODE_FIELDS = [
    *("replica", "role", "tcp", "http", "pid", "view", "op", "commit", "applied", "checkpoint", "lag", "reachable"),
    *("waiting", "waiting_for"),
]


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of something that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        yield f"{host}:{port}"


@pytest.fixture
def nobody() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
    return f"{host}:{port}"


def test_status_in_json(levrier: CommandLine) -> None:
    answer = levrier.read("status")
    assert answer["cluster"] == NodeConfig().cluster_name
    (node,) = answer["nodes"]
    assert list(node) == NODE_FIELDS
    assert (node["replica"], node["role"], node["reachable"], node["http"]) == (0, "primary", True, None)
    assert node["waiting"] is None
    assert node["waiting_for"] is None
    assert (node["tcp"], node["pid"]) == (levrier.address, os.getpid())
    assert node["op"] >= node["commit"] >= node["applied"] > 0
    assert node["lag"] == node["commit"] - node["applied"]


def test_status_as_a_table(levrier: CommandLine) -> None:
    ran = levrier.ask("status")
    assert ran.status == 0
    assert ran.err.startswith("cluster single-node, levrier ")
    heading, row = ran.lines
    assert heading.split() == HEADINGS
    assert row.split()[:3] == ["0", "primary", levrier.address]
    assert row.split()[-1] == "yes"


def test_status_fits_a_terminal(levrier: CommandLine, terminal: int) -> None:
    """One of 80 columns, too, until an op has seven digits."""
    lines = levrier.ask("status").lines
    assert len(lines) == 2
    assert max(map(len, lines)) <= min(terminal, 80)


def test_a_node_that_is_not_there_keeps_its_row_and_ends_with_2(levrier: CommandLine, nobody: str) -> None:
    ran = levrier("status", "--connect", nobody, "--json")
    assert ran.status == 2
    (node,) = json.loads(ran.out)["nodes"]
    assert list(node) == NODE_FIELDS
    assert (node["tcp"], node["reachable"], node["op"]) == (nobody, False, None)
    assert nobody in ran.err
    table = levrier("status", "--connect", nobody)
    assert table.status == 2
    assert table.lines[1].split()[-1] == "no"


@pytest.mark.parametrize(
    "command",
    [("streams", "list"), ("topics", "list", "s"), ("streams", "create", "s"), ("bench", "--seconds", "0.1")],
    ids=" ".join,
)
def test_where_nobody_listens_the_next_step_is_said(
    levrier: CommandLine, nobody: str, command: tuple[str, ...]
) -> None:
    ran = levrier(*command, "--connect", nobody)
    assert ran.status == 2
    assert ran.complaint == (
        f"{nobody}: nobody listens there; start a node with `levrier serve`, or name another with --connect"
    )


def test_every_call_has_a_deadline(levrier: CommandLine, silent: str) -> None:
    ran = levrier("streams", "list", "--connect", silent, "--timeout", "0.2")
    assert ran.status == 2
    assert ran.complaint.startswith(f"{silent}: no answer in time; ")
    assert "--timeout" in ran.complaint


def test_a_host_that_does_not_exist_is_named(levrier: CommandLine) -> None:
    ran = levrier("streams", "list", "--connect", "no-such-host.invalid:8090")
    assert ran.status == 2
    assert ran.complaint.startswith("no-such-host.invalid:8090: ")


def test_a_wrong_password_is_refused_with_1(levrier: CommandLine) -> None:
    ran = levrier.ask("streams", "list", "--password", "wrong-password")
    assert ran.status == 1
    assert ran.complaint.startswith(f"{levrier.address} refused: wrong user name or password (code 42); ")
    assert "wrong-password" not in ran.complaint


def test_address_and_login_come_from_the_environment(
    levrier: CommandLine, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVRIER_CONNECT", server.address)
    assert levrier("streams", "list").status == 0
    monkeypatch.setenv("LEVRIER_PASSWORD", "another")
    assert levrier("streams", "list").status == 1
    assert levrier("streams", "list", "--password", server.password).status == 0
    monkeypatch.setenv("LEVRIER_USERNAME", "nobody")
    assert levrier("streams", "list", "--password", server.password).status == 1


@pytest.mark.parametrize("address", ["8090", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536"])
def test_what_is_no_address_is_refused_with_2(levrier: CommandLine, address: str) -> None:
    ran = levrier("streams", "list", "--connect", address)
    assert ran.status == 2
    assert address.rpartition(":")[2] in ran.complaint


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("streams", "nonsense"),
        ("streams", "list", "--nonsense"),
        ("streams", "create"),
        ("streams", "create", "a", "b"),
        ("topics", "create", "s", "t", "--partitions", "1001"),
        ("topics", "create", "s", "t", "--partitions", "few"),
        ("bench", "--operation", "dance"),
        ("bench", "--concurrency", "0"),
        ("streams", "list", "--timeout", "0"),
        ("inspect", "journal"),
    ],
    ids=" ".join,
)
def test_a_misused_command_ends_with_2_and_says_how_to_use_it(levrier: CommandLine, arguments: tuple[str, ...]) -> None:
    ran = levrier(*arguments)
    assert (ran.status, ran.out) == (2, "")
    assert "Usage: levrier" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("serve",),
        ("status",),
        ("streams",),
        ("streams", "create"),
        ("topics",),
        ("topics", "create"),
        ("bench",),
        ("demo",),
        ("dev",),
        ("inspect",),
        ("inspect", "journal"),
    ],
    ids=lambda arguments: " ".join(arguments) or "levrier",
)
def test_help_of_every_command_shows_how_to_use_it(levrier: CommandLine, arguments: tuple[str, ...]) -> None:
    """Code marks are rendered, not printed."""
    ran = levrier(*arguments, "--help")
    assert (ran.status, ran.err) == (0, "")
    assert "Usage: levrier" in ran.out
    assert "`" not in ran.out
    leaves = {("serve",), ("status",), ("bench",), ("demo",), ("dev",)}
    if arguments in leaves or len(arguments) == 2:
        assert "Example" in ran.out


def test_the_version_is_printed(levrier: CommandLine) -> None:
    ran = levrier("--version")
    assert ran.status == 0
    assert ran.out.startswith("levrier ")
