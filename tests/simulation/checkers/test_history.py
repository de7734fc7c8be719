"""The history of the clients fires on each kind of wrong answer, and on no right one."""

from dataclasses import replace

import pytest

from levrier.actors.bus.tokens import hash_token, spliced
from levrier.cluster.simulate.checkers import Rule, Violation
from levrier.wire.codes import EvictionReason, Operation
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.headers import ReplyHeader, RequestHeader
from levrier.wire.replies import denial, eviction, rejection
from levrier.wire.requests.replicated import CreatePersonalAccessTokenReplicated
from tests.simulation.checkers.story import (
    CLIENT,
    OTHER,
    Story,
    Watched,
    asked,
    login_answer,
    transient,
)
from tests.simulation.checkers.test_commits import violates

LOGIN = asked(Operation.REGISTER, b"name and password")


@pytest.fixture
def story() -> Story:
    story = Story()
    story.bootstrap()
    story.login()
    story.create("a", 1)
    story.create("a", 2)  # Refused in the log: the name exists.
    story.create("b", 3)
    return story


@pytest.fixture
def watched(story: Story) -> Watched:
    return Watched(story)


def serve(watched: Watched, *ops: int) -> None:
    """Each op is asked for, committed and answered before the next."""
    for op in ops:
        watched.ask(op)
        watched.tell(op)
        watched.answer(op)


# Writes


def test_answers_of_committed_writes_are_right_and_remembered(watched: Watched) -> None:
    watched.history.invoked(CLIENT, 0, LOGIN, 1, 0)
    watched.tell(2)
    watched.history.answered(CLIENT, 0, login_answer(LOGIN, 2), 2, 0)
    serve(watched, 3, 4, 5)
    watched.history.finish()
    assert watched.history.acknowledged == {2, 3, 4, 5}


def test_an_answer_before_anybody_applied_the_op_is_found(watched: Watched) -> None:
    watched.tell(2)
    watched.ask(3)
    with violates(Rule.ACKNOWLEDGED_IS_COMMITTED):
        watched.answer(3)


def test_an_answer_with_the_op_of_another_request_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    watched.ask(3)
    header = ReplyHeader.decode(story.replies[2])
    with violates(Rule.ACKNOWLEDGED_IS_COMMITTED):
        watched.answer(3, replace(header, op=5, commit=5).encode() + story.body(3))


def test_an_answer_to_something_that_nobody_asked_is_found(watched: Watched) -> None:
    """C-271."""
    watched.tell()
    with violates(Rule.ACKNOWLEDGED_IS_COMMITTED):
        watched.answer(3)


def test_an_answer_that_is_not_the_committed_reply_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    watched.ask(3)
    with violates(Rule.ACKNOWLEDGED_IS_COMMITTED):
        watched.answer(3, story.replies[2][:HEADER_SIZE] + story.body(5))


def test_an_answer_whose_result_section_is_cut_off_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    watched.ask(3)
    with violates(Rule.ACKNOWLEDGED_IS_COMMITTED):
        watched.answer(3, story.replies[2][: HEADER_SIZE + 2])


def test_a_committed_body_that_is_not_what_was_asked_for_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    watched.history.invoked(CLIENT, 1, story.requests[3][:-1] + b"z", 1, 0)
    with violates(Rule.ACKNOWLEDGED_IS_COMMITTED):
        watched.answer(3)


def test_a_refusal_in_the_log_that_turns_into_success_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    watched.ask(4)
    with violates(Rule.ACKNOWLEDGED_IS_COMMITTED):
        watched.answer(4, story.replies[3][:HEADER_SIZE] + bytes(4))


def test_a_replay_with_the_same_bytes_is_right(watched: Watched) -> None:
    serve(watched, 3, 4)
    watched.ask(3)
    watched.answer(3)


def test_a_write_that_overtakes_one_that_was_answered_before_it_was_asked_is_found(watched: Watched) -> None:
    watched.tell()
    watched.ask(5)
    watched.answer(5)
    watched.ask(4)
    with violates(Rule.REAL_TIME):
        watched.answer(4)


