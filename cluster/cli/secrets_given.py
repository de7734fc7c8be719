"""Where a command line gets a secret from: an option, a file, the environment, or a person at the terminal.

On the command line other users of the machine can read a secret, so no command requires it there. A file may end in one
line break that does not count; `-` is stdin.
"""

import os
import sys
from dataclasses import dataclass
from typing import Final

import typer

from levrier.cluster.cli.output import CommandFailed, Exit
from levrier.wire.names import PASSWORD_SIZE_MAX, PASSWORD_SIZE_MIN, is_valid_password

_FILE_SIZE_MAX: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSource:
    """One secret of a command: what it is called, and the option that names it; its file is named by `<option>-file`."""

    what: str
    option: str
    variable: str
    confirmed: bool = False

    def read(self, given: str | None, file: str | None, *, typed: frozenset[str]) -> str:
        """The secret. What is `typed` goes before the environment. Raises `CommandFailed`."""
        found = self.find(given, file, typed=typed)
        if found is not None:
            return found
        if not sys.stdin.isatty():
            raise CommandFailed(
                f"no {self.what}: name a file with {self.option}-file (- is stdin), set {self.variable}, "
                "or run the command in a terminal to be asked",
                Exit.COULD_NOT_ASK,
            )
        return str(typer.prompt(self.what, hide_input=True, confirmation_prompt=self.confirmed, err=True))

    def find(self, given: str | None, file: str | None, *, typed: frozenset[str]) -> str | None:
        """The secret without asking a person, None when it is nowhere. Raises `CommandFailed`."""
        if file is None:
            return given
        if given is not None and parameter(self.option) in typed:
            raise CommandFailed(f"{self.option} and {self.option}-file: use one of them", Exit.COULD_NOT_ASK)
        return self._from_file(file)

    def _from_file(self, file: str) -> str:
        try:
            text = read_text(file, size_max=_FILE_SIZE_MAX)
        except (OSError, ValueError) as error:
            raise CommandFailed(f"{self.option}-file {file}: {reason(error)}", Exit.COULD_NOT_ASK) from error
        secret = text.removesuffix("\n").removesuffix("\r")
        if not secret:
            raise CommandFailed(f"{self.option}-file {file}: it is empty", Exit.COULD_NOT_ASK)
        return secret


def parameter(option: str) -> str:
    """The parameter of a command that an option fills: `--new-password` is `new_password`."""
    return option.removeprefix("--").replace("-", "_")


def read_text(file: str, *, size_max: int) -> str:
    """The text of a file, or of stdin for `-`. Raises `OSError`, and `ValueError` for one that is too large or no text."""
    if file == "-":
        data = sys.stdin.buffer.read(size_max + 1)
    else:
        with open(file, "rb") as opened:
            data = opened.read(size_max + 1)
    if len(data) > size_max:
        raise ValueError(f"larger than {size_max} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError("not a text in UTF-8") from error


def reason(error: OSError | ValueError) -> str:
    """Why something about a file failed, in the words of the system where it has some."""
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    return str(error)


def checked_password(password: str) -> str:
    """A password that a node takes. Raises `CommandFailed`."""
    if not is_valid_password(password):
        raise CommandFailed(
            f"a password has {PASSWORD_SIZE_MIN} to {PASSWORD_SIZE_MAX} bytes, this one has "
            f"{len(password.encode(errors='replace'))}",
            Exit.COULD_NOT_ASK,
        )
    return password
