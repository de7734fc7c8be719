"""The four plugins that come with levrier in whole members, in one thread: what they bring about, through crashes."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from loguru import logger

from levrier.actors.plugins.builtin import (
    PartitionReconciler,
    RevocationCompleter,
    StaleSessionSweeper,
    TokenCleaner,
    stale_session_sweeper,
    token_cleaner,
)
from levrier.cluster.config import NodeConfig, PluginSetup
from levrier.cluster.simulate.frames import code, request
from levrier.persistence.partition_directories import PartitionDirectories, PartitionKey
from levrier.wire.codes import CommandCode, Operation
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.groups import CreateConsumerGroup, JoinConsumerGroup, SyncConsumerGroup
from levrier.wire.requests.streams import DeleteStream
from levrier.wire.requests.tokens import CreatePersonalAccessToken
from levrier.wire.requests.topics import CreateTopic, DeleteTopic
from levrier.wire.responses.groups import ConsumerGroupAssignment
from levrier.wire.responses.tokens import PersonalAccessTokenList
from tests.cluster.cluster_steps import Caller, SteppedCluster
from tests.cluster.test_plugins_steps import ELECTION_MILLISECONDS, at_leader

SEEDS = (1, 2, 3)
FAST_CLEANER = PluginSetup(plugin=TokenCleaner, settings=token_cleaner.Settings(interval=timedelta(seconds=1)))
DIRECTORIES = Path("/data/partitions")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Nobody reads the log of thousands of virtual seconds."""
    logger.disable("levrier")
    yield
    logger.enable("levrier")


def begin(seed: int, *, count: int = 3, plugins: tuple[PluginSetup, ...] | None = None) -> SteppedCluster:
    """A cluster that was born a moment ago."""
    cluster = SteppedCluster(seed, count=count, plugins=NodeConfig().plugins if plugins is None else plugins)
    for replica in range(count):
        cluster.start(replica)
    cluster.world.advance(1_500)
    return cluster


def do(caller: Caller, operation: Operation, body: bytes) -> bytes:
    """Have something committed; what stands behind the header of the answer."""
    caller.number += 1
    frame = request(operation, body, client=caller.client, session=caller.session, number=caller.number)
    answer = caller.call(frame, milliseconds=5_000)
    assert answer is not None
    assert code(answer) == 0, code(answer)
    return answer[HEADER_SIZE:]


def topic(caller: Caller, stream: int, name: str, partitions: int) -> None:
    """Create a topic."""
    body = CreateTopic(stream=Identifier(stream), partitions_count=partitions, name=name)
    do(caller, Operation.CREATE_TOPIC, body.encode())


def directories(cluster: SteppedCluster, replica: int) -> tuple[PartitionKey, ...]:
    """The partition directories of a member."""
    return PartitionDirectories(cluster.storages[replica], DIRECTORIES).all()


def places(cluster: SteppedCluster, replica: int) -> list[tuple[int, int, int]]:
    """The same without the epochs."""
    return [key[:3] for key in directories(cluster, replica)]


