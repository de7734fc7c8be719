"""The checker of what the plugins are for fires on each thing left undone or done wrongly, and on nothing else."""

from dataclasses import replace

import pytest

from levrier.cluster.simulate.checkers import Duties, Housekeeping, Rule, Violation
from levrier.cluster.simulate.disks import DiskUse, check_bounded
from levrier.persistence.partition_directories import PartitionKey
from levrier.wire.codes import Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.groups import CreateConsumerGroup
from levrier.wire.requests.replicated import (
    CompleteConsumerGroupRevocation,
    CreatePersonalAccessTokenReplicated,
    CreateTopicWithAssignments,
    JoinConsumerGroupReplicated,
    LeaveConsumerGroupReplicated,
)
from levrier.wire.requests.topics import CreateTopic
from tests.simulation.checkers.story import CLIENT, OTHER, Story, Watched

TIMEOUT = 5_000
TOKEN_LIFE = 10_000
KEYS = (PartitionKey(0, 0, 0, 1), PartitionKey(0, 0, 1, 1))
ALL = Duties(rebalancing_timeout=TIMEOUT)
WELL = dict.fromkeys(range(3), KEYS)


def is_polled(partition: int) -> bool:
    """The second partition is."""
    return partition == 1


class House:
    """A stream, a topic of two partitions, a group that `CLIENT` is a member of; each op is a millisecond after the last."""

    def __init__(self, duties: Duties = ALL) -> None:
        self.story = Story()
        self.watched = Watched(self.story)
        self.checker = Housekeeping(self.watched.observer, duties, is_polled=is_polled)
        self.story.bootstrap()
        self.story.login()
        self.story.create("s", 1)
        topic = CreateTopic(stream=Identifier(0), partitions_count=2, name="t")
        body = CreateTopicWithAssignments(
            request=topic, derived_options=b"", created_view=0, assignments=((0, 1), (1, 2))
        ).encode()
        self.story.commit(Operation.CREATE_TOPIC_WITH_ASSIGNMENTS, body)
        group = CreateConsumerGroup(stream=Identifier(0), topic=Identifier(0), name="g")
        self.story.commit(Operation.CREATE_CONSUMER_GROUP, group.encode())
        self.join(CLIENT)

    @property
    def now(self) -> int:
        """The time of the last op, in microseconds."""
        return 1_000 * self.story.op

    def join(self, client: int, *in_flight: int) -> None:
        """A client becomes a member, while these partitions are polled."""
        where = Identifier(0), Identifier(0), Identifier(0)
        stream, topic, group = where
        body = JoinConsumerGroupReplicated(
            stream=stream, topic=topic, group=group, client=client, in_flight=in_flight
        ).encode()
        self.story.commit(Operation.JOIN_CONSUMER_GROUP, body)
        self.watched.tell()

    def leave(self, client: int) -> None:
        """A member goes, which ends every revocation of its group."""
        where = Identifier(0), Identifier(0), Identifier(0)
        stream, topic, group = where
        body = LeaveConsumerGroupReplicated(stream=stream, topic=topic, group=group, client=client).encode()
        self.story.commit(Operation.LEAVE_CONSUMER_GROUP, body)
        self.watched.tell()

    def complete(self, partition: int, **fields: int) -> None:
        """What the completer commits."""
        body = CompleteConsumerGroupRevocation(
            stream=Identifier(0), topic=Identifier(0), group_id=0, source_client=CLIENT, partition_id=partition
        ).encode()
        self.story.commit(Operation.COMPLETE_CONSUMER_GROUP_REVOCATION, body, **fields)
        self.watched.tell()

    def left(self, *, now: int | None = None, silent: tuple[int, ...] = (), **others: object) -> str:
        """What is still to be done."""
        directories = {**WELL, **{int(key[1:]): value for key, value in others.items()}}
        return self.checker.unfinished(
            now=self.now if now is None else now,
            directories=directories,  # type: ignore[arg-type]  # What is given by name is a tuple of keys too.
            silent=silent,
        )


def test_a_house_in_order_has_nothing_left() -> None:
    assert not House().left()


def test_a_partition_that_is_polled_stays_until_the_time_is_over() -> None:
    house = House()
    house.join(OTHER, 0, 1)
    with pytest.raises(Violation, match=f"^{Rule.HANDED_OVER_IN_TIME}: op 8 takes partition 1"):
        house.complete(1)


