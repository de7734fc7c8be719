"""What the plugins of a seed have to do, and whether they have done it."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from levrier.actors.plugins.builtin import (
    PartitionReconciler,
    RevocationCompleter,
    StaleSessionSweeper,
    TokenCleaner,
    revocation_completer,
)
from levrier.cluster.config import NodeConfig
from levrier.cluster.simulate.checkers import CommitObserver, Duties, Housekeeping
from levrier.cluster.simulate.client import ScriptedClient
from levrier.cluster.simulate.cluster import PARTITIONS, SimulatedCluster
from levrier.cluster.simulate.plugins import is_polled
from levrier.persistence.partition_directories import PartitionDirectories, PartitionKey

CHORES_SECONDS_MAX: Final = 90
"""Time of the members within which everything is done on a healed cluster: a pause after failures is up to a minute."""


class Chores:
    """Looks at the members of one cluster. `left` says what is still to be done."""

    def __init__(self, cluster: SimulatedCluster, commits: CommitObserver) -> None:
        self._cluster = cluster
        self.housekeeping = Housekeeping(commits, _duties(cluster.config), is_polled=is_polled)
        cluster.on_removed = self._on_removed

    def left(self, leader: int, clients: Sequence[ScriptedClient]) -> str:
        """What the plugins have not done, in words; nothing when all is done. `clients` are those that say nothing now."""
        directories = {
            replica: PartitionDirectories(self._cluster.storages[replica], PARTITIONS).all()
            for replica in sorted(self._cluster.booted)
        }
        return self.housekeeping.unfinished(
            now=self._cluster.node(leader).clock.now_micros(),
            directories=directories,
            silent=[client.silent_client for client in clients if client.silent_client is not None],
        )

    def _on_removed(self, replica: int, path: Path) -> None:
        if path.parent.parent.parent != PARTITIONS:
            return
        partition, epoch = path.name.split(".")
        stream, topic = path.parent.parent.name, path.parent.name
        self.housekeeping.removed(replica, PartitionKey(int(stream), int(topic), int(partition), int(epoch)))


def _duties(config: NodeConfig) -> Duties:
    """What the configured plugins have to do."""
    timeouts = [
        setup.settings.rebalancing_timeout // timedelta(microseconds=1)
        for setup in config.plugins
        if isinstance(setup.settings, revocation_completer.Settings)
    ]

    def runs(plugin: type) -> bool:
        return any(issubclass(setup.plugin, plugin) for setup in config.plugins)

    return Duties(
        cleans=runs(TokenCleaner),
        completes=runs(RevocationCompleter),
        sweeps=runs(StaleSessionSweeper),
        reconciles=runs(PartitionReconciler),
        rebalancing_timeout=max(timeouts, default=0),
    )
