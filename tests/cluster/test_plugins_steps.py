"""Plugins in whole members, in one thread: through failovers, each key once; what they are told, and what they may do."""

from collections.abc import Iterator
from random import Random

import pytest
from loguru import logger

from levrier.actors.plugins import NoSettings
from levrier.cluster.config import PluginSetup
from levrier.cluster.simulate.frames import NOT_ACCEPTED, NOT_COMMITTED, code, request
from levrier.wire.codes import CommandCode, Operation
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.topics import CreateTopic, GetTopics
from levrier.wire.responses.streams import StreamList
from levrier.wire.responses.topics import TopicList
from tests.actors.plugins.samples import DeadLetters, DeadLetterSettings, Widener
from tests.cluster.cluster_steps import Caller, SteppedCluster

SEEDS = (1, 2, 3)
DEAD_LETTERS = PluginSetup(plugin=DeadLetters, settings=DeadLetterSettings())
ELECTION_MILLISECONDS = 8_000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Nobody reads the log of thousands of virtual seconds."""
    logger.disable("levrier")
    yield
    logger.enable("levrier")


def begin(seed: int, *, count: int, plugins: tuple[PluginSetup, ...] = (DEAD_LETTERS,)) -> SteppedCluster:
    """A cluster that was born a moment ago, whose members run these plugins."""
    cluster = SteppedCluster(seed, count=count, plugins=plugins)
    for replica in range(count):
        cluster.start(replica)
    cluster.world.advance(1_500)
    return cluster


def at_leader(cluster: SteppedCluster, number: int, *, among: tuple[int, ...]) -> Caller:
    """A client that is connected to the leader."""
    caller = Caller(cluster, number)
    for _ in range(100):
        for replica in among:
            if caller.connect(replica) and caller.status()["role"] == "primary":
                return caller
        cluster.world.advance(200)
    raise AssertionError("nobody leads")


def names(caller: Caller) -> list[str]:
    """The streams that there are."""
    return [stream.name for stream in StreamList.decode(caller.ask(int(CommandCode.GET_STREAMS))).streams]


@pytest.mark.parametrize("count", [1, 3])
def test_each_stream_gets_its_second_one(count: int) -> None:
    cluster = begin(1, count=count)
    caller = at_leader(cluster, 1, among=tuple(range(count)))
    for name in ("a", "b", "c"):
        assert caller.create(name)
    cluster.world.advance(2_000)
    assert sorted(names(caller)) == ["a", "a.dead", "b", "b.dead", "c", "c.dead"]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_dead_leader_left_undone_is_done_by_the_next_one_and_nothing_twice(seed: int) -> None:
    cluster = begin(seed, count=3)
    caller = at_leader(cluster, 1, among=(0, 1, 2))
    leader = caller.at
    assert leader is not None
    for name in ("a", "b", "c", "d"):
        assert caller.create(name)
    cluster.crash(leader)
    cluster.world.advance(ELECTION_MILLISECONDS)
    others = tuple(each for each in range(3) if each != leader)
    survivor = at_leader(cluster, 2, among=others)
    assert survivor.create("e")
    cluster.world.advance(3_000)
    wanted = ["a", "b", "c", "d", "e"]
    assert sorted(names(survivor)) == sorted(wanted + [f"{name}.dead" for name in wanted])
    session = [tried for tried in attempts(survivor) if tried["name"] == "dead_letters"]
    assert session[0]["last_error"] == ""
    assert session[0]["keyed_waiting"] == 0


def attempts(caller: Caller) -> list[dict[str, object]]:
    """How the plugins of that member fare."""
    found: list[dict[str, object]] = caller.status()["plugins"]
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_follower_holds_nothing_that_the_leader_has_done(seed: int) -> None:
    cluster = begin(seed, count=3)
    caller = at_leader(cluster, 1, among=(0, 1, 2))
    for name in ("a", "b", "c"):
        assert caller.create(name)
    cluster.world.advance(3_000)
    follower = Caller(cluster, 2)
    assert follower.connect(next(each for each in range(3) if each != caller.at))
    [status] = attempts(follower)
    assert (status["keyed_waiting"], status["committed"]) == (0, 0)
    assert status["metrics"] == {"already": 3.0}


def test_a_restart_of_a_node_of_its_own_repeats_no_key() -> None:
    """The watermark of the session is replicated state: it is there again after the replay."""
    cluster = begin(4, count=1)
    caller = at_leader(cluster, 1, among=(0,))
    assert caller.create("a")
    cluster.world.advance(2_000)
    cluster.crash(0)
    cluster.start(0)
    cluster.world.advance(2_000)
    again = at_leader(cluster, 2, among=(0,))
    assert again.create("b")
    cluster.world.advance(2_000)
    assert sorted(names(again)) == ["a", "a.dead", "b", "b.dead"]


WIDENER = PluginSetup(plugin=Widener, settings=NoSettings())
TOPICS = 12


def create_topic(caller: Caller, name: str) -> bool:
    """Create a topic of one partition; False when nobody answered."""
    caller.number += 1
    body = CreateTopic(stream=Identifier(0), partitions_count=1, name=name).encode()
    frame = request(Operation.CREATE_TOPIC, body, client=caller.client, session=caller.session, number=caller.number)
    for _ in range(50):
        answer = caller.call(frame)
        if answer is not None and code(answer) not in (NOT_ACCEPTED, NOT_COMMITTED):
            return code(answer) == 0
        caller.cluster.world.advance(50)
    return False


def widths(caller: Caller) -> dict[str, int]:
    """How many partitions each topic has."""
    frame = request(
        Operation.NON_REPLICATED,
        GetTopics(stream=Identifier(0)).encode(),
        client=caller.client,
        session=caller.session,
        code=int(CommandCode.GET_TOPICS),
    )
    answer = caller.call(frame, milliseconds=2_000)
    assert answer is not None
    return {topic.name: topic.partitions_count for topic in TopicList.decode(answer[HEADER_SIZE:]).topics}


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("seed", range(10, 16))
def test_each_cause_has_one_effect_whoever_dies_and_whenever(seed: int, count: int) -> None:
    """Members crash at any moment and come back, the leader above all: no topic is left out, and none is widened twice."""
    random = Random(f"widener/{seed}/{count}")
    cluster = begin(seed, count=count, plugins=(WIDENER,))
    everybody = tuple(range(count))
    caller = at_leader(cluster, 1, among=everybody)
    assert caller.create("s")
    made = []
    for number in range(TOPICS):
        if create_topic(caller, f"t{number}"):
            made.append(f"t{number}")
        if random.random() < 0.5:
            victim = caller.at if random.random() < 0.7 else random.choice(everybody)
            assert victim is not None
            cluster.world.advance(random.choice([0, 0, 1, 2, 5, 20]))
            cluster.crash(victim)
            cluster.world.advance(random.choice([0, 500, 4_000]))
            cluster.start(victim)
            cluster.world.advance(ELECTION_MILLISECONDS)
            caller = at_leader(cluster, number + 2, among=everybody)
    cluster.world.advance(10_000)
    found = widths(at_leader(cluster, 99, among=everybody))
    assert len(made) > TOPICS // 2
    assert set(made) <= found.keys()
    assert {name: width for name, width in found.items() if width != 2} == {}
