"""The partition reconciler: keeps the partition directories of this node equal to the committed catalogue (maintenance 2).

Level-triggered: each pass compares the whole catalogue with what is on the disk; a commit only says that a pass is due. A pass
that nothing happened since, and that had nothing to do, is skipped. Failures back off, creations and deletions apart.

It never deletes by a state that is not verified. A directory goes only while this node is settled (its state holds what its
log and its view hold), and only if the state is at least as new as the directory: one whose epoch is above the revision of
the catalogue was made by a state that this node has lost or not reached again, and stays.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Final, NamedTuple, Protocol

from levrier.actors.plugins.api import Context, Notice, Plugin, Role
from levrier.actors.plugins.messages import CommittedCatalogue
from levrier.actors.plugins.questions import Catalogue
from levrier.persistence.errors import StorageError
from levrier.persistence.partition_directories import PartitionKey
from levrier.wire.codes import Operation

PASS_MAX: Final = 256
"""Directories that one pass makes and removes at most, so that the disk stays free for the log."""

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
        target: Iterable[PartitionKey],
        present: frozenset[PartitionKey],
        *,
        revision: int,
        is_settled: bool,
        now: int,
    ) -> Plan:
        """Compare the committed partitions at `revision` with the directories that are there."""
        wanted = frozenset(target)
        missing = sorted(wanted - present)
        surplus = sorted(present - wanted)
        ahead = tuple([key for key in surplus if key.epoch > revision])
        creations = [Step(What.CREATE, key) for key in missing]
        deletions = [Step(What.DELETE, key) for key in surplus if key.epoch <= revision]
        different = frozenset(creations + deletions)
        self._failures = {step: failure for step, failure in self._failures.items() if step in different}
        allowed = creations + deletions if is_settled else creations
        due = [step for step in allowed if self._is_due(step, now)][:PASS_MAX]
        return Plan(tuple(due), ahead, len(different) - len(due))

    def succeeded(self, step: Step) -> None:
        """It is done."""
        self._failures.pop(step, None)

    def failed(self, step: Step, now: int) -> int:
        """It could not be done. Gives how many times in a row."""
        attempts = self._failures[step].attempts + 1 if step in self._failures else 1
        pause = min(_BACK_OFF_MAX, _SECOND << min(attempts - 1, 6))
        self._failures[step] = _Failure(attempts, now + pause)
        return attempts

    def _is_due(self, step: Step, now: int) -> bool:
        failure = self._failures.get(step)
        return failure is None or now >= failure.retry_at


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
            Operation.CREATE_TOPIC_WITH_ASSIGNMENTS,
            Operation.CREATE_PARTITIONS_WITH_ASSIGNMENTS,
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
        self._present: frozenset[PartitionKey] | None = None
        self._listed_at = 0
        self._done_at = -1
        """The revision that was reached with nothing left to do; -1 when something is."""

        self._is_asking = False
        self._not_before = 0
        self._ahead: tuple[PartitionKey, ...] = ()

    def on_resync(self, ctx: Context) -> None:
        """Look at everything anew."""
        self._present = None
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
        if self._is_asking or now < self._not_before:
            return
        if self._present is None or now - self._listed_at > RELIST_NANOS:
            self._done_at = -1
        self._is_asking = True
        ctx.query(Catalogue(unless_revision=self._done_at), self._on_catalogue)

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
            (PartitionKey(*partition) for partition in catalogue.partitions()),
            present,
            revision=catalogue.revision,
            is_settled=ctx.is_settled,
            now=began,
        )
        done = [step for step in plan.steps if self._carry_out(ctx, step)]
        self._note(present, done)
        self._done_at = catalogue.revision if not plan.steps and not plan.waiting else -1
        ended = ctx.clock.monotonic_nanos()
        self._not_before = ended + SHARE_MAX * (ended - began)
        self._report(ctx, plan)

    def _list(self, now: int) -> frozenset[PartitionKey]:
        if self._present is None or now - self._listed_at > RELIST_NANOS:
            self._present = frozenset(self._directories.all())
            self._listed_at = now
        return self._present

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

    def _note(self, present: frozenset[PartitionKey], done: list[Step]) -> None:
        made = frozenset(step.key for step in done if step.what is What.CREATE)
        removed = frozenset(step.key for step in done if step.what is What.DELETE)
        self._present = (present | made) - removed

    def _report(self, ctx: Context, plan: Plan) -> None:
        assert self._present is not None
        ctx.metrics.set("directories", len(self._present))
        ctx.metrics.set("waiting", plan.waiting)
        ctx.metrics.set("failing", self._reconciler.failing)
        ctx.metrics.set("ahead", len(plan.ahead))
        if plan.ahead and plan.ahead != self._ahead:
            ctx.log.warning(
                f"{len(plan.ahead)} partition directories are of a newer catalogue than this node has, "
                f"the first is {plan.ahead[0]}: they stay"
            )
        self._ahead = plan.ahead
