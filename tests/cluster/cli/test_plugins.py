"""`levrier plugins`, and what `levrier status` says of plugins in trouble."""

from tests.cluster.cli.running import CommandLine

NAMES = ["partition_reconciler", "revocation_completer", "stale_session_sweeper", "token_cleaner"]


def test_each_plugin_has_a_row(levrier: CommandLine) -> None:
    lines = levrier.ask("plugins").lines
    assert lines[0].split() == ["plugin", "state", "restarts", "committed", "waiting", "last", "error", "metrics"]
    assert [line.split()[:2] for line in lines[1:]] == [[name, "running"] for name in NAMES]


def test_json_says_more(levrier: CommandLine) -> None:
    found = levrier.read("plugins")
    assert [plugin["name"] for plugin in found] == NAMES
    assert {"blocked", "notices_dropped", "refused", "metrics"} <= found[0].keys()
    assert levrier.read("status")["details"]["plugins"][0]["name"] == NAMES[0]


def test_the_status_is_silent_about_plugins_that_run(levrier: CommandLine) -> None:
    assert "plugin" not in levrier.ask("status").err


def test_the_help_has_an_example(levrier: CommandLine) -> None:
    assert "levrier plugins --json" in levrier("plugins", "--help").out
