"""The observer of the commit streams fires on each kind of wrong log, and on no right one."""

from dataclasses import replace
from typing import Any

import pytest

from levrier.cluster.simulate.checkers import Rule, Violation, operation_name
from levrier.wire.codes import Operation
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import Prepare, restamp_view
from levrier.wire.requests.streams import CreateStream
from tests.simulation.checkers.story import CLIENT, DISCONNECTED, OTHER, Story, Watched


@pytest.fixture
def story() -> Story:
    story = Story()
    story.bootstrap()
    story.login()
    story.create("a", 1)
    story.create("a", 2)  # Refused in the log: the name exists.
    return story


@pytest.fixture
def watched(story: Story) -> Watched:
    return Watched(story)


def violates(rule: Rule) -> Any:
    return pytest.raises(Violation, match=f"^{rule}: ")


def other_entry(story: Story, op: int, **fields: int) -> bytes:
    """A valid entry that differs from that of the story."""
    prepare = story.prepares[op - 1]
    return Prepare.seal(replace(prepare.header, **fields), prepare.body).frame


def test_three_replicas_that_apply_one_log_are_right(watched: Watched) -> None:
    for replica in range(3):
        watched.tell(replica=replica)
    assert [watched.observer.applied_op(replica) for replica in range(3)] == [4, 4, 4]
    assert watched.observer.log[3].code == 1012


def test_an_entry_that_a_later_view_sent_again_is_the_same_entry(watched: Watched, story: Story) -> None:
    watched.tell()
    story.prepares[2] = Prepare.decode(restamp_view(story.prepares[2].frame, 7))
    watched.tell(replica=1)


@pytest.mark.parametrize("op", [1, 2, 4])
def test_an_op_that_does_not_follow_the_last_one_is_found(watched: Watched, story: Story, op: int) -> None:
    watched.tell(2)
    watched.tell(4, replica=1)
    with violates(Rule.APPLIED_IN_ORDER):
        watched.observer.applied(0, 1, op, story.prepares[op - 1].frame, None)


def test_another_entry_at_a_committed_op_is_found_also_after_a_crash(watched: Watched, story: Story) -> None:
    watched.tell(3)
    watched.observer.restarted(0, 2, 2)
    with violates(Rule.COMMITTED_STAYS):
        watched.observer.applied(0, 2, 3, other_entry(story, 3, timestamp=3_001), None)


def test_another_body_under_the_same_checksum_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    watched.tell(2, replica=1)
    with violates(Rule.COMMITTED_STAYS):
        watched.observer.applied(1, 1, 3, story.prepares[2].frame[:-1] + b"?", None)


def test_an_entry_whose_parent_is_another_one_is_found(watched: Watched, story: Story) -> None:
    watched.tell(2)
    with violates(Rule.HASH_CHAIN):
        watched.observer.applied(0, 1, 3, other_entry(story, 3, parent=story.prepares[0].header.checksum), None)


def test_a_damaged_entry_is_found(watched: Watched, story: Story) -> None:
    watched.tell(2)
    with violates(Rule.HASH_CHAIN):
        watched.observer.applied(0, 1, 3, story.prepares[2].frame[:-1] + b"?", None)


def test_an_entry_under_the_number_of_another_op_is_found(watched: Watched, story: Story) -> None:
    watched.tell(2)
    with violates(Rule.APPLIED_IN_ORDER):
        watched.observer.applied(0, 1, 3, story.prepares[3].frame, None)


def test_time_that_stands_still_is_found(watched: Watched, story: Story) -> None:
    watched.tell(2)
    with violates(Rule.TIME_RISES):
        watched.observer.applied(0, 1, 3, other_entry(story, 3, timestamp=2_000), None)


def test_a_reply_that_is_not_the_models_is_found(watched: Watched, story: Story) -> None:
    watched.tell(2)
    with violates(Rule.REPLY_OF_MODEL):
        watched.observer.applied(0, 1, 3, story.prepares[2].frame, story.replies[3])


def test_a_reply_that_differs_from_that_of_another_replica_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    watched.tell(2, replica=1)
    with violates(Rule.SAME_REPLY):
        watched.observer.applied(
            1, 1, 3, story.prepares[2].frame, story.replies[2][:52] + b"\x01" + story.replies[2][53:]
        )


def test_a_request_that_is_executed_twice_is_found(watched: Watched, story: Story) -> None:
    story.create("b", 2)
    with violates(Rule.EXACTLY_ONCE):
        watched.tell()


