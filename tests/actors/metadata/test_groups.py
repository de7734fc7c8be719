"""Consumer groups as clients see them: create, delete, join, leave, sync, and what a rejection leaves (state-machine 7)."""

from collections.abc import Callable

import pytest

from levrier.actors.metadata import queries
from levrier.actors.metadata.machine import Applied
from levrier.wire.replies import result_payload, result_rejection, result_success
from levrier.wire.requests.users import DeleteUser
from levrier.wire.responses.groups import ConsumerGroupDetails
from tests.actors.metadata.group_log import A, B, C, D, GroupLog, Unchanged, with_group
from tests.actors.metadata.support import Log, encoded, grant, named, restored, with_users

GroupStep = Callable[[GroupLog], Applied]


def test_a_created_group_is_shown_without_members() -> None:
    log = with_group(3)
    created = log.create("second")
    assert created.code == 0
    details = ConsumerGroupDetails.decode(result_payload(created.body))
    assert (details.group.id, details.group.partitions_count, details.group.name) == (1, 3, "second")
    assert details.members == ()
    assert log.group("second").generation == 0


def test_creating_a_group_does_not_move_the_revision() -> None:
    """State-machine 8.5; nor do joining and leaving."""
    log = with_group(3)
    before = log.revision
    log.create("second")
    log.join(A)
    log.join(B)
    log.leave(A)
    assert log.revision == before


def test_deleting_a_group_moves_the_revision() -> None:
    log = with_group(3, A)
    before = log.revision
    assert log.delete() == Applied(0, result_success())
    assert log.revision == before + 1
    assert log.ask_groups() == (0, ())


REJECTED: list[tuple[str, int, GroupStep]] = [
    ("S-076 create", 5004, lambda log: log.create("g")),
    ("S-077 create", 1009, lambda log: log.create("new", stream="absent", topic="absent")),
    ("S-077 create", 2010, lambda log: log.create("new", topic="absent")),
    ("S-078 delete", 5000, lambda log: log.delete("absent")),
    ("S-079 delete", 1009, lambda log: log.delete("absent", stream="absent", topic="absent")),
    ("S-079 delete", 2010, lambda log: log.delete("absent", topic="absent")),
    ("S-081 join", 1009, lambda log: log.join(C, "absent", stream="absent", topic="absent")),
    ("S-082 join", 2010, lambda log: log.join(C, "absent", topic="absent")),
    ("S-083 join", 5000, lambda log: log.join(C, "absent")),
    ("S-085 leave", 5006, lambda log: log.leave(C)),
    ("S-086 leave", 1009, lambda log: log.leave(A, "absent", stream="absent", topic="absent")),
    ("S-087 leave", 2010, lambda log: log.leave(A, "absent", topic="absent")),
    ("S-088 leave", 5000, lambda log: log.leave(A, "absent")),
]


@pytest.mark.parametrize(("case", "code", "step"), REJECTED, ids=[f"{row[0]} {row[1]}" for row in REJECTED])
def test_the_first_missing_thing_names_the_code_and_nothing_changes(case: str, code: int, step: GroupStep) -> None:
    """The result section holds the code and nothing else, and the op leaves no trace: BR-43, S-174.

    S-076, S-077, S-078, S-079 create and delete; S-081, S-082, S-083 join; S-085, S-086, S-087, S-088 leave.
    """
    log = with_group(4, A, B)
    unchanged = Unchanged.of(log)
    assert step(log) == Applied(code, result_rejection(code))
    assert unchanged.holds(log)


@pytest.mark.parametrize(("case", "code", "step"), REJECTED, ids=[f"{row[0]} {row[1]}" for row in REJECTED])
def test_br_43_a_replay_rejects_with_the_same_codes(case: str, code: int, step: GroupStep) -> None:
    """BR-43: repeated it gets the same code, and so does a replay of the log."""
    log = with_group(4, A, B)
    live = [step(log), step(log)]
    copy = Log().machine
    replayed = [copy.apply(header, body) for header, body in log.entries]
    assert replayed[-2:] == live
    assert {applied.code for applied in live} == {code}
    assert encoded(copy) == encoded(log.machine)