def test_after_the_time_it_may_go_and_one_that_nobody_polls_at_once() -> None:
    house = House()
    house.join(OTHER, 0, 1)
    house.complete(1, timestamp=house.now + TIMEOUT)
    assert house.checker.completions == 1


def test_a_completion_under_way_may_find_a_later_revocation_of_the_same_partition() -> None:
    """It does not say which one it means; the first one was due, and ended when its member left and came back."""
    house = House()
    house.join(OTHER, 0, 1)
    first = house.now
    house.leave(OTHER)
    house.join(OTHER, 0, 1)
    house.complete(1, timestamp=first + TIMEOUT)
    assert house.checker.completions == 1


def test_a_completion_that_was_due_for_no_revocation_is_early() -> None:
    house = House()
    house.join(OTHER, 0, 1)
    first = house.now
    house.leave(OTHER)
    house.join(OTHER, 0, 1)
    with pytest.raises(Violation, match=f"^{Rule.HANDED_OVER_IN_TIME}: op 10 takes partition 1"):
        house.complete(1, timestamp=first + TIMEOUT - 1)


def test_a_completion_is_not_under_way_for_ever() -> None:
    house = House()
    house.join(OTHER, 0, 1)
    house.leave(OTHER)
    for number in range(256):
        house.story.create(f"s-{number}", number + 2)
    house.join(OTHER, 0, 1)
    with pytest.raises(Violation, match=f"^{Rule.HANDED_OVER_IN_TIME}: op 266 takes partition 1"):
        house.complete(1)


def test_a_completion_that_comes_twice_is_none() -> None:
    house = House()
    house.join(OTHER, 0, 1)
    house.complete(1, timestamp=house.now + TIMEOUT)
    house.complete(1, timestamp=house.now + TIMEOUT + 3_000)
    assert house.checker.completions == 1


def test_a_partition_that_waits_for_its_owner_is_left_to_do_once_it_is_time() -> None:
    house = House()
    house.join(OTHER, 0, 1)
    assert not house.left()
    assert "partition 1 of g waits" in house.left(now=house.now + TIMEOUT)


def test_an_expired_token_is_left_to_do_and_one_that_lives_is_not() -> None:
    house = House()
    body = CreatePersonalAccessTokenReplicated(user_id=0, name="p", token_hash="0" * 64, expiry=TOKEN_LIFE).encode()
    house.story.commit(Operation.CREATE_PERSONAL_ACCESS_TOKEN, body)
    house.watched.tell()
    assert not house.left(now=house.now + TOKEN_LIFE - 1)
    assert "token p of iggy expired" in house.left(now=house.now + TOKEN_LIFE)


def test_a_silent_member_of_a_group_is_left_to_do_and_a_silent_client_in_none_is_not() -> None:
    house = House()
    assert not house.left(silent=(OTHER,))
    assert f"silent client {CLIENT:#x}" in house.left(silent=(CLIENT,))


def test_directories_that_are_missing_or_too_many_are_left_to_do() -> None:
    house = House()
    assert f"node-1 has no directory for {KEYS[1]}" in house.left(r1=KEYS[:1])
    gone = PartitionKey(0, 0, 1, 2)
    assert f"node-2 has a directory for {gone}, which is gone" in house.left(r2=(*KEYS, gone))


def test_what_no_plugin_is_for_is_not_asked_of_any() -> None:
    house = House(replace(ALL, cleans=False, completes=False, sweeps=False, reconciles=False))
    house.join(OTHER, 0, 1)
    house.complete(1)
    assert not house.left(now=house.now + TIMEOUT, silent=(CLIENT,), r1=())


def test_the_directory_of_a_partition_that_exists_stays() -> None:
    house = House()
    house.checker.removed(1, PartitionKey(0, 0, 1, 2))
    with pytest.raises(Violation, match=f"^{Rule.DIRECTORY_STAYS}: replica 1"):
        house.checker.removed(1, KEYS[1])


@pytest.mark.parametrize("what", ["logs", "archive", "others"])
def test_a_disk_that_is_too_full_is_found(what: str) -> None:
    use = DiskUse(logs=4 << 20, archive=1_000, others=1_000)
    check_bounded(0, use, slots=256, largest=500)
    with pytest.raises(Violation, match=f"^{Rule.DISK_IS_BOUNDED}: node-0"):
        check_bounded(0, replace(use, **{what: 1 << 30}), slots=256, largest=500)
