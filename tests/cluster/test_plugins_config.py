"""Plugins in the configuration: found by entry points, enabled and set by `[plugins.<name>]`, refused with the way out."""

from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from levrier.actors.plugins import Context, NoSettings, Notice, Operation, Plugin
from levrier.actors.plugins.report import Found
from levrier.cluster import plugins as found_plugins
from levrier.cluster.config import NodeConfig, PluginSetup
from levrier.cluster.config_file import load
from levrier.cluster.plugins import Installed, PluginInvalid, checked, installed
from levrier.cluster.refused import ConfigError
from levrier.cluster.testing import Server

BUILTIN = ["partition_reconciler", "revocation_completer", "stale_session_sweeper", "token_cleaner"]


@dataclass(frozen=True)
class AuditSettings:
    """One setting of each kind."""

    prefix: str = "audit-"
    strict: bool = False
    keep: int = 3
    ratio: float = 0.5
    interval: timedelta = timedelta(seconds=10)
    streams: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.prefix:
            raise ValueError("prefix is empty")


class Auditor(Plugin[AuditSettings]):
    """A plugin of somebody else's."""

    name = "auditor"
    settings_type = AuditSettings


INSTALLED = Installed(
    plugins={**installed().plugins, "auditor": Auditor},
    broken={"rusty": "ImportError: no module named rust"},
)


def read(tmp_path: Path, text: str, environment: dict[str, str] | None = None) -> NodeConfig:
    """The configuration with one more plugin installed."""
    path = tmp_path / "levrier.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, environment=environment or {}, replica=None, plugins=INSTALLED).node


def names(node: NodeConfig) -> list[str]:
    """The plugins that run."""
    return sorted(setup.name for setup in node.plugins)


def settings(node: NodeConfig, name: str) -> Any:
    """The settings of one that runs."""
    return next(setup.settings for setup in node.plugins if setup.name == name)


def test_without_a_word_those_that_come_with_it_run_and_no_other(tmp_path: Path) -> None:
    node = read(tmp_path, "")
    assert names(node) == BUILTIN
    assert sorted(node.other_plugins, key=lambda found: found.name) == [
        Found(name="auditor"),
        Found(name="rusty", error="ImportError: no module named rust"),
    ]


def test_a_table_enables_it_with_its_settings(tmp_path: Path) -> None:
    text = """
[plugins.auditor]
prefix = "a-"
strict = true
keep = 7
ratio = 2
interval = "1 m 30 s"
streams = ["x", "y"]
"""
    node = read(tmp_path, text)
    assert names(node) == ["auditor", *BUILTIN]
    assert settings(node, "auditor") == AuditSettings(
        prefix="a-", strict=True, keep=7, ratio=2.0, interval=timedelta(seconds=90), streams=("x", "y")
    )


def test_an_empty_table_is_enough_and_enabled_false_is_respected(tmp_path: Path) -> None:
    assert "auditor" in names(read(tmp_path, "[plugins.auditor]\n"))
    off = read(tmp_path, "[plugins.auditor]\nenabled = false\n[plugins.token_cleaner]\nenabled = false\n")
    assert names(off) == [name for name in BUILTIN if name != "token_cleaner"]
    assert Found(name="token_cleaner") in off.other_plugins


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("prefix", "b-", "b-"),
        ("strict", "true", True),
        ("keep", "9", 9),
        ("ratio", "0.25", 0.25),
        ("ratio", "2", 2.0),
        ("interval", "2 s", timedelta(seconds=2)),
        ("streams", '["x", "y, z"]', ("x", "y, z")),
        ("streams", "[]", ()),
    ],
)
def test_the_environment_overrides_a_key_of_every_kind(tmp_path: Path, key: str, text: str, value: object) -> None:
    node = read(
        tmp_path, '[plugins.auditor]\nstreams = ["from the file"]\n', {f"LEVRIER_PLUGINS_AUDITOR_{key.upper()}": text}
    )
    assert getattr(settings(node, "auditor"), key) == value


@pytest.mark.parametrize(
    ("key", "text"), [("STREAMS", "x,y"), ("STREAMS", ""), ("STREAMS", '["x", 1]'), ("RATIO", "half")]
)
def test_a_variable_of_another_kind_is_refused_with_what_is_expected(tmp_path: Path, key: str, text: str) -> None:
    expected = {"STREAMS": r'a list of texts such as \["a", "b"\] is expected', "RATIO": "a number is expected"}[key]
    with pytest.raises(ConfigError, match=f"LEVRIER_PLUGINS_AUDITOR_{key}.*{expected}"):
        read(tmp_path, "[plugins.auditor]\n", {f"LEVRIER_PLUGINS_AUDITOR_{key}": text})


