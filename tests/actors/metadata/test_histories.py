"""Random histories: against a model, with a snapshot at every op, on two machines (BR-21, BR-40; state-machine 16)."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from levrier.actors.metadata.machine import Applied
from levrier.wire.replies import result_payload
from levrier.wire.responses.streams import StreamDetails
from levrier.wire.responses.topics import TopicDetails
from tests.actors.metadata.support import BAD_OPTIONS, Log, Step, decoded, encoded, partitions_of, restored

NAMES = ["a", "b", "c", "0", "1"]
KEYS: list[int | str] = [*NAMES, 0, 1, 2, 3]


def random_step(rng: random.Random) -> Step:
    """One operation of any kind, as likely as not to be rejected."""
    stream, topic = rng.choice(KEYS), rng.choice(KEYS)
    name = rng.choice(NAMES)
    options = rng.choice([b"", b"", BAD_OPTIONS])
    count = rng.randrange(4)
    ids = [rng.choice([0, 1, 2, 5, 999_999, 1_000_000]) for _ in range(count)]
    user = rng.choice([0, 0, 0, 0, 1])
    steps: list[Step] = [
        lambda log: log.create_stream(name, options, user=user),
        lambda log: log.create_stream(name),
        lambda log: log.update_stream(stream, name, options),
        lambda log: log.delete_stream(stream),
        lambda log: log.purge_stream(stream),
        lambda log: log.create_topic(stream, name, ids),
        lambda log: log.create_topic(stream, name, [0, 1], options=options or None),
        lambda log: log.update_topic(stream, topic, name, options),
        lambda log: log.delete_topic(stream, topic),
        lambda log: log.purge_topic(stream, topic),
        lambda log: log.create_partitions(stream, topic, ids),
        lambda log: log.create_partitions(stream, topic, [0, 1]),
        lambda log: log.delete_partitions(stream, topic, count),
        lambda log: log.truncate(stream, topic, count, rng.randrange(100)),
        lambda log: log.bootstrap(),
        lambda log: log.apply(1),
        lambda log: log.apply(3),
    ]
    return rng.choice(steps)


@pytest.mark.parametrize("seed", range(3))
def test_br_21_a_snapshot_at_every_op_and_the_rest_replayed_is_the_live_state(seed: int) -> None:
    """BR-21: 200 ops; from each k the restored machine gives the same replies and ends in the same bytes."""
    rng = random.Random(seed)
    log = Log()
    states, replies = [encoded(log.machine)], []
    for _ in range(200):
        replies.append(random_step(rng)(log))
        states.append(encoded(log.machine))
    assert len({applied.code for applied in replies}) > 6
    for k in range(200):
        machine = decoded(states[k])
        for index in range(k, 200 if k % 20 == 0 else min(k + 12, 200)):
            assert machine.apply(*log.entries[index]) == replies[index]
            if index % 4 == 0:
                assert encoded(machine) == states[index + 1]


@pytest.mark.parametrize("seed", range(3))
def test_two_machines_fed_one_log_encode_the_same_bytes_at_every_op(seed: int) -> None:
    """State-machine 16, D-05, D-17: one of them restored in between, the other captured all the time."""
    rng = random.Random(100 + seed)
    log = Log()
    for _ in range(150):
        random_step(rng)(log)
    first, second = Log().machine, Log().machine
    for index, (header, body) in enumerate(log.entries):
        assert first.apply(header, body) == second.apply(header, body)
        assert encoded(first) == encoded(second)
        if index % 10 == 5:
            second = restored(second)


@dataclass
class TopicModel:
    name: str
    partitions: list[list[int]] = field(default_factory=list)
    """[id, watermark, purge generation], in the order in which they were appended."""


@dataclass
class StreamModel:
    name: str
    topics: dict[int, TopicModel] = field(default_factory=dict)


def lowest_free(ids: dict[int, StreamModel] | dict[int, TopicModel]) -> int:
    return next(number for number in range(len(ids) + 1) if number not in ids)


class Catalogue(RuleBasedStateMachine):
    """The machine beside the most naive catalogue that does what state-machine 6 says."""

    names = st.sampled_from(NAMES)
    keys = st.sampled_from(KEYS)

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.model: dict[int, StreamModel] = {}
        self.revision = 0

    @initialize(name=names)
    def start_with_a_stream(self, name: str) -> None:
        self.create_stream(name)

    def id_of(self, records: dict[int, StreamModel] | dict[int, TopicModel], key: int | str) -> int | None:
        if isinstance(key, int):
            return key if key in records else None
        return next((number for number, record in records.items() if record.name == key), None)

    def locate(self, stream: int | str, topic: int | str) -> TopicModel | int:
        stream_id = self.id_of(self.model, stream)
        if stream_id is None:
            return 1009
        topic_id = self.id_of(self.model[stream_id].topics, topic)
        return 2010 if topic_id is None else self.model[stream_id].topics[topic_id]

    def on_topic(self, stream: int | str, topic: int | str, change: Callable[[TopicModel], int], got: Applied) -> None:
        found = self.locate(stream, topic)
        assert got.code == (found if isinstance(found, int) else change(found))

    @rule(name=names)
    def create_stream(self, name: str) -> None:
        applied = self.log.create_stream(name)
        if self.id_of(self.model, name) is not None:
            assert applied.code == 1012
            return
        stream_id = lowest_free(self.model)
        assert StreamDetails.decode(result_payload(applied.body)).stream.id == stream_id
        self.model[stream_id] = StreamModel(name)

    @rule(key=keys, name=names)
    def update_stream(self, key: int | str, name: str) -> None:
        code = self.log.update_stream(key, name).code
        stream_id = self.id_of(self.model, key)
        if stream_id is None:
            assert code == 1009
        elif self.id_of(self.model, name) not in (None, stream_id):
            assert code == 1012
        else:
            assert code == 0
            self.model[stream_id].name = name

    @rule(key=keys)
    def delete_stream(self, key: int | str) -> None:
        code = self.log.delete_stream(key).code
        stream_id = self.id_of(self.model, key)
        assert code == (1009 if stream_id is None else 0)
        if stream_id is not None:
            del self.model[stream_id]
            self.revision += 1

    @rule(key=keys)
    def purge_stream(self, key: int | str) -> None:
        code = self.log.purge_stream(key).code
        stream_id = self.id_of(self.model, key)
        assert code == (1009 if stream_id is None else 0)
        if stream_id is not None:
            topics = self.model[stream_id].topics.values()
            self.revision += any(topic.partitions for topic in topics)
            for topic in topics:
                self.purge(topic)

    @rule(key=keys, name=names, count=st.integers(0, 3))
    def create_topic(self, key: int | str, name: str, count: int) -> None:
        applied = self.log.create_topic(key, name, list(range(count)))
        stream_id = self.id_of(self.model, key)
        if stream_id is None:
            assert applied.code == 1009
            return
        topics = self.model[stream_id].topics
        if self.id_of(topics, name) is not None:
            assert applied.code == 2013
            return
        topic_id = lowest_free(topics)
        assert TopicDetails.decode(result_payload(applied.body)).topic.id == topic_id
        topics[topic_id] = TopicModel(name, [[number, 0, 0] for number in range(count)])
        self.revision += 1

    @rule(stream=keys, topic=keys, name=names)
    def update_topic(self, stream: int | str, topic: int | str, name: str) -> None:
        applied = self.log.update_topic(stream, topic, name)

        def change(found: TopicModel) -> int:
            topics = next(s.topics for s in self.model.values() if found in s.topics.values() and self.holds(s, stream))
            if any(other.name == name for other in topics.values() if other is not found):
                return 2013
            found.name = name
            return 0

        self.on_topic(stream, topic, change, applied)

    def holds(self, candidate: StreamModel, key: int | str) -> bool:
        stream_id = self.id_of(self.model, key)
        return stream_id is not None and self.model[stream_id] is candidate

    @rule(stream=keys, topic=keys)
    def delete_topic(self, stream: int | str, topic: int | str) -> None:
        applied = self.log.delete_topic(stream, topic)

        def change(found: TopicModel) -> int:
            stream_id = self.id_of(self.model, stream)
            assert stream_id is not None
            topics = self.model[stream_id].topics
            del topics[next(number for number, record in topics.items() if record is found)]
            self.revision += 1
            return 0

        self.on_topic(stream, topic, change, applied)

    @rule(stream=keys, topic=keys)
    def purge_topic(self, stream: int | str, topic: int | str) -> None:
        applied = self.log.purge_topic(stream, topic)

        def change(found: TopicModel) -> int:
            self.revision += bool(found.partitions)
            self.purge(found)
            return 0

        self.on_topic(stream, topic, change, applied)

    @rule(stream=keys, topic=keys, count=st.integers(1, 3))
    def create_partitions(self, stream: int | str, topic: int | str, count: int) -> None:
        applied = self.log.create_partitions(stream, topic, list(range(count)))

        def change(found: TopicModel) -> int:
            base = max((partition[0] for partition in found.partitions), default=-1) + 1
            found.partitions += [[base + offset, 0, 0] for offset in range(count)]
            self.revision += 1
            return 0

        self.on_topic(stream, topic, change, applied)

    @rule(stream=keys, topic=keys, count=st.integers(0, 3))
    def delete_partitions(self, stream: int | str, topic: int | str, count: int) -> None:
        applied = self.log.delete_partitions(stream, topic, count)

        def change(found: TopicModel) -> int:
            if count > len(found.partitions):
                return 2019
            for _ in range(count):
                found.partitions.pop()
            self.revision += count > 0
            return 0

        self.on_topic(stream, topic, change, applied)

    @rule(stream=keys, topic=keys, partition=st.integers(0, 3), offset=st.integers(0, 9))
    def truncate(self, stream: int | str, topic: int | str, partition: int, offset: int) -> None:
        applied = self.log.truncate(stream, topic, partition, offset)

        def change(found: TopicModel) -> int:
            for record in found.partitions:
                if record[0] == partition:
                    record[1] = max(record[1], offset)
                    self.revision += 1
                    return 0
            return 3007

        self.on_topic(stream, topic, change, applied)

    @rule()
    def restore(self) -> None:
        """BR-40: go on from the snapshot; the bytes are the same and so is everything that follows."""
        before = encoded(self.log.machine)
        self.log.machine = restored(self.log.machine)
        assert encoded(self.log.machine) == before

    @rule()
    def capture(self) -> None:
        self.log.machine.capture(self.log.op, 0)

    @invariant()
    def equals_the_model(self) -> None:
        machine = self.log.machine
        assert machine.streams.revision == self.revision
        shape = {
            stream.id: (stream.name, {topic.id: topic.name for topic in stream.topics or ()})
            for stream in machine.streams.all()
        }
        assert shape == {
            number: (stream.name, {key: topic.name for key, topic in stream.topics.items()})
            for number, stream in self.model.items()
        }
        for stream_id, stream in self.model.items():
            for topic_id, topic in stream.topics.items():
                partitions = partitions_of(machine, stream_id, topic_id)
                assert [[number, mark, purges] for number, _, _, mark, purges in partitions] == topic.partitions

    @staticmethod
    def purge(topic: TopicModel) -> None:
        for partition in topic.partitions:
            partition[1] = 0
            partition[2] += 1


TestCatalogue = Catalogue.TestCase
TestCatalogue.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
