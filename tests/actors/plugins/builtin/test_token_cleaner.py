"""The token cleaner alone (maintenance 1): when it acts, what it deletes and in which order, when a pass ends."""

from datetime import timedelta

import pytest

from levrier.actors.plugins import Fate, Outcome, questions, requests
from levrier.actors.plugins.builtin.token_cleaner import PASS_MAX, CleanerPass, TokenCleaner
from levrier.actors.plugins.testing import PluginHarness, Submitted

MINUTE = timedelta(minutes=1)
COMMITTED = Outcome(fate=Fate.COMMITTED)


def due(count: int) -> tuple[tuple[int, str], ...]:
    """So many tokens that are due."""
    return tuple((number % 7, f"token-{number}") for number in range(count))


def leading() -> PluginHarness[object]:
    """A cleaner whose node leads."""
    plugin: PluginHarness[object] = PluginHarness(TokenCleaner)  # type: ignore[arg-type]
    plugin.lead()
    return plugin


def asked(plugin: PluginHarness[object], tokens: tuple[tuple[int, str], ...]) -> None:
    """The question of a pass, answered."""
    question = plugin.take_question()
    assert question.question == questions.ExpiredTokens(now=plugin.clock.now_micros(), limit=PASS_MAX + 1)
    question.answer(tokens)


def deletion(submitted: Submitted) -> requests.DeleteToken:
    """What was submitted: always behind the expiry gate, never with a key."""
    request = submitted.request
    assert isinstance(request, requests.DeleteToken)
    assert request.only_if_expired
    assert submitted.key is None
    return request


def test_it_looks_once_a_minute_and_not_at_the_start() -> None:
    plugin = leading()
    plugin.advance(MINUTE - timedelta(milliseconds=1))
    plugin.assert_no_question()
    plugin.advance(timedelta(milliseconds=1))
    asked(plugin, ())
    plugin.assert_no_submit()


def test_a_backup_neither_looks_nor_proposes() -> None:
    """BR-37."""
    plugin: PluginHarness[object] = PluginHarness(TokenCleaner)  # type: ignore[arg-type]
    plugin.advance(3 * MINUTE)
    plugin.assert_no_question()


def test_one_after_the_other_in_the_order_in_which_they_expired() -> None:
    plugin = leading()
    plugin.tick()
    asked(plugin, ((3, "b"), (1, "a")))
    for user_id, name in ((3, "b"), (1, "a")):
        submitted = plugin.take_submit()
        plugin.assert_no_submit()
        assert (deletion(submitted).user_id, deletion(submitted).name) == (user_id, name)
        submitted.commit()
    plugin.assert_no_submit()
    assert plugin.metrics.values == {"removed": 2}


@pytest.mark.parametrize("fate", [Fate.NOT_STARTED, Fate.UNKNOWN, Fate.INVALID])
def test_a_submit_that_is_not_committed_ends_the_pass_and_the_next_tick_begins_anew(fate: Fate) -> None:
    plugin = leading()
    plugin.tick()
    asked(plugin, due(3))
    plugin.take_submit().settle(Outcome(fate=fate))
    plugin.assert_no_submit()
    plugin.tick()
    asked(plugin, due(3))
    assert deletion(plugin.take_submit()).name == "token-0"


def test_passes_do_not_overlap() -> None:
    plugin = leading()
    plugin.tick()
    plugin.tick()
    asked(plugin, due(1))
    plugin.tick()
    plugin.assert_no_question()
    plugin.take_submit().commit()
    plugin.tick()
    asked(plugin, ())


def test_a_name_that_no_request_can_carry_is_skipped_with_a_warning() -> None:
    plugin = leading()
    plugin.tick()
    asked(plugin, ((1, "x" * 300), (1, "good")))
    assert deletion(plugin.take_submit()).name == "good"
    assert [level for level, _ in plugin.log.written] == ["warning"]


def test_a_full_pass_is_followed_by_another_one_at_once() -> None:
    plugin = leading()
    plugin.tick()
    asked(plugin, due(PASS_MAX + 1))
    for _ in range(PASS_MAX):
        plugin.clock.advance(timedelta(milliseconds=5))
        plugin.take_submit().commit()
    plugin.assert_no_submit()
    asked(plugin, due(1))
    plugin.take_submit().commit()
    plugin.assert_no_question()


def test_a_pass_that_took_everything_that_was_due_is_the_last() -> None:
    done = CleanerPass(due(PASS_MAX))
    while done.next() is not None:
        done.settled(COMMITTED)
    assert (done.removed, done.hit_cap) == (PASS_MAX, False)


def test_a_full_pass_that_was_cut_short_waits_for_the_next_tick() -> None:
    cut = CleanerPass(due(PASS_MAX + 1))
    cut.next()
    cut.settled(Outcome(fate=Fate.NOT_STARTED))
    assert (cut.next(), cut.hit_cap) == (None, False)


def test_an_earlier_leader_ends_its_pass() -> None:
    """BR-37: a demotion in the middle of it."""
    plugin = leading()
    plugin.tick()
    asked(plugin, due(3))
    plugin.follow()
    plugin.take_submit().settle(Outcome(fate=Fate.UNKNOWN))
    plugin.assert_no_submit()
    plugin.tick()
    plugin.assert_no_question()
