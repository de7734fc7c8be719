"""Many seeds: in this process or spread over several, in an order that no seed's verdict depends on."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from multiprocessing import get_context

from levrier.cluster.simulate.run import Settings, Verdict, play
from levrier.cluster.simulate.watch import Counts

_AHEAD = 4
"""Seeds handed to each process before their verdicts are back."""


@dataclass(slots=True)
class Totals:
    """The sums of all seeds so far."""

    seeds: int = 0
    passed: int = 0
    failed: list[int] = field(default_factory=list)
    operations: int = 0
    counts: Counts = field(default_factory=Counts)
    virtual_hours: float = 0.0

    def add(self, verdict: Verdict) -> None:
        """One more seed."""
        self.seeds += 1
        if verdict.rule is None:
            self.passed += 1
        else:
            self.failed.append(verdict.seed)
        self.operations += verdict.operations
        self.counts.add(verdict.counts)
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
