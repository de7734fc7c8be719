from levrier_stream_keeper import StreamKeeper

from levrier.actors.plugins import answers, requests
from levrier.actors.plugins.testing import PluginHarness


def test_what_is_missing_is_created_by_who_leads() -> None:
    plugin = PluginHarness(StreamKeeper, streams=("orders",))
    plugin.take_question().answer(())
    plugin.assert_no_submit()
    plugin.lead()
    plugin.take_question().answer(())
    submitted = plugin.take_submit()
    assert (submitted.request, submitted.key) == (requests.CreateStream(name="orders"), None)
    submitted.commit()
    assert plugin.metrics.values == {"present": 0, "missing": 1, "created": 1}


def test_an_answer_from_before_it_led_is_not_acted_on() -> None:
    plugin = PluginHarness(StreamKeeper, streams=("orders",))
    asked_before = plugin.take_question()
    plugin.lead()
    asked_before.answer(())
    plugin.take_question().answer((answers.StreamHeader(id=0, created_at=1, name="orders"),))
    plugin.assert_no_submit()
    assert plugin.metrics.values == {"present": 1, "missing": 0}
