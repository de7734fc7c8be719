"""Many seeds: in this process or spread over several, in an order that no seed's verdict depends on."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from multiprocessing import get_context

from levrier.cluster.simulate.run import Settings, Verdict, play

_AHEAD = 4
"""Seeds handed to each process before their verdicts are back."""


@dataclass(slots=True)
class Totals:
    """The sums of all seeds so far."""

    seeds: int = 0
    passed: int = 0
    failed: list[int] = field(default_factory=list)
    operations: int = 0
    commits: int = 0
    crashes: int = 0
    view_changes: int = 0
    checkpoints: int = 0
    transfers: int = 0
    sweeps: int = 0
    completions: int = 0
    archive_bytes_max: int = 0
    disk_bytes_max: int = 0
    virtual_hours: float = 0.0

    def add(self, verdict: Verdict) -> None:
        """One more seed."""
        counts = verdict.counts
        self.seeds += 1
        if verdict.rule is None:
            self.passed += 1
        else:
            self.failed.append(verdict.seed)
        self.operations += verdict.operations
        self.commits += counts.commits
        self.crashes += counts.crashes
        self.view_changes += counts.view_changes
        self.checkpoints += counts.checkpoints
        self.transfers += counts.transfers
        self.sweeps += counts.sweeps
        self.completions += counts.completions
        self.archive_bytes_max = max(self.archive_bytes_max, counts.archive_bytes_max)
        self.disk_bytes_max = max(self.disk_bytes_max, counts.disk_bytes_max)
        self.virtual_hours += verdict.virtual_seconds / 3600


def verdicts(
    seeds: Sequence[int],
    settings: Settings,
    *,
    jobs: int,
    prepare: Callable[[], object],
    keep_events: bool = False,
) -> Iterator[Verdict]:
    """The verdict of each seed as it comes in. `prepare` is called once in each process that simulates."""
    one = partial(_judged, settings=settings, keep_events=keep_events)
    if jobs == 1 or len(seeds) == 1:
        prepare()
        yield from map(one, seeds)
        return
    waiting = iter(seeds)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=prepare) as pool:
        running = {pool.submit(one, seed) for seed in islice(waiting, jobs * _AHEAD)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {pool.submit(one, seed) for seed in islice(waiting, len(done))}
            yield from sorted((each.result() for each in done), key=lambda verdict: verdict.seed)


def _judged(seed: int, settings: Settings, *, keep_events: bool) -> Verdict:
    """A seed that passed has nothing to tell, unless somebody wants to hear it."""
    verdict = play(seed, settings)
    return verdict if keep_events or verdict.rule is not None else replace(verdict, events=())
