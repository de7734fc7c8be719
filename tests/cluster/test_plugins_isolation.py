"""A plugin that raises, sleeps, floods or cannot keep up: the node goes on, its memory is bounded, the plugin is reported."""

import asyncio
import re
import statistics
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from levrier.actors.plugins import (
    EVERY_OPERATION,
    Context,
    NoSettings,
    Notice,
    Plugin,
    Role,
    TooMany,
    questions,
    requests,
)
from levrier.actors.plugins.limits import NOTICES_MAX, SUBMITS_AT_ONCE_MAX, SUBMITS_PER_SECOND_MAX
from levrier.actors.runtime.threaded import EXPENDABLE_SECONDS
from levrier.cluster.client import Client
from levrier.cluster.config import NodeConfig, PluginSetup
from levrier.cluster.testing import Server
from levrier.wire.identifiers import Identifier
from tests.actors.plugins.samples import Fast, Raiser

WAIT_SECONDS = 30.0
HOUR = 3_600.0
MEMORY_BYTES_MAX = 64 << 20


@dataclass(frozen=True)
class Wakening:
    """When the sleeper wakes up: the test sets it behind the stop of the node, so that no thread stays."""

    event: threading.Event


class Sleeper(Plugin[Any]):
    """Sleeps for an hour at its first tick."""

    name = "sleeper"

    def on_resync(self, ctx: Context) -> None:
        self.settings.event.wait(HOUR)


class Flooder(Plugin[Fast]):
    """Submits 100,000 operations when it begins to lead, and as many as it may at each tick."""

    name = "flooder"
    settings_type = Fast

    def on_role(self, ctx: Context, role: Role) -> None:
        self._flood(ctx, 100_000)

    def on_tick(self, ctx: Context) -> None:
        self._flood(ctx, 1_000)

    def _flood(self, ctx: Context, count: int) -> None:
        for _ in range(count if ctx.is_leader else 0):
            try:
                ctx.submit(requests.DeleteStream(stream=Identifier("none")))
            except TooMany:
                ctx.metrics.count("too_many")


class Laggard(Plugin[NoSettings]):
    """Watches everything and asks about each, without an end, and takes its time."""

    name = "laggard"
    watches = EVERY_OPERATION

    def on_commit(self, ctx: Context, notice: Notice) -> None:
        while True:
            try:
                ctx.query(questions.streams(), lambda _ctx, _answer: None)
            except TooMany:
                time.sleep(0.02)
                return


def server(*plugins: PluginSetup) -> Server:
    """A node with these plugins beside those that come with it."""
    return Server(config=NodeConfig(plugins=(*NodeConfig().plugins, *plugins)))


async def writes(client: Client, count: int) -> list[float]:
    """How long each of so many writes took, in seconds."""
    took = []
    for number in range(count):
        began = time.perf_counter()
        await client.update_stream("s", f"s{number}" if number % 2 else "s")
        await client.update_stream(f"s{number}" if number % 2 else "s", "s")
        took.append((time.perf_counter() - began) / 2)
    return took


async def plugin_status(client: Client, name: str) -> dict[str, Any]:
    """How that plugin fares."""
    return next(plugin for plugin in (await client.status())["plugins"] if plugin["name"] == name)


async def until(client: Client, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until the status of a plugin says so."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds(status := await plugin_status(client, name)):
        assert time.monotonic() < deadline, status
        await asyncio.sleep(0.1)
    return status


async def logged_in(node: Server, then: Callable[[Client], Awaitable[None]]) -> None:
    """Do something as root."""
    async with await Client.connect(node.host, node.port, deadline_seconds=WAIT_SECONDS) as client:
        await client.login("iggy", "iggy")
        await client.create_stream("s")
        await then(client)
        await client.logout()


def run(node: Server, then: Callable[[Client], Awaitable[None]]) -> None:
    """The same, from a test."""
    asyncio.run(logged_in(node, then))


def test_one_that_raises_is_begun_again_and_reported() -> None:
    async def story(client: Client) -> None:
        await writes(client, 20)
        status = await until(client, "raiser", lambda status: status["restarts"] >= 2)
        assert "out of a handler" in status["last_error"]
        await writes(client, 20)

    with server(PluginSetup(plugin=Raiser, settings=Fast())) as node:
        run(node, story)
        assert node.running


def test_one_that_sleeps_is_reported_and_neither_the_others_nor_a_stop_wait_for_it() -> None:
    wakening = Wakening(threading.Event())

    async def story(client: Client) -> None:
        status = await until(client, "sleeper", lambda status: status["state"] == "blocked")
        assert status["restarts"] == 0
        await writes(client, 20)
        assert (await plugin_status(client, "partition_reconciler"))["state"] == "running"

    node = server(PluginSetup(plugin=Sleeper, settings=wakening))
    try:
        run(node, story)
        began = time.monotonic()
        node.stop()
        assert time.monotonic() - began < EXPENDABLE_SECONDS + 5
    finally:
        wakening.event.set()
        node.stop()
    for thread in threading.enumerate():
        if "plugin.sleeper" in thread.name:
            thread.join(WAIT_SECONDS)
            assert not thread.is_alive()


def test_one_that_floods_gets_its_share_and_no_more() -> None:
    async def story(client: Client) -> None:
        await until(client, "flooder", lambda status: status["refused"] >= 90_000)
        before, began = (await plugin_status(client, "flooder"))["committed"], time.monotonic()
        await writes(client, 50)
        await asyncio.sleep(1)
        after, seconds = (await plugin_status(client, "flooder"))["committed"], time.monotonic() - began
        assert 0 < after - before <= SUBMITS_PER_SECOND_MAX * (seconds + 1) + SUBMITS_AT_ONCE_MAX

    with server(PluginSetup(plugin=Flooder, settings=Fast())) as node:
        run(node, story)
        assert node.running


def test_one_that_cannot_keep_up_loses_commits_and_is_told_so() -> None:
    async def story(client: Client) -> None:
        connections = [client.update_stream("s", "s") for _ in range(1)]
        await asyncio.gather(*connections)
        await writes(client, NOTICES_MAX)
        status = await until(client, "laggard", lambda status: status["notices_dropped"] > 0)
        assert status["refused"] > 0

    with server(PluginSetup(plugin=Laggard, settings=NoSettings())) as node:
        run(node, story)
        assert node.running


@pytest.mark.long
@pytest.mark.parametrize("plugin", [Raiser, Sleeper, Flooder, Laggard], ids=lambda plugin: plugin.name)
def test_the_latency_of_the_node_stays_within_twice_what_it_is_without_and_its_memory_is_bounded(
    plugin: type[Plugin[Any]],
) -> None:
    """Alternating, so that both see the same machine; the medians of the medians are compared."""
    quiet: list[float] = []
    loud: list[float] = []
    wakening = Wakening(threading.Event())
    settings = wakening if plugin is Sleeper else plugin.settings_type() if plugin is Laggard else Fast()
    try:
        for _ in range(5):
            for measured, plugins in ((quiet, ()), (loud, (PluginSetup(plugin=plugin, settings=settings),))):
                with server(*plugins) as node:
                    run(node, partial(_measure, measured))
    finally:
        wakening.event.set()
    assert statistics.median(loud) <= 2 * statistics.median(quiet), (quiet, loud)


async def _measure(into: list[float], client: Client) -> None:
    await asyncio.sleep(2)
    before = resident_bytes()
    into.append(statistics.median(await writes(client, 400)))
    assert resident_bytes() - before < MEMORY_BYTES_MAX


def resident_bytes() -> int:
    """What this process, which is the node's as well, has in memory."""
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024
