"""Random histories with groups: invariants, snapshots at every op, captures that must not move (BR-40; state-machine 16)."""

import random
from collections.abc import Callable, Iterator

import msgpack
import pytest

from levrier.actors.metadata.capture import MetadataCapture
from levrier.actors.metadata.machine import Applied, MetadataMachine
from levrier.actors.metadata.memberships import Place
from levrier.actors.metadata.records import ConsumerGroup
from levrier.actors.metadata.restore import SnapshotInvalid
from tests.actors.metadata.group_log import A, B, GroupLog, with_group
from tests.actors.metadata.support import Key, Log, decoded, encoded, restored, sections

Step = Callable[[GroupLog], Applied]
CLIENTS = [1, 2, 3, 1 << 127]
NAMES = ["g", "h"]
STREAMS: list[Key] = ["s", "s", "s", 0, 1]
TOPICS: list[Key] = ["t", "t", "u", 0, 1]
GROUPS: list[Key] = [*NAMES, 0, 1, 2]


def random_step(rng: random.Random) -> Step:
    """One operation on two streams with two topics with two groups, as likely as not to be rejected."""
    client, group = rng.choice(CLIENTS), rng.choice(GROUPS)
    stream, topic = rng.choice(STREAMS), rng.choice(TOPICS)
    in_flight = tuple(number for number in range(6) if rng.random() < 0.5)
    usual: list[Step] = [
        lambda log: log.create(rng.choice(NAMES), stream=stream, topic=topic),
        lambda log: log.join(client, group, stream=stream, topic=topic, in_flight=in_flight),
        lambda log: log.join(client, group, stream=stream, topic=topic, in_flight=in_flight),
        lambda log: log.join(client, "g", stream=stream, topic="t", in_flight=tuple(range(6))),
        lambda log: log.leave(client, group, stream=stream, topic=topic),
        lambda log: log.leave(client),
        lambda log: log.create(),
        lambda log: log.complete(client, rng.randrange(4), stream=stream, topic=topic),
    ]
    rare: list[Step] = [
        lambda log: log.delete(group, stream=stream, topic=topic),
        lambda log: log.logout(client),
        lambda log: log.remove_member(client),
        lambda log: log.delete_partitions(stream, topic, 1),
        lambda log: log.delete_topic(stream, topic),
        lambda log: log.create_topic(stream, "t", [0, 1, 2]),
        lambda log: log.create_topic(stream, "u", [0]),
        lambda log: log.create_topic("s", "t", [0, 1, 2]),
        lambda log: log.create_topic("s", "u", [0, 1]),
        lambda log: log.create_partitions(stream, topic, [0, 1]),
        lambda log: log.create_partitions(stream, topic, [0, 1]),
        lambda log: log.delete_stream(stream),
        lambda log: log.create_stream("s"),
        lambda log: log.create_stream("s"),
        lambda log: log.create_stream("other"),
        lambda log: log.purge_stream(stream),
    ]
    return rng.choice(usual if rng.random() < 0.8 else rare)


def groups_of(machine: MetadataMachine) -> Iterator[tuple[Place, ConsumerGroup, set[int]]]:
    """Every group with the partitions of its topic."""
    for stream in machine.streams.all():
        for topic in stream.topics or ():
            ids = {partition.id for partition in topic.partitions}
            for group in topic.groups or ():
                yield Place(stream.id, topic.id, group.id), group, ids


def check(machine: MetadataMachine) -> None:
    """The invariants of state-machine 16, and that everything derived is what the groups say."""
    memberships: dict[int, list[Place]] = {client: [] for client in CLIENTS}
    pending = count = 0
    for place, group, ids in groups_of(machine):
        owned = [partition for member in group.members for partition in member.partitions]
        assert len(owned) == len(set(owned))
        assert set(owned) <= ids
        count += 1
        for member in group.members:
            assert {revocation.partition_id for revocation in member.pending} <= set(member.partitions)
            memberships[member.client].append(place)
            pending += len(member.pending)
    derived = machine.streams.memberships
    assert derived.pending_revocations == pending
    assert derived.groups_count == count
    assert {client: derived.of_client(client) for client in CLIENTS} == memberships
    topics = [topic for stream in machine.streams.all() for topic in stream.topics or ()]
    assert machine.streams.topics_count == len(topics)
    assert machine.streams.partitions_count == sum(len(topic.partitions) for topic in topics)