class TestPartitionReconciler:
    """Maintenance 2."""

    @pytest.mark.parametrize("seed", SEEDS)
    def test_every_member_has_the_directories_of_the_catalogue(self, seed: int) -> None:
        cluster = begin(seed)
        caller = at_leader(cluster, 1, among=(0, 1, 2))
        assert caller.create("s")
        topic(caller, 0, "a", 2)
        topic(caller, 0, "b", 1)
        cluster.world.advance(3_000)
        wanted = [(0, 0, 0), (0, 0, 1), (0, 1, 0)]
        assert [places(cluster, replica) for replica in range(3)] == [wanted] * 3
        do(caller, Operation.DELETE_TOPIC, DeleteTopic(stream=Identifier(0), topic=Identifier("a")).encode())
        cluster.world.advance(3_000)
        assert [places(cluster, replica) for replica in range(3)] == [[(0, 1, 0)]] * 3
        before = directories(cluster, 0)
        do(caller, Operation.DELETE_STREAM, DeleteStream(stream=Identifier(0)).encode())
        assert caller.create("reborn")
        topic(caller, 0, "x", 1)
        topic(caller, 0, "y", 1)
        cluster.world.advance(3_000)
        after = [directories(cluster, replica) for replica in range(3)]
        assert after == [after[0]] * 3
        assert [key[:3] for key in after[0]] == [(0, 0, 0), (0, 1, 0)]
        assert after[0][1].epoch > before[0].epoch, "the id is the same, the incarnation is not"

    @pytest.mark.parametrize("seed", SEEDS)
    def test_a_member_that_comes_back_removes_nothing_before_it_has_caught_up(self, seed: int) -> None:
        """Its log ends before the topic that the directory is of: nobody may mistake that for a deletion."""
        cluster = begin(seed)
        caller = at_leader(cluster, 1, among=(0, 1, 2))
        assert caller.create("s")
        topic(caller, 0, "a", 3)
        cluster.world.advance(3_000)
        backup = next(replica for replica in range(3) if replica != caller.at)
        kept = directories(cluster, backup)
        assert len(kept) == 3
        cluster.crash(backup)
        others = [replica for replica in range(3) if replica not in (backup, caller.at)]
        cluster.crash(others[0])
        cluster.start(backup)
        for _ in range(10):
            cluster.world.advance(500)
            assert set(kept) <= set(directories(cluster, backup))
        cluster.start(others[0])
        cluster.world.advance(12_000)
        assert [directories(cluster, replica) for replica in range(3)] == [kept] * 3

    def test_directories_that_were_lost_are_made_again(self) -> None:
        cluster = begin(4, count=1)
        caller = at_leader(cluster, 1, among=(0,))
        assert caller.create("s")
        topic(caller, 0, "a", 2)
        cluster.world.advance(2_000)
        kept = directories(cluster, 0)
        for key in kept:
            PartitionDirectories(cluster.storages[0], DIRECTORIES).delete(key)
        cluster.world.advance(62_000)
        assert directories(cluster, 0) == kept

    def test_a_member_that_was_left_behind_gets_the_directories_with_the_state(self) -> None:
        """A state transfer tells nobody what it jumped over (state-machine 14)."""
        cluster = begin(5)
        caller = at_leader(cluster, 1, among=(0, 1, 2))
        assert caller.create("s")
        backup = next(replica for replica in range(3) if replica != caller.at)
        cluster.crash(backup)
        topic(caller, 0, "a", 2)
        for number in range(300):
            assert caller.create(f"s{number}")
        cluster.start(backup)
        cluster.world.advance(20_000)
        assert places(cluster, backup) == [(0, 0, 0), (0, 0, 1)]


class TestTokenCleaner:
    """Maintenance 1."""

    @pytest.mark.parametrize("seed", SEEDS)
    def test_expired_tokens_are_deleted_by_whoever_leads(self, seed: int) -> None:
        cluster = begin(seed, plugins=(FAST_CLEANER,))
        caller = at_leader(cluster, 1, among=(0, 1, 2))
        for number, seconds in enumerate((5, 30, 3_600)):
            token = CreatePersonalAccessToken(name=f"t{number}", expiry=seconds * 1_000_000)
            do(caller, Operation.CREATE_PERSONAL_ACCESS_TOKEN, token.encode())
        assert token_names(caller) == ["t0", "t1", "t2"]
        cluster.world.advance(8_000)
        assert token_names(caller) == ["t1", "t2"]
        assert caller.at is not None
        cluster.crash(caller.at)
        others = tuple(replica for replica in range(3) if replica != caller.at)
        cluster.world.advance(ELECTION_MILLISECONDS + 30_000)
        survivor = at_leader(cluster, 2, among=others)
        assert token_names(survivor) == ["t2"]

    def test_without_it_they_stay(self) -> None:
        cluster = begin(1, count=1, plugins=())
        caller = at_leader(cluster, 1, among=(0,))
        do(caller, Operation.CREATE_PERSONAL_ACCESS_TOKEN, CreatePersonalAccessToken(name="t", expiry=1).encode())
        cluster.world.advance(120_000)
        assert token_names(caller) == ["t"]


