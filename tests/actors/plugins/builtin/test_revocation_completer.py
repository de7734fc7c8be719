"""The revocation completer alone (maintenance 3): when a revocation is complete, who submits, what is under way once."""

from dataclasses import replace
from datetime import timedelta

import pytest

from levrier.actors.plugins import Fate, Identifier, Operation, Outcome, questions, requests
from levrier.actors.plugins.builtin.revocation_completer import (
    PASS_MAX,
    NoOffsets,
    RevocationCompleter,
    Settings,
    is_complete,
)
from levrier.actors.plugins.limits import QUESTIONS_PER_SECOND_MAX
from levrier.actors.plugins.messages import PendingRevocation
from levrier.actors.plugins.testing import EPOCH_MICROS, PluginHarness

REVOCATION = PendingRevocation(
    stream_id=1, topic_id=2, group_id=3, source_client=0xC1, partition_id=4, created_at=EPOCH_MICROS
)
TIMEOUT = 30_000_000


class Offsets:
    """What was polled and committed, as the test says."""

    def __init__(self, last: int | None, done: int | None) -> None:
        self.last, self.done = last, done

    def last_polled(self, revocation: PendingRevocation) -> int | None:
        return self.last

    def committed(self, revocation: PendingRevocation) -> int | None:
        return self.done


@pytest.mark.parametrize(
    ("last", "done", "waited", "complete"),
    [
        (None, None, 0, True),
        (None, 9, 0, True),
        (9, None, 0, False),
        (9, 8, 0, False),
        (9, 9, 0, True),
        (9, 10, 0, True),
        (9, 8, TIMEOUT - 1, False),
        (9, 8, TIMEOUT, True),
        (9, 8, -TIMEOUT, False),
    ],
)
def test_it_is_complete_when_all_that_was_polled_is_committed_or_time_is_up(
    last: int | None, done: int | None, waited: int, complete: bool
) -> None:
    now = REVOCATION.created_at + waited
    assert is_complete(REVOCATION, offsets=Offsets(last, done), now=now, timeout=TIMEOUT) is complete


def test_a_timeout_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="rebalancing_timeout"):
        Settings(rebalancing_timeout=timedelta(0))


def harness(offsets: Offsets | None = None) -> PluginHarness[Settings]:
    """A completer whose node leads and whose first look was answered."""
    found = NoOffsets() if offsets is None else offsets
    plugin = PluginHarness(RevocationCompleter, make=lambda settings: RevocationCompleter(settings, found))
    plugin.lead()
    look(plugin)
    return plugin


def look(plugin: PluginHarness[Settings], *pending: PendingRevocation) -> None:
    """It looks, and this is pending."""
    asked = plugin.take_question()
    assert asked.question == questions.PendingRevocations(limit=PASS_MAX)
    asked.answer(pending)


def test_a_new_leader_looks_at_once_and_a_follower_never() -> None:
    plugin = PluginHarness(RevocationCompleter)
    plugin.tick()
    plugin.assert_no_question()
    plugin.lead()
    plugin.take_question()


def test_more_that_join_in_a_second_than_it_may_ask_about_wait_for_the_next_tick() -> None:
    """It looks as often as a plugin may, and does not end with an exception over the rest."""
    plugin = harness()
    completer = plugin.plugin
    assert isinstance(completer, RevocationCompleter)
    looks = 0
    for _ in range(2 * QUESTIONS_PER_SECOND_MAX):
        completer.on_commit(plugin.context, None)
        if plugin.questions:
            looks += 1
            plugin.take_question().answer(())
    assert 0 < looks < 2 * QUESTIONS_PER_SECOND_MAX
    plugin.advance(timedelta(seconds=1))
    look(plugin)


def test_the_completion_names_everything_and_goes_under_an_id_of_its_target() -> None:
    plugin = harness()
    plugin.tick()
    look(plugin, REVOCATION)
    submitted = plugin.take_submit()
    assert submitted.request == requests.CompleteConsumerGroupRevocation(
        stream=Identifier(1), topic=Identifier(2), group_id=3, source_client=0xC1, partition_id=4
    )
    assert submitted.client == (2**64 - 1) << 64 | 3 << 32 | 4


def test_what_is_not_complete_waits_for_its_time() -> None:
    plugin = harness(Offsets(9, 8))
    plugin.tick()
    look(plugin, replace(REVOCATION, created_at=plugin.clock.now_micros()))
    plugin.assert_no_submit()
    plugin.clock.advance(timedelta(seconds=30))
    plugin.tick()
    look(plugin, replace(REVOCATION, created_at=plugin.clock.now_micros() - TIMEOUT))
    plugin.take_submit()


def test_of_two_with_the_same_target_one_is_under_way() -> None:
    """The id names group and partition only: equal pairs of two topics wait for each other (maintenance 3, quirk)."""
    plugin = harness()
    plugin.tick()
    look(plugin, REVOCATION, replace(REVOCATION, topic_id=9), replace(REVOCATION, partition_id=5))
    first, second = plugin.take_submit(), plugin.take_submit()
    plugin.assert_no_submit()
    first.commit()
    plugin.assert_no_question()
    second.commit()
    look(plugin, replace(REVOCATION, topic_id=9))
    assert plugin.take_submit().request.topic == Identifier(9)  # type: ignore[attr-defined]


def test_one_that_did_not_get_through_is_looked_at_again_at_the_next_tick() -> None:
    plugin = harness()
    plugin.tick()
    look(plugin, REVOCATION)
    plugin.take_submit().settle(Outcome(fate=Fate.NOT_STARTED))
    plugin.assert_no_question()
    plugin.tick()
    look(plugin, REVOCATION)
    plugin.take_submit()


def test_a_join_makes_it_look() -> None:
    assert RevocationCompleter.watches == {Operation.JOIN_CONSUMER_GROUP}
    plugin = harness()
    assert isinstance(plugin.plugin, RevocationCompleter)
    plugin.plugin.on_commit(plugin.context, object())
    look(plugin)


def test_no_more_than_a_pass_is_under_way() -> None:
    plugin = harness()
    plugin.tick()
    look(plugin, *(replace(REVOCATION, partition_id=number) for number in range(PASS_MAX)))
    assert len(plugin.submits) == PASS_MAX
    plugin.tick()
    plugin.assert_no_question()