def encoding(capture: MetadataCapture) -> bytes:
    return b"".join(capture.streams())


@pytest.mark.parametrize("seed", range(4))
def test_every_op_keeps_the_invariants_and_every_capture_its_bytes(seed: int) -> None:
    """State-machine 16: captures taken along the way encode at the end what they encoded at once."""
    rng = random.Random(seed)
    log = with_group(3)
    captures: list[tuple[MetadataCapture, bytes]] = []
    seen: set[int] = set()
    revoked = 0
    for number in range(300):
        seen.add(random_step(rng)(log).code)
        check(log.machine)
        revoked += log.machine.streams.memberships.pending_revocations
        if number % 7 == 0:
            capture = log.machine.capture(log.op, 0)
            captures.append((capture, encoding(capture)))
    assert all(encoding(capture) == taken for capture, taken in captures)
    assert {0, 1009, 2010, 5000, 5004, 5006} <= seen
    assert revoked > 0


@pytest.mark.parametrize("seed", range(4))
def test_br_40_s_048_a_restored_machine_goes_on_as_the_live_one(seed: int) -> None:
    """BR-40, S-048: restored at any op it has the same bytes, gives the same replies, and ends in the same bytes."""
    rng = random.Random(50 + seed)
    log = with_group(3, A, B)
    start = len(log.entries)
    states, replies = [], []
    for _ in range(120):
        states.append(encoded(log.machine))
        replies.append(random_step(rng)(log))
    for index in range(0, 120, 5):
        machine = decoded(states[index])
        assert encoded(machine) == states[index]
        check_known = machine.streams.memberships.groups_count
        assert check_known == sum(1 for _ in groups_of(machine))
        for offset in range(index, min(index + 25, 120)):
            assert machine.apply(*log.entries[start + offset]) == replies[offset]
        end = min(index + 25, 120)
        assert encoded(machine) == (states[end] if end < 120 else encoded(log.machine))


def test_s_048_two_streams_of_two_topics_with_two_groups_come_back() -> None:
    """S-048: encoded, decoded and encoded again, the bytes are the same."""
    log = GroupLog()
    log.bootstrap()
    for stream in ("a", "b"):
        log.create_stream(stream)
        for topic in ("t", "u"):
            log.create_topic(stream, topic, [0, 1, 2])
            for group in ("g", "h"):
                log.create(group, stream=stream, topic=topic)
                log.join(A, group, stream=stream, topic=topic)
                log.join(B, group, stream=stream, topic=topic, in_flight=(0, 1, 2))
    copy = restored(log.machine)
    assert encoded(copy) == encoded(log.machine)
    assert list(groups_of(copy)) == list(groups_of(log.machine))


def test_two_histories_that_end_alike_have_one_encoding() -> None:
    """D-05: groups stand by id, whatever was deleted in between."""
    first, second = with_group(2), with_group(2)
    for log, names in ((first, ["x", "y"]), (second, ["z", "y"])):
        for name in names:
            log.create(name)
        log.delete(names[0])
    assert encoded(first.machine) == encoded(second.machine)


def test_a_large_group_is_encoded_in_small_pieces() -> None:
    """Design 3: no piece beyond 64 KiB, however much one member owns."""
    log = with_group(0)
    log.create_partitions("s", "t", list(range(40_000)))
    for client in range(3):
        log.join(100 + client, in_flight=tuple(range(40_000)) if client else ())
    pieces = list(log.machine.capture(log.op, 0).streams())
    assert max(map(len, pieces)) <= 64 * 1024
    assert encoded(restored(log.machine)) == encoded(log.machine)


GROUP = [0, [0, 2, "g", [[0, [0, b"a" * 16, [0, 1], [[1, 1, 5]], 0]], [1, [1, b"b" * 16, [], [], 0]]]]]


