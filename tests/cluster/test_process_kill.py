"""kill -9 at random instants under the load of the official SDK and of a client that keeps every answer."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.cluster.ledger import Catalogue, Ledger
from tests.cluster.processes import NodeProcess, Spawn
from tests.cluster.raw_client import RawClient, code
from tests.cluster.recorder import Recorder

pytest.importorskip("apache_iggy", reason="the official SDK is not installed")

from tests.sdk.running import never_reconnecting

pytestmark = [pytest.mark.process, pytest.mark.sdk]

KILLS = 10
LONG_KILLS = 200
CHECKPOINT_KILLS = 4
LONG_CHECKPOINT_KILLS = 100
SECONDS_MAX = 0.5
"""The latest instant of a kill, from the moment that it is counted from."""

RECORDING_CLIENT = 0xFEED
SMALL_SLOTS = 256


async def load_until_killed(node: NodeProcess, ledger: Ledger, recorder: Recorder, random: Random) -> None:
    """Both clients work until the node is shot: some time after the SDK logged in, or, one time in five, connected."""
    client = never_reconnecting(node.address)
    await client.connect()
    logged_in = asyncio.Event()
    if random.random() < 0.2:
        logged_in.set()

    async def work() -> None:
        await client.login_user("iggy", "iggy")
        logged_in.set()
        while True:
            await ledger.advance(client)

    loads = [asyncio.create_task(work()), asyncio.create_task(asyncio.to_thread(recorder.load, node.host, node.port))]
    await logged_in.wait()
    seconds = random.uniform(0.0, SECONDS_MAX)
    ended, _ = await asyncio.wait(loads, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    assert not ended, f"a load ended by itself: {ended}"
    node.shoot()
    broken, _ = await asyncio.gather(*loads, return_exceptions=True)
    assert isinstance(broken, RuntimeError), broken


def catalogue(connection: RawClient) -> tuple[dict[int, str], Catalogue]:
    """The recorder's streams by id, and those of the SDK with their topics."""
    recorded: dict[int, str] = {}
    others: Catalogue = {}
    streams = connection.streams()
    names = [name for _, name in streams]
    assert len(set(names)) == len(names), f"a name stands twice: {sorted(names)}"
    for number, name in streams:
        if name.startswith("recorded"):
            recorded[number] = name
        else:
            others[name] = tuple(connection.topics(number))
    return recorded, others


def run_kills(spawn: Spawn, data: Path, *, kills: int, seed: int, **limits: int) -> tuple[Ledger, Recorder]:
    """Kill and restart one node; after each restart every promise is checked."""
    random = Random(f"kills/{seed}")
    ledger = Ledger(Random(f"sdk/{seed}"))
    recorder = Recorder(Random(f"recorder/{seed}"), RECORDING_CLIENT)
    node = spawn(data, **limits).ready()
    for _ in range(kills):
        asyncio.run(load_until_killed(node, ledger, recorder, random))
        node.wait()
        node = spawn(data, **limits).ready()
        with RawClient(node.host, node.port, client=RECORDING_CLIENT) as connection:
            assert code(connection.register()) == 0
            recorder.replay(connection, checkpointed=bool(limits))
            recorded, others = catalogue(connection)
        assert recorded == recorder.streams
        ledger.settle(others)
    return ledger, recorder


def test_10_kills_lose_nothing_and_repeat_nothing(spawn: Spawn, tmp_path: Path) -> None:
    """Every acknowledged operation is there, none twice; replays give the same ids and bytes."""
    ledger, recorder = run_kills(spawn, tmp_path / "data", kills=KILLS, seed=1)
    assert ledger.acknowledged > KILLS
    assert recorder.number > KILLS


def test_kills_around_checkpoints_lose_nothing_and_repeat_nothing(spawn: Spawn, tmp_path: Path) -> None:
    """The same with a log so small that a checkpoint is always near."""
    data = tmp_path / "data"
    ledger, _ = run_kills(spawn, data, kills=CHECKPOINT_KILLS, seed=3, journal_slots=SMALL_SLOTS)
    assert ledger.acknowledged > CHECKPOINT_KILLS
    assert (data / "metadata" / "snapshot.bin").exists()


@pytest.mark.long
def test_100_kills_around_checkpoints_lose_nothing_and_repeat_nothing(spawn: Spawn, tmp_path: Path) -> None:
    """The same as often as it takes to hit every step of a checkpoint."""
    data = tmp_path / "data"
    ledger, _ = run_kills(spawn, data, kills=LONG_CHECKPOINT_KILLS, seed=4, journal_slots=SMALL_SLOTS)
    assert ledger.acknowledged > LONG_CHECKPOINT_KILLS
    assert (data / "metadata" / "snapshot.bin").exists()


@pytest.mark.long
def test_200_kills_lose_nothing_and_repeat_nothing(spawn: Spawn, tmp_path: Path) -> None:
    """As above, as often as it takes to hit every kind of instant."""
    ledger, recorder = run_kills(spawn, tmp_path / "data", kills=LONG_KILLS, seed=2)
    assert ledger.acknowledged > LONG_KILLS
    assert recorder.number > LONG_KILLS
    print(f"{ledger.acknowledged} operations of the SDK and {recorder.number} of our own were acknowledged")
