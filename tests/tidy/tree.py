"""The repository as the tidy tests see it: its python files, parsed once."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("wire", "persistence", "actors", "cluster")


def sources(*packages: str) -> list[Path]:
    """Every python file below the given top-level folders, sorted."""
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


@cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of one file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports(path: Path) -> Iterator[str]:
    """Full names of the modules that a file imports, type-checking imports included."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