def test_writes_that_were_under_way_together_have_no_order(watched: Watched) -> None:
    watched.tell()
    watched.ask(5)
    watched.ask(4)
    watched.answer(5)
    watched.answer(4)


def test_a_login_with_a_session_that_is_no_login_is_found(watched: Watched) -> None:
    watched.tell()
    watched.history.invoked(CLIENT, 0, LOGIN, 1, 0)
    with violates(Rule.ACKNOWLEDGED_IS_COMMITTED):
        watched.history.answered(CLIENT, 0, login_answer(LOGIN, 3), 2, 0)


def test_a_login_with_the_session_of_somebody_else_is_found(watched: Watched, story: Story) -> None:
    story.login(OTHER)
    watched.tell()
    watched.history.invoked(CLIENT, 0, LOGIN, 1, 0)
    with violates(Rule.ACKNOWLEDGED_IS_COMMITTED):
        watched.history.answered(CLIENT, 0, login_answer(LOGIN, 6), 2, 0)


def test_a_login_as_another_user_is_found(watched: Watched) -> None:
    watched.tell()
    watched.history.invoked(CLIENT, 0, LOGIN, 1, 0)
    with violates(Rule.ACKNOWLEDGED_IS_COMMITTED):
        watched.history.answered(CLIENT, 0, login_answer(LOGIN, 2, user=1), 2, 0)


# Refusals


def test_the_outcome_is_unknown_57_and_an_eviction_say_nothing(watched: Watched, story: Story) -> None:
    watched.tell()
    watched.ask(3)
    watched.answer(3, transient(story.requests[3], 57, commit=5))
    watched.answer(3, eviction(CLIENT, int(EvictionReason.NO_SESSION)))
    watched.answer(3)
    watched.history.finish()


def test_never_started_58_for_what_is_committed_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    watched.ask(3)
    with violates(Rule.NEVER_STARTED):
        watched.answer(3, transient(story.requests[3], 58, commit=5))


def test_never_started_58_for_what_commits_later_is_found(watched: Watched, story: Story) -> None:
    watched.tell(2)
    watched.ask(3)
    watched.answer(3, transient(story.requests[3], 58))
    watched.tell()
    with violates(Rule.NEVER_STARTED):
        watched.history.finish()


def test_never_started_58_and_asked_again_may_commit(watched: Watched, story: Story) -> None:
    watched.tell(2)
    watched.ask(3)
    watched.answer(3, transient(story.requests[3], 58))
    serve(watched, 3)
    watched.history.finish()


def test_a_refusal_before_the_log_of_what_is_committed_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    watched.ask(3)
    refused = denial(RequestHeader.decode(story.requests[3]), status=40, commit=5)
    with violates(Rule.REFUSED_IS_NOT_COMMITTED):
        watched.answer(3, refused)


def test_a_refusal_before_the_log_of_what_is_not_committed_is_right(watched: Watched, story: Story) -> None:
    watched.tell(2)
    watched.ask(3)
    watched.answer(3, denial(RequestHeader.decode(story.requests[3]), status=40, commit=2))


def test_already_applied_59_needs_a_request_that_was(watched: Watched, story: Story) -> None:
    watched.tell(4)
    watched.ask(3)
    watched.answer(3, transient(story.requests[3], 59))
    watched.ask(5)
    with violates(Rule.ACKNOWLEDGED_IS_COMMITTED):
        watched.answer(5, transient(story.requests[5], 59))


# Tokens


def token_story(story: Story) -> tuple[int, str]:
    """The creation of a token: its op and its secret."""
    secret = "the secret"
    body = CreatePersonalAccessTokenReplicated(user_id=0, name="t", expiry=0, token_hash=hash_token(secret)).encode()
    op = story.commit(Operation.CREATE_PERSONAL_ACCESS_TOKEN, body, client=CLIENT, request=4)
    story.requests[op] = asked(Operation.CREATE_PERSONAL_ACCESS_TOKEN, body, request=4, session=2)
    return op, secret


