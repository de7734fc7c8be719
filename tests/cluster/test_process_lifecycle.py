"""A node process from its first line to its last: ready, SIGTERM, the same directory again, the refusals by exit status."""

from pathlib import Path

import pytest

from levrier.actors.runtime import ExitStatus
from levrier.cluster.config import NodeConfig
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.storage import DiskStorage
from levrier.wire.codes import CommandCode, Operation
from levrier.wire.prepare import METADATA_GROUP
from tests.cluster.processes import Ended, NotReady, Spawn
from tests.cluster.raw_client import RawClient, code, create_stream

pytestmark = pytest.mark.process

ROUNDS = 5
LONG_ROUNDS = 20


def refused(spawn: Spawn, data: Path, **limits: int | str) -> Ended:
    """How a node that must not start ends."""
    node = spawn(data, **limits)
    with pytest.raises(NotReady):
        node.ready()
    return node.wait()


def fill(spawn: Spawn, data: Path, names: list[str], **limits: int | str) -> None:
    """A node that was killed after it had acknowledged these streams."""
    with spawn(data, **limits).ready() as node, RawClient(node.host, node.port) as client:
        assert code(client.register()) == 0
        for number, name in enumerate(names, 1):
            assert code(client.call(Operation.CREATE_STREAM, create_stream(name), number=number)) == 0


def journal_path(data: Path) -> Path:
    return data / "metadata" / "journal.wal"


def test_sigterm_ends_it_with_0_and_leaves_a_directory_that_needs_no_repair(spawn: Spawn, tmp_path: Path) -> None:
    """The log ends in its durable mark, no temporary file is left, and the next start finds everything."""
    data = tmp_path / "data"
    with spawn(data).ready() as node, RawClient(node.host, node.port) as client:
        client.register()
        assert code(client.call(Operation.CREATE_STREAM, create_stream("kept"), number=1)) == 0
        ended = node.terminate()

    assert ended.status == 0, ended.log
    assert sorted(path.name for path in (data / "metadata").iterdir()) == [
        "journal.wal",
        "superblock.a",
        "superblock.b",
    ]
    journal = PrepareJournal.open(
        DiskStorage(), journal_path(data), group=METADATA_GROUP, snapshot_op=0, slots=16_384, epoch_source=lambda: 1
    )
    journal.close()
    assert journal.cut_bytes == 0
    with spawn(data).ready() as again, RawClient(again.host, again.port, client=2) as client:
        client.register()
        assert client.streams() == [(0, "kept")]


def test_a_client_sees_the_end_of_a_stopped_node(spawn: Spawn, tmp_path: Path) -> None:
    """SIGTERM closes the connections: nobody waits for a node that is gone."""
    with spawn(tmp_path / "data").ready() as node, RawClient(node.host, node.port) as client:
        assert client.query(CommandCode.PING) == b""
        node.terminate()
        assert client.is_closed_by_node()


def run_identical_command_lines(spawn: Spawn, data: Path, rounds: int) -> None:
    created: list[str] = []
    for round_number in range(rounds):
        with spawn(data).ready() as node, RawClient(node.host, node.port, client=100 + round_number) as client:
            assert code(client.register()) == 0
            assert [name for _, name in client.streams()] == created
            for number in range(1, 4):
                name = f"round-{round_number}-{number}"
                assert code(client.call(Operation.CREATE_STREAM, create_stream(name), number=number)) == 0
                created.append(name)
            node.kill()


def test_the_identical_command_line_starts_a_killed_node(spawn: Spawn, tmp_path: Path) -> None:
    """BR-54 on one node: born, killed and started with the same words, again and again."""
    run_identical_command_lines(spawn, tmp_path / "data", ROUNDS)


@pytest.mark.long
def test_the_identical_command_line_starts_a_killed_node_20_times(spawn: Spawn, tmp_path: Path) -> None:
    """BR-54 on one node, as often as the case says."""
    run_identical_command_lines(spawn, tmp_path / "data", LONG_ROUNDS)


