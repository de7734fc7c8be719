"""What is installed is what is here: an unlisted sub-package would be missing from a wheel."""

import tomllib

from tests.tidy.tree import PACKAGES, ROOT


def _project() -> dict[str, dict[str, object]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


def test_every_sub_package_is_listed() -> None:
    folders = sorted(
        "levrier." + ".".join(path.parent.relative_to(ROOT).parts)
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
    )
    tool = _project()["tool"]["setuptools"]
    assert isinstance(tool, dict)
    assert sorted(tool["packages"]) == folders


def test_every_top_package_is_typed() -> None:
    assert [package for package in PACKAGES if not (ROOT / package / "py.typed").exists()] == []


def test_every_dependency_has_a_lower_bound() -> None:
    project = _project()["project"]
    extras = project["optional-dependencies"]
    assert isinstance(extras, dict)
    everything = [*project["dependencies"], *(entry for entries in extras.values() for entry in entries)]  # type: ignore[misc]
    assert [entry for entry in everything if ">=" not in entry and not entry.startswith("levrier[")] == []
