"""The partition reconciler: keeps the partition directories of this node equal to the committed catalogue (maintenance 2).

Level-triggered: each pass compares the whole catalogue with what is on the disk; a commit only says that a pass is due. A pass
that nothing happened since, and that had nothing to do, is skipped. Failures back off, creations and deletions apart.

It never deletes by a state that is not verified. A directory goes only while this node is settled (its state holds what its
log and its view hold), and only if the state is at least as new as the directory: one whose epoch is above the revision of
the catalogue was made by a state that this node has lost or not reached again, and stays.
"""

from collections import deque
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Final, NamedTuple, Protocol

from levrier.actors.plugins.api import Context, Notice, Plugin, Role, TooMany
from levrier.actors.plugins.messages import CommittedCatalogue
from levrier.actors.plugins.questions import Catalogue
from levrier.persistence.errors import StorageError
from levrier.persistence.partition_directories import PartitionKey
from levrier.wire.codes import Operation

SLICE_MAX: Final = 256
"""Directories that are made and removed in one go, so that the disk stays free for the log."""

PLAN_MAX: Final = 16_384
"""What one comparison finds at most; a catalogue of a million is not compared again for every slice."""

RELIST_NANOS: Final = 60_000_000_000
"""How long what is known of the disk is believed without looking again."""

SHARE_MAX: Final = 20
"""A pass is followed by a pause of at least this many times its own length."""

_SECOND: Final = 1_000_000_000
_BACK_OFF_MAX: Final = 60 * _SECOND
_LOUD_FAILURES: Final = 10


@dataclass(frozen=True, slots=True)
class Settings:
    """How often to compare by itself."""

    interval: timedelta = timedelta(seconds=1)

    def __post_init__(self) -> None:
        if not timedelta(0) < self.interval <= timedelta(seconds=30):
            raise ValueError(f"interval {self.interval}: more than 0 and at most 30 s are allowed")


class What(Enum):
    """What is done to a directory."""

    CREATE = "create"
    DELETE = "delete"


class Step(NamedTuple):
    """One thing to do."""

    what: What
    key: PartitionKey


class Plan(NamedTuple):
    """What a pass does, and how much it leaves: `ahead` directories of a newer state, `waiting` for anything else."""

    steps: tuple[Step, ...]
    ahead: tuple[PartitionKey, ...]
    waiting: int


class _Failure(NamedTuple):
    attempts: int
    retry_at: int


class Reconciler:
    """The core: what differs, what may be done about it, and when to try again. Times are monotonic nanoseconds."""

    def __init__(self) -> None:
        self._failures: dict[Step, _Failure] = {}

    @property
    def failing(self) -> int:
        """How many directories could not be made or removed."""
        return len(self._failures)

    def plan(
        self,
        target: Callable[[], Iterable[PartitionKey]],
        present: AbstractSet[PartitionKey],
        *,
        revision: int,
        is_settled: bool,
        now: int,
    ) -> Plan:
        """Compare the committed partitions at `revision` with the directories that are there.

        Walks step by step: operations on whole sets of a million would hold every other thread of the node meanwhile.
        """
        steps: list[Step] = []
        still_failing: dict[Step, _Failure] = {}
        different = matched = 0
        for key in target():
            if key in present:
                matched += 1
                continue
            different += 1
            self._consider(Step(What.CREATE, key), True, now, steps, still_failing)
        ahead = []
        for key in _surplus(target, present) if matched < len(present) else ():
            if key.epoch > revision:
                ahead.append(key)
                continue
            different += 1
            self._consider(Step(What.DELETE, key), is_settled, now, steps, still_failing)
        self._failures = still_failing
        return Plan(tuple(steps), tuple(ahead), different - len(steps))

    def succeeded(self, step: Step) -> None:
        """It is done."""
        self._failures.pop(step, None)

    def failed(self, step: Step, now: int) -> int:
        """It could not be done. Gives how many times in a row."""
        attempts = self._failures[step].attempts + 1 if step in self._failures else 1
        pause = min(_BACK_OFF_MAX, _SECOND << min(attempts - 1, 6))
        self._failures[step] = _Failure(attempts, now + pause)
        return attempts

    def _consider(
        self, step: Step, is_allowed: bool, now: int, steps: list[Step], still_failing: dict[Step, _Failure]
    ) -> None:
        failure = self._failures.get(step)
        if failure is not None:
            still_failing[step] = failure
        if is_allowed and len(steps) < PLAN_MAX and (failure is None or now >= failure.retry_at):
            steps.append(step)


def _surplus(target: Callable[[], Iterable[PartitionKey]], present: AbstractSet[PartitionKey]) -> list[PartitionKey]:
    """The directories that are there and are not committed, ascending."""
    wanted = set()
    for key in target():
        if key in present:
            wanted.add(key)
    return sorted([key for key in present if key not in wanted])


def is_loud(attempts: int) -> bool:
    """Whether an operator should hear of a failure: at ten in a row, and again at each power of two."""
    return attempts == _LOUD_FAILURES or (attempts > _LOUD_FAILURES and attempts & (attempts - 1) == 0)


