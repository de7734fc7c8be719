"""The stale-session sweeper alone (maintenance 4): who is looked for, who is ended, who is left alone."""

from datetime import timedelta

import pytest

from levrier.actors.bus.messages import SilentSession
from levrier.actors.plugins import questions
from levrier.actors.plugins.builtin.stale_session_sweeper import StaleSessionSweeper, silence_seconds, stale
from levrier.actors.plugins.testing import PluginHarness

ONE = SilentSession(connection=1, client=11, epoch=5)
TWO = SilentSession(connection=2, client=12, epoch=6)
HALF_A_MINUTE = timedelta(seconds=30)


@pytest.fixture
def plugin() -> PluginHarness[object]:
    """A sweeper with the defaults."""
    return PluginHarness(StaleSessionSweeper)  # type: ignore[arg-type]


def test_a_client_may_be_silent_for_six_fifths_of_the_interval() -> None:
    assert silence_seconds(HALF_A_MINUTE) == 36


def test_it_looks_every_interval_on_every_node(plugin: PluginHarness[object]) -> None:
    plugin.advance(HALF_A_MINUTE)
    assert plugin.take_question().question == questions.SilentSessions(seconds=36)
    plugin.lead()
    plugin.advance(HALF_A_MINUTE)
    assert plugin.take_question().question == questions.SilentSessions(seconds=36)


def test_a_silent_member_is_ended_and_who_is_in_no_group_is_left_alone(plugin: PluginHarness[object]) -> None:
    plugin.tick()
    plugin.take_question().answer((ONE, TWO))
    members = plugin.take_question()
    assert members.question == questions.GroupMembers(clients=(11, 12))
    members.answer((12,))
    end = plugin.take_question()
    assert end.question == questions.EndSilent(sessions=(TWO,), seconds=36)
    end.answer((TWO,))
    assert plugin.metrics.values == {"ended": 1}


def test_nobody_silent_nobody_asked(plugin: PluginHarness[object]) -> None:
    plugin.tick()
    plugin.take_question().answer(())
    plugin.assert_no_question()


def test_no_member_among_them_nobody_ended(plugin: PluginHarness[object]) -> None:
    plugin.tick()
    plugin.take_question().answer((ONE,))
    plugin.take_question().answer(())
    plugin.assert_no_question()


def test_one_that_spoke_in_between_is_not_counted(plugin: PluginHarness[object]) -> None:
    plugin.tick()
    plugin.take_question().answer((ONE,))
    plugin.take_question().answer((11,))
    plugin.take_question().answer(())
    assert plugin.metrics.values == {}


def test_the_order_of_the_sessions_stays() -> None:
    assert stale((TWO, ONE), (11, 12)) == (TWO, ONE)
