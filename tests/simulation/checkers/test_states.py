"""The checker of encoded states fires on every section that differs, between replicas and from the model."""

from dataclasses import replace
from typing import Any

import msgpack
import pytest

from levrier.actors.client_table.commits import record
from levrier.actors.client_table.table import ClientTable
from levrier.cluster.simulate.checkers import EncodedState, Rule, StateChecker
from tests.simulation.checkers.story import Story, Watched
from tests.simulation.checkers.test_commits import violates

NOBODY = b"".join(ClientTable(4).capture().chunks())


@pytest.fixture
def watched() -> Watched:
    story = Story()
    story.bootstrap()
    story.login()
    for number in range(1, 4):
        story.create(f"s{number}", number)
    watched = Watched(story)
    watched.tell()
    return watched


@pytest.fixture
def checker(watched: Watched) -> StateChecker:
    return StateChecker(watched.observer)


def state(watched: Watched) -> EncodedState:
    """What the product encodes at the end of the story."""
    story = watched.story
    captured = story.machine.capture(story.op, 0)
    table = ClientTable(4)
    for prepare, reply in zip(story.prepares, story.replies, strict=True):
        record(table, prepare.header, reply, ())
    return EncodedState(
        op=story.op,
        users=b"".join(captured.users()),
        streams=b"".join(captured.streams()),
        consensus_group_high=captured.consensus_group_high,
        next_user_id=captured.next_user_id,
        clients=b"".join(table.capture().chunks()),
    )


def test_the_states_of_sound_replicas_are_the_models(watched: Watched, checker: StateChecker) -> None:
    for replica in range(3):
        checker.encoded(replica, state(watched))
    checker.final_check({replica: state(watched) for replica in range(3)}, {3, 4, 5})


@pytest.mark.parametrize("section", ["users", "streams", "next_user_id", "consensus_group_high"])
def test_a_state_that_is_not_the_models_is_found(watched: Watched, checker: StateChecker, section: str) -> None:
    sound = state(watched)
    other: dict[str, Any] = {
        "users": sound.streams,
        "streams": sound.users,
        "next_user_id": 7,
        "consensus_group_high": 7,
    }
    with violates(Rule.SAME_DIGEST):
        checker.encoded(0, replace(sound, **{section: other[section]}))


@pytest.mark.parametrize("section", ["users", "streams", "clients", "next_user_id"])
def test_a_state_that_differs_from_another_replicas_is_found_where_the_model_has_gone_on(
    watched: Watched, checker: StateChecker, section: str
) -> None:
    sound = state(watched)
    checker.encoded(0, sound)
    watched.story.create("later", 4)
    watched.tell()
    checker.encoded(1, sound)
    other: Any = {"next_user_id": 7, "clients": NOBODY}.get(section, sound.users + sound.streams)
    with violates(Rule.SAME_DIGEST):
        checker.encoded(2, replace(sound, **{section: other}))


def test_the_slots_of_a_client_table_are_each_replicas_own(watched: Watched, checker: StateChecker) -> None:
    """D-17."""
    sound = state(watched)
    assert sound.clients is not None
    slots, fences = msgpack.unpackb(sound.clients)
    [(slot, fields)] = slots
    checker.encoded(0, sound)
    checker.encoded(1, replace(sound, clients=msgpack.packb([[[slot + 1, fields]], fences])))


def test_a_client_table_that_came_ahead_takes_no_part(watched: Watched, checker: StateChecker) -> None:
    checker.encoded(0, replace(state(watched), clients=None))
    checker.encoded(1, state(watched))
    with violates(Rule.SAME_DIGEST):
        checker.encoded(2, replace(state(watched), clients=NOBODY))


def test_a_member_that_ends_behind_is_found(watched: Watched, checker: StateChecker) -> None:
    watched.story.create("later", 4)
    behind = state(watched)
    watched.tell()
    with violates(Rule.SAME_STATE):
        checker.final_check({0: replace(behind, op=behind.op - 1)}, ())


def test_a_member_that_ends_with_other_bytes_is_found(watched: Watched, checker: StateChecker) -> None:
    sound = state(watched)
    with violates(Rule.SAME_STATE):
        checker.final_check({0: sound, 1: replace(sound, clients=NOBODY)}, ())


def test_a_member_that_ends_without_a_client_table_is_found(watched: Watched, checker: StateChecker) -> None:
    with violates(Rule.SAME_STATE):
        checker.final_check({0: replace(state(watched), clients=None)}, ())


def test_an_acknowledged_op_that_nobody_has_in_the_end_is_found(watched: Watched, checker: StateChecker) -> None:
    with violates(Rule.NOTHING_LOST):
        checker.final_check({0: state(watched)}, {5, 6})
