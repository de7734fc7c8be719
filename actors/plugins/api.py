"""What the author of a plugin works with: the base class `Plugin`, and the `Context` that each handler is given.

A plugin is a plain object of which every node has its own. Its handlers run one at a time, in a thread that no other plugin
uses; they may take a while, but what takes longer than five seconds is reported as blocking. Nothing is awaited inside a
handler: what becomes of a submit, and the answer to a question, come later, as a call of the function given as `then`. What
a handler raises ends this plugin object; after a pause (1 s, doubled each time, at most 60 s) a new one begins.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar, final

from levrier.actors.bus.messages import SilentSession
from levrier.actors.client_table.messages import SERVER_CLIENT_MIN
from levrier.actors.plugins import limits
from levrier.actors.plugins.messages import Ask, CommitNotice, Outcome, Submit
from levrier.actors.plugins.questions import QUESTIONS, Question, Read
from levrier.actors.plugins.requests import (
    WITHOUT_KEY,
    CompleteConsumerGroupRevocation,
    InvalidRequest,
    decode_logged,
    prepare,
)
from levrier.actors.plugins.session import KEY_MAX
from levrier.actors.runtime import Clock
from levrier.wire.body import Body
from levrier.wire.codes import REPLICATED_FORM, Operation

S = TypeVar("S")
A = TypeVar("A")

EVERY_OPERATION: Final = frozenset(Operation) - {Operation.RESERVED, Operation.REGISTER, Operation.LOGOUT}
"""For `Plugin.watches`: whatever is committed, except logins and logouts, which nobody is told of."""


class Role(Enum):
    """What this node is to the cluster right now."""

    LEADER = "leader"
    """The primary, with everything applied that it inherited: its submits go into the log."""
    FOLLOWER = "follower"
    """Anything else."""


class TooMany(Exception):
    """More submits or questions than a plugin may have; nothing of this one was started.

    A plugin that goes by the state catches it and leaves the rest to the next tick, outcome or answer.
    """


class BadQuestion(ValueError):
    """What was asked is no question, or its fields are of the wrong kind."""


@dataclass(frozen=True, slots=True)
class NoSettings:
    """The settings of a plugin that has none."""


def logged_forms(watches: Iterable[Operation]) -> frozenset[int]:
    """The operations that stand in the log for these: CREATE_TOPIC stands there with its assignments."""
    operations = frozenset(int(operation) for operation in watches)
    return operations | {REPLICATED_FORM[operation] for operation in operations if operation in _CREATIONS}


_CREATIONS: Final = (int(Operation.CREATE_TOPIC), int(Operation.CREATE_PARTITIONS))
_ASKED_AS: Final = {REPLICATED_FORM[operation]: operation for operation in _CREATIONS}


@final
class Notice:
    """One committed operation: who did what, when, and whether it was accepted."""

    __slots__ = ("_notice",)

    def __init__(self, notice: CommitNotice) -> None:
        self._notice = notice

    @property
    def op(self) -> int:
        """Its number in the log. The same on every node, rising: a good key."""
        return self._notice.op

    @property
    def timestamp(self) -> int:
        """When, in microseconds since 1970. The same on every node, rising: `created_at` of what it created."""
        return self._notice.timestamp

    @property
    def operation(self) -> Operation:
        """What was done, under the name by which it was asked for: CREATE_TOPIC, whatever form of it stands in the log."""
        return Operation(_ASKED_AS.get(self._notice.operation, self._notice.operation))

    @property
    def code(self) -> int:
        """0 when it was accepted, otherwise the Iggy error code of its rejection."""
        return self._notice.code

    @property
    def accepted(self) -> bool:
        """Whether it changed what it asked for."""
        return not self._notice.code

    @property
    def user_id(self) -> int:
        """Who did it; 0 is root, and what the node and its plugins do."""
        return self._notice.user_id

    @property
    def revision(self) -> int:
        """The revision of the catalogue behind it."""
        return self._notice.revision

    @property
    def request(self) -> Body | None:
        """What was asked for, as one of the classes in `levrier.actors.plugins.requests`; None where it holds a secret."""
        return decode_logged(self._notice.operation, self._notice.body)

    def __repr__(self) -> str:
        return f"Notice(op={self.op}, operation={self.operation.name}, code={self.code})"


class Log(Protocol):
    """Where a plugin writes lines, with `{}` for the arguments."""

    def debug(self, message: str, /, *args: object) -> object:
        """Only of interest when something is looked into."""
        ...

    def info(self, message: str, /, *args: object) -> object:
        """Something happened."""
        ...

    def warning(self, message: str, /, *args: object) -> object:
        """Somebody should look at it."""
        ...

    def error(self, message: str, /, *args: object) -> object:
        """Something did not work."""
        ...


@final
class Metrics:
    """Numbers that `levrier plugins` and `levrier status --json` show. At most 64 names; they last as long as the node."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[str, float] = {}

    def count(self, name: str, by: float = 1) -> None:
        """Add to a number that begins at 0."""
        self.set(name, self._values.get(name, 0) + by)

    def set(self, name: str, value: float) -> None:
        """Set a number. A name too many is ignored."""
        if name in self._values or len(self._values) < limits.METRICS_MAX:
            self._values[name[: limits.METRIC_NAME_MAX]] = value + 0

    @property
    def values(self) -> Mapping[str, float]:
        """All of them, as they stand."""
        return dict(self._values)


