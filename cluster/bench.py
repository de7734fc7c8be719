"""A closed-loop load on one node, and what it measured.

Each of `concurrency` connections has one request outstanding. The first second warms up and is not counted. Latency is what
a caller sees: from sending a request to having its answer, transient retries included. Only streams whose names begin
with `bench-` are renamed and read: the catalogue of others is left alone. Of a cluster the primary is loaded with writes,
whichever member was named; reads and pings go to the member that was named.
"""

import asyncio
import itertools
import math
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from levrier.cluster.address import Address
from levrier.cluster.bench_connection import BenchConnection, open_bench_connection
from levrier.cluster.client import Client, ClientError, DeadlineExceeded
from levrier.cluster.client_tls import ClientTls
from levrier.wire.codes import CommandCode, NodeRole, Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.streams import CreateStream, GetStream, UpdateStream

T = TypeVar("T")

WARM_UP_SECONDS = 1.0
STREAM_COUNT = 1_000
PREPARING_CONNECTIONS_MAX = 32
NAME_BYTES_MAX = 255
NAME_PREFIX = "bench-"
TICK_SECONDS = 1.0
LOGIN_SECONDS = 0.25
"""What a login may take on top of the timeout, for each connection: a password is slow to verify on purpose."""


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
    """What to load whom with. `operations` ends the run at that count instead of after `seconds`.

    A run that gets no answer at all for `timeout` seconds is given up.
    """

    address: Address
    username: str
    password: str
    load: Load = Load.UPDATE_STREAM
    concurrency: int = 1
    seconds: float = 5.0
    operations: int | None = None
    streams: int = STREAM_COUNT
    name_size: int = 200
    timeout: float = 10.0
    tls: ClientTls | None = None


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
    first_error: str | None


_OPERATIONS = {
    Load.UPDATE_STREAM: (int(Operation.UPDATE_STREAM), 0),
    Load.CREATE_STREAM: (int(Operation.CREATE_STREAM), 0),
    Load.GET_STREAM: (int(Operation.NON_REPLICATED), int(CommandCode.GET_STREAM)),
    Load.PING: (int(Operation.NON_REPLICATED), int(CommandCode.PING)),
}


_WRITES = frozenset({Load.UPDATE_STREAM, Load.CREATE_STREAM})


class BenchFailed(Exception):
    """The load could not be run at all."""


Tell = Callable[[str], None]


async def run_bench(settings: BenchSettings, *, tell: Tell = lambda _line: None) -> BenchReport:
    """Prepare the catalogue, load the node, measure. `tell` gets a line for each step and about every second.

    Raises `ClientError` when the node cannot be asked, `BenchFailed` when not one operation succeeded.
    """
    writing = replace(settings, address=await _leader_of(settings))
    if settings.load in _WRITES:
        settings = writing
    names = _Names(settings)
    if settings.load in {Load.UPDATE_STREAM, Load.GET_STREAM}:
        async with await _client(writing) as writer:
            await _prepare(writing, writer, names, tell)
    async with await _client(settings) as observer:
        before = await observer.status()
        run = _Run(settings, _body_maker(settings, names))
        async with AsyncExitStack() as opened:
            connections = await _connect_all(settings, opened)
            tell(f"loading {settings.address} with {settings.load.value}, connections: {settings.concurrency}")
            await run.drive(connections, tell)
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
        return f"{NAME_PREFIX}{self._run}-{next(self._numbers)}-".ljust(self._size, "x")


