"""`levrier demo`: short ones, told to their end by real processes."""

import asyncio
import json
import socket
from pathlib import Path

import pytest

from levrier.cluster.client import ClientError
from levrier.cluster.demo import DemoFailed
from levrier.cluster.demo_clients import Clients, Create
from levrier.cluster.demo_cluster import connect_all, longest_gap, pulse_of
from levrier.cluster.process import NodeDidNotStart, NodeProcess
from tests.cluster.cli.running import CommandLine

pytestmark = pytest.mark.process


def test_the_demo_counts_what_was_kept(levrier: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The root user of the person who runs it does not matter."""
    monkeypatch.setenv("IGGY_ROOT_USERNAME", "admin")
    monkeypatch.setenv("IGGY_ROOT_PASSWORD", "a-password-of-mine")
    ran = levrier("demo", "--nodes", "1", "--operations", "10", "--kills", "1", "--json")
    assert ran.status == 0, ran.err
    outcome = json.loads(ran.out)
    assert list(outcome) == ["client", "acknowledged", "kept", "lost", "doubled", "unanswered", "unanswered_kept"]
    assert (outcome["kept"], outcome["lost"], outcome["doubled"]) == (outcome["acknowledged"], 0, 0)
    assert outcome["acknowledged"] >= 10
    assert outcome["unanswered_kept"] <= outcome["unanswered"]
    steps = ran.err.splitlines()
    assert [step.split(":")[0] for step in steps[:2]] == ["clients", "started a node"]
    assert steps[2].startswith("kill -9, 1 of 1, after ")
    assert steps[-1] == "everything that was acknowledged is there, once"


def test_three_nodes_lose_their_primary_and_nothing_else(levrier: CommandLine) -> None:
    ran = levrier("demo", "--operations", "10", "--json")
    assert ran.status == 0, ran.err
    outcome = json.loads(ran.out)
    first = ["client", "nodes", "acknowledged", "kept", "lost", "doubled", "unanswered", "unanswered_kept"]
    assert list(outcome) == [*first, "gap_ms", "view_before", "view_after", "kills"]
    assert (outcome["kept"], outcome["lost"], outcome["doubled"]) == (outcome["acknowledged"], 0, 0)
    assert outcome["acknowledged"] >= 20
    assert outcome["unanswered_kept"] <= outcome["unanswered"]
    (kill,) = outcome["kills"]
    assert kill["killed"] != kill["successor"]
    assert outcome["view_before"] < outcome["view_after"]
    assert outcome["gap_ms"] == kill["gap_milliseconds"] > 0
    told = ran.err.split()
    assert [told.count(word) for word in ("ready", "writing", "elected", "returned")] == [1, 1, 1, 1]
    assert ran.err.endswith("\neverything that was acknowledged is there, once\n")
    assert "\x1b" not in ran.err


def test_no_write_and_no_kill_comes_before_every_client_is_logged_in() -> None:
    """The SDK does not try a first login again that a killed primary has interrupted."""
    slow = asyncio.Event()

    async def connect(address: str) -> Create:
        if address == "b":
            await slow.wait()

        async def create(name: str) -> str:
            return f"{address}/{name}"

        return create

    async def story() -> list[object]:
        connecting = asyncio.create_task(connect_all(Clients(name="", connect=connect), ["a", "b"]))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not connecting.done()
        slow.set()
        return [await create("s") for create in await connecting]

    assert asyncio.run(story()) == ["a/s", "b/s"]


@pytest.mark.parametrize("error", [RuntimeError("Disconnected"), ClientError("nobody leads", address="a")])
def test_a_client_that_cannot_log_in_ends_the_demo_with_its_words(error: Exception) -> None:
    async def connect(_address: str) -> Create:
        raise error

    with pytest.raises(DemoFailed, match=f"a client could not log in: .*{error}"):
        asyncio.run(connect_all(Clients(name="", connect=connect), ["a"]))


def test_two_nodes_are_too_few(levrier: CommandLine) -> None:
    ran = levrier("demo", "--nodes", "2")
    assert ran.status == 2
    assert "take 3" in ran.complaint


def test_the_gap_is_the_longest_pause_around_the_kill() -> None:
    """Not one long before it; an answer that is read a moment after the kill does not end it."""
    assert longest_gap([1.0, 9.0, 9.1, 10.0, 10.01, 12.5, 12.6], 10.0) == pytest.approx(2.49)
    assert longest_gap([], 10.0) == 0.0


def test_the_pulse_counts_tenths_of_a_second_from_the_beginning() -> None:
    assert pulse_of([4.9, 5.0, 5.05, 5.31, 5.32, 5.65], 5.0, 5.35) == ((2, 0, 0, 2, 0, 0, 1), 3)


def test_a_node_that_does_not_start_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(NodeDidNotStart) as failed:
            NodeProcess.start(tmp_path / "data", listen=address)
    assert str(failed.value).startswith(
        f"levrier serve --data {tmp_path / 'data'} --listen {address} ended with status 15\n"
    )
    assert f"cannot listen on {address}" in str(failed.value)
