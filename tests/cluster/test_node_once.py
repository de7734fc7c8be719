"""A request is executed once, whatever is sent again and when: before, during and after its commit, over a restart, over a
checkpoint. The same request number gets the same bytes."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from levrier.cluster.address import Address
from levrier.cluster.client import Client
from levrier.cluster.config import JOURNAL_APART, NodeConfig, RootUser
from levrier.cluster.node import Node
from levrier.cluster.testing import Server
from levrier.persistence.storage import DiskFile, DiskStorage
from levrier.wire.codes import CommandCode, Operation
from tests.cluster.raw_client import (
    NOT_COMMITTED,
    RawClient,
    code,
    create_stream,
    created_id,
    delete_stream,
    login_frame,
    rename_stream,
)

SLOTS = 256
RENAMES = 300
WAIT_SECONDS = 30.0


class GatedFile(DiskFile):
    """A file whose syncs wait while the gate is closed."""

    __slots__ = ("gate", "waiting")

    def __init__(self, file: DiskFile, gate: threading.Event, waiting: threading.Event) -> None:
        super().__init__(file._path, file._descriptor)
        self.gate = gate
        self.waiting = waiting

    def datasync(self) -> None:
        if not self.gate.is_set():
            self.waiting.set()
            assert self.gate.wait(WAIT_SECONDS)
        super().datasync()


class GatedStorage(DiskStorage):
    """The real disk, with a gate before every `datasync`. `waiting` is set when a sync waits."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Event()

    def open(self, path: Path, create: bool) -> DiskFile:
        return GatedFile(super().open(path, create), self.gate, self.waiting)

    def hold(self) -> None:
        """From now on nothing becomes durable."""
        self.waiting.clear()
        self.gate.clear()

    def wait_until_held(self) -> None:
        """Wait for the first sync at the gate."""
        assert self.waiting.wait(WAIT_SECONDS)

    def release(self) -> None:
        """Let everything through."""
        self.gate.set()


@contextmanager
def gated_node(data: Path) -> Iterator[tuple[Node, GatedStorage]]:
    """A node on a disk that can be held; it answers meanwhile, since the log has a thread of its own."""
    storage = GatedStorage()
    config = NodeConfig(data=data, listen=Address(port=0), root=RootUser(), arrangement=JOURNAL_APART)
    node = Node(config, storage=storage)
    try:
        yield node, storage
    finally:
        storage.release()
        node.stop()


def test_a_duplicate_before_the_commit_waits_for_the_one_answer(tmp_path: Path) -> None:
    """The same frame three times in one write while the disk is held: executed once, answered three times alike."""
    with (
        gated_node(tmp_path) as (node, storage),
        RawClient(node.address.host, node.address.port) as client,
        RawClient(node.address.host, node.address.port, client=2) as observer,
    ):
        client.register()
        observer.register()
        frame = client.frame(Operation.CREATE_STREAM, create_stream("once"), number=1)
        storage.hold()
        client.send(frame * 3)
        storage.wait_until_held()
        before = observer.status()["commit"]
        assert observer.streams() == []
        storage.release()
        answers = [client.receive() for _ in range(3)]
        assert code(answers[0]) == 0
        assert answers == [answers[0]] * 3
        assert observer.streams() == [(created_id(answers[0]), "once")]
        assert observer.status()["op"] == before + 1


def test_another_connection_of_the_client_is_put_off_during_the_commit(tmp_path: Path) -> None:
    """While a request is in flight, a new login of its client gets 57; afterwards the replay has the same bytes."""
    with (
        gated_node(tmp_path) as (node, storage),
        RawClient(node.address.host, node.address.port) as first,
        RawClient(node.address.host, node.address.port) as second,
        RawClient(node.address.host, node.address.port, client=2) as observer,
    ):
        first.register()
        observer.register()
        storage.hold()
        first.send(first.frame(Operation.CREATE_STREAM, create_stream("once"), number=1))
        storage.wait_until_held()
        login = threading.Thread(target=second.register)
        login.start()
        storage.release()
        answer = first.receive()
        login.join(WAIT_SECONDS)
        assert second.epoch > first.epoch
        assert second.call(Operation.CREATE_STREAM, create_stream("once"), number=1) == answer
        assert observer.streams() == [(created_id(answer), "once")]