def test_iggys_own_keys_set_what_comes_with_it(tmp_path: Path) -> None:
    """Maintenance 0."""
    text = """
[personal_access_token.cleaner]
interval = "5 m"
[heartbeat]
enabled = false
[consumer_group]
rebalancing_timeout = "10 s"
[system.sharding]
reconcile_periodic_interval = "2 s"
"""
    node = read(tmp_path, text)
    assert names(node) == ["partition_reconciler", "revocation_completer", "token_cleaner"]
    assert settings(node, "token_cleaner").interval == timedelta(minutes=5)
    assert settings(node, "revocation_completer").rebalancing_timeout == timedelta(seconds=10)
    assert settings(node, "partition_reconciler").interval == timedelta(seconds=2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[plugins.auditr]", r"plugins\.auditr: no plugin of that name is installed; did you mean auditor\?"),
        ("[plugins.auditor]\nprefiks = 'x'", r"plugins\.auditor\.prefiks is no setting.*plugins\.auditor\.prefix"),
        ("[plugins.auditor]\nkeep = 'x'", r"plugins\.auditor\.keep 'x': a whole number is expected"),
        ("[plugins.auditor]\nkeep = -1", r"plugins\.auditor\.keep -1: a whole number is expected"),
        ("[plugins.auditor]\nratio = true", r"plugins\.auditor\.ratio True: a number is expected"),
        ("[plugins.auditor]\nstreams = 'x'", r"plugins\.auditor\.streams 'x': a list of texts such as"),
        ("[plugins.auditor]\ninterval = 5", r"plugins\.auditor\.interval 5: a duration"),
        ("[plugins.auditor]\ninterval = '1 ms'", r"plugins\.auditor\.interval .*100 ms or more"),
        ("[plugins.auditor]\nenabled = 'yes'", r"plugins\.auditor\.enabled 'yes': true or false is expected"),
        ("[plugins.auditor]\nprefix = ''", r"plugins\.auditor: prefix is empty"),
        ("[plugins.rusty]", r"plugins\.rusty: the plugin cannot be loaded: ImportError"),
        ("[plugins]\nauditor = true", r"plugins\.auditor is a table of settings"),
        (
            "[plugins.token_cleaner]\ninterval = '1 m'\n[personal_access_token.cleaner]\ninterval = '2 m'",
            r"personal_access_token\.cleaner\.interval and plugins\.token_cleaner\.interval are both set",
        ),
        (
            "[plugins.partition_reconciler]\ninterval = '1 m'",
            r"plugins\.partition_reconciler: interval .* at most 30 s",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_name(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(tmp_path, text)


def test_a_plugin_is_listed_once() -> None:
    setup = PluginSetup(plugin=Auditor, settings=AuditSettings())
    with pytest.raises(ConfigError, match="auditor is listed twice"):
        NodeConfig(plugins=(setup, setup))


@dataclass(frozen=True)
class Odd:
    """A setting of a kind that no file can write."""

    things: dict[str, int] | None = None


@dataclass(frozen=True)
class Bare:
    """A setting without a default."""

    needed: str


@dataclass(frozen=True)
class Hiding:
    """A setting that the file could never set: every table has a key of that name."""

    enabled: bool = True


@dataclass(frozen=True)
class Seconds:
    """An interval that is no duration."""

    interval: float = 1.0


def plugin_of(**attributes: object) -> type[Plugin[Any]]:
    """A plugin class with these attributes."""
    return type("Made", (Plugin,), {"name": "made", **attributes})


def _on_commit(self: Plugin[NoSettings], ctx: Context, notice: Notice) -> None:
    """Be told of commits."""


def _on_tick(self: Plugin[NoSettings], ctx: Context) -> None:
    """Be ticked."""


@pytest.mark.parametrize(
    ("loaded", "words"),
    [
        (object(), "no subclass"),
        (dict, "no subclass"),
        (plugin_of(name="other"), "named 'other'"),
        (plugin_of(settings_type=int), "no dataclass"),
        (plugin_of(settings_type=Odd), "setting things"),
        (plugin_of(settings_type=Bare), "no default"),
        (plugin_of(settings_type=Hiding), "setting enabled"),
        (plugin_of(settings_type=Seconds), "setting interval"),
        (plugin_of(on_commit=_on_commit), "watches nothing"),
        (plugin_of(on_tick=_on_tick), "no setting interval"),
    ],
)
def test_a_class_that_cannot_run_is_refused_with_the_reason(loaded: object, words: str) -> None:
    with pytest.raises(PluginInvalid, match=words):
        checked(EntryPoint(name="made", value="made:Made", group="levrier.plugins"), loaded)


def test_a_class_that_can_run_is_taken() -> None:
    made = plugin_of(on_commit=_on_commit, watches=frozenset({Operation.CREATE_STREAM}))
    assert checked(EntryPoint(name="made", value="made:Made", group="levrier.plugins"), made) is made


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """What is installed, as the test says."""
    found: list[EntryPoint] = []
    monkeypatch.setattr(found_plugins, "entry_points", lambda group: found if group == "levrier.plugins" else [])
    return found


def test_one_that_cannot_be_loaded_keeps_no_other_from_being_found(points: list[EntryPoint]) -> None:
    group = "levrier.plugins"
    points += [
        EntryPoint(name="gone", value="there_is.no_such_module:Plugin", group=group),
        EntryPoint(name="auditor", value=f"{__name__}:Auditor", group=group),
        EntryPoint(name="token_cleaner", value=f"{__name__}:Auditor", group=group),
    ]
    found = installed()
    assert sorted(found.plugins) == ["auditor", *BUILTIN]
    assert sorted(found.broken) == ["gone", "token_cleaner"]
    assert "there_is" in found.broken["gone"]
    assert "two plugins" in found.broken["token_cleaner"]


def test_a_server_of_a_test_refuses_a_plugin_that_nobody_installed() -> None:
    with pytest.raises(ConfigError, match=r"plugins\.token_cleanr.*did you mean token_cleaner\?"):
        Server(plugins={"token_cleanr": {}})
    with pytest.raises(ConfigError, match=r"plugins\.token_cleaner\.interval 5: a duration"):
        Server(plugins={"token_cleaner": {"interval": 5}})
