"""Bad input against a real node: it serves everybody else meanwhile, its memory stays bounded, nothing is lost."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from levrier.wire.codes import CommandCode, Operation
from levrier.wire.framing import FRAME_SIZE_MAX, HEADER_SIZE, SIZE_OFFSET
from tests.cluster.processes import NodeProcess, Spawn
from tests.cluster.raw_client import RawClient, code, create_stream, request

pytestmark = pytest.mark.process

MEBIBYTE = 1024 * 1024
IDLE_CONNECTIONS = 1_000
DESCRIPTORS = 4_096
HALF_FRAMES = 200
STREAMS = 2_000
UNREAD_READS = 100
NAME = "name-{}-".ljust(200, "x")


@pytest.fixture
def node(spawn: Spawn, tmp_path: Path) -> Iterator[NodeProcess]:
    """A node that is still whole at the end: it serves, and a restart finds what it had acknowledged."""
    data = tmp_path / "data"
    process = spawn(data).ready()
    yield process
    with RawClient(process.host, process.port, client=0xE0D) as client:
        assert code(client.register()) == 0
        streams = client.streams()
    assert process.terminate().status == 0
    with spawn(data).ready() as again, RawClient(again.host, again.port, client=0xE0E) as client:
        client.register()
        assert client.streams() == streams


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Room for the sockets of this process and, by inheritance, of the node."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        pytest.skip(f"{DESCRIPTORS} open files are not allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, DESCRIPTORS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def header_of_size(size: int) -> bytes:
    """A header whose size field says so."""
    header = bytearray(request(Operation.NON_REPLICATED, client=5, code=int(CommandCode.PING)))
    header[SIZE_OFFSET : SIZE_OFFSET + 4] = size.to_bytes(4, "little")
    return bytes(header)


def serves(client: RawClient, number: int) -> None:
    """The node does the work of somebody else."""
    assert client.query(CommandCode.PING) == b""
    assert code(client.call(Operation.CREATE_STREAM, create_stream(f"served-{number}"), number=number)) == 0


def test_what_breaks_the_framing_is_closed_and_nobody_else_notices(node: NodeProcess) -> None:
    """D-30: random bytes, sizes out of range, a command that no client sends, a large frame before the login."""
    random = Random(4)
    replica_frame = bytearray(header_of_size(HEADER_SIZE))
    replica_frame[60] = 6
    bad = [
        *(header_of_size(size) for size in (0, 1, HEADER_SIZE - 1, FRAME_SIZE_MAX + 1, (1 << 32) - 1)),
        bytes(replica_frame),
        header_of_size(MEBIBYTE) + bytes(100_000),
        *(b"\xff" * 64 + random.randbytes(1_000) for _ in range(20)),
    ]
    with RawClient(node.host, node.port) as client:
        assert code(client.register()) == 0
        for number, data in enumerate(bad, 1):
            with RawClient(node.host, node.port, client=5) as intruder:
                intruder.send(data)
                assert intruder.is_closed_by_node(), f"bad input {number} is kept"
            serves(client, number)


def test_random_bytes_never_end_a_node(node: NodeProcess) -> None:
    """Whatever they happen to mean: connections come and go, one client goes on."""
    random = Random(5)
    with RawClient(node.host, node.port) as client:
        assert code(client.register()) == 0
        for number in range(1, 101):
            with socket.create_connection((node.host, node.port)) as intruder:
                junk = bytearray(random.randbytes(random.randint(1, 2_000)))
                if random.random() < 0.7 and len(junk) >= HEADER_SIZE:
                    junk[SIZE_OFFSET : SIZE_OFFSET + 4] = len(junk).to_bytes(4, "little")
                    junk[60] = 5
                intruder.sendall(junk)
            if number % 10 == 0:
                serves(client, number)


def test_half_frames_held_open(node: NodeProcess) -> None:
    """Each of them is kept waiting at its own cost: 200 halves of 60 kB hold 6 MB, not more."""
    with ExitStack() as held, RawClient(node.host, node.port) as client:
        assert code(client.register()) == 0
        before = node.resident_bytes()
        for _ in range(HALF_FRAMES):
            half = held.enter_context(RawClient(node.host, node.port, client=6))
            half.send(header_of_size(60_000) + bytes(30_000 - HEADER_SIZE))
        for number in range(1, 11):
            serves(client, number)
        assert node.resident_bytes() - before < 40 * MEBIBYTE


def test_1000_idle_connections(many_descriptors: None, node: NodeProcess) -> None:
    """They cost little, and somebody else is served beside them and after them."""
    with RawClient(node.host, node.port) as client:
        assert code(client.register()) == 0
        before = node.resident_bytes()
        with ExitStack() as idle:
            last = [idle.enter_context(RawClient(node.host, node.port, client=7)) for _ in range(IDLE_CONNECTIONS)][-1]
            assert last.query(CommandCode.PING) == b""
            for number in range(1, 11):
                serves(client, number)
            assert node.resident_bytes() - before < 40 * MEBIBYTE
        serves(client, 11)


def test_a_client_that_never_reads(node: NodeProcess) -> None:
    """A hundred reads of half a megabyte, not one answer taken: no more than a few are made. Once it reads, all come."""
    with RawClient(node.host, node.port) as client, RawClient(node.host, node.port, client=8) as lazy:
        assert code(client.register()) == 0
        assert code(lazy.register()) == 0
        bodies = [create_stream(NAME.format(number)) for number in range(STREAMS)]
        assert {code(answer) for answer in client.pipeline(Operation.CREATE_STREAM, bodies, number=1)} == {0}
        expected = client.query(CommandCode.GET_STREAMS)
        assert len(expected) > 400_000
        before = node.resident_bytes()
        reading = request(
            Operation.NON_REPLICATED, client=lazy.client, session=lazy.epoch, code=int(CommandCode.GET_STREAMS)
        )
        lazy.send(reading * UNREAD_READS)
        for number in range(STREAMS + 1, STREAMS + 11):
            assert client.query(CommandCode.PING) == b""
            body = create_stream(f"served-{number}")
            assert code(client.call(Operation.CREATE_STREAM, body, number=number)) == 0
        assert node.resident_bytes() - before < 40 * MEBIBYTE
        answers = [lazy.receive() for _ in range(UNREAD_READS)]
        assert [code(answer) for answer in answers] == [0] * UNREAD_READS
        assert answers[0][HEADER_SIZE:] == expected