def test_s_080_joining_twice_changes_nothing_the_second_time() -> None:
    """S-080: both succeed with empty payloads; the generation is not moved."""
    log = with_group(2)
    assert log.join(A, 0) == Applied(0, result_success())
    unchanged = Unchanged.of(log)
    assert log.join(A, 0) == Applied(0, result_success())
    assert unchanged.holds(log)


def test_s_084_a_member_leaves() -> None:
    """S-084: and is none any more, so that leaving again is 5006."""
    log = with_group(2, A)
    assert log.leave(A) == Applied(0, result_success())
    assert log.group().members == ()
    assert log.leave(A).code == 5006


@pytest.mark.parametrize("restore", [False, True])
def test_s_175_the_id_of_a_deleted_group_is_not_used_again(restore: bool) -> None:
    """S-175: also after a snapshot in between."""
    log = with_group(1)
    log.create("second")
    log.delete("second")
    if restore:
        log.machine = restored(log.machine)
    created = log.create("third")
    assert ConsumerGroupDetails.decode(result_payload(created.body)).group.id == 2
    assert log.create("second").code == 0
    assert log.group("second").id == 3


def test_groups_of_topics_are_apart() -> None:
    log = with_group(1, A)
    log.create_topic("s", "u", [0])
    assert log.create("g", topic="u").code == 0
    assert log.group(topic="u").id == 0
    assert log.group(topic="u").members == ()


def test_ids_of_members_are_the_lowest_free_ones() -> None:
    log = with_group(0, A, B, C)
    log.leave(A)
    log.join(D)
    assert [(member.id, member.client) for member in log.group().members] == [(0, D), (1, B), (2, C)]


class TestReads:
    def test_one_group_with_its_members(self) -> None:
        log = with_group(3, A, B)
        status, details = log.ask_group()
        assert status == 0
        assert details is not None
        assert (details.group.id, details.group.partitions_count, details.group.members_count) == (0, 3, 2)
        assert [(member.id, member.partitions) for member in details.members] == [(0, (0, 1)), (1, (2,))]

    def test_a_missing_group_is_nothing_and_a_missing_topic_an_error(self) -> None:
        log = with_group(1)
        assert log.ask_group("absent") == (0, None)
        assert log.ask_group(stream="absent") == (1009, None)
        assert log.ask_group(topic="absent") == (2010, None)
        assert log.ask_groups(stream="absent") == (1009, ())
        assert log.ask_groups(topic="absent") == (2010, ())

    def test_all_groups_ascending_by_id(self) -> None:
        log = with_group(2, A)
        for name in ("z", "a", "m"):
            log.create(name)
        log.delete("a")
        status, shown = log.ask_groups()
        assert status == 0
        assert [(group.id, group.name, group.members_count) for group in shown] == [
            (0, "g", 1),
            (1, "z", 0),
            (3, "m", 0),
        ]

    def test_a_member_is_told_what_it_may_poll(self) -> None:
        log = with_group(3, A, B)
        assert log.sync(A) == (2, (0, 1))
        assert log.sync(B, 0) == (2, (2,))

    def test_br_30_whoever_is_no_member_gets_the_answer_that_clients_report_as_5006(self) -> None:
        """BR-30: nothing at all, which no member ever gets: a member's answer has 12 bytes at least."""
        log = with_group(0, A)
        assert log.ask_sync(C) == (0, b"")
        assert log.ask_sync(A, "absent") == (0, b"")
        assert log.ask_sync(A, topic="absent") == (0, b"")
        assert log.ask_sync(A, stream="absent") == (0, b"")
        assert len(log.ask_sync(A)[1]) == 12

    def test_a_malformed_question_is_an_invalid_command(self) -> None:
        machine = with_group(1).machine
        assert [queries.answer(machine, 0, A, code, b"\x00") for code in (600, 601, 606)] == [(3, b"")] * 3


