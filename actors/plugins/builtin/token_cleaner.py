"""The token cleaner: deletes expired personal access tokens while this node leads (maintenance 1).

Housekeeping only: a login refuses an expired token by itself. The deletion says "only if expired", which is judged by the
timestamp of the prepare, so a token that was deleted and made anew in between survives and a repeat does nothing.
"""

from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from levrier.actors.plugins.api import Context, Plugin, TooMany
from levrier.actors.plugins.messages import Fate, Outcome
from levrier.actors.plugins.questions import ExpiredTokens
from levrier.actors.plugins.requests import DeleteToken, InvalidRequest

PASS_MAX: Final = 256
"""Tokens that one pass removes at most."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How often to look."""

    interval: timedelta = timedelta(minutes=1)


class CleanerPass:
    """One pass over tokens that are due, one after the other."""

    __slots__ = ("_due", "_more", "removed")

    def __init__(self, due: tuple[tuple[int, str], ...]) -> None:
        """`due` may hold one more than a pass takes, which says that there are more."""
        self._due = deque(due[:PASS_MAX])
        self._more = len(due) > PASS_MAX
        self.removed = 0

    def next(self) -> DeleteToken | None:
        """The next deletion; None when the pass is over."""
        if not self._due:
            return None
        user_id, name = self._due.popleft()
        return DeleteToken(user_id=user_id, name=name, only_if_expired=True)

    def settled(self, outcome: Outcome) -> None:
        """What became of the last one. Anything but a commit ends the pass: the next tick begins anew."""
        if outcome.fate is Fate.COMMITTED:
            self.removed += 1
        else:
            self._due.clear()

    @property
    def hit_cap(self) -> bool:
        """Whether there is more to do at once: more were due than a pass takes, and every one it took was removed."""
        return self._more and self.removed == PASS_MAX


class TokenCleaner(Plugin[Settings]):
    """Asks for what is expired at each tick, and deletes it token by token."""

    name = "token_cleaner"
    settings_type = Settings

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._pass: CleanerPass | None = None
        self._is_asking = False

    def on_tick(self, ctx: Context) -> None:
        """Begin a pass, unless one is under way."""
        if ctx.is_leader and self._pass is None and not self._is_asking:
            self._ask(ctx)

    def _ask(self, ctx: Context) -> None:
        self._is_asking = True
        ctx.query(ExpiredTokens(now=ctx.clock.now_micros(), limit=PASS_MAX + 1), self._on_expired)

    def _on_expired(self, ctx: Context, due: tuple[tuple[int, str], ...]) -> None:
        self._is_asking = False
        self._pass = CleanerPass(due)
        self._go_on(ctx, self._pass)

    def _on_outcome(self, ctx: Context, outcome: Outcome) -> None:
        assert self._pass is not None
        self._pass.settled(outcome)
        self._go_on(ctx, self._pass)

    def _go_on(self, ctx: Context, running: CleanerPass) -> None:
        while (deletion := running.next()) is not None:
            try:
                ctx.submit(deletion, then=self._on_outcome)
            except InvalidRequest as error:
                ctx.log.warning(f"the token {deletion.name!r} of user {deletion.user_id} stays: {error}")
                continue
            except TooMany:
                break
            return
        self._pass = None
        if running.removed:
            ctx.log.info(f"deleted {running.removed} expired access tokens")
            ctx.metrics.count("removed", running.removed)
        if running.hit_cap and ctx.is_leader:
            self._ask(ctx)
