"""The table of a cluster's nodes, as `levrier status` prints it and `levrier dev` keeps it up to date."""

from collections.abc import Sequence
from typing import Final

from rich.table import Table
from rich.text import Text

from levrier.cluster.cli.output import cell
from levrier.cluster.standing import FIELDS, Row

SHOWN: Final = tuple(name for name in FIELDS if name not in {"waiting", "waiting_for"})
_HEADINGS: Final = {"replica": "#", "reachable": "up"}
"""Where the field's own name is wider than all that stands below it: a terminal of 80 columns holds the whole table."""

_NOTHING: Final = "-"
_NUMBERS: Final = frozenset({"replica", "pid", "view", "op", "commit", "applied", "checkpoint", "lag"})
_PRIMARY: Final = "bold green"
_LOST: Final = "red"
_BEHIND: Final = "yellow"


def standing_table(rows: Sequence[Row], *, primary: int | None) -> Table:
    """One line for each node. `primary` is the index of the one that serves."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    shown = [name for name in SHOWN if name != "http" or any(cell(row[name]) != _NOTHING for row in rows)]
    for name in shown:
        heading = _HEADINGS.get(name, name)
        table.add_column(heading, justify="right" if name in _NUMBERS else "left", no_wrap=True)
    for index, row in enumerate(rows):
        table.add_row(*(_cell(name, row, leads=index == primary) for name in shown))
    return table


def _cell(name: str, row: Row, *, leads: bool) -> Text:
    text = cell(row[name])
    if not row["reachable"]:
        return Text(text, style=_LOST)
    if name == "lag" and row["lag"]:
        return Text(text, style=_BEHIND)
    if name == "role" and row["waiting"]:
        return Text(text, style=_BEHIND)
    return Text(text, style=_PRIMARY if leads and name in {"replica", "role"} else "")