class TestRights:
    """State-machine 10.2, 10.3: reading the topic is enough, a missing group comes after the gate."""

    def topic_with_group(self, *grants: object) -> GroupLog:
        log = GroupLog(with_users(*grants))
        log.create_stream("s")
        log.create_topic("s", "t", [0, 1])
        log.create()
        return log

    @pytest.mark.parametrize(
        "step",
        [
            lambda log: log.create("new", user=1),
            lambda log: log.delete(user=1),
            lambda log: log.delete("absent", user=1),
            lambda log: log.join(A, user=1),
            lambda log: log.join(A, "absent", user=1),
            lambda log: log.leave(A, user=1),
        ],
    )
    def test_s_174_without_rights_it_is_41_and_nothing_changes(self, step: GroupStep) -> None:
        """S-174: also for a missing group under a topic that exists; polling rights are not enough."""
        log = self.topic_with_group(grant("poll_messages", "send_messages"))
        unchanged = Unchanged.of(log)
        assert step(log) == Applied(41, result_rejection(41))
        assert unchanged.holds(log)

    def test_missing_streams_and_topics_are_reported_to_anybody(self) -> None:
        log = self.topic_with_group(None)
        assert log.create("new", stream="absent", user=1).code == 1009
        assert log.join(A, topic="absent", user=1).code == 2010
        assert log.ask_group(topic="absent", user=1) == (2010, None)

    def test_reading_the_topic_is_enough_for_everything(self) -> None:
        log = self.topic_with_group(grant(topic=(0, 0, ("read_topic",))))
        steps: list[GroupStep] = [
            lambda log: log.create("new", user=1),
            lambda log: log.join(A, "new", user=1),
            lambda log: log.leave(A, "new", user=1),
            lambda log: log.delete("new", user=1),
        ]
        assert [step(log).code for step in steps] == [0, 0, 0, 0]
        assert log.ask_group(user=1)[0] == 0
        assert log.ask_groups(user=1)[0] == 0

    def test_reads_without_rights_are_41(self) -> None:
        log = self.topic_with_group(grant("poll_messages"))
        assert log.ask_group(user=1) == (41, None)
        assert log.ask_group("absent", user=1) == (41, None)
        assert log.ask_groups(user=1) == (41, ())


class TestEndOfMembership:
    def two_groups_and_another(self) -> GroupLog:
        log = with_group(2, A, B)
        log.create_topic("s", "u", [0, 1, 2])
        log.create("h", topic="u")
        log.join(A, "h", topic="u")
        log.create("untouched", topic="u")
        log.join(B, "untouched", topic="u")
        return log

    @pytest.mark.parametrize("end", [GroupLog.logout, GroupLog.remove_member], ids=["logout", "remove"])
    def test_s_172_all_groups_of_the_client_rebalance_and_no_other(
        self, end: Callable[[GroupLog, int], Applied]
    ) -> None:
        """S-172: and the revision moves by one."""
        log = self.two_groups_and_another()
        before = log.revision
        generations = [log.group().generation, log.group("h", topic="u").generation]
        untouched = log.group("untouched", topic="u")
        assert end(log, A).code == 0
        assert log.owned() == {B: (0, 1)}
        assert log.owned("h", topic="u") == {}
        assert [log.group().generation, log.group("h", topic="u").generation] == [each + 1 for each in generations]
        assert log.group("untouched", topic="u") == untouched
        assert log.revision == before + 1

    def test_the_reply_to_a_logout_stays_empty(self) -> None:
        assert with_group(1, A).logout(A) == Applied(0, b"")

    def test_the_end_of_a_client_without_groups_changes_nothing(self) -> None:
        log = self.two_groups_and_another()
        unchanged = Unchanged.of(log)
        log.logout(C)
        assert log.remove_member(C) == Applied(0, result_success())
        assert unchanged.holds(log)

    def test_a_logout_after_a_restore_finds_the_groups(self) -> None:
        log = self.two_groups_and_another()
        log.machine = restored(log.machine)
        log.logout(A)
        assert log.owned() == {B: (0, 1)}
        assert log.owned("h", topic="u") == {}

    def test_a_deleted_user_takes_its_memberships_along(self) -> None:
        """D-02: in the same apply, also those of several clients; the revision moves by one."""
        log = GroupLog(with_users(grant("read_topics"), grant("read_topics")))
        log.create_stream("s")
        log.create_topic("s", "t", [0, 1, 2])
        for name in ("g", "h"):
            log.create(name)
        log.join(A, user=1)
        log.join(B, user=2)
        log.join(C, user=1)
        log.join(C, "h", user=1)
        before = log.revision
        assert log.apply(143, DeleteUser(user=named(1))).dropped_users == (1,)
        assert log.owned() == {B: (0, 1, 2)}
        assert log.owned("h") == {}
        assert log.revision == before + 1

    def test_a_deleted_topic_or_stream_takes_its_groups_along(self) -> None:
        """A later Logout of a former member finds nothing, and a topic under the freed id has no groups (D-02)."""
        log = self.two_groups_and_another()
        log.delete_topic("s", "t")
        log.create_topic("s", "t", [0])
        assert log.ask_groups() == (0, ())
        log.delete_stream("s")
        assert log.machine.streams.memberships.groups_count == 0
        before = log.revision
        log.logout(A)
        assert log.revision == before


