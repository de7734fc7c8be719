"""What the garbage collector costs a node: it holds every thread, so it never walks much at a time."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WALKED_MAX = 10_000
"""Objects; each costs about a microsecond."""

GROWING_CATALOGUE = """
import gc
from levrier.cluster.cli.serve import tame_collector

tame_collector()
walked = 0

def note(phase, details):
    global walked
    if phase == "start":
        walked = max(walked, sum(len(gc.get_objects(each)) for each in range(details["generation"] + 1)))

gc.callbacks.append(note)
kept = [[number] for number in range(400_000)]
print(walked)
"""


def test_no_collection_walks_much_while_a_catalogue_grows() -> None:
    """What is kept is never walked all at once, however much of it there is."""
    command = [sys.executable, "-c", GROWING_CATALOGUE]
    walked = int(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, timeout=60).stdout)
    assert 0 < walked <= WALKED_MAX
