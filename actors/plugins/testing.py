"""A plugin tested alone: no node, no threads, time that the test moves.

    def test_each_stream_gets_one_for_its_dead_letters() -> None:
        plugin = PluginHarness(DeadLetters, suffix=".dead")
        plugin.lead()
        plugin.commit(requests.CreateStream(name="orders"), op=7)
        submitted = plugin.take_submit()
        assert submitted.request == requests.CreateStream(name="orders.dead")
        assert submitted.key == 7

The harness is the node: the test tells what happens there, and decides what becomes of each submit and what each question is
answered with. The plugin gets the same context as in a node, with the same limits. What a handler raises comes out of the call
that caused it; in a node the plugin would begin again after a pause (`restart` is that).
"""

from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar, final

from levrier.actors.plugins.actor import dispatch
from levrier.actors.plugins.api import Context, Metrics, Plugin, logged_forms
from levrier.actors.plugins.messages import (
    Answered,
    Ask,
    CommitNotice,
    Committed,
    Event,
    Fate,
    Outcome,
    Resync,
    RoleChanged,
    Settled,
    Started,
    Submit,
    Ticked,
)
from levrier.actors.plugins.questions import Question
from levrier.actors.plugins.requests import CreatePartitions, CreateTopic, decode_logged, prepare
from levrier.wire.body import Body
from levrier.wire.codes import Operation
from levrier.wire.requests.replicated import CreatePartitionsWithAssignments, CreateTopicWithAssignments

S = TypeVar("S")

EPOCH_MICROS: Final = 1_700_000_000_000_000
_NANOS_PER_MICRO: Final = 1_000


@final
class TestClock:
    """Time as the test moves it."""

    __test__ = False

    def __init__(self) -> None:
        self._micros = 0

    def now_micros(self) -> int:
        """The wall clock, microseconds since 1970; it begins at some day in 2023."""
        return EPOCH_MICROS + self._micros

    def monotonic_nanos(self) -> int:
        """Nanoseconds since the harness was made."""
        return self._micros * _NANOS_PER_MICRO

    def advance(self, time: timedelta) -> None:
        """Let time pass."""
        self._micros += time // timedelta(microseconds=1)


