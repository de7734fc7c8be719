"""The revocation completer: hands partitions that a group member had to give up to their new owner (maintenance 3).

A revocation is complete when the old owner polled nothing that it has not committed, or has had long enough. What was polled
is known by who serves the messages; a node without messages knows of no polls, so it completes at once. Completing twice
does nothing. An operation names the partition and its owner, not the revocation: one that was under way when that revocation
ended and another one of the same partition began completes the new one early, and what is in flight is delivered again.
"""

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, Protocol

from levrier.actors.plugins.api import Context, Plugin, Role, TooMany
from levrier.actors.plugins.messages import Outcome, PendingRevocation
from levrier.actors.plugins.questions import PendingRevocations
from levrier.actors.plugins.requests import CompleteConsumerGroupRevocation
from levrier.wire.codes import Operation
from levrier.wire.identifiers import Identifier

PASS_MAX: Final = 32
"""Revocations that are looked at in one go."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`rebalancing_timeout`: how long a member may keep what it has to give up. `interval`: how often to look."""

    rebalancing_timeout: timedelta = timedelta(seconds=30)
    interval: timedelta = timedelta(seconds=1)

    def __post_init__(self) -> None:
        if self.rebalancing_timeout <= timedelta(0):
            raise ValueError("rebalancing_timeout: more than 0 is expected")


class Offsets(Protocol):
    """What this node knows of the polls of a group on a partition."""

    def last_polled(self, revocation: PendingRevocation) -> int | None:
        """The last offset that the group polled; None when it never did."""
        ...

    def committed(self, revocation: PendingRevocation) -> int | None:
        """The offset that the group has committed; None when it never did."""
        ...


class NoOffsets:
    """A node that serves no messages."""

    def last_polled(self, revocation: PendingRevocation) -> int | None:
        """Nothing is polled here."""
        del revocation
        return None

    def committed(self, revocation: PendingRevocation) -> int | None:
        """Nothing is committed here."""
        del revocation
        return None


def is_complete(revocation: PendingRevocation, *, offsets: Offsets, now: int, timeout: int) -> bool:
    """Whether the partition may go to its new owner. `now` and `timeout` in microseconds."""
    if now - revocation.created_at >= timeout:
        return True
    last = offsets.last_polled(revocation)
    if last is None:
        return True
    done = offsets.committed(revocation)
    return done is not None and done >= last


def completion(revocation: PendingRevocation) -> CompleteConsumerGroupRevocation:
    """The operation that completes it."""
    return CompleteConsumerGroupRevocation(
        stream=Identifier(revocation.stream_id),
        topic=Identifier(revocation.topic_id),
        group_id=revocation.group_id,
        source_client=revocation.source_client,
        partition_id=revocation.partition_id,
    )


class RevocationCompleter(Plugin[Settings]):
    """Looks whenever a group may have changed and at each tick, while this node leads."""

    name = "revocation_completer"
    settings_type = Settings
    watches = frozenset({Operation.JOIN_CONSUMER_GROUP})

    def __init__(self, settings: Settings, offsets: Offsets | None = None) -> None:
        super().__init__(settings)
        self._offsets = NoOffsets() if offsets is None else offsets
        self._timeout = settings.rebalancing_timeout // timedelta(microseconds=1)
        self._is_asking = False
        self._under_way: dict[tuple[int, int], PendingRevocation] = {}
        """By group and partition id: of those that share them, one at a time gets through."""

    def on_commit(self, ctx: Context, _notice: object) -> None:
        """A member joined."""
        self._look(ctx)

    def on_role(self, ctx: Context, _role: Role) -> None:
        """What an earlier leader had not completed is to be done here."""
        self._look(ctx)

    def on_tick(self, ctx: Context) -> None:
        """Time makes revocations complete."""
        self._look(ctx)

    def _look(self, ctx: Context) -> None:
        if ctx.is_leader and not self._is_asking and len(self._under_way) < PASS_MAX:
            try:
                ctx.query(PendingRevocations(limit=PASS_MAX), self._on_pending)
            except TooMany:
                return  # So many joined in a second: the next tick looks.
            self._is_asking = True

    def _on_pending(self, ctx: Context, pending: tuple[PendingRevocation, ...]) -> None:
        self._is_asking = False
        ctx.metrics.set("pending", len(pending))
        now = ctx.clock.now_micros()
        for revocation in pending:
            target = revocation.group_id, revocation.partition_id
            if target in self._under_way or len(self._under_way) >= PASS_MAX:
                continue
            if not is_complete(revocation, offsets=self._offsets, now=now, timeout=self._timeout):
                continue
            try:
                ctx.submit(completion(revocation), then=partial(self._on_done, target))
            except TooMany:
                return
            self._under_way[target] = revocation

    def _on_done(self, target: tuple[int, int], ctx: Context, outcome: Outcome) -> None:
        del self._under_way[target]
        if outcome.done:
            ctx.metrics.count("completed")
            if not self._under_way:
                self._look(ctx)
