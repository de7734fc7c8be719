"""Who owns which partition: the named cases, and invariants over all small groups (state-machine 7.2 to 7.4, 16)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levrier.actors.metadata import rebalance
from levrier.actors.metadata.records import ConsumerGroup, Member, Revocation
from tests.actors.metadata.group_log import A, B, C, D, Unchanged, with_group

EVERYTHING = tuple(range(100))


def group_of(*members: Member) -> ConsumerGroup:
    return ConsumerGroup(0, "g", 5, members)


class TestCooperative:
    def test_s_167_the_second_member_gets_the_excess_of_the_first(self) -> None:
        """S-167."""
        log = with_group(3, A)
        generation = log.group().generation
        log.join(B)
        assert log.owned() == {A: (0, 1), B: (2,)}
        assert log.group().generation == generation + 1

    def test_s_168_what_is_in_flight_stays_with_its_owner(self) -> None:
        """S-168: pending 3, then 2; only 0 and 1 may be polled."""
        log = with_group(4, A)
        log.join(B, in_flight=EVERYTHING)
        assert log.owned() == {A: (0, 1, 2, 3), B: ()}
        assert log.pending(A) == [3, 2]
        assert log.sync(A)[1] == (0, 1)
        assert log.sync(B)[1] == ()
        timestamp = log.entries[-1][0].timestamp
        assert {revocation.created_at for member in log.group().members for revocation in member.pending} == {timestamp}

    def test_s_169_a_third_member_adds_no_revocation(self) -> None:
        """S-169: the second is the target of two already, and the third gets nothing."""
        log = with_group(4, A)
        log.join(B, in_flight=EVERYTHING)
        log.join(C, in_flight=EVERYTHING)
        assert log.pending(A) == [3, 2]
        assert log.owned() == {A: (0, 1, 2, 3), B: (), C: ()}

    def test_a_joiner_takes_what_nobody_owns_and_no_more(self) -> None:
        """Whoever got unowned partitions is idle no more."""
        group = group_of(Member(0, A, 0, (0, 1, 2, 3)), Member(1, B, 0))
        after = rebalance.cooperative(group, range(5), in_flight=frozenset(), now=1)
        assert [member.partitions for member in after.members] == [(0, 1, 2, 3), (4,)]

    def test_what_nobody_owns_stays_so_without_an_idle_member(self) -> None:
        group = group_of(Member(0, A, 0, (0,)), Member(1, B, 0, (1,)))
        after = rebalance.cooperative(group, range(4), in_flight=frozenset(), now=1)
        assert [member.partitions for member in after.members] == [(0,), (1,)]
        assert after.generation == 6

    def test_only_what_is_in_flight_waits(self) -> None:
        log = with_group(4, A)
        log.join(B, in_flight=(3,))
        assert log.owned() == {A: (0, 1, 3), B: (2,)}
        assert log.pending(A) == [3]

    def test_nothing_to_deal_out_moves_the_generation(self) -> None:
        log = with_group(0, A)
        assert log.owned() == {A: ()}
        assert log.group().generation == 1

    @pytest.mark.parametrize("partitions", range(10))
    @pytest.mark.parametrize("members", range(1, 7))
    def test_br_44_shares_differ_by_one_and_nobody_loses_what_he_may_keep(self, members: int, partitions: int) -> None:
        """BR-44: members one after the other; whoever is there already only gives, down to the fair share."""
        log = with_group(partitions)
        for count in range(1, members + 1):
            before = log.owned()
            log.join(100 + count)
            after = log.owned()
            sizes = [len(owned) for owned in after.values()]
            assert sorted(partition for owned in after.values() for partition in owned) == list(range(partitions))
            assert max(sizes) - min(sizes) <= 1
            fair = partitions // count
            for client, owned in before.items():
                assert after[client] == owned[: len(after[client])]
                assert len(after[client]) >= min(len(owned), fair)


class TestEager:
    def test_s_170_leaving_voids_what_is_pending_and_deals_everything_out(self) -> None:
        """S-170."""
        log = with_group(5, A)
        log.join(B, in_flight=EVERYTHING)
        log.join(C, in_flight=EVERYTHING)
        generation = log.group().generation
        log.leave(B)
        assert log.owned() == {A: (0, 2, 4), C: (1, 3)}
        assert log.pending(A) == []
        assert log.group().generation == generation + 1

    def test_the_last_member_leaves_nobody_behind(self) -> None:
        log = with_group(5, A)
        generation = log.group().generation
        log.leave(A)
        assert log.owned() == {}
        assert log.group().generation == generation + 1


class TestCompletion:
    def test_s_171_the_second_completion_changes_nothing(self) -> None:
        """S-171: the first moves partition, generation and revision."""
        log = with_group(4, A)
        log.join(B, in_flight=EVERYTHING)
        generation, revision = log.group().generation, log.revision
        assert log.complete(A, 3).code == 0
        assert log.owned() == {A: (0, 1, 2), B: (3,)}
        assert log.pending(A) == [2]
        assert (log.group().generation, log.revision) == (generation + 1, revision + 1)
        assert log.machine.streams.memberships.pending_revocations == 1
        unchanged = Unchanged.of(log)
        assert log.complete(A, 3).code == 0
        assert unchanged.holds(log)

    @pytest.mark.parametrize(
        ("source", "partition", "group_id", "stream", "topic"),
        [
            (A, 3, 0, "absent", "t"),
            (A, 3, 0, "s", "absent"),
            (A, 3, 1, "s", "t"),
            (A, 0, 0, "s", "t"),
            (B, 3, 0, "s", "t"),
            (C, 3, 0, "s", "t"),
        ],
    )
    def test_anything_missing_is_a_success_without_effect(
        self, source: int, partition: int, group_id: int, stream: str, topic: str
    ) -> None:
        log = with_group(4, A)
        log.join(B, in_flight=EVERYTHING)
        unchanged = Unchanged.of(log)
        assert log.complete(source, partition, group_id, stream=stream, topic=topic).code == 0
        assert unchanged.holds(log)

    def test_br_45_whoever_takes_the_slot_of_a_target_inherits_no_hand_over(self) -> None:
        """BR-45: B leaves and D gets B's key; the late completion finds nothing, and every partition has one owner."""
        log = with_group(2, A)
        log.join(B, in_flight=EVERYTHING)
        assert log.pending(A) == [1]
        log.leave(B)
        log.join(D, in_flight=EVERYTHING)
        member = log.group().member_of(D)
        assert member is not None
        assert member.id == 1
        assert member.partitions == ()
        log.leave(D)
        log.join(C)
        before = log.owned()
        log.complete(A, 1)
        assert log.owned() == before == {A: (0,), C: (1,)}

    def test_without_its_target_what_is_owned_is_dealt_out(self) -> None:
        """The safety net of 7.4: over what members own, not over the topic."""
        group = group_of(Member(0, A, 0, (7, 3), (Revocation(3, 9, 1),)), Member(1, B, 0, (5,)))
        after = rebalance.complete(group, A, 3)
        assert after is not None
        assert [member.partitions for member in after.members] == [(3, 7), (5,)]
        assert after.generation == 6
        assert after.pending_count == 0

    def test_a_member_that_got_nothing_stays_empty(self) -> None:
        """State-machine 17, quirk 8: completing does not balance anew."""
        log = with_group(4, A)
        log.join(B, in_flight=EVERYTHING)
        log.join(C, in_flight=EVERYTHING)
        log.complete(A, 3)
        log.complete(A, 2)
        assert log.owned() == {A: (0, 1), B: (3, 2), C: ()}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["join", "leave", "complete", "grow", "shrink"]),
        st.integers(0, 5),
        st.frozensets(st.integers(0, 11), max_size=12),
    ),
    max_size=30,
)