@final
class Lines:
    """What the plugin wrote into the log, as (level, text)."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str]] = []

    def debug(self, message: str, /, *args: object) -> None:
        """Keep a line."""
        self._keep("debug", message, args)

    def info(self, message: str, /, *args: object) -> None:
        """Keep a line."""
        self._keep("info", message, args)

    def warning(self, message: str, /, *args: object) -> None:
        """Keep a line."""
        self._keep("warning", message, args)

    def error(self, message: str, /, *args: object) -> None:
        """Keep a line."""
        self._keep("error", message, args)

    def _keep(self, level: str, message: str, args: tuple[object, ...]) -> None:
        self.written.append((level, message.format(*args) if args else message))


@final
class Submitted:
    """A submit of the plugin, for the test to look at and to settle, once."""

    def __init__(self, harness: "PluginHarness[Any]", submit: Submit) -> None:
        request = decode_logged(submit.operation, submit.body)
        assert request is not None, "the context lets nothing through that cannot be decoded"
        self.request: Body = request
        """What it wants committed."""
        self.key: int | None = submit.key or None
        """Its key, None without one."""
        self.client: int = submit.client
        """0, or the id of the node that it goes under: one at a time for each."""
        self._harness = harness
        self._submit = submit

    def commit(self, *, op: int | None = None, code: int = 0, reply: bytes = b"") -> None:
        """It is committed: accepted, or rejected with an Iggy error code."""
        found = self._harness.next_op() if op is None else op
        self.settle(Outcome(fate=Fate.COMMITTED, op=found, code=code, reply=reply))

    def settle(self, outcome: Outcome) -> None:
        """Anything else becomes of it, such as `Outcome(fate=Fate.UNKNOWN)`."""
        self._harness.tell(Settled(number=self._submit.number, outcome=outcome), life=self._submit.life)

    def __repr__(self) -> str:
        return f"Submitted({self.request!r}, key={self.key})"


@final
class Asked:
    """A question of the plugin, for the test to answer, once."""

    def __init__(self, harness: "PluginHarness[Any]", ask: Ask) -> None:
        assert isinstance(ask.question, Question)
        self.question: Question[Any] = ask.question
        """One of `levrier.actors.plugins.questions`."""
        self._harness = harness
        self._ask = ask

    def answer(self, answer: object) -> None:
        """The plugin gets this, as it would from a node: for a read the value that it decodes to, or None.

        The classes are in `levrier.actors.plugins.answers`: `(answers.StreamHeader(id=0, created_at=1, name="orders"),)`.
        """
        self._harness.tell(Answered(number=self._ask.number, answer=answer), life=self._ask.life)

    def __repr__(self) -> str:
        return f"Asked({self.question!r})"


class PluginHarness(Generic[S]):
    """A plugin that was started and told to look at the state, on a node that follows.

    `settings` are the settings that differ from their defaults. `make` makes the plugin where its class takes more than its
    settings. With `start=False` nothing was told yet: `restart` begins.
    """

    def __init__(
        self,
        plugin: type[Plugin[S]],
        *,
        make: Callable[[S], Plugin[S]] | None = None,
        start: bool = True,
        **settings: object,
    ) -> None:
        self.clock = TestClock()
        self.log = Lines()
        self.metrics = Metrics()
        self.settings: S = plugin.settings_type(**settings)
        self._class = plugin
        self._make: Callable[[S], Plugin[S]] = plugin if make is None else make
        self._life = 0
        self._op = 0
        self._view = 0
        self._is_leader = False
        self._is_settled = True
        self._submits: deque[Submitted] = deque()
        self._questions: deque[Asked] = deque()
        self._notices: deque[CommitNotice] = deque()
        self._until_tick: timedelta | None = self._interval
        self.plugin: Plugin[S] = self._make(self.settings)
        """The plugin object of the present life."""
        self.context = self._new_context()
        if start:
            self._begin()

    # What happens in the node.

    def lead(self) -> None:
        """This node leads from now on."""
        self._change_role(True)

    def follow(self) -> None:
        """This node does not lead any more. What is under way is not settled by that; do so with the submits."""
        self._change_role(False)

    def unsettle(self) -> None:
        """The state here may be older than what is committed, as on a node that just came back."""
        self._is_settled = False
        self._change_role(False)

    def commit(
        self,
        request: Body,
        *,
        op: int | None = None,
        code: int = 0,
        user_id: int = 0,
        timestamp: int | None = None,
        revision: int = 0,
    ) -> None:
        """Somebody's request was committed. The plugin is told if it watches the operation.

        While questions of its `on_resync` are not answered, it is told when they are, as in a node.
        """
        found = self.next_op() if op is None else op
        self._op = max(self._op, found)
        operation, body = _as_logged(request)
        if operation not in logged_forms(self._class.watches):
            return
        self._notices.append(
            CommitNotice(
                op=found,
                timestamp=self.clock.now_micros() + found if timestamp is None else timestamp,
                operation=operation,
                code=code,
                user_id=user_id,
                client=1,
                request=found,
                revision=revision,
                body=body,
            )
        )
        self._tell_notices()

    def resync(self) -> None:
        """Commits may have been missed."""
        self._tell(Resync())

    def tick(self) -> None:
        """The interval has passed, without time passing."""
        self._tell(Ticked())

    def advance(self, time: timedelta) -> None:
        """Let time pass; the plugin is ticked at its interval on the way."""
        while self._until_tick is not None and self._until_tick <= time:
            time -= self._until_tick
            self.clock.advance(self._until_tick)
            self._until_tick = self._interval
            self._tell(Ticked())
        self.clock.advance(time)
        if self._until_tick is not None:
            self._until_tick -= time

    def restart(self) -> None:
        """The plugin object ends, and a new one begins, as after an exception."""
        self.stop()
        self.plugin = self._make(self.settings)
        self.context = self._new_context()
        self._notices.clear()
        self._begin()

    def stop(self) -> None:
        """The node stops."""
        self.plugin.on_stop()

    # What the plugin did.

    @property
    def submits(self) -> tuple[Submitted, ...]:
        """What it submitted and nobody took yet, oldest first."""
        return tuple(self._submits)

    def take_submit(self) -> Submitted:
        """The oldest submit that nobody took yet. AssertionError when there is none."""
        assert self._submits, f"{self._class.name} submitted nothing"
        return self._submits.popleft()

    def assert_no_submit(self) -> None:
        """AssertionError when there is a submit that nobody took yet."""
        assert not self._submits, f"{self._class.name} submitted {list(self._submits)!r}"

    @property
    def questions(self) -> tuple[Asked, ...]:
        """What it asked and nobody took yet, oldest first."""
        return tuple(self._questions)

    def take_question(self) -> Asked:
        """The oldest question that nobody took yet. AssertionError when there is none."""
        assert self._questions, f"{self._class.name} asked nothing"
        return self._questions.popleft()

    def assert_no_question(self) -> None:
        """AssertionError when there is a question that nobody took yet."""
        assert not self._questions, f"{self._class.name} asked {list(self._questions)!r}"

    # For the context, and for the submits and questions.

    def submit(self, submit: Submit) -> None:
        """Take a submit of the context."""
        self._submits.append(Submitted(self, submit))

    def inquire(self, ask: Ask) -> None:
        """Take a question of the context."""
        self._questions.append(Asked(self, ask))

    def next_op(self) -> int:
        """The next number of the log."""
        self._op += 1
        return self._op

    def tell(self, event: Settled | Answered, *, life: int) -> None:
        """Tell the plugin, unless it is another object by now than the one that this is for."""
        if life == self._life:
            if isinstance(event, Answered):
                self.context.answered(event.number, event.answer, is_decoded=True)
                self._tell_notices()
            else:
                self._tell(event)

    # Private.

    @property
    def _interval(self) -> timedelta | None:
        interval = getattr(self.settings, "interval", None)
        return interval if isinstance(interval, timedelta) else None

    def _new_context(self) -> Context:
        self._life += 1
        return Context(
            plugin=self._class.name, life=self._life, desk=self, clock=self.clock, log=self.log, metrics=self.metrics
        )

    def _begin(self) -> None:
        self._tell(Started())
        self._tell(self._role())
        self._tell(Resync())

    def _change_role(self, is_leader: bool) -> None:
        if is_leader:
            self._is_settled = True
        self._is_leader = is_leader
        self._view += 1
        self._tell(self._role())

    def _role(self) -> RoleChanged:
        return RoleChanged(is_leader=self._is_leader, is_settled=self._is_settled, view=self._view)

    def _tell_notices(self) -> None:
        while self._notices and not self.context.is_syncing:
            self._tell(Committed(notices=(self._notices.popleft(),)))

    def _tell(self, event: Event) -> None:
        dispatch(self.plugin, self.context, event)


def _as_logged(request: Body) -> tuple[int, bytes]:
    """The operation and the body that stand in the log for a request."""
    operation, body = prepare(request)
    if isinstance(request, CreateTopic):
        topic = CreateTopicWithAssignments(request=request, derived_options=b"", assignments=(), created_view=0)
        return int(Operation.CREATE_TOPIC_WITH_ASSIGNMENTS), topic.encode()
    if isinstance(request, CreatePartitions):
        partitions = CreatePartitionsWithAssignments(request=request, assignments=(), created_view=0)
        return int(Operation.CREATE_PARTITIONS_WITH_ASSIGNMENTS), partitions.encode()
    return operation, body
