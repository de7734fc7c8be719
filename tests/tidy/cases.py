"""The acceptance cases: which there are, which tests prove them, and the table `tests/CASES.md`.

A test proves a case by naming it in its own docstring (`C-148`, or `C-148 to C-150`) or in its name (`test_c148_...`).
`python -m tests.tidy.cases` writes the table anew: it keeps the reasons of cases that still wait.
"""

import ast
import re
import sys
from pathlib import Path

from tests.tidy.tree import ROOT, parse, sources

TABLE = ROOT / "tests" / "CASES.md"
BUGS_MISSING = {2, 14, 20, 24, 31, 39}
CASES = [
    *(f"C-{number:03}" for number in range(1, 279)),
    *(f"S-{number:03}" for number in range(1, 178)),
    *(f"BR-{number:02}" for number in range(1, 56) if number not in BUGS_MISSING),
    *(f"A-{number:03}" for number in range(1, 17)),
    *(f"B-{number:03}" for number in range(1, 17)),
]
_CITATION = re.compile(r"\b(?:C-\d{3}|S-\d{3}|BR-\d{2}|A-\d{3}|B-\d{3})\b")
_RANGE = re.compile(r"\b([A-Z]+)-(\d+) to \1-(\d+)\b")
_NAMED = re.compile(r"_(c|s|br|a|b)_?(\d{2,3})(?=_|$)")
_ROW = re.compile(r"^\| (?P<case>[A-Z]+-\d+) \| (?P<text>.*) \|$")
WAITS = "waits: "


def citations() -> dict[str, list[str]]:
    """Case -> the tests that cite it, as `file::test`, in order."""
    found: dict[str, list[str]] = {}
    for path in sources("tests"):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                named = {f"{kind.upper()}-{number}" for kind, number in _NAMED.findall(node.name)}
                for case in sorted(named | _cited(ast.get_docstring(node) or "")):
                    name = f"{path.relative_to(ROOT / 'tests')}::{node.name}"
                    found.setdefault(case, []).append(name)
    return found


def _cited(text: str) -> set[str]:
    """Cases in running text; `S-076 to S-079` names four."""
    ranges = (
        f"{kind}-{number:0{len(first)}}"
        for kind, first, last in _RANGE.findall(text)
        for number in range(int(first), int(last) + 1)
    )
    return {*_CITATION.findall(text), *ranges}


def rows(table: Path = TABLE) -> dict[str, str]:
    """Case -> the text of its row."""
    matches = (_ROW.match(line) for line in table.read_text(encoding="utf-8").splitlines())
    return {match["case"]: match["text"] for match in matches if match}


def render(proven: dict[str, list[str]], old: dict[str, str]) -> str:
    """The table: proving tests for each case, or the kept reason why it waits."""
    lines = [
        "# Acceptance cases",
        "",
        "Each case of the specification, the tests that prove it, or the reason why it waits. Written by",
        "`python -m tests.tidy.cases`; a test compares it with the suite.",
        "",
        f"{sum(case in proven for case in CASES)} of {len(CASES)} cases are proven.",
        "",
        "| case | proven by |",
        "|---|---|",
    ]
    for case in CASES:
        kept = old.get(case, "")
        text = ", ".join(f"`{test}`" for test in proven.get(case, [])) or (kept if kept.startswith(WAITS) else WAITS)
        lines.append(f"| {case} | {text} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TABLE.write_text(render(citations(), rows() if TABLE.exists() else {}), encoding="utf-8")
    sys.stdout.write(f"wrote {TABLE}\n")
