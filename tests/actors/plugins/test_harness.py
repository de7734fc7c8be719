"""The harness does to a plugin what a node does, and lets the test decide."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from levrier.actors.plugins import (
    Context,
    Fate,
    InvalidRequest,
    NoSettings,
    Notice,
    Operation,
    Outcome,
    Plugin,
    TooMany,
    questions,
    requests,
)
from levrier.actors.plugins.limits import (
    KEYED_SUBMITS_MAX,
    QUESTIONS_IN_FLIGHT_MAX,
    SUBMITS_IN_FLIGHT_MAX,
    SUBMITS_PER_SECOND_MAX,
)
from levrier.actors.plugins.testing import PluginHarness
from levrier.wire.identifiers import Identifier
from levrier.wire.responses.streams import StreamHeader
from tests.actors.plugins.samples import DeadLetters, Flood, Flooder, Recorder


class Idle(Plugin[NoSettings]):
    """Does nothing: the test uses its context."""

    name = "idle"


def test_a_plugin_starts_is_told_its_role_and_looks_at_the_state_first() -> None:
    plugin = PluginHarness(Recorder)
    assert isinstance(plugin.plugin, Recorder)
    assert plugin.plugin.seen == ["start", "follower", "resync"]


def test_time_ticks_it_at_its_interval() -> None:
    plugin = PluginHarness(Recorder, interval=timedelta(seconds=1))
    assert isinstance(plugin.plugin, Recorder)
    seen = plugin.plugin.seen
    plugin.advance(timedelta(milliseconds=2_500))
    plugin.advance(timedelta(milliseconds=400))
    assert seen.count("tick") == 2
    plugin.advance(timedelta(milliseconds=100))
    assert seen.count("tick") == 3
    assert plugin.clock.monotonic_nanos() == 3_000_000_000


def test_each_stream_gets_one_for_its_dead_letters() -> None:
    plugin = PluginHarness(DeadLetters, suffix=".lost")
    plugin.lead()
    plugin.commit(requests.CreateStream(name="orders"), op=7)
    submitted = plugin.take_submit()
    assert submitted.request == requests.CreateStream(name="orders.lost")
    assert submitted.key == 7
    submitted.commit()
    assert plugin.metrics.values == {"committed": 1}


def test_a_rejected_commit_and_an_unwatched_one_are_told_apart() -> None:
    plugin = PluginHarness(DeadLetters)
    plugin.commit(requests.CreateStream(name="orders"), code=1012)
    plugin.commit(requests.DeleteStream(stream=Identifier("orders")))
    plugin.assert_no_submit()


def test_a_creation_is_told_as_it_was_asked_for_whatever_stands_in_the_log() -> None:
    seen: list[object] = []

    class Topics(Plugin[NoSettings]):
        name = "topics"
        watches = frozenset({Operation.CREATE_TOPIC})

        def on_commit(self, ctx: Context, notice: Notice) -> None:
            seen.extend([notice.operation, notice.request])

    request = requests.CreateTopic(stream=Identifier("s"), partitions_count=2, name="t")
    PluginHarness(Topics).commit(request)
    assert seen == [Operation.CREATE_TOPIC, request]


def test_the_outcome_comes_to_the_function_given_and_once() -> None:
    plugin = PluginHarness(Idle)
    outcomes: list[Outcome] = []
    plugin.context.submit(requests.CreateStream(name="s"), then=lambda _, outcome: outcomes.append(outcome))
    submitted = plugin.take_submit()
    submitted.settle(Outcome(fate=Fate.UNKNOWN))
    submitted.settle(Outcome(fate=Fate.COMMITTED))
    assert outcomes == [Outcome(fate=Fate.UNKNOWN)]
    assert not outcomes[0].done


def test_an_answer_is_what_a_node_would_give() -> None:
    plugin = PluginHarness(Idle)
    answers: list[object] = []
    plugin.context.query(questions.streams(), lambda _, streams: answers.append(streams))
    asked = plugin.take_question()
    assert asked.question.code == questions.streams().code  # type: ignore[attr-defined]
    asked.answer((StreamHeader(id=0, created_at=1, name="s"),))
    assert answers == [(StreamHeader(id=0, created_at=1, name="s"),)]


def test_after_a_restart_nothing_of_the_earlier_life_comes() -> None:
    plugin = PluginHarness(DeadLetters)
    plugin.commit(requests.CreateStream(name="orders"))
    submitted = plugin.take_submit()
    plugin.restart()
    submitted.commit()
    assert plugin.metrics.values == {}


def test_a_flood_is_refused_at_once_and_what_is_accepted_is_bounded() -> None:
    flood = Flood()
    plugin = PluginHarness(Flooder, make=lambda settings: Flooder(settings, flood))
    plugin.lead()
    assert (flood.accepted, flood.refused) == (SUBMITS_IN_FLIGHT_MAX, Flooder.operations - SUBMITS_IN_FLIGHT_MAX)
    assert len(plugin.submits) == SUBMITS_IN_FLIGHT_MAX


def test_submits_are_bounded_by_the_second_too() -> None:
    plugin = PluginHarness(Idle)
    accepted = 0
    for _ in range(20):
        plugin.clock.advance(timedelta(milliseconds=100))
        try:
            while True:
                plugin.context.submit(requests.CreateStream(name="s"))
                plugin.take_submit().commit()
                accepted += 1
        except TooMany:
            continue
    assert SUBMITS_PER_SECOND_MAX * 2 <= accepted <= SUBMITS_PER_SECOND_MAX * 3


def test_submits_with_a_key_are_bounded() -> None:
    plugin = PluginHarness(Idle)
    for key in range(1, KEYED_SUBMITS_MAX + 1):
        plugin.context.submit(requests.CreateStream(name="s"), key=key)
    with pytest.raises(TooMany, match="1024"):
        plugin.context.submit(requests.CreateStream(name="s"), key=KEYED_SUBMITS_MAX + 1)


def test_questions_are_bounded() -> None:
    plugin = PluginHarness(Idle)
    for _ in range(QUESTIONS_IN_FLIGHT_MAX):
        plugin.context.query(questions.streams(), lambda _ctx, _answer: None)
    with pytest.raises(TooMany):
        plugin.context.query(questions.streams(), lambda _ctx, _answer: None)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (requests.CreateStream(name=""), "CreateStream"),
        (requests.CreateStream(name="x" * 300), "CreateStream"),
        (requests.CreatePartitions(stream=Identifier(0), topic=Identifier(0), partitions_count=0), "CreatePartitions"),
        ("drop everything", "str cannot be submitted"),
    ],
)
def test_a_request_that_can_never_work_is_refused_where_it_is_made(request_: object, words: str) -> None:
    plugin = PluginHarness(Idle)
    with pytest.raises(InvalidRequest, match=words):
        plugin.context.submit(request_)  # type: ignore[arg-type]
    plugin.assert_no_submit()


@pytest.mark.parametrize("key", [0, -1, 2**64 - 1, "7"])
def test_a_key_is_a_number_from_1(key: object) -> None:
    with pytest.raises(InvalidRequest, match="key"):
        PluginHarness(Idle).context.submit(requests.CreateStream(name="s"), key=key)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Forged(questions.Read[bytes]):
    """A question that only looks like one."""


@pytest.mark.parametrize(
    "question",
    [
        _Forged(1, b"", bytes),
        questions.Read("1", b"", bytes),  # type: ignore[arg-type]
        questions.Read(1, None, bytes),  # type: ignore[arg-type]
        questions.ExpiredTokens(now="now", limit=1),  # type: ignore[arg-type]
        questions.GroupMembers(clients=("a",)),  # type: ignore[arg-type]
    ],
)
def test_a_question_of_the_wrong_kind_is_refused_where_it_is_asked(question: questions.Question[object]) -> None:
    with pytest.raises(ValueError, match=r"expected|no question"):
        PluginHarness(Idle).context.query(question, lambda _ctx, _answer: None)


class Looker(Plugin[NoSettings]):
    """Looks at the state in two steps."""

    name = "looker"
    watches = frozenset({Operation.CREATE_STREAM})

    def __init__(self, settings: NoSettings) -> None:
        super().__init__(settings)
        self.seen: list[str] = []

    def on_resync(self, ctx: Context) -> None:
        ctx.query(questions.streams(), self._on_streams)

    def _on_streams(self, ctx: Context, streams: object) -> None:
        ctx.query(questions.users(), lambda _ctx, _users: self.seen.append("looked"))

    def on_commit(self, ctx: Context, notice: Notice) -> None:
        self.seen.append(f"op {notice.op}")


def test_no_commit_is_told_before_the_look_at_the_state_is_over() -> None:
    plugin = PluginHarness(Looker)
    assert isinstance(plugin.plugin, Looker)
    plugin.commit(requests.CreateStream(name="s"), op=3)
    plugin.take_question().answer(())
    assert plugin.plugin.seen == []
    plugin.take_question().answer(())
    assert plugin.plugin.seen == ["looked", "op 3"]
    plugin.commit(requests.CreateStream(name="t"), op=4)
    assert plugin.plugin.seen[-1] == "op 4"