def token_names(caller: Caller) -> list[str]:
    """The tokens of root, as that member has them."""
    listed = PersonalAccessTokenList.decode(caller.ask(int(CommandCode.GET_PERSONAL_ACCESS_TOKENS)))
    return [token.name for token in listed.tokens]


GROUP = {"stream": Identifier(0), "topic": Identifier(0), "group": Identifier("g")}


def join(caller: Caller) -> None:
    """Become a member of the group."""
    do(caller, Operation.JOIN_CONSUMER_GROUP, JoinConsumerGroup(**GROUP).encode())


def owned(caller: Caller) -> tuple[int, ...]:
    """What this client may poll by now, ascending; empty for no member."""
    frame = request(
        Operation.NON_REPLICATED,
        SyncConsumerGroup(**GROUP).encode(),
        client=caller.client,
        session=caller.session,
        code=int(CommandCode.SYNC_CONSUMER_GROUP),
    )
    answer = caller.call(frame, milliseconds=2_000)
    assert answer is not None
    body = answer[HEADER_SIZE:]
    return tuple(sorted(ConsumerGroupAssignment.decode(body).partitions)) if body else ()


def with_group(cluster: SteppedCluster, partitions: int) -> Caller:
    """A client at the leader that made a group."""
    caller = at_leader(cluster, 1, among=tuple(range(cluster.count)))
    assert caller.create("s")
    topic(caller, 0, "t", partitions)
    group = CreateConsumerGroup(stream=Identifier(0), topic=Identifier(0), name="g")
    do(caller, Operation.CREATE_CONSUMER_GROUP, group.encode())
    return caller


class TestRevocationCompleter:
    """Maintenance 3."""

    @pytest.mark.parametrize("seed", SEEDS)
    def test_a_second_member_gets_its_share_without_anybody_doing_anything(self, seed: int) -> None:
        cluster = begin(seed, plugins=(PluginSetup(plugin=RevocationCompleter, settings=completer_settings()),))
        first = with_group(cluster, 4)
        join(first)
        assert owned(first) == (0, 1, 2, 3)
        second = Caller(cluster, 2)
        assert first.at is not None
        assert second.connect(first.at)
        join(second)
        cluster.world.advance(3_000)
        assert sorted(owned(first) + owned(second)) == [0, 1, 2, 3]
        assert len(owned(second)) == 2


def completer_settings() -> object:
    """The defaults."""
    return RevocationCompleter.settings_type()


class TestStaleSessionSweeper:
    """Maintenance 4."""

    def test_a_member_that_went_silent_loses_its_place_and_others_get_its_partitions(self) -> None:
        settings = stale_session_sweeper.Settings(interval=timedelta(seconds=5))
        cluster = begin(1, plugins=(PluginSetup(plugin=StaleSessionSweeper, settings=settings),))
        first = with_group(cluster, 2)
        join(first)
        second = Caller(cluster, 2)
        assert first.at is not None
        assert second.connect(first.at)
        for _ in range(12):
            cluster.world.advance(1_000)
            second.status()
        join(second)
        assert owned(second) == (0, 1)

    def test_one_in_no_group_is_left_alone(self) -> None:
        settings = stale_session_sweeper.Settings(interval=timedelta(seconds=5))
        cluster = begin(2, plugins=(PluginSetup(plugin=StaleSessionSweeper, settings=settings),))
        caller = with_group(cluster, 2)
        cluster.world.advance(60_000)
        assert caller.create("still here")


def test_the_four_are_what_a_node_has_unless_it_is_told_otherwise() -> None:
    names = [setup.plugin for setup in replace(NodeConfig()).plugins]
    assert names == [PartitionReconciler, RevocationCompleter, StaleSessionSweeper, TokenCleaner]
