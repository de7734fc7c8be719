"""Which levrier this is."""

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str:
    try:
        return version("levrier")
    except PackageNotFoundError:
        return "0.0.0"


VERSION = _installed()
