"""A closed-loop load on one node, and what it measured.

Each of `concurrency` connections has one request outstanding. The first second warms up and is not counted. Latency is what
a caller sees: from sending a request to having its answer, transient retries included.
"""

import asyncio
import itertools
import math
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from levrier.cluster.bench_connection import BenchConnection, open_bench_connection
from levrier.cluster.client import Client, ClientError
from levrier.wire.codes import CommandCode, Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.streams import CreateStream, GetStream, UpdateStream

WARM_UP_SECONDS = 1.0
STREAM_COUNT = 1_000
PREPARING_CONNECTIONS = 32
NAME_BYTES_MAX = 255


class Load(StrEnum):
    """What each request does."""

    UPDATE_STREAM = "update-stream"
    """Rename one of the streams: a write, durable before it is answered."""
    CREATE_STREAM = "create-stream"
    """Create a stream: a write that makes the catalogue grow."""
    GET_STREAM = "get-stream"
    """Read one of the streams."""
    PING = "ping"
    """Nothing but the way there and back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSettings:
    """What to load whom with. `operations` ends the run at that count instead of after `seconds`."""

    host: str
    port: int
    username: str
    password: str
    load: Load = Load.UPDATE_STREAM
    concurrency: int = 1
    seconds: float = 5.0
    operations: int | None = None
    streams: int = STREAM_COUNT
    name_size: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """What was measured. Latencies in milliseconds, over the counted part of the run."""

    operation: str
    concurrency: int
    seconds: float
    operations: int
    per_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    errors: int
    checkpoints: int


_OPERATIONS = {
    Load.UPDATE_STREAM: (int(Operation.UPDATE_STREAM), 0),
    Load.CREATE_STREAM: (int(Operation.CREATE_STREAM), 0),
    Load.GET_STREAM: (int(Operation.NON_REPLICATED), int(CommandCode.GET_STREAM)),
    Load.PING: (int(Operation.NON_REPLICATED), int(CommandCode.PING)),
}


class BenchFailed(Exception):
    """The load could not be run at all."""


async def run_bench(settings: BenchSettings, *, progress: Callable[[int], None] = lambda _done: None) -> BenchReport:
    """Prepare the catalogue, load the node, measure. `progress` is told the count of operations about every second.

    Raises `ClientError` when the node cannot be asked, `BenchFailed` when not one operation succeeded.
    """
    async with await Client.connect(settings.host, settings.port) as observer:
        await observer.login(settings.username, settings.password)
        names = _Names(settings)
        if settings.load in {Load.UPDATE_STREAM, Load.GET_STREAM}:
            await _prepare(settings, names)
        before = await observer.status()
        run = _Run(settings, _body_maker(settings, names))
        connections = await asyncio.gather(*(_connected(settings) for _ in range(settings.concurrency)))
        try:
            await run.drive(connections, progress)
        finally:
            for connection in connections:
                connection.close()
        after = await observer.status()
    return run.report(checkpoints=int(after["checkpoints"]) - int(before["checkpoints"]))


class _Names:
    """Names that no two requests share, padded to the wanted size."""

    def __init__(self, settings: BenchSettings) -> None:
        self._size = min(settings.name_size, NAME_BYTES_MAX)
        self._run = f"{time.time_ns():x}"
        self._numbers = itertools.count()
        self.ids: list[int] = []

    def fresh(self) -> str:
        return f"bench-{self._run}-{next(self._numbers)}-".ljust(self._size, "x")


class _Run:
    """The clock and the record that all connections of a run share. Satisfies `Work`."""

    def __init__(self, settings: BenchSettings, body: Callable[[int], bytes]) -> None:
        self._settings = settings
        self._body = body
        self._latencies: list[float] = []
        self._number = 0
        self._errors: list[ClientError] = []
        self._error_count = 0
        self._counts_from = 0.0
        self._until = 0.0
        self._limit = math.inf if settings.operations is None else settings.operations
        self._elapsed = 0.0

    async def drive(self, connections: list[BenchConnection], progress: Callable[[int], None]) -> None:
        """Run all connections to the end."""
        settings = self._settings
        counted = settings.operations is not None
        began = time.perf_counter()
        self._counts_from = began if counted else began + WARM_UP_SECONDS
        self._until = math.inf if counted else self._counts_from + settings.seconds
        operation, code = _OPERATIONS[settings.load]
        ticker = asyncio.create_task(self._tick(progress))
        try:
            runs = (connection.run(self, operation=operation, code=code) for connection in connections)
            await asyncio.gather(*runs)
        finally:
            ticker.cancel()
        self._elapsed = time.perf_counter() - began if counted else settings.seconds

    def next_body(self) -> bytes | None:
        """The body of one more request, None when the run is over."""
        number = self._number
        if number >= self._limit or time.perf_counter() >= self._until:
            return None
        self._number = number + 1
        return self._body(number)

    def done(self, began: float, ended: float) -> None:
        """Count what both began and ended in the measured part."""
        if began >= self._counts_from and ended < self._until:
            self._latencies.append(ended - began)

    def failed(self, error: ClientError) -> None:
        """Count a refusal; the first is kept to be shown."""
        self._error_count += 1
        if not self._errors:
            self._errors.append(error)

    async def _tick(self, progress: Callable[[int], None]) -> None:
        while True:
            await asyncio.sleep(1.0)
            progress(len(self._latencies))

    def report(self, *, checkpoints: int) -> BenchReport:
        ordered = sorted(self._latencies)
        if not ordered:
            first = f"; the first: {self._errors[0]}" if self._errors else ""
            raise BenchFailed(f"no operation succeeded, {self._error_count} failed{first}")
        return BenchReport(
            operation=self._settings.load.value,
            concurrency=self._settings.concurrency,
            seconds=round(self._elapsed, 3),
            operations=len(ordered),
            per_s=round(len(ordered) / self._elapsed, 1),
            p50_ms=_milliseconds(ordered, 0.50),
            p99_ms=_milliseconds(ordered, 0.99),
            max_ms=round(ordered[-1] * 1e3, 3),
            errors=self._error_count,
            checkpoints=checkpoints,
        )


def _milliseconds(ordered: list[float], share: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e3, 3)


async def _connected(settings: BenchSettings) -> BenchConnection:
    return await open_bench_connection(
        host=settings.host,
        port=settings.port,
        client_id=secrets.randbits(127) | 1,
        username=settings.username,
        password=settings.password,
    )


async def _prepare(settings: BenchSettings, names: _Names) -> None:
    """Have as many streams as wanted, and know their ids."""
    clients = [await Client.connect(settings.host, settings.port) for _ in range(PREPARING_CONNECTIONS)]
    try:
        await asyncio.gather(*(client.login(settings.username, settings.password) for client in clients))
        names.ids = [stream.id for stream in (await clients[0].get_streams())][: settings.streams]
        missing = settings.streams - len(names.ids)

        async def create(client: Client, count: int) -> None:
            for _ in range(count):
                names.ids.append((await client.create_stream(names.fresh())).id)

        share, rest = divmod(missing, len(clients))
        await asyncio.gather(*(create(client, share + (index < rest)) for index, client in enumerate(clients)))
    finally:
        await asyncio.gather(*(client.close() for client in clients))


def _body_maker(settings: BenchSettings, names: _Names) -> Callable[[int], bytes]:
    ids = names.ids
    streams = [Identifier(stream) for stream in ids]

    def update(number: int) -> bytes:
        return UpdateStream(stream=streams[number % len(streams)], name=names.fresh()).encode()

    def create(_number: int) -> bytes:
        return CreateStream(name=names.fresh()).encode()

    def get(number: int) -> bytes:
        return GetStream(stream=streams[number % len(streams)]).encode()

    def ping(_number: int) -> bytes:
        return b""

    makers: dict[Load, Callable[[int], bytes]] = {
        Load.UPDATE_STREAM: update,
        Load.CREATE_STREAM: create,
        Load.GET_STREAM: get,
        Load.PING: ping,
    }
    return makers[settings.load]