class _Run:
    """The clock and the record that all connections of a run share. Satisfies `Work`."""

    def __init__(self, settings: BenchSettings, body: Callable[[int], bytes]) -> None:
        self._settings = settings
        self._body = body
        self._latencies: list[float] = []
        self._answered = 0
        self._number = 0
        self._errors: list[ClientError] = []
        self._error_count = 0
        self._counts_from = 0.0
        self._until = 0.0
        self._limit = math.inf if settings.operations is None else settings.operations
        self._elapsed = 0.0

    async def drive(self, connections: list[BenchConnection], tell: Tell) -> None:
        """Run all connections to the end. Raises what ended one of them, `DeadlineExceeded` when all are silent."""
        settings = self._settings
        counted = settings.operations is not None
        began = time.perf_counter()
        self._counts_from = began if counted else began + WARM_UP_SECONDS
        self._until = math.inf if counted else self._counts_from + settings.seconds
        operation, code = _OPERATIONS[settings.load]
        work = asyncio.gather(*(connection.run(self, operation=operation, code=code) for connection in connections))
        watch = asyncio.create_task(self._watch(began, tell))
        try:
            either: list[asyncio.Future[Any]] = [work, watch]
            done, _ = await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            for ended in done:
                ended.result()
        finally:
            work.cancel()
            watch.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)
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
        self._answered += 1
        if began >= self._counts_from and ended < self._until:
            self._latencies.append(ended - began)

    def failed(self, error: ClientError) -> None:
        """Count a refusal; the first is kept to be shown."""
        self._answered += 1
        self._error_count += 1
        if not self._errors:
            self._errors.append(error)

    async def _watch(self, began: float, tell: Tell) -> None:
        """Tell how it goes, and raise when nothing comes back any more. Ends with an error only."""
        answered, since = self._answered, time.perf_counter()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.perf_counter()
            if self._answered != answered:
                answered, since = self._answered, now
            elif now - since >= self._settings.timeout:
                silence = f"no answer for {self._settings.timeout:g} s"
                raise DeadlineExceeded(silence, address=str(self._settings.address))
            tell(f"{now - began:4.0f} s  {answered} operations")

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
            first_error=str(self._errors[0]) if self._errors else None,
        )


def _milliseconds(ordered: list[float], share: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e3, 3)


async def _client(settings: BenchSettings) -> Client:
    address = settings.address
    client = await Client.connect(address.host, address.port, deadline_seconds=settings.timeout, tls=settings.tls)
    try:
        await client.login(settings.username, settings.password)
    except BaseException:
        await client.close()
        raise
    return client


async def _leader_of(settings: BenchSettings) -> Address:
    """Where writes are taken: the address given, unless the node there says that another member leads."""
    async with await _client(settings) as client:
        status = await client.status()
        if status["role"] == "primary":
            return settings.address
        leaders = [node for node in (await client.cluster_metadata()).nodes if node.role == NodeRole.LEADER]
    return Address(host=leaders[0].ip, port=leaders[0].tcp) if leaders else settings.address


async def _connect_all(settings: BenchSettings, opened: AsyncExitStack) -> list[BenchConnection]:
    """All connections of the load, logged in; `opened` closes what was opened, also when one of them fails."""
    address = settings.address

    async def connect() -> BenchConnection:
        connection = await open_bench_connection(address, client_id=secrets.randbits(127) | 1, tls=settings.tls)
        opened.callback(connection.close)
        await connection.login(settings.username, settings.password)
        return connection

    try:
        async with asyncio.timeout(settings.timeout + settings.concurrency * LOGIN_SECONDS):
            return await _together(connect() for _ in range(settings.concurrency))
    except TimeoutError as error:
        raise DeadlineExceeded(f"{settings.concurrency} logins took too long", address=str(address)) from error


async def _prepare(settings: BenchSettings, observer: Client, names: _Names, tell: Tell) -> None:
    """Have as many streams of our own as wanted, and know their ids."""
    there = [stream.id for stream in await observer.get_streams() if stream.name.startswith(NAME_PREFIX)]
    names.ids = there[: settings.streams]
    missing = settings.streams - len(names.ids)
    if not missing:
        return
    tell(f"creating {missing} streams")

    async def create(count: int) -> None:
        async with await _client(settings) as client:
            for _ in range(count):
                names.ids.append((await client.create_stream(names.fresh())).id)

    workers = min(missing, PREPARING_CONNECTIONS_MAX)
    share, rest = divmod(missing, workers)
    await _together(create(share + (index < rest)) for index in range(workers))


async def _together(work: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """Do it all at once. The first error ends the rest and is raised."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


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