def test_a_directory_in_use_is_refused_with_15(spawn: Spawn, tmp_path: Path) -> None:
    """Two nodes never share a directory; the second says whose it is, and the first goes on."""
    data = tmp_path / "data"
    with spawn(data).ready() as node:
        ended = refused(spawn, data)
        assert ended.status == ExitStatus.IN_USE
        assert f"held by process {node.popen.pid}" in ended.log
        assert "use another data directory" in ended.log
        with RawClient(node.host, node.port) as client:
            assert client.query(CommandCode.PING) == b""


def test_a_node_that_is_started_twice_by_one_command_line_hears_of_the_first(spawn: Spawn, tmp_path: Path) -> None:
    """Not of its port, which the first one has too: another port would be the wrong advice."""
    data = tmp_path / "data"
    with spawn(data).ready() as node:
        second = spawn(data, listen=node.address)
        with pytest.raises(NotReady):
            second.ready()
        ended = second.wait()
        assert ended.status == ExitStatus.IN_USE
        assert f"held by process {node.popen.pid}; stop it or use another data directory" in ended.log


def test_an_address_in_use_is_refused_with_15(spawn: Spawn, tmp_path: Path) -> None:
    with spawn(tmp_path / "first").ready() as node:
        other = spawn(tmp_path / "second", listen=node.address)
        with pytest.raises(NotReady):
            other.ready()
        ended = other.wait()
    assert ended.status == ExitStatus.IN_USE
    assert node.address in ended.log
    assert "choose another --listen" in ended.log


def test_a_foreign_cluster_is_refused_with_14(spawn: Spawn, tmp_path: Path) -> None:
    """S-117 and BR-53, the cluster name: both ids are printed as on the replica links, and the name that is configured."""
    data = tmp_path / "data"
    fill(spawn, data, ["kept"])
    ended = refused(spawn, data, cluster_name="another")
    assert ended.status == ExitStatus.BOOT_IDENTITY
    assert f"cluster id is {NodeConfig().cluster_id:032x}, " in ended.log
    assert f"configured with {NodeConfig(cluster_name='another').cluster_id:032x} (another); " in ended.log


def test_a_one_node_directory_is_refused_by_a_roster_of_three(spawn: Spawn, tmp_path: Path) -> None:
    """B-012 and BR-53, the count of replicas: both values are printed."""
    data = tmp_path / "data"
    fill(spawn, data, ["kept"])
    ended = refused(spawn, data, replica_count=3)
    assert ended.status == ExitStatus.BOOT_IDENTITY
    assert "replica_count is 1, this node is configured with 3" in ended.log


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_file_in_the_place_of_the_directory_is_named(spawn: Spawn, tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    ended = refused(spawn, tmp_path / path)
    assert ended.status == ExitStatus.MISUSED
    assert f"data directory {tmp_path / path}: is a file or lies below one" in ended.log
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_a_directory_that_cannot_be_made_is_named(spawn: Spawn) -> None:
    ended = refused(spawn, Path("/proc/nope"))
    assert ended.status == ExitStatus.MISUSED
    assert "data directory /proc/nope: cannot be made or written to (" in ended.log


def test_nothing_of_a_blank_cluster_is_written_without_a_root_password(spawn: Spawn, tmp_path: Path) -> None:
    """D-01: a node that other machines can reach is not born with iggy / iggy; the next start is as free as the first."""
    data = tmp_path / "data"
    node = spawn(data, listen="0.0.0.0:0")
    with pytest.raises(NotReady):
        node.ready()
    ended = node.wait()
    assert ended.status == ExitStatus.MISUSED
    assert "IGGY_ROOT_PASSWORD" in ended.log
    assert not data.exists()


def test_the_configured_root_user_is_the_first_user(spawn: Spawn, tmp_path: Path) -> None:
    """D-01: name and password come from the environment at the first start."""
    environment = {"IGGY_ROOT_USERNAME": "admin", "IGGY_ROOT_PASSWORD": "a-password-of-mine"}
    with (
        spawn(tmp_path / "data", environment=environment).ready() as node,
        RawClient(node.host, node.port) as default,
        RawClient(node.host, node.port, client=2) as configured,
    ):
        assert code(default.register()) != 0
        assert code(configured.register(username="admin", password="a-password-of-mine")) == 0