class Desk(Protocol):
    """Who takes what a context passes on: the plugin host of a node, or a test."""

    def submit(self, submit: Submit) -> None:
        """Take a submit that is within the limits."""
        ...

    def inquire(self, ask: Ask) -> None:
        """Take a question that is within the limits."""
        ...


@final
class Context:
    """What a plugin may do. Each life of a plugin has its own; it is given to every handler.

    For plugins are `submit`, `query`, `is_leader`, `role`, `log`, `metrics` and `clock`, and nothing else: the other methods are
    for whoever runs the plugin.
    """

    def __init__(self, *, plugin: str, life: int, desk: Desk, clock: Clock, log: Log, metrics: Metrics) -> None:
        self.log = log
        """For lines in the node's log."""
        self.metrics = metrics
        """For numbers that an operator sees."""
        self.clock = clock
        """`now_micros()`: the wall clock, microseconds since 1970; `monotonic_nanos()`."""
        self.is_leader = False
        """Whether this node leads, as far as the plugin was told: `on_role` says so each time it changes."""
        self.is_settled = False
        """Whether the state here is known to be no older than what was committed when this node last took its role."""
        self.role_known = False
        """Whether the plugin was told of its role yet."""
        self._plugin = plugin
        self._life = life
        self._desk = desk
        self._number = 0
        self._submitted: dict[int, Callable[[Context, Outcome], object]] = {}
        self._keyed: dict[int, Callable[[Context, Outcome], object]] = {}
        self._asked: dict[int, tuple[Question[Any], Callable[[Context, Any], object]]] = {}
        self._syncing: set[int] = set()
        """Questions that belong to a look at the whole state."""
        self._is_looking = False
        self._refused = 0
        now = clock.monotonic_nanos()
        self._submits = limits.Bucket(
            per_second=limits.SUBMITS_PER_SECOND_MAX, at_once=limits.SUBMITS_AT_ONCE_MAX, now=now
        )
        self._questions = limits.Bucket(
            per_second=limits.QUESTIONS_PER_SECOND_MAX, at_once=limits.QUESTIONS_AT_ONCE_MAX, now=now
        )

    @property
    def role(self) -> Role:
        """The same as `is_leader`, as a value."""
        return Role.LEADER if self.is_leader else Role.FOLLOWER

    def submit(
        self,
        request: Body,
        *,
        key: int | None = None,
        then: Callable[["Context", Outcome], object] | None = None,
    ) -> None:
        """Have `request` (one of `levrier.actors.plugins.requests`) committed, as root. Returns at once.

        Without a key: now or never. It is committed at most once, if this node leads; `then` is called with what became of
        it. Use it where doing it twice does no harm, and decide from the state whether it is still to be done: from an answer
        that was asked for as the leader, since one that was asked for before may be older than what this node leads.

        With a key, a number from 1 that rises with each new cause and is the same on every node (`notice.op`,
        `notice.timestamp`): exactly once for each key. Submit it on every node, leader or not: the leader commits it, in the
        order of the keys, and tries until that has worked; the other nodes hold it until they see it committed, and whoever
        leads next goes on with what is left. A key below one that is done counts as done.

        Raises `InvalidRequest` for a request that can never work, and `TooMany` for more than a plugin may have waiting (32
        without, 1024 with a key) or may submit in a second (500).
        """
        callbacks, most = (
            (self._submitted, limits.SUBMITS_IN_FLIGHT_MAX) if key is None else (self._keyed, limits.KEYED_SUBMITS_MAX)
        )
        if key is not None and (not isinstance(key, int) or not 0 < key <= KEY_MAX):
            raise InvalidRequest(f"key {key!r}: a whole number from 1 to {KEY_MAX} is expected")
        if len(callbacks) >= most or (key is None and not self._submits.take(self.clock.monotonic_nanos())):
            self._refused += 1
            raise TooMany(f"{len(callbacks)} submits wait, {most} may; {limits.SUBMITS_PER_SECOND_MAX} a second")
        operation, body = prepare(request)
        if key is not None and operation in WITHOUT_KEY:
            raise InvalidRequest(f"{type(request).__name__} takes no key: doing it twice does no harm")
        self._number += 1
        callbacks[self._number] = then if then is not None else _ignore
        self._desk.submit(
            Submit(
                plugin=self._plugin,
                life=self._life,
                number=self._number,
                operation=operation,
                body=body,
                key=0 if key is None else key,
                client=_target_client(request),
            )
        )

    def query(self, question: Question[A], then: Callable[["Context", A], object]) -> None:
        """Ask for something (one of `levrier.actors.plugins.questions`); `then` is called with the answer. Returns at once.

        The answer is what is applied on this node, whoever leads: with everything in it that the plugin was told of before it
        asked, be it a commit, an outcome, or that it leads. It may come ahead of commits that are in it, and behind an
        `on_role` that it is older than. Raises `TooMany` for more than 8 that wait or 50 a second.
        """
        if type(question) not in QUESTIONS:
            raise BadQuestion(f"{question!r} is no question")
        _check_fields(question)
        if len(self._asked) >= limits.QUESTIONS_IN_FLIGHT_MAX or not self._questions.take(self.clock.monotonic_nanos()):
            self._refused += 1
            raise TooMany(
                f"{len(self._asked)} questions wait, {limits.QUESTIONS_IN_FLIGHT_MAX} may; "
                f"{limits.QUESTIONS_PER_SECOND_MAX} a second"
            )
        self._number += 1
        self._asked[self._number] = (question, then)
        if self._is_looking:
            self._syncing.add(self._number)
        self._desk.inquire(Ask(plugin=self._plugin, life=self._life, number=self._number, question=question))

    # For whoever runs the plugin.

    def take_role(self, *, is_leader: bool, is_settled: bool) -> bool:
        """The node's role is this. Gives whether the plugin has to be told."""
        changed = not self.role_known or self.is_leader != is_leader
        self.role_known, self.is_leader, self.is_settled = True, is_leader, is_settled
        return changed

    def look(self, on_resync: Callable[["Context"], object]) -> None:
        """Have the plugin look at the whole state. The look lasts until what it asks for that is answered."""
        self._is_looking = True
        on_resync(self)
        self._is_looking = False

    @property
    def is_syncing(self) -> bool:
        """Whether a look at the whole state is not over yet."""
        return bool(self._syncing)

    def settled(self, number: int, outcome: Outcome) -> None:
        """Call who waits for what became of a submit."""
        callbacks = self._submitted if number in self._submitted else self._keyed
        then = callbacks.pop(number, None)
        if then is not None:
            then(self, outcome)

    def answered(self, number: int, answer: object, *, is_decoded: bool = False) -> None:
        """Call who waits for an answer. The body of a read is decoded here, in the plugin's own thread."""
        asked = self._asked.pop(number, None)
        if asked is None:
            return
        self._is_looking = number in self._syncing
        self._syncing.discard(number)
        question, then = asked
        if isinstance(question, Read) and not is_decoded:
            assert answer is None or isinstance(answer, bytes)
            answer = None if answer is None else question.decode(answer)
        then(self, answer)
        self._is_looking = False

    def take_refused(self) -> int:
        """How many submits and questions were refused at once since this was asked last."""
        refused, self._refused = self._refused, 0
        return refused


