"""How the plugins of a node fare, for `levrier plugins` and the status: written by the plugin host, read by whoever shows it.

The board holds one immutable tuple that is replaced as a whole, so a reader in another thread sees one moment of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum


class PluginState(Enum):
    """What a plugin is doing."""

    RUNNING = "running"
    BLOCKED = "blocked"
    """It has been in one handler for too long."""
    RESTARTING = "restarting"
    """It raised, and begins again after a pause."""
    DISABLED = "disabled"
    """It is installed and not enabled."""
    BROKEN = "broken"
    """It is installed and cannot be loaded."""


@dataclass(slots=True, kw_only=True)
class PluginStatus:
    """One plugin. `blocked` counts how often it was found blocking, `committed` its submits that this node committed."""

    name: str
    state: PluginState = PluginState.RUNNING
    restarts: int = 0
    blocked: int = 0
    last_error: str = ""
    notices_dropped: int = 0
    refused: int = 0
    committed: int = 0
    keyed_waiting: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)

    def copy(self) -> "PluginStatus":
        """It as it stands."""
        return replace(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A plugin that is installed and does not run, and why: `error` is empty when it is not enabled."""

    name: str
    error: str = ""


class PluginBoard:
    """What is known of the plugins of a node."""

    __slots__ = ("_others", "_running")

    def __init__(self, others: tuple[Found, ...] = ()) -> None:
        self._running: tuple[PluginStatus, ...] = ()
        self._others = tuple(
            [
                PluginStatus(
                    name=found.name,
                    state=PluginState.BROKEN if found.error else PluginState.DISABLED,
                    last_error=found.error,
                )
                for found in others
            ]
        )

    def publish(self, statuses: tuple[PluginStatus, ...]) -> None:
        """This is how those that run fare now."""
        self._running = statuses

    @property
    def statuses(self) -> tuple[PluginStatus, ...]:
        """All of them, by name."""
        return tuple(sorted(self._running + self._others, key=lambda status: status.name))
