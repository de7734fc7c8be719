"""Plugins for the tests: one that submits with keys, and ones that misbehave."""

from dataclasses import dataclass, field
from datetime import timedelta

from levrier.actors.plugins import (
    Context,
    Identifier,
    NoSettings,
    Notice,
    Operation,
    Outcome,
    Plugin,
    Role,
    TooMany,
    questions,
    requests,
)
from levrier.wire.responses.streams import TopicHeader


@dataclass(frozen=True)
class DeadLetterSettings:
    """What the second stream is called."""

    suffix: str = ".dead"


class DeadLetters(Plugin[DeadLetterSettings]):
    """For each new stream, one for its dead letters: exactly one, whoever leads."""

    name = "dead_letters"
    settings_type = DeadLetterSettings
    watches = frozenset({Operation.CREATE_STREAM})

    def on_commit(self, ctx: Context, notice: Notice) -> None:
        request = notice.request
        assert isinstance(request, requests.CreateStream)
        if notice.accepted and not request.name.endswith(self.settings.suffix):
            name = request.name + self.settings.suffix
            ctx.submit(requests.CreateStream(name=name), key=notice.op, then=self._on_created)

    def _on_created(self, ctx: Context, outcome: Outcome) -> None:
        ctx.metrics.count(outcome.fate.value)


@dataclass(frozen=True)
class Fast:
    """Ticked as often as is allowed."""

    interval: timedelta = timedelta(milliseconds=100)


class Recorder(Plugin[Fast]):
    """Notes what it is told, in a list that all its lives share."""

    name = "recorder"
    settings_type = Fast
    watches = frozenset({Operation.CREATE_STREAM})

    def __init__(self, settings: Fast, seen: list[str] | None = None) -> None:
        super().__init__(settings)
        self.seen: list[str] = [] if seen is None else seen

    def on_start(self, ctx: Context) -> None:
        self.seen.append("start")

    def on_resync(self, ctx: Context) -> None:
        self.seen.append("resync")

    def on_role(self, ctx: Context, role: Role) -> None:
        self.seen.append(role.value)

    def on_commit(self, ctx: Context, notice: Notice) -> None:
        self.seen.append(f"op {notice.op}")

    def on_tick(self, ctx: Context) -> None:
        self.seen.append("tick")

    def on_stop(self) -> None:
        self.seen.append("stop")


class Raiser(Plugin[Fast]):
    """Raises at each tick, and in one way that is no Exception."""

    name = "raiser"
    settings_type = Fast

    def on_tick(self, ctx: Context) -> None:
        raise SystemExit("out of a handler")


@dataclass
class Flood:
    """How a flood went."""

    accepted: int = 0
    refused: int = 0
    outcomes: list[Outcome] = field(default_factory=list)


class Flooder(Plugin[NoSettings]):
    """Submits without end once it leads."""

    name = "flooder"
    operations = 100_000

    def __init__(self, settings: NoSettings, flood: Flood | None = None) -> None:
        super().__init__(settings)
        self.flood = Flood() if flood is None else flood

    def on_role(self, ctx: Context, role: Role) -> None:
        if role is not Role.LEADER:
            return
        for number in range(self.operations):
            try:
                ctx.submit(requests.CreateStream(name=f"flood-{number}"), then=self._on_outcome)
                self.flood.accepted += 1
            except TooMany:
                self.flood.refused += 1

    def _on_outcome(self, ctx: Context, outcome: Outcome) -> None:
        self.flood.outcomes.append(outcome)


class Widener(Plugin[NoSettings]):
    """Adds a second partition to each topic that has one. Done twice it would be a third."""

    name = "widener"
    watches = frozenset({Operation.CREATE_TOPIC})

    def on_resync(self, ctx: Context) -> None:
        ctx.query(questions.topics(0), self._on_topics)

    def _on_topics(self, ctx: Context, topics: tuple[TopicHeader, ...] | None) -> None:
        for topic in sorted(topics or (), key=lambda topic: topic.created_at):
            if topic.partitions_count == 1:
                self._widen(ctx, topic.name, topic.created_at)

    def on_commit(self, ctx: Context, notice: Notice) -> None:
        request = notice.request
        assert isinstance(request, requests.CreateTopic)
        if notice.accepted:
            self._widen(ctx, request.name, notice.timestamp)

    def _widen(self, ctx: Context, name: str, created_at: int) -> None:
        wider = requests.CreatePartitions(stream=Identifier(0), topic=Identifier(name), partitions_count=1)
        ctx.submit(wider, key=created_at)