class Plugin(Generic[S]):
    """Base of all plugins; `S` is its settings class, a frozen dataclass (`NoSettings` for none).

        class Greeter(Plugin[Settings]):
            name = "greeter"
            settings_type = Settings

    Override what you need; every handler does nothing by itself. What it keeps belongs into `__init__(self, settings)`, which
    begins with `super().__init__(settings)`: whoever raises is replaced by a new object, and what an earlier one was waiting
    for is not told to it.
    """

    name: ClassVar[str]
    """Its name in the configuration, and that of its entry point."""

    settings_type: ClassVar[type] = NoSettings
    """A frozen dataclass, every field with a default. A field `interval: timedelta` says how often `on_tick` is called."""

    watches: ClassVar[frozenset[Operation]] = frozenset()
    """Which committed operations `on_commit` is told of; `EVERY_OPERATION` for all."""

    def __init__(self, settings: S) -> None:
        self.settings = settings

    def on_start(self, ctx: Context) -> None:
        """It begins, before anything else. `ctx.is_leader` is not known yet."""

    def on_resync(self, ctx: Context) -> None:
        """Commits may have happened that `on_commit` was not told of: look at the whole state.

        Called once behind `on_start` and `on_role`, and when notices had to be dropped or a state transfer jumped over
        commits. A change of the role alone is no reason. Until what is asked here (and in the answers to that) is answered,
        `on_commit` is told nothing: what was missed comes first.
        """

    def on_commit(self, ctx: Context, notice: Notice) -> None:
        """An operation that it watches was committed. On every node, in the order of the log."""

    def on_role(self, ctx: Context, role: Role) -> None:
        """This node leads from now on, or does not any more. Called once behind `on_start`, and at each change.

        When it leads, everything that it inherited is applied here: what is asked now sees it.
        """

    def on_tick(self, ctx: Context) -> None:
        """The interval of the settings has passed. On every node; ticks that were missed come as one."""

    def on_stop(self) -> None:
        """The node stops, or this plugin object ended with an exception: give back what it holds. Nothing follows."""


