"""The plugins of a node among its actors: their host, one actor each, and what the status says of them."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from levrier.actors.bus.queries import Json
from levrier.actors.metadata.for_plugins import NOTHING_WATCHED, Watched
from levrier.actors.plugins import Plugin
from levrier.actors.plugins import messages as plugins
from levrier.actors.plugins.actor import PLUGIN_HOST, Enabled, PluginActor, PluginHostActor
from levrier.actors.plugins.api import logged_forms
from levrier.actors.plugins.builtin.partition_reconciler import PartitionReconciler
from levrier.actors.plugins.builtin.partition_reconciler import Settings as ReconcilerSettings
from levrier.actors.plugins.report import PluginBoard, PluginStatus
from levrier.actors.plugins.session import session_client
from levrier.actors.runtime import Recipient, Runtime
from levrier.cluster.config import NodeConfig, PluginSetup
from levrier.persistence.partition_directories import PartitionDirectories
from levrier.persistence.storage import Storage


def plugin_host(config: NodeConfig, runtime: Runtime) -> Recipient[plugins.Command] | None:
    """Where the plugins are told things; None on a node without any."""
    return runtime.address(PLUGIN_HOST) if config.plugins else None


def watched(config: NodeConfig) -> Watched:
    """Which commits the plugins are told: what they watch, and what their own sessions do."""
    if not config.plugins:
        return NOTHING_WATCHED
    operations = logged_forms(operation for setup in config.plugins for operation in setup.plugin.watches)
    return Watched(operations=operations, clients=frozenset(session_client(setup.name) for setup in config.plugins))


def wire_plugins(config: NodeConfig, runtime: Runtime, storage: Storage, board: PluginBoard) -> None:
    """Start the host and the actors of the plugins."""
    host = plugin_host(config, runtime)
    if host is None:
        return
    enabled = tuple([_enabled(setup, config, storage) for setup in config.plugins])
    PluginHostActor.start(
        name=PLUGIN_HOST,
        runtime=runtime,
        enabled=enabled,
        board=board,
        consensus=runtime.address("consensus"),
        client_table=runtime.address("client_table"),
        metadata=runtime.address("metadata"),
        bus=runtime.address("bus"),
        acknowledgements=runtime.address("acknowledgements"),
    )
    for plugin in enabled:
        PluginActor.start(name=plugin.actor_name, runtime=runtime, plugin=plugin, host=host)


def plugin_facts(board: PluginBoard) -> list[Json]:
    """How the plugins fare, for the status."""
    return [_facts(status) for status in board.statuses]


def _facts(status: PluginStatus) -> dict[str, Json]:
    return {
        "name": status.name,
        "state": status.state.value,
        "restarts": status.restarts,
        "blocked": status.blocked,
        "committed": status.committed,
        "keyed_waiting": status.keyed_waiting,
        "notices_dropped": status.notices_dropped,
        "refused": status.refused,
        "last_error": status.last_error,
        "metrics": dict(status.metrics),
    }


def _enabled(setup: PluginSetup, config: NodeConfig, storage: Storage) -> Enabled:
    make: Callable[[], Plugin[Any]] = partial(setup.plugin, setup.settings)
    if setup.plugin is PartitionReconciler:
        directories = PartitionDirectories(storage, config.data / "partitions")
        assert isinstance(setup.settings, ReconcilerSettings)
        make = partial(PartitionReconciler, setup.settings, directories=directories)
    interval = setup.interval
    return Enabled(
        name=setup.name,
        make=make,
        watches=logged_forms(setup.plugin.watches),
        interval_milliseconds=None if interval is None else interval // timedelta(milliseconds=1),
    )
