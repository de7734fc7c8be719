"""Which plugins there are, and what the configuration says of each: `[plugins.<name>]`.

Plugins are found through the entry-point group `levrier.plugins`, the name of the entry point being the plugin's. Those that
come with levrier are enabled unless the configuration disables them; every other one is enabled by having a table there. The
keys of a table are `enabled` and the fields of the plugin's settings class.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, get_type_hints

from levrier.actors.plugins import Plugin
from levrier.actors.plugins.builtin import BUILTIN
from levrier.actors.plugins.report import Found
from levrier.actors.runtime.attempts import attempt
from levrier.cluster.config import PluginSetup
from levrier.cluster.config_values import Kind, Schema, micros
from levrier.cluster.refused import ConfigError

ENTRY_POINT_GROUP: Final = "levrier.plugins"
ENABLED: Final = "enabled"
"""The key of every table, and of no settings class."""

INTERVAL: Final = "interval"
"""The setting that says how often a plugin is ticked."""

KINDS: Final[Mapping[object, Kind]] = {
    str: Kind.TEXT,
    bool: Kind.SWITCH,
    int: Kind.COUNT,
    float: Kind.NUMBER,
    timedelta: Kind.DURATION,
    tuple[str, ...]: Kind.TEXTS,
}
"""What a field of a settings class may be, and how it is written."""


class PluginInvalid(Exception):
    """A class that is no plugin that could run; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """Plugins that can be enabled, by name, and those that cannot be loaded, with the reason."""

    plugins: Mapping[str, type[Plugin[Any]]]
    broken: Mapping[str, str]

    def schema(self) -> Schema:
        """The keys that `[plugins]` may have. A broken one may have any, since nobody can say which it knows."""
        return {name: {ENABLED: Kind.SWITCH, **_keys(plugin)} for name, plugin in self.plugins.items()}


def installed() -> Installed:
    """Look for every plugin that is installed. One that cannot be loaded does not keep the others from being found."""
    plugins: dict[str, type[Plugin[Any]]] = {plugin.name: plugin for plugin in BUILTIN}
    broken: dict[str, str] = {}
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        if point.name in plugins:
            broken[point.name] = f"two plugins are named {point.name}"
            continue
        broken[point.name] = attempt(partial(_load, point, plugins), whose=f"plugin {point.name}, loading,")
    return Installed(plugins=plugins, broken={name: why for name, why in broken.items() if why})


def _load(point: EntryPoint, plugins: dict[str, type[Plugin[Any]]]) -> None:
    plugins[point.name] = checked(point, point.load())


def checked(point: EntryPoint, loaded: object) -> type[Plugin[Any]]:
    """The plugin class of an entry point. Raises `PluginInvalid`."""
    if not (isinstance(loaded, type) and issubclass(loaded, Plugin)):
        raise PluginInvalid(f"{point.value} is no subclass of levrier.actors.plugins.Plugin")
    name = getattr(loaded, "name", None)
    if name != point.name:
        raise PluginInvalid(f"{point.value} is named {name!r}, its entry point {point.name!r}: name both alike")
    if not dataclasses.is_dataclass(loaded.settings_type):
        raise PluginInvalid(f"the settings_type of {point.value} is no dataclass")
    _check_settings(point, loaded.settings_type)
    if loaded.on_commit is not Plugin.on_commit and not loaded.watches:
        raise PluginInvalid(f"{point.value} has on_commit and watches nothing: say which operations it watches")
    if loaded.on_tick is not Plugin.on_tick and INTERVAL not in _keys(loaded):
        raise PluginInvalid(f"{point.value} has on_tick and no setting {INTERVAL}: say how often it is called")
    return loaded


def _check_settings(point: EntryPoint, settings: type) -> None:
    hints = get_type_hints(settings)
    for field in dataclasses.fields(settings):
        if hints[field.name] not in KINDS:
            known = "str, bool, int, float, timedelta, tuple[str, ...]"
            raise PluginInvalid(
                f"setting {field.name} of {point.value} is {hints[field.name]}; these are known: {known}"
            )
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise PluginInvalid(f"setting {field.name} of {point.value} has no default")
    if ENABLED in hints:
        raise PluginInvalid(
            f"setting {ENABLED} of {point.value} would hide the key that every plugin has: name it otherwise"
        )
    if hints.get(INTERVAL, timedelta) is not timedelta:
        raise PluginInvalid(
            f"setting {INTERVAL} of {point.value} is {hints[INTERVAL]}: it is how often on_tick is called, a timedelta"
        )


def setups(table: Mapping[str, Any], found: Installed) -> tuple[tuple[PluginSetup, ...], tuple[Found, ...]]:
    """The plugins that run, and those that do not, from the checked `[plugins]` table. Raises `ConfigError`."""
    builtin = {plugin.name for plugin in BUILTIN}
    running: list[PluginSetup] = []
    others = [Found(name=name, error=error) for name, error in found.broken.items()]
    for name, plugin in found.plugins.items():
        settings = table.get(name, {})
        if settings.get(ENABLED, name in table or name in builtin):
            running.append(setup(plugin, settings))
        else:
            others.append(Found(name=name))
    return tuple(running), tuple(others)


def setup(plugin: type[Plugin[Any]], table: Mapping[str, Any]) -> PluginSetup:
    """A plugin with the settings of its table. Raises `ConfigError`."""
    where = f"plugins.{plugin.name}"
    hints = get_type_hints(plugin.settings_type)
    values = {key: _value(value, hints[key], f"{where}.{key}") for key, value in table.items() if key != ENABLED}
    try:
        settings = plugin.settings_type(**values)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
    return PluginSetup(plugin=plugin, settings=settings)


def refuse_broken(table: Mapping[str, Any], found: Installed) -> None:
    """Whoever configures a plugin wants it to run. Raises `ConfigError` for one that cannot be loaded."""
    for name in table:
        if name in found.broken:
            raise ConfigError(f"plugins.{name}: the plugin cannot be loaded: {found.broken[name]}")


def _keys(plugin: type[Plugin[Any]]) -> dict[str, Kind]:
    hints = get_type_hints(plugin.settings_type)
    return {field.name: KINDS[hints[field.name]] for field in dataclasses.fields(plugin.settings_type)}


def _value(value: object, hint: object, name: str) -> object:
    if hint is timedelta:
        assert isinstance(value, str)
        return timedelta(microseconds=micros(value, name))
    if hint is float:
        assert isinstance(value, int | float)
        return float(value)
    if isinstance(value, list):
        return tuple(value)
    return value