def check(group: ConsumerGroup, partition_ids: range) -> None:
    """The invariants of state-machine 16."""
    owned = [partition for member in group.members for partition in member.partitions]
    assert len(owned) == len(set(owned)), "one owner at most"
    assert set(owned) <= set(partition_ids), "nothing outside the topic"
    keys = [member.id for member in group.members]
    assert keys == sorted(set(keys))
    for member in group.members:
        pending = [revocation.partition_id for revocation in member.pending]
        assert len(pending) == len(set(pending))
        assert set(pending) <= set(member.partitions), "pending is owned"
        assert {revocation.target for revocation in member.pending} <= set(keys) - {member.id}
        assert set(member.pollable) == set(member.partitions) - set(pending)


@given(partitions=st.integers(0, 12), steps=STEPS)
def test_the_invariants_hold_over_every_sequence(partitions: int, steps: list[tuple[str, int, frozenset[int]]]) -> None:
    """State-machine 16: one owner, union within the topic, pending within owned; the generation never falls."""
    group, ids = ConsumerGroup(0, "g"), range(partitions)
    for kind, key, in_flight in steps:
        before = group.generation
        known = group.member_of(key)
        if kind == "join" and known is None:
            members = sorted((*group.members, Member(key, key, 0)))
            group = rebalance.cooperative(group._replace(members=tuple(members)), ids, in_flight=in_flight, now=before)
        elif kind == "leave" and known is not None:
            group = rebalance.eager(
                group._replace(members=tuple(member for member in group.members if member.client != key)), ids
            )
        elif kind == "complete":
            partition = next(iter(in_flight), 0)
            group = rebalance.complete(group, key, partition) or group
        elif kind in ("grow", "shrink"):
            ids = range(min(12, len(ids) + key)) if kind == "grow" else range(max(0, len(ids) - key))
            group = rebalance.eager(group, ids)
        check(group, ids)
        assert group.generation >= before
