"""Small and in the open: functions up to 70 lines, modules up to 600 (style 10); names that say where a thing is."""

import ast
from pathlib import Path

import pytest

from tests.tidy.tree import PACKAGES, ROOT, parse, sources

FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 600
EMPTY_WORDS = {"utils", "util", "common", "manager", "helpers", "misc"}

EVERYTHING = sources(*PACKAGES, "tests")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", EVERYTHING, ids=_name)
def test_a_module_is_one_thing(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MODULE_LINES_MAX
    assert path.stem not in EMPTY_WORDS


@pytest.mark.parametrize("path", EVERYTHING, ids=_name)
def test_a_function_fits_on_a_page(path: Path) -> None:
    long = [
        f"{node.name}: {(node.end_lineno or 0) - node.lineno + 1} lines"
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert long == []


@pytest.mark.parametrize("path", [path for path in sources(*PACKAGES) if path.name != "__init__.py"], ids=_name)
def test_a_module_says_what_it_owns(path: Path) -> None:
    assert ast.get_docstring(parse(path))


@pytest.mark.parametrize("path", EVERYTHING, ids=_name)
def test_nothing_is_left_to_do(path: Path) -> None:
    if path == Path(__file__):
        return
    text = path.read_text(encoding="utf-8")
    assert [word for word in ("TODO", "FIXME", "XXX", "HACK") if word in text] == []
