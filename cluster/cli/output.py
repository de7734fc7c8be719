"""How the command line speaks: tables or JSON on stdout, everything else on stderr, exit statuses of D-36."""

import json
import sys
from collections.abc import Mapping, Sequence
from enum import IntEnum

from rich.console import Console
from rich.table import Table

Row = Mapping[str, object]


class Exit(IntEnum):
    """Exit statuses of a command; those of a node are `levrier.actors.runtime.ExitStatus`."""

    GOOD = 0
    BAD = 1
    """The question was answered, and the answer is no: refused, not found, damaged."""
    COULD_NOT_ASK = 2
    """Nobody answered, or the command was misused."""


class CommandFailed(Exception):
    """A command ends here, with a message for a person and an exit status."""

    def __init__(self, message: str, status: Exit = Exit.BAD) -> None:
        super().__init__(message)
        self.status = status


def print_rows(rows: Sequence[Row], *, as_json: bool, empty: str) -> None:
    """A table with one column for each key of the first row; or a JSON array. `empty` is said when there is no row."""
    if as_json:
        print_json(list(rows))
        return
    if not rows:
        sys.stdout.write(f"{empty}\n")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0]:
        numeric = isinstance(rows[0][name], int) and not isinstance(rows[0][name], bool)
        table.add_column(name.replace("_", " "), justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(cell(value) for value in row.values()))
    _console().print(table)


def print_record(record: Row, *, as_json: bool) -> None:
    """One thing, a line for each field; or a JSON object."""
    if as_json:
        print_json(record)
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in record.items():
        table.add_row(name.replace("_", " "), cell(value))
    _console().print(table)


def print_done(message: str, what: Row, *, as_json: bool) -> None:
    """Something was done that has no answer of its own: a sentence; or a JSON object that names it."""
    if as_json:
        print_json(what)
    else:
        sys.stdout.write(f"{message}\n")


def print_json(value: object) -> None:
    """JSON on stdout, one document, ending in a newline."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def say(message: str) -> None:
    """A line for the person at the terminal: on stderr, so that stdout stays what was asked for."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def cell(value: object) -> str:
    """A value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _console() -> Console:
    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=240, no_color=True, highlight=False)
