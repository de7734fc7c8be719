"""What a catalogue costs as it grows: a node of its own is filled through the wire, listed, ended and started again.

The catalogue is built in stages of equal size, streams first and then their topics, by closed-loop connections; the last
stage is held against the first. A stall is the longest that one create had to wait. How long a checkpoint takes is seen from
outside: for so long its temporary file is there. Memory is what the process has resident, over what it had when blank.
"""

import asyncio
import itertools
import os
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from levrier.cluster.address import Address
from levrier.cluster.bench import BenchFailed, Tell
from levrier.cluster.bench_connection import BenchConnection, open_bench_connection
from levrier.cluster.client import Client
from levrier.cluster.client_errors import ClientError
from levrier.cluster.process import NodeProcess
from levrier.persistence.data_dir import GroupPaths, temporary
from levrier.wire.codes import Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.streams import CreateStream
from levrier.wire.requests.topics import CreateTopic

STAGES = 20
CONNECTIONS = 32
LIST_SECONDS = 120.0
START_SECONDS = 300.0
POLL_SECONDS = 0.002
USERNAME = PASSWORD = "iggy"
"""The first user of a node that nobody but this machine reaches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleSettings:
    """How much to create. Building ends early at `resident_max` bytes. `data` is where a directory is made and removed."""

    streams: int
    topics: int
    resident_max: int = 4 << 30
    connections: int = CONNECTIONS
    data: Path | None = None

    def __post_init__(self) -> None:
        assert self.streams > 0
        assert self.topics >= 0
        assert self.connections > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleReport:
    """What was measured. Sizes in bytes; `create_*` is wall time for one create with all connections busy.

    The first and the last are those of the first and the last stage; `growth` is the last over the first. `complete` is
    false when building ended at the limit of memory. `cpu_*` is what one create took of the processor in the node, checkpoints
    included: that hardly depends on what else runs. `checkpoint_ms` is the longest; None when none was seen.
    """

    streams: int
    topics: int
    complete: bool
    build_seconds: float
    creates_per_s: float
    create_first_us: float
    create_last_us: float
    growth: float
    cpu_first_us: float
    cpu_last_us: float
    p50_first_ms: float
    p50_last_ms: float
    p99_first_ms: float
    p99_last_ms: float
    worst_stall_first_ms: float
    worst_stall_ms: float
    resident_blank: int
    resident: int
    bytes_per_topic: int
    list_streams_ms: float
    list_topics_ms: float
    checkpoints: int
    checkpoint_ms: float | None
    snapshot_size: int
    end_seconds: float
    restart_seconds: float
    restart_after_kill_seconds: float


async def run_scale(settings: ScaleSettings, *, tell: Tell = lambda _line: None) -> ScaleReport:
    """Build, measure, clean up. Raises `BenchFailed` for a create that is refused, `NodeDidNotStart`, `ClientError`."""
    with TemporaryDirectory(prefix="levrier-scale-", dir=settings.data) as directory:
        data = Path(directory) / "node"
        async with _node(data) as node:
            blank = _resident(node.pid)
            stages, checkpoints = await _build(settings, node, data, tell)
            resident = _resident(node.pid)
            lists = await _list(node)
            began = time.perf_counter()
            await asyncio.to_thread(node.end, START_SECONDS)
            end_seconds = time.perf_counter() - began
        snapshot = GroupPaths(data / "metadata").snapshot
        snapshot_size = snapshot.stat().st_size if snapshot.exists() else 0
        restarts = [await _restart(data, kill=kill, tell=tell) for kill in (True, False)]
    return _report(
        stages,
        lists,
        settings=settings,
        blank=blank,
        resident=resident,
        checkpoints=checkpoints,
        snapshot_size=snapshot_size,
        end_seconds=end_seconds,
        restarts=restarts,
    )


@dataclass(slots=True)
class _Stage:
    """What was created, how long each create took from its request to its answer (seconds), and all of them together."""

    streams: int
    topics: int
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def per_create(self) -> float:
        """Seconds."""
        return self.seconds / len(self.latencies)

    @property
    def cpu_per_create(self) -> float:
        """Seconds of the processor, in the node."""
        return self.cpu_seconds / len(self.latencies)

    def at(self, share: float) -> float:
        """The latency that this share of the creates did not exceed, milliseconds."""
        ordered = sorted(self.latencies)
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e3, 3)


class _Creates:
    """The creates that are to be done by all connections together. Satisfies `Work`."""

    def __init__(self, bodies: Iterator[bytes], stage: _Stage) -> None:
        self._bodies = bodies
        self._stage = stage
        self.error: ClientError | None = None

    def next_body(self) -> bytes | None:
        """The next request, None when none is left or one was refused."""
        return next(self._bodies, None) if self.error is None else None

    def done(self, began: float, ended: float) -> None:
        """Count it."""
        self._stage.latencies.append(ended - began)

    def failed(self, error: ClientError) -> None:
        """No create of a blank catalogue may be refused."""
        self.error = error


@dataclass(slots=True)
class _Checkpoints:
    """The checkpoints that were seen under way, each in seconds."""

    seconds: list[float] = field(default_factory=list)

    async def watch(self, file: Path) -> None:
        """Note how long the temporary file of a snapshot is there, again and again, until cancelled."""
        began: float | None = None
        while True:
            if file.exists():
                began = time.perf_counter() if began is None else began
            elif began is not None:
                self.seconds.append(time.perf_counter() - began)
                began = None
            await asyncio.sleep(POLL_SECONDS)


async def _build(
    settings: ScaleSettings, node: NodeProcess, data: Path, tell: Tell
) -> tuple[list[_Stage], _Checkpoints]:
    checkpoints = _Checkpoints()
    watch = asyncio.create_task(checkpoints.watch(temporary(GroupPaths(data / "metadata").snapshot)))
    stages: list[_Stage] = []
    try:
        async with AsyncExitStack() as opened:
            connections = await _connect(Address.parse(node.address), settings.connections, opened)
            for numbers in _ranges(settings.streams, STAGES):
                cpu = _cpu_seconds(node.pid)
                stage = await _fill(connections, numbers, settings.topics)
                stage.cpu_seconds = _cpu_seconds(node.pid) - cpu
                stages.append(stage)
                resident = _resident(node.pid)
                created = sum(len(stage.latencies) for stage in stages)
                each, own = stage.per_create * 1e6, stage.cpu_per_create * 1e6
                tell(
                    f"{created:9} created, {each:4.0f} us each now ({own:4.0f} in the node), {resident >> 20} MiB resident"
                )
                if resident >= settings.resident_max:
                    break
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
    return stages, checkpoints


async def _fill(connections: list[BenchConnection], numbers: range, topics: int) -> _Stage:
    """Create these streams, and then the topics of each."""
    stage = _Stage(streams=len(numbers), topics=len(numbers) * topics)
    streams = (CreateStream(name=_stream_name(number)).encode() for number in numbers)
    children = (
        CreateTopic(
            stream=Identifier(_stream_name(number)), partitions_count=1, name=f"topic-{topic:05}", options=b""
        ).encode()
        for number in numbers
        for topic in range(topics)
    )
    began = time.perf_counter()
    for operation, bodies in ((Operation.CREATE_STREAM, streams), (Operation.CREATE_TOPIC, children)):
        work = _Creates(bodies, stage)
        await asyncio.gather(*(connection.run(work, operation=int(operation), code=0) for connection in connections))
        if work.error is not None:
            raise BenchFailed(f"a create was refused: {work.error}") from work.error
    stage.seconds = time.perf_counter() - began
    return stage


def _stream_name(number: int) -> str:
    return f"stream-{number:07}"


def _ranges(count: int, parts: int) -> list[range]:
    """`count` numbers in at most so many parts of about the same size."""
    parts = min(count, parts)
    edges = [count * part // parts for part in range(parts + 1)]
    return [range(start, end) for start, end in itertools.pairwise(edges)]


async def _connect(address: Address, count: int, opened: AsyncExitStack) -> list[BenchConnection]:
    connections = []
    for _ in range(count):
        connection = await open_bench_connection(address, client_id=secrets.randbits(126) | 1)
        opened.callback(connection.close)
        await connection.login(USERNAME, PASSWORD)
        connections.append(connection)
    return connections


async def _list(node: NodeProcess) -> tuple[float, float]:
    """Seconds to list all streams, and to list the topics of one in the middle."""
    async with await _client(node) as client:
        began = time.perf_counter()
        streams = await client.get_streams()
        listed = time.perf_counter()
        await client.get_topics(streams[len(streams) // 2].id)
        return listed - began, time.perf_counter() - listed


async def _restart(data: Path, *, kill: bool, tell: Tell) -> float:
    """Seconds from the start of the process to the first answer to a client."""
    began = time.perf_counter()
    async with _node(data) as node:
        async with await _client(node) as client:
            await client.ping()
        seconds = time.perf_counter() - began
        tell(f"started again in {seconds:.1f} s")
        await asyncio.to_thread(node.kill if kill else node.end)
    return seconds


async def _client(node: NodeProcess) -> Client:
    client = await Client.connect("127.0.0.1", node.port, deadline_seconds=LIST_SECONDS)
    await client.login(USERNAME, PASSWORD)
    return client


@asynccontextmanager
async def _node(data: Path) -> AsyncIterator[NodeProcess]:
    """A node that does not outlive the block."""
    node = await asyncio.to_thread(NodeProcess.start, data, ready_seconds=START_SECONDS)
    try:
        yield node
    finally:
        node.kill()


def _resident(pid: int) -> int:
    """Bytes that a process has resident. Only Linux tells of another process; elsewhere it is 0."""
    file = Path(f"/proc/{pid}/statm")
    if not file.exists():
        return 0
    return int(file.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _cpu_seconds(pid: int) -> float:
    """What a process has used of the processor so far. Only Linux tells of another process; elsewhere it is 0."""
    file = Path(f"/proc/{pid}/stat")
    if not file.exists():
        return 0.0
    fields = file.read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _report(
    stages: list[_Stage],
    lists: tuple[float, float],
    *,
    settings: ScaleSettings,
    blank: int,
    resident: int,
    checkpoints: _Checkpoints,
    snapshot_size: int,
    end_seconds: float,
    restarts: list[float],
) -> ScaleReport:
    first, last = stages[0], stages[-1]
    streams, topics = sum(stage.streams for stage in stages), sum(stage.topics for stage in stages)
    seconds = sum(stage.seconds for stage in stages)
    return ScaleReport(
        streams=streams,
        topics=topics,
        complete=streams == settings.streams,
        build_seconds=round(seconds, 1),
        creates_per_s=round((streams + topics) / seconds, 1),
        create_first_us=round(first.per_create * 1e6, 1),
        create_last_us=round(last.per_create * 1e6, 1),
        growth=round(last.per_create / first.per_create, 2),
        cpu_first_us=round(first.cpu_per_create * 1e6, 1),
        cpu_last_us=round(last.cpu_per_create * 1e6, 1),
        p50_first_ms=first.at(0.5),
        p50_last_ms=last.at(0.5),
        p99_first_ms=first.at(0.99),
        p99_last_ms=last.at(0.99),
        worst_stall_first_ms=first.at(1),
        worst_stall_ms=max(stage.at(1) for stage in stages),
        resident_blank=blank,
        resident=resident,
        bytes_per_topic=(resident - blank) // max(topics, 1),
        list_streams_ms=round(lists[0] * 1e3, 1),
        list_topics_ms=round(lists[1] * 1e3, 1),
        checkpoints=len(checkpoints.seconds),
        checkpoint_ms=round(max(checkpoints.seconds) * 1e3, 1) if checkpoints.seconds else None,
        snapshot_size=snapshot_size,
        end_seconds=round(end_seconds, 2),
        restart_after_kill_seconds=round(restarts[1], 2),
        restart_seconds=round(restarts[0], 2),
    )