def _ignore(_ctx: Context, _outcome: Outcome) -> None:
    """What becomes of a submit without `then`: the plugin did not want to know."""


def _target_client(request: Body) -> int:
    """Under which id of the node an operation without a key is committed: 0, but one a target for a revocation.

    Of two for the same target one is enough at a time (maintenance 3).
    """
    if not isinstance(request, CompleteConsumerGroupRevocation):
        return 0
    return SERVER_CLIENT_MIN | (request.group_id & _U32_MAX) << 32 | request.partition_id


_U32_MAX: Final = 2**32 - 1


def _check_fields(question: Question[Any]) -> None:
    """A wrong type must be refused here: behind this point it would be a failure of the node."""
    for name, expected in type(question).__annotations__.items():
        value = getattr(question, name)
        if expected is int and not (isinstance(value, int) and value >= -1):
            raise BadQuestion(f"{name} {value!r}: a whole number is expected")
        if expected is bytes and not isinstance(value, bytes):
            raise BadQuestion(f"{name} {value!r}: bytes are expected")
        if expected is float and not isinstance(value, int | float):
            raise BadQuestion(f"{name} {value!r}: a number is expected")
        of = _ITEMS.get(name)
        if of is not None and not (isinstance(value, tuple) and all(isinstance(each, of) for each in value)):
            raise BadQuestion(f"{name} {value!r}: a tuple of {of.__name__} is expected")


_ITEMS: Final[dict[str, type]] = {"clients": int, "sessions": SilentSession}
