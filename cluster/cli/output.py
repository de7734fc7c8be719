"""How the command line speaks: tables or JSON on stdout, everything else on stderr, exit statuses of D-36."""

import io
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final

from rich.console import Console
from rich.table import Table

Row = Mapping[str, object]

PIPED_WIDTH: Final = 1_000
"""Columns where no terminal sets a limit: no line is folded for a program that reads them."""

_SIZE_UNITS: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_TIME_UNITS: Final = (
    ("days", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
)


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


class Quantity(int):
    """A number that tables show in words a person reads and JSON as the number it is."""

    def shown(self) -> str:
        """As a table shows it."""
        raise NotImplementedError


class Instant(Quantity):
    """Microseconds since 1970; 0 is never."""

    def shown(self) -> str:
        """ISO 8601 in UTC, to the microsecond."""
        if not self:
            return "-"
        seconds, micros = divmod(self, 1_000_000)
        try:
            moment = datetime.fromtimestamp(seconds, UTC)
        except (ValueError, OverflowError, OSError):
            return f"{int(self)} us"  # No date that a calendar has: a damaged or foreign value, shown as it is.
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{micros:06d}Z"


class Size(Quantity):
    """Bytes."""

    def shown(self) -> str:
        """In the largest unit that divides it, as an option is written: `10GiB`."""
        return _in_units(self, _SIZE_UNITS, "")


class Duration(Quantity):
    """Microseconds."""

    def shown(self) -> str:
        """In the largest unit that divides it, as an option is written: `7days`."""
        return _in_units(self, _TIME_UNITS, "us")


def _in_units(number: int, units: Sequence[tuple[str, int]], smallest: str) -> str:
    for name, size in units:
        if number and number % size == 0:
            return f"{number // size}{name}"
    return f"{int(number)}{smallest}"


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
        numeric = _is_number(rows[0][name])
        table.add_column(
            name.replace("_", " "), justify="right" if numeric else "left", no_wrap=numeric, overflow="fold"
        )
    for row in rows:
        table.add_row(*(cell(value) for value in row.values()))
    print_table(table)


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
    print_table(table)


def print_done(message: str, what: Row, *, as_json: bool) -> None:
    """Something was done that has no answer of its own: a sentence; or a JSON object that names it."""
    if as_json:
        print_json(what)
    else:
        sys.stdout.write(f"{message}\n")


def print_json(value: object) -> None:
    """JSON on stdout, one document, ending in a newline."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def say(message: str) -> None:
    """A line for the person at the terminal: on stderr, so that stdout stays what was asked for."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def cell(value: object) -> str:
    """A value as a table shows it; what is unknown or empty is a dash. What would steer a terminal is written out."""
    if value is None or value in ("", (), []):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Quantity):
        return value.shown()
    if isinstance(value, list | tuple):
        return ", ".join(cell(item) for item in value)
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool | Instant)


def print_table(table: Table) -> None:
    """Print it on stdout. Names come from outside: none of them is read as markup. No piped line ends in blanks."""
    terminal = Console(markup=False, emoji=False, highlight=False)
    if terminal.is_terminal:
        natural = terminal.measure(table, options=terminal.options.update(width=PIPED_WIDTH)).maximum
        table.collapse_padding = natural > terminal.width
        terminal.print(table)
        return
    text = io.StringIO()
    Console(file=text, width=PIPED_WIDTH, no_color=True, markup=False, emoji=False, highlight=False).print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines()))
