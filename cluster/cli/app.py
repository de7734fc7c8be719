"""The command line: its commands, and how errors become a sentence and an exit status (D-36)."""

import typer

from levrier.cluster.boot import BootRefused
from levrier.cluster.cli import (
    bench,
    catalogue,
    clients,
    demo,
    dev,
    groups,
    history,
    inspect,
    node_facts,
    partitions,
    permissions,
    plugins,
    recover,
    serve,
    simulate,
    status,
    tokens,
    users,
)
from levrier.cluster.cli.asking import asks
from levrier.cluster.cli.complaints import complaint
from levrier.cluster.cli.output import CommandFailed, Exit, say
from levrier.cluster.client import ClientError, Disconnected
from levrier.cluster.config import ConfigError
from levrier.cluster.demo import DemoFailed
from levrier.cluster.dev import DevRefused
from levrier.cluster.process import NodeDidNotStart
from levrier.cluster.version import VERSION
from levrier.persistence.errors import DirectoryInUse, StorageError
from levrier.wire.errors import WireError

app = typer.Typer(
    name="levrier",
    help="A metadata node that speaks the Apache Iggy protocol: serve it, ask it, look into its files.",
    epilog="First steps: `levrier serve`, and in another terminal `levrier streams create orders`. The names of Iggy's own "
    "tool work too: stream, topic, partition, segment, consumer-group, user, pat, client, snapshot.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"levrier {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", metavar="", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """A metadata node that speaks the Apache Iggy protocol: serve it, ask it, look into its files."""


app.command("serve")(serve.serve)
asks(app, "status")(status.status)
asks(app, "history")(history.history)
for _name, _alias, _commands in (
    ("streams", "stream", catalogue.streams),
    ("topics", "topic", catalogue.topics),
    ("partitions", "partition", partitions.partitions),
    ("segments", "segment", partitions.segments),
    ("groups", "consumer-group", groups.groups),
    ("users", "user", users.users),
    ("permissions", None, permissions.permissions),
    ("tokens", "pat", tokens.tokens),
    ("clients", "client", clients.clients),
    ("cluster", None, node_facts.cluster),
):
    app.add_typer(_commands, name=_name)
    if _alias is not None:
        app.add_typer(_commands, name=_alias, hidden=True)  # The name in Iggy's own tool.
asks(app, "me")(clients.me)
asks(app, "plugins")(plugins.plugins)
asks(app, "stats")(node_facts.stats)
asks(app, "options")(node_facts.describe_options)
asks(app, "snapshot-file")(node_facts.snapshot_file)
asks(app, "snapshot", hidden=True)(node_facts.snapshot_file)
app.add_typer(inspect.inspect, name="inspect")
app.command("recover")(recover.recover)
asks(app, "bench", with_token=False)(bench.bench)
app.command("dev")(dev.dev)
app.command("demo")(demo.demo)
app.command("simulate")(simulate.simulate)


_STATUSES: tuple[tuple[type[Exception], Exit], ...] = (
    (ConfigError, Exit.COULD_NOT_ASK),
    (DirectoryInUse, Exit.COULD_NOT_ASK),
    (Disconnected, Exit.COULD_NOT_ASK),
    (DevRefused, Exit.COULD_NOT_ASK),
    (NodeDidNotStart, Exit.COULD_NOT_ASK),
    (DemoFailed, Exit.COULD_NOT_ASK),
    (WireError, Exit.COULD_NOT_ASK),
    (ClientError, Exit.BAD),
    (StorageError, Exit.BAD),
)
"""The status of each kind of error that a user can cause; the first that fits counts."""


def run(arguments: list[str]) -> int:
    """Run one command line; its exit status. Nothing a user can cause ends in a traceback."""
    try:
        app(arguments, prog_name="levrier")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(Exit.GOOD)
    except (CommandFailed, BootRefused) as error:
        say(f"levrier: {error}")
        return int(error.status)
    except tuple(kind for kind, _ in _STATUSES) as error:
        say(f"levrier: {complaint(error) if isinstance(error, ClientError) else error}")
        return int(next(status for kind, status in _STATUSES if isinstance(error, kind)))
    return int(Exit.GOOD)
