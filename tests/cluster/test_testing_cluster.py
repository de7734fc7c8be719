"""The cluster of a user's tests, used as a user does: the official SDK, and things that happen to the nodes.

One cluster serves all tests of this file; each leaves it whole. Streams have names of their own.
"""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("apache_iggy", reason="the official SDK is not installed")

from apache_iggy import IggyClient

from levrier.cluster.refused import ConfigError
from levrier.cluster.testing import Cluster
from tests.sdk.running import reconnecting

pytestmark = [pytest.mark.process, pytest.mark.sdk]
STORY_SECONDS = 60.0
ATTEMPTS = 50


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    """Three nodes for this file."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """The same, made whole again behind the test."""
    yield shared
    shared.heal()
    for replica in range(shared.nodes):
        if shared.running(replica):
            shared.resume(replica)
        else:
            shared.restart(replica)
    shared.wait_for_primary()
    for replica in range(shared.nodes):
        shared.wait_until_caught_up(replica)


async def client_of(cluster: Cluster, replica: int) -> IggyClient:
    """A client as a user has it, logged in once."""
    client = reconnecting(cluster.address(replica))
    await client.connect()
    await client.login_user("iggy", "iggy")
    return client


async def create(client: IggyClient, name: str) -> list[str]:
    """Create streams until one is acknowledged; their names, the acknowledged one last."""
    for attempt in range(ATTEMPTS):
        try:
            await client.create_stream(name=f"{name}-{attempt}")
        except RuntimeError:  # The outcome is unknown; the SDK tells it and reconnects.
            await asyncio.sleep(0.1)
        else:
            return [f"{name}-{each}" for each in range(attempt + 1)]
    raise AssertionError("nothing is served any more")


def test_the_primary_is_killed_and_the_client_goes_on(cluster: Cluster) -> None:
    """No new credentials; what was acknowledged is there; the killed node comes back by the same command."""

    async def story() -> None:
        leader = cluster.primary()
        assert leader is not None
        client = await client_of(cluster, (leader + 1) % 3)
        await client.create_stream(name="kill-before")
        cluster.kill(leader)
        *_, created = await create(client, "kill-after")
        successor = await asyncio.to_thread(cluster.wait_for_primary, other_than=leader)
        assert successor != leader
        await asyncio.to_thread(cluster.restart, leader)
        await asyncio.to_thread(cluster.wait_until_caught_up, leader)
        returned = await client_of(cluster, leader)
        for name in ("kill-before", created):
            assert await returned.get_stream(name) is not None

    asyncio.run(asyncio.wait_for(story(), STORY_SECONDS))


def test_an_isolated_primary_is_replaced_and_follows_when_the_links_are_healed(cluster: Cluster) -> None:
    leader = cluster.primary()
    assert leader is not None
    cluster.isolate(leader)
    successor = cluster.wait_for_primary(other_than=leader)

    async def story() -> None:
        client = await client_of(cluster, successor)
        await client.create_stream(name="cut-meanwhile")
        cluster.heal()
        await asyncio.to_thread(cluster.wait_until_caught_up, leader)
        healed = await client_of(cluster, leader)
        assert await healed.get_stream("cut-meanwhile") is not None

    asyncio.run(asyncio.wait_for(story(), STORY_SECONDS))
    assert cluster.primary() == successor


def test_a_paused_primary_is_replaced_and_follows_when_it_goes_on(cluster: Cluster) -> None:
    leader = cluster.primary()
    assert leader is not None
    cluster.pause(leader)
    successor = cluster.wait_for_primary(other_than=leader)
    assert cluster.running(leader)
    assert not cluster.status()[leader].reachable
    cluster.resume(leader)
    cluster.wait_until_caught_up(leader)
    assert cluster.primary() == successor


def test_a_link_that_is_cut_one_way_or_broken_heals(cluster: Cluster) -> None:
    """Between two backups: the primary serves on, and everybody has everything in the end."""
    leader = cluster.primary()
    assert leader is not None
    one, other = (replica for replica in range(3) if replica != leader)
    cluster.cut(one, other, one_way=True)

    async def story() -> None:
        client = await client_of(cluster, leader)
        await client.create_stream(name="one-way")

    asyncio.run(asyncio.wait_for(story(), STORY_SECONDS))
    cluster.heal(one, other)
    cluster.reset(one, other)
    for replica in range(3):
        cluster.wait_until_caught_up(replica)


def test_every_link_of_a_node_heals_whichever_argument_names_it(cluster: Cluster) -> None:
    """The node is not asked for a link to itself, and what it missed reaches it."""
    leader = cluster.primary()
    assert leader is not None
    victim = 1 if leader != 1 else 2
    cluster.isolate(victim)

    async def story() -> None:
        client = await client_of(cluster, leader)
        await client.create_stream(name="healed-by-target")

    asyncio.run(asyncio.wait_for(story(), STORY_SECONDS))
    cluster.heal(target=victim)
    cluster.wait_until_caught_up(victim)
    cluster.heal(victim)


def test_a_wiped_node_learns_everything_again(cluster: Cluster) -> None:
    leader = cluster.primary()
    assert leader is not None
    victim = (leader + 1) % 3
    cluster.wipe(victim)
    assert [entry.name for entry in cluster.data(victim).iterdir()] == ["node.log"]
    cluster.restart(victim)
    cluster.wait_until_caught_up(victim)
    assert cluster.status()[victim].facts["member"] == "voter"
    assert "learner" in cluster.log(victim)


def test_waiting_in_vain_says_how_each_node_stands(cluster: Cluster) -> None:
    leader = cluster.primary()
    assert leader is not None
    with pytest.raises(TimeoutError) as failed:
        cluster.wait_for_primary(other_than=leader, seconds=0.2)
    assert str(failed.value).startswith("no primary serves after 0.2 s\n")
    assert f"replica {leader} at {cluster.address(leader)}: role primary, view " in str(failed.value)


def test_what_is_no_node_or_link_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match="replica 3: the cluster has 0 to 2"):
        cluster.kill(3)
    with pytest.raises(ConfigError, match="replica -1"):
        cluster.address(-1)
    with pytest.raises(ValueError, match="no link to itself"):
        cluster.cut(1, 1)
    with pytest.raises(ValueError, match="no link to itself"):
        cluster.heal(1, 1)
    with pytest.raises(ConfigError, match="replica 7"):
        cluster.heal(target=7)


def test_stop_leaves_no_process_port_or_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Cluster(nodes=2, username="admin", password="a-password") as cluster:
        assert cluster.connection_string(1) == f"iggy+tcp://admin:a-password@{cluster.address(1)}"
        assert list(tmp_path.iterdir()) != []
        pids = [cluster.pid(replica) for replica in range(2)]
        cluster.pause(0)
    assert list(tmp_path.iterdir()) == []
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    for address in cluster.addresses:
        with socket.socket() as probe:
            assert probe.connect_ex((address.split(":")[0], int(address.split(":")[1]))) != 0
    cluster.stop()


def test_nothing_is_left_of_a_cluster_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Exception, match=r"system.nonsense is no setting"):
        Cluster(nodes=1, settings={"system.nonsense": 1})
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) <= before
