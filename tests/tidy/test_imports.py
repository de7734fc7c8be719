"""Imports run one way, and only the places that may know a thing import it (design 2, style 1 to 4)."""

import ast
from pathlib import Path

import pytest

from tests.tidy.tree import PACKAGES, ROOT, imports, parse, sources

LAYERS = {name: rank for rank, name in enumerate(PACKAGES)}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", sources(*PACKAGES), ids=_name)
def test_imports_run_from_cluster_down_to_wire(path: Path) -> None:
    own = LAYERS[path.relative_to(ROOT).parts[0]]
    above = [
        name
        for name in imports(path)
        if name.startswith("levrier.") and LAYERS.get(name.split(".")[1], len(LAYERS)) > own
    ]
    assert above == []


@pytest.mark.parametrize("path", sources("actors"), ids=_name)
def test_an_actor_knows_of_another_actor_only_its_messages(path: Path) -> None:
    parts = path.relative_to(ROOT).parts
    own = parts[1] if len(parts) > 2 else ""
    foreign = [
        name
        for name in imports(path)
        if name.startswith("levrier.actors.")
        and name.split(".")[2] not in (own, "runtime")
        and name.split(".")[3:4] != ["messages"]
        and not (len(name.split(".")) == 3 and f"{name}.messages" in set(imports(path)))
    ]
    assert foreign == []


@pytest.mark.parametrize("path", sources(*PACKAGES), ids=_name)
def test_only_actors_and_the_runtime_import_pykka(path: Path) -> None:
    allowed = path.name == "actor.py" or "runtime" in path.parts
    assert allowed or not any(name.split(".")[0] == "pykka" for name in imports(path))


WORLD = {"threading", "asyncio", "socket", "time", "random", "os", "datetime", "secrets", "selectors", "subprocess"}
MAY_KNOW = {
    "persistence/storage.py": {"os"},
    "persistence/simulated_storage.py": {"random"},
    "actors/bus/sockets.py": {"asyncio", "socket"},
    "actors/bus/transport.py": {"asyncio"},
    "actors/bus/replica_transport.py": {"asyncio", "socket"},
    "actors/bus/tls_door.py": {"asyncio", "socket"},
}


@pytest.mark.parametrize("path", sources("wire", "persistence", "actors"), ids=_name)
def test_only_the_doors_to_the_world_import_it(path: Path) -> None:
    if "runtime" in path.parts:
        return
    found = {name.split(".")[0] for name in imports(path)} & WORLD
    if {name for name in imports(path) if name.startswith("datetime")} == {"datetime", "datetime.timedelta"}:
        found.discard("datetime")  # A length of time is no clock.
    assert found <= MAY_KNOW.get(_name(path), set())


@pytest.mark.parametrize("path", sources("actors"), ids=_name)
def test_no_handler_waits_for_another_actor(path: Path) -> None:
    if "runtime" in path.parts:
        return
    waits = [
        f"line {node.lineno}: .{node.func.attr}()"
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (node.func.attr in {"ask", "proxy", "sleep"} or (node.func.attr == "get" and not node.args))
    ]
    assert waits == []


@pytest.mark.parametrize("path", sources(*PACKAGES), ids=_name)
def test_nothing_but_the_runtime_swallows_every_exception(path: Path) -> None:
    if "runtime" in path.parts:
        return
    broad = [
        node.lineno
        for node in ast.walk(parse(path))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}))
        and not _only_cleans_up(node)
    ]
    assert broad == []


def _only_cleans_up(handler: ast.ExceptHandler) -> bool:
    """It ends in a bare `raise`: nothing is swallowed."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None