def test_a_login_during_the_commit_is_answered_57(tmp_path: Path) -> None:
    """Rule 4 of the hot path: the client is in the pipeline, so nothing is said about it that could be wrong."""
    with (
        gated_node(tmp_path) as (node, storage),
        RawClient(node.address.host, node.address.port) as first,
        RawClient(node.address.host, node.address.port) as second,
    ):
        first.register()
        body = create_stream("once")
        storage.hold()
        first.send(first.frame(Operation.CREATE_STREAM, body, number=1))
        storage.wait_until_held()
        second.send(login_frame(second.client))
        assert code(second.receive()) == NOT_COMMITTED
        storage.release()
        answer = first.receive()
        second.register()
        assert second.call(Operation.CREATE_STREAM, body, number=1) == answer


def test_our_client_settles_what_was_under_way_when_it_lost_the_connection(tmp_path: Path) -> None:
    """`resume` takes the session up again and gets the answer of the request that was executed meanwhile."""
    with gated_node(tmp_path) as (node, storage):

        async def body() -> None:
            async with await Client.connect(node.address.host, node.address.port) as client:
                await client.login("iggy", "iggy")
                storage.hold()
                creating = asyncio.create_task(client.create_stream("once"))
                await asyncio.to_thread(storage.wait_until_held)
                creating.cancel()
                await asyncio.gather(creating, return_exceptions=True)
                assert client.unsettled is not None
                storage.release()
                assert await client.resume()
                assert client.unsettled is None
                assert [stream.name for stream in await client.get_streams()] == ["once"]

        asyncio.run(body())


def replays(client: RawClient, bodies: list[tuple[int, bytes]], answers: list[bytes]) -> None:
    """Every request again, under its number: the same bytes, and nothing is executed."""
    before = client.status()["op"]
    for number, ((operation, body), answer) in enumerate(zip(bodies, answers, strict=True), 1):
        assert client.call(operation, body, number=number) == answer
    assert client.status()["op"] == before


REQUESTS = [
    (int(Operation.CREATE_STREAM), create_stream("first")),
    (int(Operation.UPDATE_STREAM), rename_stream("first", "second")),
    (int(Operation.CREATE_STREAM), create_stream("second")),
    (int(Operation.DELETE_STREAM), delete_stream("second")),
]
"""Each changes what the next finds, so none could be executed again with the same answer; the third is refused."""


def test_replays_after_the_commit_and_after_a_restart() -> None:
    """Refusals are remembered as well as successes."""
    with Server() as server:
        with RawClient(server.host, server.port) as client:
            client.register()
            answers = [client.call(*each, number=number) for number, each in enumerate(REQUESTS, 1)]
            assert [code(answer) for answer in answers] == [0, 0, 1012, 0]
            replays(client, REQUESTS, answers)
            server.restart()
        with RawClient(server.host, server.port) as client:
            client.register()
            replays(client, REQUESTS, answers)
            assert client.streams() == []


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_a_replay_over_a_checkpoint(restarted: bool) -> None:
    """The log that held the request is drained; the answer comes from the snapshot's client table, byte for byte."""
    with Server(config=NodeConfig(journal_slots=SLOTS)) as server:
        with RawClient(server.host, server.port) as client, RawClient(server.host, server.port, client=2) as other:
            client.register()
            other.register()
            answer = client.call(Operation.CREATE_STREAM, create_stream("once"), number=1)
            for number in range(1, RENAMES + 1):
                body = rename_stream(created_id(answer), f"name-{number}")
                assert code(other.call(Operation.UPDATE_STREAM, body, number=number)) == 0
            assert other.status()["checkpoints"] >= 1
            assert other.status()["checkpoint"] > 2
            if restarted:
                server.restart()
            else:
                assert client.call(Operation.CREATE_STREAM, create_stream("once"), number=1) == answer
        with RawClient(server.host, server.port) as again:
            again.register()
            before = again.status()["op"]
            assert again.call(Operation.CREATE_STREAM, create_stream("once"), number=1) == answer
            assert again.status()["op"] == before
            assert again.streams() == [(created_id(answer), f"name-{RENAMES}")]


def test_a_number_that_was_used_for_something_else_is_refused() -> None:
    """D-30, ChecksumMismatch: status 4, and neither the old answer nor a second execution."""
    with Server() as server, RawClient(server.host, server.port) as client:
        client.register()
        assert code(client.call(Operation.CREATE_STREAM, create_stream("first"), number=1)) == 0
        assert code(client.call(Operation.CREATE_STREAM, create_stream("other"), number=1)) == 4
        assert [name for _, name in client.streams()] == ["first"]
        assert client.query(CommandCode.PING) == b""