def test_a_token_is_shown_once_and_a_replay_says_that_it_exists(watched: Watched, story: Story) -> None:
    op, secret = token_story(story)
    watched.tell()
    watched.ask(op)
    watched.answer(op, spliced(story.replies[op - 1], secret))
    watched.answer(op, rejection(RequestHeader.decode(story.requests[op]), code=51, commit=3))


def test_a_token_that_is_not_the_one_in_the_log_is_found(watched: Watched, story: Story) -> None:
    op, _ = token_story(story)
    watched.tell()
    watched.ask(op)
    with violates(Rule.ACKNOWLEDGED_IS_COMMITTED):
        watched.answer(op, spliced(story.replies[op - 1], "another secret"))


def test_a_token_that_is_shown_and_later_hidden_is_no_replay(watched: Watched, story: Story) -> None:
    op, secret = token_story(story)
    watched.tell()
    watched.ask(op)
    watched.answer(op, spliced(story.replies[op - 1], secret))
    with violates(Rule.REPLAY_IS_EQUAL):
        watched.answer(op)


def test_a_token_that_exists_without_a_creation_in_the_log_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    op, _ = token_story(story)
    watched.ask(op)
    with violates(Rule.ACKNOWLEDGED_IS_COMMITTED):
        watched.answer(op, rejection(RequestHeader.decode(story.requests[op]), code=51, commit=3))


# Reads


def streams(story: Story, *ops: int) -> bytes:
    """What a read of all streams shows after these creations."""
    return b"".join(story.body(op)[4:] for op in ops)


def test_reads_of_the_present_and_of_a_past_that_is_not_behind_the_connection_are_right(
    watched: Watched, story: Story
) -> None:
    serve(watched, 3)
    watched.tell()
    watched.read(streams(story, 3), commit=3)
    watched.read(streams(story, 3), commit=5)
    watched.read(streams(story, 3, 5), commit=5)
    watched.history.finish()


def test_a_read_that_misses_the_connections_own_write_is_found(watched: Watched, story: Story) -> None:
    serve(watched, 3)
    watched.tell()
    watched.read(b"", commit=5)
    with violates(Rule.READ_OF_MODEL):
        watched.history.finish()


def test_a_read_that_misses_what_another_connection_wrote_is_right(watched: Watched, story: Story) -> None:
    story.login(OTHER)
    serve(watched, 3, 4, 5)
    watched.tell()
    watched.read(b"", commit=6, session=6, client=OTHER)
    watched.history.finish()


def test_a_read_that_goes_back_behind_an_earlier_one_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    watched.read(streams(story, 3, 5), commit=5)
    watched.read(streams(story, 3), commit=5)
    with violates(Rule.READ_OF_MODEL):
        watched.history.finish()


def test_a_read_of_a_state_beyond_its_commit_point_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    watched.read(streams(story, 3, 5), commit=4)
    with violates(Rule.READ_OF_MODEL):
        watched.history.finish()


def test_a_read_of_a_state_that_never_was_is_found(watched: Watched, story: Story) -> None:
    watched.tell()
    watched.read(streams(story, 5), commit=5)
    with violates(Rule.READ_OF_MODEL):
        watched.history.finish()


def test_a_read_that_names_a_commit_point_behind_the_connection_is_found_at_once(
    watched: Watched, story: Story
) -> None:
    serve(watched, 3)
    with violates(Rule.READ_OF_MODEL):
        watched.read(streams(story, 3), commit=2)


def test_a_violation_names_its_rule_and_tells_what_was_found() -> None:
    violation = Violation(Rule.HASH_CHAIN, "op 3 has another parent")
    assert (violation.rule, violation.text) == ("hash chain", "op 3 has another parent")
    assert str(violation) == "hash chain: op 3 has another parent"
