"""What somebody does who writes a plugin: install its package, run its tests, use the command line with it."""

import os
import subprocess
import sys
from pathlib import Path

USER_SECONDS = 120.0


def with_site(site: Path) -> dict[str, str]:
    """The part of the environment that makes what is installed in `site` be found."""
    return {"PYTHONPATH": f"{site}:{os.environ.get('PYTHONPATH', '')}"}


def run(*arguments: str, site: Path, cwd: Path) -> str:
    """Run Python with these arguments; what it printed. AssertionError, with what it said, when it fails."""
    ended = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=USER_SECONDS,
        cwd=cwd,
        check=False,
        env={**os.environ, **with_site(site)},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def levrier(*arguments: str, site: Path, cwd: Path) -> str:
    """Run the command line of levrier; what it printed."""
    return run("-m", "levrier.cluster", *arguments, site=site, cwd=cwd)


def install(folder: Path, site: Path) -> None:
    """Install the package in `folder`, with pip and without the network. The folder gets build files: give a copy."""
    flags = ("--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--no-index")
    run("-m", "pip", "install", *flags, "--target", str(site), str(folder), site=site, cwd=folder.parent)
