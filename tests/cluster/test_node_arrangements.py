"""Which actors share a thread is configuration: one story gives one result in every placement (design 4)."""

import asyncio
import threading
from pathlib import Path

import pytest

from levrier.cluster.client import Client, IggyError
from levrier.cluster.config import JOURNAL_APART, ONE_LOOP, NodeConfig
from levrier.cluster.testing import Server

ACTORS = ("client_table", "consensus", "metadata", "journal", "superblock", "checkpoint", "acknowledgements")
ARRANGEMENTS = {
    "as shipped": ONE_LOOP,
    "the log apart": JOURNAL_APART,
    "sockets, core and log apart": tuple(
        [
            (actor, "core" if actor in ("client_table", "consensus", "metadata") else place)
            for actor, place in JOURNAL_APART
        ]
    ),
    "one thread beside the sockets": (("bus", "io"), *((actor, "core") for actor in ACTORS)),
    "a thread for each": (("bus", "io"), *((actor, actor) for actor in ACTORS)),
}

Story = list[tuple[int, str, int]]


async def _story(server: Server) -> tuple[Story, int]:
    """Creates, a refusal, renames and deletes; what is there in the end, and the op of the last write."""
    async with await Client.connect(server.host, server.port) as client:
        await client.login(server.username, server.password)
        for number in range(40):
            await client.create_stream(f"stream-{number}")
        with pytest.raises(IggyError):
            await client.create_stream("stream-7")
        await client.create_topic("stream-7", "topic", partitions_count=3)
        for number in range(0, 40, 4):
            await client.delete_stream(f"stream-{number}")
        await client.update_stream("stream-9", "renamed")
        await client.create_stream("takes the lowest free id")
        found = [(stream.id, stream.name, stream.topics_count) for stream in await client.get_streams()]
        return found, int((await client.status())["commit"])


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_one_story_in_every_arrangement(name: str, tmp_path: Path) -> None:
    """C-255, C-256: everybody runs where he was placed, and whoever is not where Metadata is asks it for what he looks up."""
    arrangement = ARRANGEMENTS[name]
    config = NodeConfig(arrangement=arrangement, journal_slots=256)
    with Server(config=config, data=tmp_path / "data") as server:
        assert _threads_of(config.node_name) == {place for _, place in arrangement}
        found, commit = asyncio.run(_story(server))
        server.restart()
        again = asyncio.run(_streams(server))
    assert commit == 2 + 40 + 1 + 1 + 10 + 1 + 1
    assert found[0] == (0, "takes the lowest free id", 0)
    assert [name for _, name, _ in found].count("renamed") == 1
    assert len(found) == 31
    assert again == found


def _threads_of(node: str) -> set[str]:
    """The threads that run a node's own actors."""
    prefix = f"levrier-{node}-"
    names = [thread.name.removeprefix(prefix) for thread in threading.enumerate() if thread.name.startswith(prefix)]
    return {name for name in names if not name.startswith(("plugin", "worker"))}


async def _streams(server: Server) -> Story:
    async with await Client.connect(server.host, server.port) as client:
        await client.login(server.username, server.password)
        return [(stream.id, stream.name, stream.topics_count) for stream in await client.get_streams()]
