"""How a test runs a command line and looks at what it said."""

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

from levrier.cluster.cli.app import run

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended, and what it said where."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What stands on stdout, without colours and without the blanks that fill a column."""
        return [line.rstrip() for line in _COLOUR.sub("", self.out).splitlines()]

    @property
    def complaint(self) -> str:
        """The one sentence on stderr of a command that failed; stdout has to be empty then."""
        assert self.out == ""
        assert self.err.startswith("levrier: ")
        assert self.err.count("\n") == 1
        return self.err.removeprefix("levrier: ").rstrip("\n")


class CommandLine:
    """Made by the fixture `levrier`."""

    def __init__(self, capsys: pytest.CaptureFixture[str], address: str) -> None:
        self._capsys = capsys
        self.address = address

    def __call__(self, *arguments: str) -> Ran:
        """Run it."""
        self._capsys.readouterr()
        status = run(list(arguments))
        out, err = self._capsys.readouterr()
        return Ran(status=status, out=out, err=err)

    def ask(self, *arguments: str) -> Ran:
        """Run it against the node of the tests."""
        return self(*arguments, "--connect", self.address)

    def read(self, *arguments: str) -> Any:
        """What it answers in JSON; it has to succeed and say nothing else."""
        ran = self.ask(*arguments, "--json")
        assert (ran.status, ran.err) == (0, "")
        return json.loads(ran.out)
