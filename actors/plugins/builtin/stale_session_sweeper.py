"""The stale-session sweeper: ends the sessions of group members that went silent (maintenance 4).

Only members of a consumer group matter: they hold partitions that others could serve. Everybody else is left alone until the
socket closes. It runs on every node, for the connections of that node.
"""

from dataclasses import dataclass
from datetime import timedelta

from levrier.actors.bus.messages import SilentSession
from levrier.actors.plugins.api import Context, Plugin
from levrier.actors.plugins.questions import EndSilent, GroupMembers, SilentSessions


@dataclass(frozen=True, slots=True)
class Settings:
    """How often clients are expected to be heard of; a client is stale after 1.2 times as long."""

    interval: timedelta = timedelta(seconds=30)


def silence_seconds(interval: timedelta) -> float:
    """How long a client may be silent."""
    return interval.total_seconds() * 6 / 5


def stale(silent: tuple[SilentSession, ...], members: tuple[int, ...]) -> tuple[SilentSession, ...]:
    """Those of the silent sessions that hold a place in a group, in their order."""
    held = frozenset(members)
    return tuple([session for session in silent if session.client in held])


class StaleSessionSweeper(Plugin[Settings]):
    """Three questions, one after the other: who is silent, who of them is a member, and end those."""

    name = "stale_session_sweeper"
    settings_type = Settings

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._seconds = silence_seconds(settings.interval)

    def on_tick(self, ctx: Context) -> None:
        """Look for silent sessions."""
        ctx.query(SilentSessions(seconds=self._seconds), self._on_silent)

    def _on_silent(self, ctx: Context, silent: tuple[SilentSession, ...]) -> None:
        if silent:
            clients = tuple([session.client for session in silent])
            ctx.query(GroupMembers(clients=clients), lambda ctx, members: self._on_members(ctx, silent, members))

    def _on_members(self, ctx: Context, silent: tuple[SilentSession, ...], members: tuple[int, ...]) -> None:
        ended = stale(silent, members)
        if ended:
            ctx.query(EndSilent(sessions=ended, seconds=self._seconds), self._on_ended)

    def _on_ended(self, ctx: Context, ended: tuple[SilentSession, ...]) -> None:
        if ended:
            ctx.log.info(f"ended {len(ended)} sessions of group members that were silent for {self._seconds:g} s")
            ctx.metrics.count("ended", len(ended))
