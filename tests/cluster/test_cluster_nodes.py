"""Three members in one process: threads, real sockets on loopback, real files."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from levrier.cluster.address import Address
from levrier.cluster.bench import BenchSettings, Load, run_bench
from levrier.cluster.boot import BootRefused
from levrier.cluster.client import Client
from levrier.cluster.client_errors import IggyError
from levrier.cluster.config import LinkSecurity, Member, NodeConfig, RootUser
from levrier.cluster.node import Node
from levrier.wire.codes import ErrorCode
from tests.actors.bus.tls_identity import CERTIFICATE, KEY
from tests.cluster.three_nodes import caught_up, primary_among, roster, status_of, until


class ThreeNodes:
    """Three members that can be stopped and started one by one."""

    def __init__(self, data: Path, *, security: LinkSecurity | None = None) -> None:
        self.members = roster()
        self.running: dict[int, Node] = {}
        self.config = NodeConfig(
            root=RootUser(),
            cluster_name="three",
            replica_count=3,
            members=self.members,
            heartbeat_ticks=200,
            view_change_ticks=200,
            security=security if security is not None else LinkSecurity(),
        )
        self.data = data

    def config_of(self, member: Member) -> NodeConfig:
        """What a member is started with."""
        return replace(
            self.config,
            data=self.data / member.name,
            listen=member.client_address,
            replica=member.replica,
            node_name=member.name,
        )

    def start(self, replica: int) -> None:
        """Start a member."""
        self.running[replica] = Node(self.config_of(self.members[replica]))

    def stop(self, replica: int) -> None:
        """End a member in order."""
        self.running.pop(replica).stop()

    def stop_all(self) -> None:
        """End everybody."""
        for replica in list(self.running):
            self.stop(replica)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[ThreeNodes]:
    """Nobody runs yet; everybody is stopped at the end."""
    with ExitStack() as stack:
        nodes = ThreeNodes(tmp_path, security=LinkSecurity(secret=b"between us"))
        stack.callback(nodes.stop_all)
        yield nodes


def test_three_nodes_are_born_serve_and_lose_one(three: ThreeNodes) -> None:
    """B-001 with real sockets: born in an odd order, written through the primary, read on all, one lost and back."""

    async def story() -> None:
        for replica in (2, 0, 1):
            await asyncio.to_thread(three.start, replica)
        leader = await primary_among(three.members)
        assert leader.replica == 0
        async with await Client.connect(leader.ip, leader.tcp) as client:
            await client.login("iggy", "iggy")
            for number in range(20):
                await client.create_stream(f"s-{number}")
            listed = await client.cluster_metadata()
            assert [node.tcp for node in listed.nodes] == [member.tcp for member in three.members]
            assert [node.role for node in listed.nodes] == [0, 1, 1]
        await asyncio.to_thread(three.stop, 0)
        successor = await primary_among(three.members[1:])
        async with await Client.connect(successor.ip, successor.tcp) as client:
            await client.login("iggy", "iggy")
            assert {stream.name for stream in await client.get_streams()} == {f"s-{number}" for number in range(20)}
            await client.create_stream("after")
        await asyncio.to_thread(three.start, 0)
        await until(lambda: caught_up(three.members, 0), "catching up")
        assert not [node.failure for node in three.running.values() if node.failure]

    asyncio.run(story())


def test_the_benchmark_loads_the_primary_whichever_member_was_named(three: ThreeNodes) -> None:
    async def story() -> None:
        for replica in range(3):
            await asyncio.to_thread(three.start, replica)
        leader = await primary_among(three.members)
        backup = next(member for member in three.members if member is not leader)
        told: list[str] = []
        for load in (Load.UPDATE_STREAM, Load.GET_STREAM):
            settings = BenchSettings(
                address=backup.client_address, username="iggy", password="iggy", load=load, operations=20, streams=2
            )
            report = await run_bench(settings, tell=told.append)
            assert (report.operations, report.errors) == (20, 0)
        loaded = [line.split()[1] for line in told if line.startswith("loading ")]
        assert loaded == [str(leader.client_address), str(backup.client_address)]

    asyncio.run(story())


def test_one_of_three_says_that_it_waits_for_a_quorum(three: ThreeNodes) -> None:
    """The others are gone: reads go on, the status says how many there are, and the leader is not listed."""

    async def story() -> None:
        for replica in range(3):
            await asyncio.to_thread(three.start, replica)
        leader = await primary_among(three.members)
        async with await Client.connect(leader.ip, leader.tcp) as client:
            await client.login("iggy", "iggy")
            for replica in {0, 1, 2} - {leader.replica}:
                await asyncio.to_thread(three.stop, replica)

            async def waits() -> bool:
                return bool((await client.status())["waiting"] == "waiting for quorum: 1 of 3")

            await until(waits, "the wait for a quorum")
            assert [node.role for node in (await client.cluster_metadata()).nodes] == [1, 1, 1]
            assert await client.get_streams() == ()

    asyncio.run(story())


def test_a_node_that_lets_nobody_in_says_what_it_waits_for(three: ThreeNodes) -> None:
    """B-004: the first start waits for a member: its status is told without a login, and nothing else is."""

    async def story() -> None:
        await asyncio.to_thread(three.start, 0)
        own = three.members[0]
        async with await Client.connect(own.ip, own.tcp) as client:
            status = await client.status()
            assert status["waiting"].startswith("waiting for first start: 1 of 3 members seen (missing: replica 1 at ")
            assert (status["member"], status["state"], status["name"]) == ("unborn", "recovering", "node-0")
            assert not status.keys() & {"pid", "data", "inboxes", "connections"}
            with pytest.raises(IggyError) as refused:
                await client.cluster_metadata()
            assert refused.value.code == ErrorCode.UNAUTHENTICATED
        for replica in (1, 2):
            await asyncio.to_thread(three.start, replica)
        await primary_among(three.members)
        async with await Client.connect(own.ip, own.tcp) as client:
            with pytest.raises(IggyError):
                await client.status()

    asyncio.run(story())


def test_links_may_run_over_tls(tmp_path: Path) -> None:
    """TLS 1.3 with a certificate on both sides, under a shared secret: born and served."""
    for name, text in (("cert.pem", CERTIFICATE), ("key.pem", KEY)):
        (tmp_path / name).write_text(text, encoding="ascii")
    security = LinkSecurity(
        secret=b"between us",
        certificate=tmp_path / "cert.pem",
        key=tmp_path / "key.pem",
        authority=tmp_path / "cert.pem",
    )
    three = ThreeNodes(tmp_path, security=security)
    try:
        for replica in range(3):
            three.start(replica)
        assert asyncio.run(primary_among(three.members)).replica == 0
    finally:
        three.stop_all()


def test_a_directory_of_another_member_is_refused(three: ThreeNodes) -> None:
    """B-012 and its kin: both values are printed."""

    async def story() -> None:
        for replica in range(3):
            await asyncio.to_thread(three.start, replica)
        await primary_among(three.members)

    asyncio.run(story())
    three.stop_all()
    foreign = replace(three.config_of(three.members[1]), data=three.data / "node-2")
    with pytest.raises(BootRefused, match=r"replica_id.*2.*1"):
        Node(foreign)


def test_a_member_that_is_listed_elsewhere_is_told_where_to_correct_it(three: ThreeNodes) -> None:
    """RFC 5737: 192.0.2.77 is nobody's."""
    config = replace(three.config_of(three.members[1]), listen=Address(host="192.0.2.77", port=three.members[1].tcp))
    with pytest.raises(BootRefused) as refused:
        Node(config)
    assert str(refused.value).startswith("cannot listen on 192.0.2.77:")
    assert "; name an address of this machine in cluster.nodes for replica 1, or with --listen" in str(refused.value)


def test_a_replica_port_that_is_taken_is_told(three: ThreeNodes) -> None:
    three.start(0)
    taken = replace(
        three.config_of(three.members[1]),
        members=(
            three.members[0],
            replace(three.members[1], tcp_replica=three.members[0].tcp_replica, ip="localhost"),
            three.members[2],
        ),
    )
    with pytest.raises(BootRefused, match="cannot listen for replicas on localhost"):
        Node(taken)
    assert asyncio.run(status_of(three.members[1])) is None