class TestPartitions:
    def test_new_partitions_are_dealt_out_to_all_groups(self) -> None:
        log = with_group(2, A, B)
        log.create("second")
        log.join(C, "second")
        generations = log.group().generation, log.group("second").generation
        log.create_partitions("s", "t", [0, 1])
        assert log.owned() == {A: (0, 2), B: (1, 3)}
        assert log.owned("second") == {C: (0, 1, 2, 3)}
        assert (log.group().generation, log.group("second").generation) == (generations[0] + 1, generations[1] + 1)

    def test_deleted_partitions_are_taken_from_all_groups(self) -> None:
        log = with_group(4, A, B)
        log.delete_partitions("s", "t", 3)
        assert log.owned() == {A: (0,), B: ()}

    def test_deleting_no_partition_deals_nothing_out(self) -> None:
        log = with_group(4, A, B)
        unchanged = Unchanged.of(log)
        assert log.delete_partitions("s", "t", 0).code == 0
        assert unchanged.holds(log)

    def test_pending_revocations_are_counted_anew(self) -> None:
        """State-machine 17, quirk 1: the eager rebalance of a new partition voids them, and the count says so."""
        log = with_group(4, A)
        log.join(B, in_flight=(0, 1, 2, 3))
        assert log.machine.streams.memberships.pending_revocations == 2
        assert restored(log.machine).streams.memberships.pending_revocations == 2
        log.create_partitions("s", "t", [0])
        assert log.machine.streams.memberships.pending_revocations == 0

    def test_s_173_partitions_created_again_have_their_ids_and_another_revision(self) -> None:
        """S-173."""
        log = with_group(2)
        first = log.machine.streams.find_topic(named("s"), named("t"))
        log.delete_partitions("s", "t", 1)
        log.create_partitions("s", "t", [0])
        second = log.machine.streams.find_topic(named("s"), named("t"))
        assert not isinstance(first, int)
        assert not isinstance(second, int)
        old, new = first.topic.partitions[1], second.topic.partitions[1]
        assert old.id == new.id == 1
        assert old.created_revision < new.created_revision

    def test_s_049_s_050_partitions_continue_above_the_highest(self) -> None:
        """S-049: two partitions. S-050: relative ids 0 and 1 become 2 and 3, in order with their consensus groups."""
        log = GroupLog()
        log.create_stream("s")
        log.create_topic("s", "t", groups=((0, 10), (1, 11)), ids=[0, 1])
        topic = log.topic("s", "t")
        assert topic is not None
        assert topic.topic.partitions_count == 2
        log.create_partitions("s", "t", [0, 1], groups=((0, 12), (1, 13)))
        path = log.machine.streams.find_topic(named("s"), named("t"))
        assert not isinstance(path, int)
        assert [(p.id, p.consensus_group_id) for p in path.topic.partitions] == [(0, 10), (1, 11), (2, 12), (3, 13)]

    def test_a_purge_keeps_groups_and_members(self) -> None:
        log = with_group(3, A, B)
        group = log.group()
        log.purge_topic("s", "t")
        log.purge_stream("s")
        assert log.group() == group
