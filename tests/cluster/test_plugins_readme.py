"""The README's section on plugins, followed to the letter: its package is installed, its test passes, its plugin runs."""

import asyncio
import dataclasses
import json
import re
import sys
import time
from pathlib import Path

import pytest

from levrier.actors.plugins import Identifier, Operation, requests
from levrier.cluster.client import Client
from levrier.wire.responses.groups import ConsumerGroup
from levrier.wire.responses.streams import StreamHeader, TopicHeader
from levrier.wire.responses.users import User
from tests.cluster.processes import ROOT, NodeProcess
from tests.plugins.reader import install, levrier, run, with_site

WAIT_SECONDS = 30.0
_NAMED = re.compile(r"`([\w.]+)`:\n\n```\w+\n(.*?)```\n", re.DOTALL)


def section() -> str:
    """The section."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    begin = readme.index("## Write a plugin\n")
    return readme[begin : readme.index("\n## ", begin)]


def files() -> dict[str, str]:
    """The files that it tells the reader to write, by name."""
    return dict(_NAMED.findall(section()))


@pytest.fixture
def package(tmp_path: Path) -> tuple[Path, Path]:
    """The reader's folder, and where the package was installed."""
    folder, site = tmp_path / "levrier-deadletters", tmp_path / "site"
    folder.mkdir()
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")
    install(folder, site)
    return folder, site


def test_the_section_names_its_files() -> None:
    assert sorted(files()) == [
        "levrier.toml",
        "levrier_deadletters.py",
        "pyproject.toml",
        "test_levrier_deadletters.py",
    ]


def test_the_test_of_the_section_is_ten_lines() -> None:
    test = files()["test_levrier_deadletters.py"]
    assert len(test[test.index("def ") :].splitlines()) <= 10


def test_the_section_names_every_request_with_its_fields() -> None:
    """All but those of the node itself, and the options that streams and users do not have yet."""
    rows = dict.fromkeys(re.findall(r"^\| (`[A-Z].*?) \| (.*?) \|$", section(), re.MULTILINE))
    named: dict[str, set[str]] = {}
    for classes, fields in rows:
        forms = re.findall(r"`(\w+)`", classes)
        parts = fields.split("; ") if len(forms) > 1 and "; " in fields else [fields] * len(forms)
        for form, part in zip(forms, parts, strict=True):
            named[form] = set(re.findall(r"`(\w+)(?:=\w+)?`", part))
    wanted = {
        name: {field.name for field in dataclasses.fields(form)}
        for name, form in vars(requests).items()
        if name in requests.__all__ and dataclasses.is_dataclass(form)
    }
    for name in ("CreateStream", "UpdateStream", "UpdateUser"):
        wanted[name].discard("options")
    for name in ("RemoveConsumerGroupMember", "CompleteConsumerGroupRevocation"):
        del wanted[name]
    assert {name: named.get(name, set()) & wanted[name] for name in wanted} == wanted


ANSWERS = {
    "streams()": StreamHeader,
    "topics(s)": TopicHeader,
    "groups(s, t)": ConsumerGroup,
    "users()": User,
}


@pytest.mark.parametrize("question", ANSWERS)
def test_what_the_section_says_of_an_answer_is_there(question: str) -> None:
    found = re.search(rf"^\| `{re.escape(question)}` \| a tuple of (.*) \|$", section(), re.MULTILINE)
    assert found is not None
    named = re.findall(r"`(\w+)`", found[1])
    assert named
    assert set(named) <= {field.name for field in dataclasses.fields(ANSWERS[question])}


def test_options_are_written_as_on_the_command_line() -> None:
    topic = requests.CreateTopic(
        stream=Identifier(0), partitions_count=1, name="t", options=requests.options(message_expiry="7days")
    )
    assert requests.prepare(topic).operation == Operation.CREATE_TOPIC
    wrong = requests.CreateTopic(
        stream=Identifier(0), partitions_count=1, name="t", options=requests.options(message_expiry="soon")
    )
    with pytest.raises(requests.InvalidRequest, match="CreateTopic"):
        requests.prepare(wrong)


@pytest.mark.process
def test_a_reader_gets_a_plugin_that_runs(package: tuple[Path, Path], tmp_path: Path) -> None:
    folder, site = package
    assert "1 passed" in run("-m", "pytest", "-q", str(folder), site=site, cwd=folder)
    command = [sys.executable, "-m", "levrier.cluster", "serve", "--config", str(folder / "levrier.toml")]
    command += ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    with NodeProcess(command, log_file=tmp_path / "log", environment=with_site(site)) as node:
        node.ready()
        asyncio.run(_create_and_wait(node.host, node.port))
        listed = levrier("plugins", "--json", "--connect", node.address, site=site, cwd=tmp_path)
        table = levrier("plugins", "--connect", node.address, site=site, cwd=tmp_path)
        assert node.terminate().status == 0
    found = {plugin["name"]: plugin for plugin in json.loads(listed)}
    assert sorted(found) == [
        "deadletters",
        "partition_reconciler",
        "revocation_completer",
        "stale_session_sweeper",
        "token_cleaner",
    ]
    assert (found["deadletters"]["state"], found["deadletters"]["committed"]) == ("running", 1)
    assert re.search(r"^deadletters +running +0 +1 ", table, re.MULTILINE), table


FAILOVER = """
import asyncio
import time

from levrier.cluster.client import Client
from levrier.cluster.testing import Cluster, Server


async def create(address, *names):
    host, _, port = address.rpartition(":")
    async with await Client.connect(host, int(port), deadline_seconds=30) as client:
        await client.login("iggy", "iggy")
        for name in names:
            await client.create_stream(name)
        await client.logout()


async def wait_for(address, wanted):
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + 30
    async with await Client.connect(host, int(port), deadline_seconds=30) as client:
        await client.login("iggy", "iggy")
        while True:
            found = sorted(stream.name for stream in await client.get_streams())
            if found == wanted:
                break
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.1)
        await client.logout()


with Server(plugins={"deadletters": {"suffix": ".lost"}}) as node:
    asyncio.run(create(node.address, "a"))
    asyncio.run(wait_for(node.address, ["a", "a.lost"]))

with Cluster(nodes=3, settings={"plugins.deadletters.suffix": ".lost"}) as cluster:
    primary = cluster.wait_for_primary()
    asyncio.run(create(cluster.address(primary), "a", "b", "c"))
    cluster.kill(primary)
    primary = cluster.wait_for_primary(other_than=primary)
    asyncio.run(create(cluster.address(primary), "d"))
    wanted = ["a", "a.lost", "b", "b.lost", "c", "c.lost", "d", "d.lost"]
    asyncio.run(wait_for(cluster.address(primary), wanted))
    time.sleep(1)
    asyncio.run(wait_for(cluster.address(primary), wanted))
print("done")
"""


@pytest.mark.process
def test_it_runs_on_one_node_and_on_three_whose_primary_dies(package: tuple[Path, Path], tmp_path: Path) -> None:
    _, site = package
    assert run("-c", FAILOVER, site=site, cwd=tmp_path) == "done\n"


async def _create_and_wait(host: str, port: int) -> None:
    async with await Client.connect(host, port, deadline_seconds=WAIT_SECONDS) as client:
        await client.login("iggy", "iggy")
        await client.create_stream("orders")
        deadline = time.monotonic() + WAIT_SECONDS
        while await client.get_stream("orders.dlq") is None:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        status = {plugin["name"]: plugin for plugin in (await client.status())["plugins"]}
        while not status["deadletters"]["committed"]:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
            status = {plugin["name"]: plugin for plugin in (await client.status())["plugins"]}
        await client.logout()
