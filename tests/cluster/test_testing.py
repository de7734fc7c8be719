"""The ephemeral server: ready when it returns, several at once, the same after a restart, gone without a trace."""

import asyncio
import gc
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from levrier.cluster.boot import BootRefused
from levrier.cluster.client import Client
from levrier.cluster.config import NodeConfig, RootUser
from levrier.cluster.testing import Server


def descriptors() -> list[str]:
    """What this process has open, files and sockets by name."""
    open_files = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            open_files.append(os.readlink(f"/proc/self/fd/{entry}"))
        except FileNotFoundError:
            continue  # The one of this listing itself.
    return sorted(name.split(":")[0] for name in open_files if not name.startswith("/dev/"))


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """No thread, file or socket of a server outlives a test of this file.

    A server that was there before, for the whole session, goes on writing in its own directory.
    """
    gc.collect()
    threads, files = set(threading.enumerate()), descriptors()
    others = {os.path.dirname(name) for name in files if name.startswith("/")}
    yield
    gc.collect()
    assert set(threading.enumerate()) == threads
    left = [name for name in descriptors() if os.path.dirname(name) not in others]
    assert left == [name for name in files if os.path.dirname(name) not in others]


def streams(server: Server, *, create: str | None = None, password: str | None = None) -> list[str]:
    """The names that a client of our own sees, after it created one."""

    async def body() -> list[str]:
        async with await Client.connect(server.host, server.port) as client:
            await client.login(server.username, server.password if password is None else password)
            if create is not None:
                await client.create_stream(create)
            return [stream.name for stream in await client.get_streams()]

    return asyncio.run(body())


def is_free(server: Server) -> bool:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((server.host, server.port))
    return True


def test_it_serves_when_it_returns() -> None:
    with Server() as server:
        assert server.running
        assert server.address == f"127.0.0.1:{server.port}"
        assert streams(server) == []


def test_several_live_in_one_process() -> None:
    with Server() as one, Server() as other:
        assert one.port != other.port
        assert one.data != other.data
        streams(one, create="only-here")
        assert (streams(one), streams(other)) == (["only-here"], [])


def test_a_restart_in_place_keeps_port_and_data() -> None:
    with Server() as server:
        before = (server.address, server.data)
        streams(server, create="kept")
        server.restart()
        assert server.running
        assert (server.address, server.data) == before
        assert streams(server) == ["kept"]


def test_it_restarts_as_often_as_one_likes() -> None:
    with Server() as server:
        for number in range(3):
            streams(server, create=f"round-{number}")
            server.restart()
        assert streams(server) == ["round-0", "round-1", "round-2"]


def test_stop_leaves_nothing() -> None:
    server = Server()
    data = server.data
    assert (data / "node.lock").exists()
    server.stop()
    assert not server.running
    assert not data.exists()
    assert not data.parent.exists()
    assert is_free(server)


def test_stop_is_safe_to_repeat() -> None:
    server = Server()
    server.stop()
    server.stop()
    with server:
        pass


def test_leaving_the_block_by_an_error_leaves_nothing() -> None:
    def fail(server: Server) -> None:
        with server:
            raise ZeroDivisionError

    server = Server()
    with pytest.raises(ZeroDivisionError):
        fail(server)
    assert not server.data.exists()
    assert is_free(server)


def test_clients_that_are_still_connected_do_not_hold_it() -> None:
    server = Server()
    with socket.create_connection((server.host, server.port)) as client:
        server.stop()
        client.settimeout(10)
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""


def test_a_directory_of_ones_own_is_kept(tmp_path: Path) -> None:
    data = tmp_path / "mine"
    with Server(data=data) as server:
        assert server.data == data
        streams(server, create="kept")
    assert (data / "metadata" / "journal.wal").exists()
    with Server(data=data) as again:
        assert streams(again) == ["kept"]


def test_the_first_user_is_configured() -> None:
    with Server(username="admin", password="a-password") as server:
        assert server.connection_string == f"iggy+tcp://admin:a-password@{server.address}"
        assert streams(server) == []


def test_limits_come_from_a_config_and_the_rest_is_its_own(tmp_path: Path) -> None:
    config = NodeConfig(data=tmp_path, cluster_name="of-a-test", root=RootUser(username="nobody", password="nothing"))
    with Server(config=config) as server:
        assert server.data != tmp_path
        assert streams(server) == []
    assert list(tmp_path.iterdir()) == []


def test_a_taken_port_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(BootRefused, match=f"cannot listen on 127.0.0.1:{port}"):
            Server(port=port)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_directory_is_refused_and_kept(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Server(data=data) as server:
        streams(server, create="s")
    superblock = data / "metadata" / "superblock.a"
    content = bytearray(superblock.read_bytes())
    content[60] ^= 1
    superblock.write_bytes(content)
    with pytest.raises(BootRefused, match="superblock"):
        Server(data=data)
    assert superblock.read_bytes() == bytes(content)


def test_a_restart_that_is_refused_leaves_what_can_be_stopped(tmp_path: Path) -> None:
    server = Server()
    superblock = server.data / "metadata" / "superblock.a"
    superblock.write_bytes(b"no superblock at all")
    with pytest.raises(BootRefused, match="superblock"):
        server.restart()
    assert not server.running
    assert is_free(server)
    server.stop()
    assert not server.data.exists()


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    with Server(data=tmp_path / "data") as server:
        with pytest.raises(BootRefused, match="use another data directory"):
            Server(data=tmp_path / "data")
        assert streams(server) == []


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the interpreter could not raise, unclosed sockets among it."""
    seen: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda event: seen.append(str(event.exc_value)))
    return seen


def test_a_server_that_was_stopped_does_not_come_back() -> None:
    """Its directory is gone: it would be another, blank one that nobody ends."""
    with Server() as server:
        pass
    with pytest.raises(RuntimeError, match="make another one"):
        server.restart()
    assert not server.running


def test_a_connection_that_comes_while_it_ends_leaves_no_socket_behind(unraisable: list[str]) -> None:
    """Accepted, and not yet handled, when the node stops."""
    for clients in (1, 2, 1, 2, 1, 2):
        with Server() as server:
            connections = [socket.create_connection((server.host, server.port)) for _ in range(clients)]
            for connection in connections:
                connection.close()
        gc.collect()
    assert unraisable == []
