"""`--help` of every command: an example to copy, and no column that takes a flag for an option with a value."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer

from levrier.cluster.cli.app import command_line
from tests.cluster.cli.running import CommandLine

_PYTHON_TYPE = re.compile(r"<(bool|str|int|float)\b")


def _paths(group: typer.Typer, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command that does something."""
    for command in group.registered_commands:
        assert command.name is not None
        yield (*before, command.name)
    for sub in group.registered_groups:
        assert sub.typer_instance is not None
        assert sub.name is not None
        yield from _paths(sub.typer_instance, (*before, sub.name))


@pytest.mark.parametrize("path", list(_paths(command_line())), ids=" ".join)
def test_help_has_an_example_and_names_what_an_option_takes(levrier: CommandLine, path: tuple[str, ...]) -> None:
    """A flag takes nothing; a value has a name, not the name of a type of Python."""
    ran = levrier(*path, "--help")
    assert ran.status == 0
    assert "Example" in "\n".join(ran.lines)
    ours = [line for line in ran.lines if " --" in line and "--help" not in line]
    assert not [line for line in ours if _PYTHON_TYPE.search(line)]


def test_a_command_that_asks_loads_neither_the_node_nor_the_simulator() -> None:
    """Its user waits for what is loaded."""
    look = (
        "import sys; from levrier.cluster.cli.app import command_line; command_line('streams'); "
        "print(*[name for name in sys.modules if name.startswith('levrier.')])"
    )
    ran = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    loaded = ran.stdout.split()
    assert "levrier.cluster.cli.catalogue" in loaded
    assert [name for name in loaded if name.startswith(("levrier.actors.", "levrier.cluster.simulate"))] == []
