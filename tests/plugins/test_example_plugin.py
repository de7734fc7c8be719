"""A plugin in a package of its own, installed with pip: its own tests, one node with it, and a cluster whose primary dies."""

import asyncio
import json
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from levrier.cluster.address import Address
from levrier.cluster.client import Client
from levrier.cluster.testing import Cluster
from tests.cluster.processes import NodeProcess
from tests.plugins.reader import install, levrier, run, with_site

EXAMPLE = Path(__file__).parent / "example_plugin"
NAMES = ("orders", "bills", "returns")
WAIT_SECONDS = 60.0
LEARN_SECONDS = 0.05

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, as its author has it."""
    return shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("author") / "levrier-stream-keeper")


@pytest.fixture(scope="module")
def site(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package was installed."""
    site = tmp_path_factory.mktemp("installed")
    install(folder, site)
    return site


@pytest.fixture
def cluster(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Three nodes, each with the plugin."""
    monkeypatch.setenv("PYTHONPATH", with_site(site)["PYTHONPATH"])
    settings = {"plugins.stream_keeper.streams": NAMES, "plugins.stream_keeper.interval": "5 s"}
    with Cluster(nodes=3, settings=settings) as cluster:
        yield cluster


def test_its_own_tests_pass_where_it_is_installed(folder: Path, site: Path) -> None:
    assert "2 passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder), site=site, cwd=folder)


def test_each_of_its_tests_is_ten_lines_at_most() -> None:
    tests = (EXAMPLE / "test_levrier_stream_keeper.py").read_text(encoding="utf-8").split("\ndef ")[1:]
    assert [len(test.strip().splitlines()) <= 10 for test in tests] == [True, True]


def test_a_node_that_is_told_of_it_keeps_the_streams(site: Path, tmp_path: Path) -> None:
    (tmp_path / "levrier.toml").write_text(
        f"[plugins.stream_keeper]\nstreams = {json.dumps(NAMES)}\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "levrier.cluster", "serve", "--config", str(tmp_path / "levrier.toml")]
    command += ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    with NodeProcess(command, log_file=tmp_path / "log", environment=with_site(site)) as node:
        node.ready()
        asyncio.run(until_kept(node.address))
        asyncio.run(delete(node.address, "bills"))
        asyncio.run(until_kept(node.address))
        facts = asyncio.run(until_facts(node.address, lambda facts: facts["committed"] == len(NAMES) + 1))
        assert facts["metrics"] == {"present": 3, "missing": 0, "created": 4}
        assert node.terminate().status == 0
    assert operations(tmp_path / "data", site)["create_stream"] == len(NAMES) + 1


def test_the_primary_dies_and_every_stream_is_there_once(cluster: Cluster, site: Path, tmp_path: Path) -> None:
    """It dies at the moment at which a stream is to be created anew. Nothing is left out, and nothing is done twice."""
    primary = cluster.wait_for_primary()
    asyncio.run(until_kept(cluster.address(primary)))
    asyncio.run(delete(cluster.address(primary), "orders"))
    cluster.kill(primary)

    successor = cluster.wait_for_primary(other_than=primary)
    asyncio.run(until_kept(cluster.address(successor)))
    asyncio.run(delete(cluster.address(successor), "bills"))
    asyncio.run(until_kept(cluster.address(successor)))
    cluster.restart(primary)
    cluster.wait_until_caught_up(primary)

    for address in cluster.addresses:
        facts = asyncio.run(until_facts(address, lambda facts: facts["metrics"].get("present") == len(NAMES)))
        assert (facts["state"], facts["restarts"], facts["last_error"]) == ("running", 0, "")
    table = levrier("plugins", "--connect", cluster.address(successor), site=site, cwd=tmp_path)
    assert re.search(r"^stream_keeper +running +0 +\d +0 +- +created \d, missing 0, present 3$", table, re.MULTILINE), (
        table
    )
    for replica in (primary, successor):
        assert cluster.end(replica) == 0
        done = operations(cluster.data(replica), site)
        assert (done["create_stream"], done["delete_stream"]) == (len(NAMES) + 2, 2)


async def log_in(address: str) -> Client:
    """A client of one node."""
    at = Address.parse(address)
    client = await Client.connect(at.host, at.port, deadline_seconds=WAIT_SECONDS)
    await client.login("iggy", "iggy")
    return client


async def delete(address: str, name: str) -> None:
    """Delete a stream."""
    async with await log_in(address) as client:
        await client.delete_stream(name)


async def until_kept(address: str) -> None:
    """Return once the node has each of the streams once, and nothing else."""
    deadline = time.monotonic() + WAIT_SECONDS
    async with await log_in(address) as client:
        while (found := sorted(stream.name for stream in await client.get_streams())) != sorted(NAMES):
            assert time.monotonic() < deadline, found
            await asyncio.sleep(LEARN_SECONDS)


async def until_facts(address: str, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """What the node says of the plugin, once that fits."""
    deadline = time.monotonic() + WAIT_SECONDS
    async with await log_in(address) as client:
        while True:
            plugins = {plugin["name"]: plugin for plugin in (await client.status())["plugins"]}
            facts: dict[str, Any] = plugins["stream_keeper"]
            if fits(facts):
                return facts
            assert time.monotonic() < deadline, plugins
            await asyncio.sleep(LEARN_SECONDS)


def operations(data: Path, site: Path) -> Counter[str]:
    """How often each operation is in the log of a node that was stopped."""
    log = json.loads(levrier("inspect", "journal", str(data), "--limit", "0", "--json", site=site, cwd=data))
    return Counter(entry["operation"] for entry in log["entries"])
