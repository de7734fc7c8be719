"""The plugins of simulated members: the four that come with levrier, some of them in each seed, in more of a hurry than usual.

A simulated member serves no messages, so nobody polls. What the completer would be told by who serves them is made up here.
"""

from datetime import timedelta
from random import Random
from typing import Any, Final

from levrier.actors.plugins import Plugin
from levrier.actors.plugins.builtin import (
    PartitionReconciler,
    RevocationCompleter,
    StaleSessionSweeper,
    TokenCleaner,
    partition_reconciler,
    revocation_completer,
    stale_session_sweeper,
    token_cleaner,
)
from levrier.actors.plugins.messages import PendingRevocation
from levrier.cluster.config import PluginSetup

SWEEP_SECONDS_MIN: Final = 6


def is_polled(partition: int) -> bool:
    """Whether the members of a group have polled more of this partition than they have committed, and never do."""
    return partition % 2 == 1


class MadeUpOffsets:
    """What members of groups polled."""

    def last_polled(self, revocation: PendingRevocation) -> int | None:
        """Something, on every other partition."""
        return 0 if is_polled(revocation.partition_id) else None

    def committed(self, revocation: PendingRevocation) -> int | None:
        """Nothing."""
        del revocation
        return None


class SimulatedCompleter(RevocationCompleter):
    """The completer of a node that serves messages."""

    def __init__(self, settings: revocation_completer.Settings) -> None:
        super().__init__(settings, MadeUpOffsets())


def draw_plugins(random: Random, *, everything: bool) -> tuple[PluginSetup, ...]:
    """What the members of a seed run: each of the four in three seeds of four, none in one of eight; or `everything`."""
    setups = (
        _setup(
            PartitionReconciler,
            partition_reconciler.Settings(interval=_seconds(random.choice((0.2, 1, 3)))),
        ),
        _setup(
            SimulatedCompleter,
            revocation_completer.Settings(
                rebalancing_timeout=_seconds(random.choice((1, 5))), interval=_seconds(random.choice((0.2, 1)))
            ),
        ),
        _setup(
            StaleSessionSweeper,
            stale_session_sweeper.Settings(interval=_seconds(random.choice((SWEEP_SECONDS_MIN, 10)))),
        ),
        _setup(TokenCleaner, token_cleaner.Settings(interval=_seconds(random.choice((0.5, 2, 5))))),
    )
    if everything:
        return setups
    chosen = tuple(setup for setup in setups if random.random() < 0.75)
    return () if random.random() < 0.125 else chosen


def sweeps(plugins: tuple[PluginSetup, ...]) -> bool:
    """Whether silent clients are logged out."""
    return any(setup.plugin is StaleSessionSweeper for setup in plugins)


def _setup(plugin: type[Plugin[Any]], settings: object) -> PluginSetup:
    return PluginSetup(plugin=plugin, settings=settings)


def _seconds(count: float) -> timedelta:
    return timedelta(seconds=count)
