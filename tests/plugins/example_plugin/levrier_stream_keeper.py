"""Keeps a set of streams in existence: what is missing is created, and created again when somebody deletes or renames it.

    [plugins.stream_keeper]
    streams = ["orders", "bills"]
    interval = "10 s"

It goes by the state and not by what happened: every cause makes it look, and what a look finds missing is submitted without a
key, by the node that leads. What came to nothing, because the leader changed or a limit was reached, the next look finds again.
Metrics: `present` and `missing` as the last look of this node found them, `created` by this node.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from levrier.actors.plugins import (
    Context,
    Notice,
    Operation,
    Outcome,
    Plugin,
    Role,
    TooMany,
    answers,
    questions,
    requests,
)

CREATING_MAX: Final = 16


@dataclass(frozen=True)
class Settings:
    """The keys of [plugins.stream_keeper]: the names of the streams, and how often to look when nothing happens."""

    streams: tuple[str, ...] = ()
    interval: timedelta = timedelta(seconds=10)

    def __post_init__(self) -> None:
        for name in self.streams:
            if not 1 <= len(name.encode()) <= 255:
                raise ValueError(f"streams: the name {name!r} does not have 1 to 255 bytes")
        if len(set(self.streams)) < len(self.streams):
            raise ValueError("streams: a name stands there twice")


class StreamKeeper(Plugin[Settings]):
    """One look or one batch of creations at a time; a cause that comes meanwhile is remembered."""

    name = "stream_keeper"
    settings_type = Settings
    watches = frozenset({Operation.CREATE_STREAM, Operation.DELETE_STREAM, Operation.UPDATE_STREAM})

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._is_looking = False
        self._creating = 0
        self._look_again = False
        self._asked_as_leader = False

    def on_role(self, ctx: Context, role: Role) -> None:
        self._asked_as_leader = False  # What it asked before may be older than what it leads now.
        if role is Role.LEADER:
            self._look(ctx)

    def on_resync(self, ctx: Context) -> None:
        self._look(ctx)

    def on_commit(self, ctx: Context, notice: Notice) -> None:
        if notice.accepted:
            self._look(ctx)

    def on_tick(self, ctx: Context) -> None:
        self._look(ctx)

    def _look(self, ctx: Context) -> None:
        if self._is_looking or self._creating:
            self._look_again = True
            return
        self._look_again = False
        try:
            ctx.query(questions.streams(), self._on_streams)
        except TooMany:
            ctx.log.debug("too many looks, the next tick brings another")
        else:
            self._is_looking = True
            self._asked_as_leader = ctx.is_leader

    def _on_streams(self, ctx: Context, streams: tuple[answers.StreamHeader, ...]) -> None:
        self._is_looking = False
        present = {stream.name for stream in streams}
        missing = [name for name in self.settings.streams if name not in present]
        ctx.metrics.set("present", len(self.settings.streams) - len(missing))
        ctx.metrics.set("missing", len(missing))
        if self._asked_as_leader:
            self._create(ctx, missing[:CREATING_MAX])
        if self._look_again and not self._creating:
            self._look(ctx)

    def _create(self, ctx: Context, names: list[str]) -> None:
        for name in names:
            try:
                ctx.submit(requests.CreateStream(name=name), then=self._on_outcome)
            except TooMany:
                ctx.log.debug("too many submits, the next tick brings the stream {}", name)
                return
            self._creating += 1

    def _on_outcome(self, ctx: Context, outcome: Outcome) -> None:
        self._creating -= 1
        if outcome.done:
            ctx.metrics.count("created")
            self._look_again = True
        elif outcome.code:
            ctx.log.warning("a missing stream was rejected with code {}", outcome.code)
        if self._look_again and not self._creating:
            self._look(ctx)