def groups_in(topic_groups: object, *, next_group: int = 1) -> MetadataMachine:
    """The machine of a snapshot whose only topic has two partitions and these groups."""
    log = with_group(2)
    users, streams = sections(log.machine)
    topic = streams[0][0][1][4][0][1]
    topic[8], topic[9] = topic_groups, next_group
    return MetadataMachine.restore(users=users, streams=streams, consensus_group_high=2, next_user_id=1)


def changed(change: Callable[[list[object]], object]) -> list[object]:
    """The valid group with a change."""
    group: list[object] = msgpack.unpackb(msgpack.packb(GROUP))
    change(group)
    return group


def member(group: list[object], number: int) -> list[object]:
    fields = group[1]
    assert isinstance(fields, list)
    found = fields[3][number][1]
    assert isinstance(found, list)
    return found


def put(target: list[object], index: int, value: object) -> None:
    target[index] = value


def fields_of(group: list[object]) -> list[object]:
    fields = group[1]
    assert isinstance(fields, list)
    return fields


DAMAGE: dict[str, Callable[[list[object]], object]] = {
    "a group under another key": lambda group: put(group, 0, 1),
    "a negative id": lambda group: group.__setitem__(slice(None), [-1, [-1, 2, "g", []]]),
    "no name": lambda group: put(fields_of(group), 2, ""),
    "a name that is a list": lambda group: put(fields_of(group), 2, ["g"]),
    "a negative generation": lambda group: put(fields_of(group), 1, -1),
    "no members": lambda group: put(fields_of(group), 3, None),
    "a member under another key": lambda group: put(member(group, 0), 0, 1),
    "a short client id": lambda group: put(member(group, 0), 1, b"a" * 15),
    "one client twice": lambda group: put(member(group, 1), 1, b"a" * 16),
    "one partition twice": lambda group: put(member(group, 0), 2, [0, 1, 1]),
    "two owners": lambda group: put(member(group, 1), 2, [0]),
    "a partition that the topic lacks": lambda group: put(member(group, 1), 2, [2]),
    "pending without owning": lambda group: put(member(group, 0), 2, [0]),
    "pending twice": lambda group: put(member(group, 0), 3, [[1, 1, 5], [1, 1, 5]]),
    "pending in favour of nobody": lambda group: put(member(group, 0), 3, [[1, 2, 5]]),
    "pending in favour of itself": lambda group: put(member(group, 0), 3, [[1, 0, 5]]),
    "a short revocation": lambda group: put(member(group, 0), 3, [[1, 1]]),
    "a user id out of range": lambda group: put(member(group, 0), 4, 2**32),
    "a member without user": lambda group: member(group, 0).pop(),
}


def test_the_undamaged_group_is_taken() -> None:
    """What the next test damages is accepted as it is."""
    machine = groups_in([GROUP])
    assert [group.pending_count for _, group, _ in groups_of(machine)] == [1]


@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_a_group_that_no_machine_ever_held_is_refused(damage: str) -> None:
    with pytest.raises(SnapshotInvalid):
        groups_in([changed(DAMAGE[damage])])


def test_groups_out_of_order_of_one_name_or_above_the_counter_are_refused() -> None:
    """D-22: the counter is above every id, so that no id is given out twice."""
    other = [1, [1, 0, "other", []]]
    assert len(list(groups_of(groups_in([GROUP, other], next_group=2)))) == 2
    for groups, next_group in (
        ([other, GROUP], 2),
        ([GROUP, GROUP], 2),
        ([GROUP, [1, [1, 0, "g", []]]], 2),
        ([GROUP, other], 1),
    ):
        with pytest.raises(SnapshotInvalid):
            groups_in(groups, next_group=next_group)


def test_a_replay_of_the_log_is_the_live_state() -> None:
    rng = random.Random(9)
    log = with_group(3)
    for _ in range(100):
        random_step(rng)(log)
    copy = Log().machine
    for header, body in log.entries:
        copy.apply(header, body)
    assert encoded(copy) == encoded(log.machine)