class Directories(Protocol):
    """The partition directories of this node; every method raises `StorageError`."""

    def all(self) -> tuple[PartitionKey, ...]:
        """Those that are there."""
        ...

    def create(self, key: PartitionKey) -> None:
        """Make one."""
        ...

    def delete(self, key: PartitionKey) -> None:
        """Remove one, with everything in it."""
        ...


class PartitionReconciler(Plugin[Settings]):
    """Runs on every node, whoever leads."""

    name = "partition_reconciler"
    settings_type = Settings
    watches = frozenset(
        {
            Operation.CREATE_TOPIC,
            Operation.CREATE_PARTITIONS,
            Operation.DELETE_TOPIC,
            Operation.DELETE_STREAM,
            Operation.DELETE_PARTITIONS,
            Operation.PURGE_STREAM,
            Operation.PURGE_TOPIC,
            Operation.TRUNCATE_PARTITION,
        }
    )

    def __init__(self, settings: Settings, directories: Directories) -> None:
        super().__init__(settings)
        self._directories = directories
        self._reconciler = Reconciler()
        self._present: set[PartitionKey] | None = None
        self._steps: deque[Step] = deque()
        """What the last comparison found and is not done yet. What was decided by a committed state stays right: an
        incarnation that is gone does not come back, and one made in vain is surplus to the next comparison."""

        self._listed_at = 0
        self._done_at = -1
        """The revision that was reached with nothing left to do; -1 when something is."""

        self._is_asking = False
        self._not_before = 0
        self._ahead: tuple[PartitionKey, ...] = ()

    def on_resync(self, ctx: Context) -> None:
        """Look at everything anew."""
        self._present = None
        self._steps.clear()
        self._wake(ctx)

    def on_commit(self, ctx: Context, _notice: Notice) -> None:
        """The shape of the catalogue may have changed."""
        self._wake(ctx)

    def on_role(self, ctx: Context, _role: Role) -> None:
        """What may be deleted depends on it."""
        self._wake(ctx)

    def on_tick(self, ctx: Context) -> None:
        """Time for a pass."""
        self._wake(ctx)

    def _wake(self, ctx: Context) -> None:
        now = ctx.clock.monotonic_nanos()
        if self._steps:
            self._carry_out_some(ctx)
            return
        if self._is_asking or now < self._not_before:
            return
        if self._present is None or now - self._listed_at > RELIST_NANOS:
            self._done_at = -1
        try:
            ctx.query(Catalogue(unless_revision=self._done_at), self._on_catalogue)
        except TooMany:
            return  # So many commits in a second: the next tick looks at what they came to.
        self._is_asking = True

    def _on_catalogue(self, ctx: Context, catalogue: CommittedCatalogue | None) -> None:
        self._is_asking = False
        if catalogue is None:
            return
        began = ctx.clock.monotonic_nanos()
        try:
            present = self._list(began)
        except StorageError as error:
            self._present = None
            ctx.log.warning(f"the partition directories cannot be listed: {error}")
            return
        plan = self._reconciler.plan(
            lambda: (PartitionKey(*partition) for partition in catalogue.partitions()),
            present,
            revision=catalogue.revision,
            is_settled=ctx.is_settled,
            now=began,
        )
        self._steps.extend(plan.steps)
        self._done_at = catalogue.revision if not plan.steps and not plan.waiting else -1
        ended = ctx.clock.monotonic_nanos()
        self._not_before = ended + SHARE_MAX * (ended - began)
        self._carry_out_some(ctx)
        self._report(ctx, plan)

    def _list(self, now: int) -> set[PartitionKey]:
        if self._present is None or now - self._listed_at > RELIST_NANOS:
            self._present = set()
            for key in self._directories.all():
                self._present.add(key)  # One by one, as above.
            self._listed_at = now
        return self._present

    def _carry_out_some(self, ctx: Context) -> None:
        assert self._present is not None
        for _ in range(min(SLICE_MAX, len(self._steps))):
            step = self._steps.popleft()
            if step.what is What.DELETE and not ctx.is_settled:
                continue  # It was, when this was found; the next comparison finds it again.
            if not self._carry_out(ctx, step):
                continue
            if step.what is What.CREATE:
                self._present.add(step.key)
            else:
                self._present.discard(step.key)
        ctx.metrics.set("directories", len(self._present))
        ctx.metrics.set("waiting", len(self._steps))

    def _carry_out(self, ctx: Context, step: Step) -> bool:
        act = self._directories.create if step.what is What.CREATE else self._directories.delete
        try:
            act(step.key)
        except StorageError as error:
            attempts = self._reconciler.failed(step, ctx.clock.monotonic_nanos())
            say = ctx.log.error if is_loud(attempts) else ctx.log.debug
            say(f"cannot {step.what.value} the directory of {step.key}, {attempts} times now: {error}")
            return False
        self._reconciler.succeeded(step)
        return True

    def _report(self, ctx: Context, plan: Plan) -> None:
        ctx.metrics.set("waiting", plan.waiting + len(self._steps))
        ctx.metrics.set("failing", self._reconciler.failing)
        ctx.metrics.set("ahead", len(plan.ahead))
        if plan.ahead and plan.ahead != self._ahead:
            ctx.log.warning(
                f"{len(plan.ahead)} partition directories are of a newer catalogue than this node has, "
                f"the first is {plan.ahead[0]}: they stay"
            )
        self._ahead = plan.ahead
