"""`levrier status` of three nodes: all of them are found from any of them, whatever has happened to the others."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from levrier.cluster.local_cluster import ClusterPlan, config_text
from levrier.cluster.process import NodeProcess
from levrier.cluster.testing import Cluster
from tests.cluster.cli.running import CommandLine, Ran
from tests.cluster.three_nodes import until

pytestmark = pytest.mark.process
QUORUM_LOST = "waiting for quorum: 1 of 3"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes; the tests of this file kill more and more of them, in their order."""
    with Cluster() as running:
        yield running


def ask(levrier: CommandLine, cluster: Cluster, replica: int, *arguments: str) -> Ran:
    return levrier("status", "--connect", cluster.address(replica), *arguments)


def nodes(ran: Ran) -> list[dict[str, Any]]:
    answer = json.loads(ran.out)
    assert answer["cluster"] in ("of-a-test", None)
    found: list[dict[str, Any]] = answer["nodes"]
    return found


@pytest.mark.parametrize("replica", range(3))
def test_every_node_is_found_from_any_of_them(levrier: CommandLine, cluster: Cluster, replica: int) -> None:
    ran = ask(levrier, cluster, replica, "--json")
    assert (ran.status, ran.err) == (0, "")
    found = nodes(ran)
    assert [node["replica"] for node in found] == [0, 1, 2]
    assert [node["tcp"] for node in found] == list(cluster.addresses)
    assert [node["pid"] for node in found] == [cluster.pid(each) for each in range(3)]
    assert [node["role"] for node in found].count("primary") == 1
    assert found[cluster.primary() or 0]["role"] == "primary"
    assert all(node["reachable"] and node["waiting"] is node["waiting_for"] is None for node in found)


def test_the_table_fits_a_terminal_of_100_columns(levrier: CommandLine, cluster: Cluster, terminal: int) -> None:
    ran = ask(levrier, cluster, 0)
    assert ran.status == 0
    assert len(ran.lines) == 4
    assert max(map(len, ran.lines)) <= terminal
    assert "\x1b[1;32m" in ran.out  # Who serves stands out.


def test_a_node_that_stands_still_is_listed_as_unreachable(levrier: CommandLine, cluster: Cluster) -> None:
    leader = cluster.primary()
    assert leader is not None
    asked, still = (replica for replica in range(3) if replica != leader)
    cluster.pause(still)
    ran = ask(levrier, cluster, asked, "--json", "--timeout", "1")
    cluster.resume(still)
    assert ran.status == 0
    found = nodes(ran)
    assert [node["reachable"] for node in found] == [replica != still for replica in range(3)]
    assert (found[still]["tcp"], found[still]["role"], found[still]["op"]) == (cluster.address(still), None, None)


def test_without_a_quorum_it_says_what_is_waited_for_and_for_whom_and_ends_with_1(
    levrier: CommandLine, cluster: Cluster
) -> None:
    """Nobody can log in there any more. The node has said it in its log, too, once."""
    leader = cluster.primary()
    assert leader is not None
    left, other = (replica for replica in range(3) if replica != leader)
    before = cluster.log(left).count(QUORUM_LOST)
    cluster.kill(leader)
    cluster.kill(other)

    async def is_noticed() -> bool:
        return cluster.log(left).count(QUORUM_LOST) > before

    asyncio.run(until(is_noticed, "the loss of the quorum"))
    missing = [f"node-{replica}" for replica in sorted((leader, other))]
    who = f"{QUORUM_LOST}, {missing[0]} and {missing[1]} do not answer"
    for _ in range(2):
        ran = ask(levrier, cluster, left, "--json")
        assert ran.status == 1
        assert ran.err == f"levrier: no primary serves: {who}\n"
        found = nodes(ran)
        assert [node["reachable"] for node in found] == [replica == left for replica in range(3)]
        assert [node["tcp"] for node in found] == list(cluster.addresses)
        assert found[left]["waiting"] == QUORUM_LOST
        assert [node["waiting_for"] for node in found] == [missing if replica == left else None for replica in range(3)]
    assert cluster.log(left).count(QUORUM_LOST) == before + 1
    table = ask(levrier, cluster, left)
    assert table.status == 1
    assert [line.split()[-1] for line in table.lines[1:]].count("no") == 2
    assert who in table.err


def test_where_nobody_answers_it_ends_with_2(levrier: CommandLine, cluster: Cluster) -> None:
    for replica in range(3):
        cluster.kill(replica)
    ran = ask(levrier, cluster, 1, "--json")
    assert ran.status == 2
    assert [node["reachable"] for node in nodes(ran)] == [False]
    assert cluster.address(1) in ran.err


def test_before_the_first_start_it_says_who_is_missing(levrier: CommandLine, tmp_path: Path) -> None:
    """Nobody can log in to a cluster that is not born; its roster is told nevertheless."""
    plan = ClusterPlan(count=3)
    ports = plan.ports()
    file = tmp_path / "cluster.toml"
    file.write_text(config_text(plan, ports, tmp_path))
    only = NodeProcess(["--config", str(file), "--replica-id", "1"], log=tmp_path / "log")
    try:
        only.wait_until_ready()
        ran = levrier("status", "--connect", only.address, "--json")
    finally:
        only.kill()
    assert ran.status == 1
    found = json.loads(ran.out)["nodes"]
    assert [node["reachable"] for node in found] == [False, True, False]
    assert [node["tcp"] for node in found] == [f"127.0.0.1:{each.tcp}" for each in ports]
    missing = f"missing: replica 0 at 127.0.0.1:{ports[0].replica}, replica 2 at 127.0.0.1:{ports[2].replica}"
    assert found[1]["waiting"] == f"waiting for first start: 1 of 3 members seen ({missing})"


def test_a_wrong_password_is_no_statement_about_the_cluster(levrier: CommandLine) -> None:
    ran = levrier.ask("status", "--password", "wrong-password", "--json")
    assert ran.status == 1
    assert "wrong user name or password" in ran.err
