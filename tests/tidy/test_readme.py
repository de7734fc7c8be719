"""The README's table of actors names every message that an actor may be told."""

import importlib
import re
from typing import get_args

import pytest

from tests.tidy.tree import ROOT

ACTORS = {
    "Bus": ("bus", ("Command", "ReplicaCommand")),
    "ClientTable": ("client_table", ("Command",)),
    "Consensus": ("consensus", ("Command",)),
    "Journal": ("journal", ("Command",)),
    "Metadata": ("metadata", ("Command",)),
    "Superblock": ("superblock", ("Command",)),
    "Checkpoint": ("checkpoint", ("Command",)),
    "StateTransfer": ("state_transfer", ("Command",)),
    "Birth": ("birth", ("Command",)),
    "Acknowledgements": ("acknowledgements", ("Command",)),
    "Plugins": ("plugins", ("Command",)),
}


def told(package: str, unions: tuple[str, ...]) -> list[str]:
    """Names of the messages of an actor, in the order of its protocol."""
    module = importlib.import_module(f"levrier.actors.{package}.messages")
    return [message.__name__ for union in unions for message in get_args(getattr(module, union))]


@pytest.mark.parametrize("actor", ACTORS)
def test_the_readme_names_every_message(actor: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [row] = [line for line in readme.splitlines() if line.startswith(f"| {actor} |")]
    assert re.findall(r"`(\w+)`", row) == told(*ACTORS[actor])


def test_every_actor_with_a_protocol_has_a_row() -> None:
    folders = {path.parent.name for path in (ROOT / "actors").glob("*/messages.py")}
    assert folders == {package for package, _ in ACTORS.values()}
