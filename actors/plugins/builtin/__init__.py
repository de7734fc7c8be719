"""The plugins that come with levrier (maintenance.md). Each is a pure core and a thin plugin, as any other one could be."""

from typing import Any, Final

from levrier.actors.plugins.api import Plugin
from levrier.actors.plugins.builtin.partition_reconciler import PartitionReconciler
from levrier.actors.plugins.builtin.revocation_completer import RevocationCompleter
from levrier.actors.plugins.builtin.stale_session_sweeper import StaleSessionSweeper
from levrier.actors.plugins.builtin.token_cleaner import TokenCleaner

BUILTIN: Final[tuple[type[Plugin[Any]], ...]] = (
    PartitionReconciler,
    RevocationCompleter,
    StaleSessionSweeper,
    TokenCleaner,
)
"""Enabled unless the configuration disables them."""

__all__ = ["BUILTIN", "PartitionReconciler", "RevocationCompleter", "StaleSessionSweeper", "TokenCleaner"]