def test_a_request_that_is_executed_again_after_a_lost_connection_is_found(watched: Watched, story: Story) -> None:
    story.commit(Operation.LOGOUT, client=CLIENT, request=DISCONNECTED)
    story.login()
    story.create("c", 2)
    with violates(Rule.EXACTLY_ONCE):
        watched.tell()


def test_a_request_that_is_executed_in_an_older_order_is_found(watched: Watched, story: Story) -> None:
    story.create("b", 4)
    story.create("c", 3)
    with violates(Rule.EXACTLY_ONCE):
        watched.tell()


def test_numbers_begin_again_after_a_logout_and_belong_to_one_client(watched: Watched, story: Story) -> None:
    story.login(OTHER)
    story.create("b", 2, client=OTHER)
    story.commit(Operation.LOGOUT, client=CLIENT, request=3)
    story.login()
    story.create("c", 1)
    watched.tell()
    assert watched.observer.highest == story.op


def test_a_restart_goes_on_from_its_floor(watched: Watched, story: Story) -> None:
    watched.tell()
    watched.observer.restarted(0, 2, 2, [story.prepares[1].frame])
    watched.tell(incarnation=2)


def test_a_boot_may_be_the_first_to_apply_an_op_which_is_then_committed(watched: Watched, story: Story) -> None:
    watched.tell(2)
    watched.observer.restarted(0, 2, 3, [story.prepares[2].frame])
    assert watched.observer.highest == 3
    watched.tell(2, replica=1)
    with violates(Rule.COMMITTED_STAYS):
        watched.observer.applied(1, 1, 3, other_entry(story, 3, timestamp=3_001), None)


def test_a_boot_that_replays_another_entry_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    with violates(Rule.COMMITTED_STAYS):
        watched.observer.restarted(0, 2, 3, [other_entry(story, 3, timestamp=3_001)])


def test_a_boot_that_replays_with_a_hole_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    with violates(Rule.APPLIED_IN_ORDER):
        watched.observer.restarted(0, 2, 4, [story.prepares[1].frame, story.prepares[3].frame])


def test_a_boot_that_stands_elsewhere_than_its_replay_ended_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    with violates(Rule.APPLIED_IN_ORDER):
        watched.observer.restarted(0, 2, 4, [story.prepares[2].frame])


def test_a_boot_above_everything_that_was_ever_applied_is_found(watched: Watched) -> None:
    watched.tell(2)
    with violates(Rule.COMMITTED_STAYS):
        watched.observer.restarted(0, 2, 3)


def test_an_actor_of_an_earlier_life_that_still_acts_is_found(watched: Watched, story: Story) -> None:
    watched.tell(2)
    watched.observer.restarted(0, 2, 2)
    with violates(Rule.APPLIED_IN_ORDER):
        watched.observer.applied(0, 1, 3, story.prepares[2].frame, None)


def test_an_install_moves_forward_to_what_somebody_has_applied(watched: Watched) -> None:
    watched.tell()
    watched.observer.installed(1, 1, 3)
    watched.tell(replica=1)
    assert watched.observer.applied_op(1) == 4


def test_an_install_that_goes_back_is_found_unless_it_refills_a_replica_that_is_wrong(watched: Watched) -> None:
    watched.tell()
    watched.observer.installed(0, 1, 3, refill=True)
    with violates(Rule.APPLIED_IN_ORDER):
        watched.observer.installed(0, 1, 2)


def test_an_install_of_what_nobody_has_applied_is_found(watched: Watched) -> None:
    watched.tell(2)
    with violates(Rule.COMMITTED_STAYS):
        watched.observer.installed(1, 1, 3)


def test_the_sessions_of_a_deleted_user_forget_their_numbers(story: Story) -> None:
    """D-02: whoever gets the client id next begins at 1."""
    watched = Watched(story)
    watched.tell()
    watched.observer.sessions.commit(PrepareHeader(5, Operation.DELETE_USER), (0,))
    assert watched.observer.sessions.executed(CLIENT, 1) is None
    assert watched.observer.sessions.watermark(CLIENT) == 0


def test_an_op_of_the_node_itself_has_no_session(watched: Watched, story: Story) -> None:
    body = CreateStream(name="d").encode()
    for _ in range(2):
        story.commit(Operation.CREATE_STREAM, body, client=0, request=0)
    watched.tell()
    assert watched.observer.highest == story.op


def test_operations_are_called_by_their_names() -> None:
    assert operation_name(Operation.CREATE_STREAM) == "create_stream"
    assert operation_name(int(Operation.REGISTER)) == "register"
    assert operation_name(77) == "operation 77"
