"""The partition reconciler alone (maintenance 2): what it makes and removes, by which state, and what failures do."""

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levrier.actors.plugins import Operation, questions
from levrier.actors.plugins.builtin.partition_reconciler import (
    PLAN_MAX,
    RELIST_NANOS,
    SLICE_MAX,
    PartitionReconciler,
    Reconciler,
    Settings,
    Step,
    What,
    is_loud,
)
from levrier.actors.plugins.limits import QUESTIONS_PER_SECOND_MAX
from levrier.actors.plugins.testing import PluginHarness
from levrier.persistence.errors import IoFailed
from levrier.persistence.partition_directories import PartitionKey

A = PartitionKey(0, 0, 0, 1)
B = PartitionKey(0, 0, 1, 1)
SECOND = 1_000_000_000


@dataclass
class Disk:
    """Directories, and what fails."""

    present: set[PartitionKey] = field(default_factory=set)
    failing: set[PartitionKey] = field(default_factory=set)
    lists: int = 0
    broken: bool = False

    def all(self) -> tuple[PartitionKey, ...]:
        self.lists += 1
        if self.broken:
            raise IoFailed(file=Path("/p"), call="listdir", error=errno.EIO)
        return tuple(sorted(self.present))

    def create(self, key: PartitionKey) -> None:
        self._fail(key)
        self.present.add(key)

    def delete(self, key: PartitionKey) -> None:
        self._fail(key)
        self.present.discard(key)

    def _fail(self, key: PartitionKey) -> None:
        if key in self.failing:
            raise IoFailed(file=Path("/p"), call="mkdir", error=errno.EIO)


@dataclass(frozen=True)
class Catalogue:
    """A catalogue that was committed."""

    revision: int
    keys: tuple[PartitionKey, ...]

    def partitions(self) -> Iterator[tuple[int, int, int, int]]:
        yield from self.keys


class Node:
    """A reconciler on a node with this disk."""

    def __init__(self, *present: PartitionKey) -> None:
        self.disk = Disk(set(present))
        self.plugin = PluginHarness(
            PartitionReconciler, make=lambda settings: PartitionReconciler(settings, self.disk), start=False
        )
        self.plugin.restart()

    def catalogue(self, revision: int, *keys: PartitionKey, tick: bool = True) -> None:
        """A pass by this catalogue."""
        if tick:
            self.plugin.advance(timedelta(seconds=1))
        asked = self.plugin.take_question()
        assert isinstance(asked.question, questions.Catalogue)
        unchanged = asked.question.unless_revision == revision
        asked.answer(None if unchanged else Catalogue(revision, keys))

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers that an operator sees."""
        return dict(self.plugin.metrics.values)


def test_it_looks_at_the_start_and_makes_what_is_missing() -> None:
    node = Node()
    node.catalogue(5, A, B, tick=False)
    assert node.disk.present == {A, B}


def test_what_is_not_in_the_catalogue_any_more_is_removed() -> None:
    node = Node(A, B)
    node.catalogue(5, A, tick=False)
    assert node.disk.present == {A}


def test_another_incarnation_of_a_reused_id_replaces_the_old_one() -> None:
    node = Node(A)
    reborn = A._replace(epoch=7)
    node.catalogue(7, reborn, tick=False)
    assert node.disk.present == {reborn}


def test_nothing_is_removed_by_a_state_that_is_not_settled() -> None:
    node = Node(A)
    node.plugin.unsettle()
    node.catalogue(5, B, tick=False)
    assert node.disk.present == {A, B}
    assert node.metrics["waiting"] == 1
    node.plugin.lead()
    node.catalogue(5, B)
    assert node.disk.present == {B}


def test_a_directory_of_a_newer_catalogue_than_this_one_stays() -> None:
    """A node that came back from its checkpoint has not reached the state again that made it."""
    ahead = PartitionKey(0, 0, 9, 12)
    node = Node(ahead)
    node.catalogue(5, A, tick=False)
    assert node.disk.present == {A, ahead}
    assert node.metrics["ahead"] == 1
    assert [level for level, _ in node.plugin.log.written] == ["warning"]
    node.catalogue(12, A, ahead)
    assert node.disk.present == {A, ahead}
    assert node.metrics["ahead"] == 0


def test_a_pass_that_had_nothing_to_do_is_not_repeated_while_nothing_changes() -> None:
    node = Node()
    node.catalogue(5, A, tick=False)
    node.catalogue(5, A)
    node.plugin.advance(timedelta(seconds=1))
    question = node.plugin.take_question()
    assert question.question == questions.Catalogue(unless_revision=5)
    question.answer(None)
    assert node.disk.lists == 1


def test_a_commit_that_shapes_the_catalogue_makes_it_look() -> None:
    assert Operation.DELETE_STREAM in PartitionReconciler.watches
    node = Node()
    node.catalogue(1, tick=False)
    assert isinstance(node.plugin.plugin, PartitionReconciler)
    node.plugin.clock.advance(timedelta(seconds=1))
    node.plugin.plugin.on_commit(node.plugin.context, None)  # type: ignore[arg-type]
    node.plugin.take_question()


def test_more_commits_in_a_second_than_it_may_ask_about_wait_for_the_next_tick() -> None:
    """It looks as often as a plugin may, and does not end with an exception over the rest."""
    node = Node()
    node.catalogue(1, tick=False)
    reconciler = node.plugin.plugin
    assert isinstance(reconciler, PartitionReconciler)
    looks = 0
    for revision in range(2, 2 + 2 * QUESTIONS_PER_SECOND_MAX):
        node.plugin.clock.advance(timedelta(milliseconds=2))
        reconciler.on_commit(node.plugin.context, None)  # type: ignore[arg-type]
        if node.plugin.questions:
            looks += 1
            node.plugin.take_question().answer(Catalogue(revision, ()))
    assert QUESTIONS_PER_SECOND_MAX <= looks < 2 * QUESTIONS_PER_SECOND_MAX
    node.catalogue(200, A)
    assert node.disk.present == {A}


def test_the_disk_is_looked_at_again_after_a_minute_whatever_the_revision() -> None:
    node = Node()
    node.catalogue(5, A, tick=False)
    node.catalogue(5, A)
    node.disk.present.clear()
    node.plugin.clock.advance(timedelta(microseconds=RELIST_NANOS // 1_000))
    node.catalogue(5, A)
    assert node.disk.present == {A}


def test_a_resync_looks_at_the_disk_again() -> None:
    node = Node()
    node.catalogue(5, A, tick=False)
    node.disk.present.clear()
    node.plugin.clock.advance(timedelta(seconds=1))
    node.plugin.resync()
    node.catalogue(5, A, tick=False)
    assert node.disk.present == {A}


def test_a_directory_that_cannot_be_made_is_tried_again_with_back_off_and_the_others_are_made() -> None:
    node = Node()
    node.disk.failing = {A}
    node.catalogue(5, A, B, tick=False)
    assert node.disk.present == {B}
    assert (node.metrics["failing"], node.metrics["waiting"]) == (1, 0)
    node.disk.failing = set()
    node.plugin.clock.advance(timedelta(milliseconds=900))
    node.plugin.tick()
    node.catalogue(5, A, B, tick=False)
    assert node.disk.present == {B}
    node.catalogue(5, A, B)
    assert node.disk.present == {A, B}
    assert node.metrics["failing"] == 0


def test_a_disk_that_cannot_be_listed_is_asked_again() -> None:
    node = Node()
    node.disk.broken = True
    node.catalogue(5, A, tick=False)
    assert [level for level, _ in node.plugin.log.written] == ["warning"]
    node.disk.broken = False
    node.catalogue(5, A)
    assert node.disk.present == {A}


def test_so_many_are_made_in_one_go_and_the_catalogue_is_not_compared_again_for_the_rest() -> None:
    keys = tuple(PartitionKey(0, 0, number, 1) for number in range(SLICE_MAX * 2 + 10))
    node = Node()
    node.catalogue(5, *keys, tick=False)
    assert (len(node.disk.present), node.metrics["waiting"]) == (SLICE_MAX, SLICE_MAX + 10)
    node.plugin.advance(timedelta(seconds=1))
    node.plugin.assert_no_question()
    assert len(node.disk.present) == 2 * SLICE_MAX
    node.plugin.advance(timedelta(seconds=1))
    assert node.disk.present == set(keys)
    node.catalogue(5, *keys)
    assert node.metrics["waiting"] == 0


def test_one_comparison_finds_no_more_than_so_many() -> None:
    keys = [PartitionKey(0, 0, number, 1) for number in range(PLAN_MAX + 3)]
    plan = Reconciler().plan(lambda: keys, set(), revision=1, is_settled=True, now=0)
    assert (len(plan.steps), plan.waiting) == (PLAN_MAX, 3)


def test_a_removal_that_was_found_is_not_carried_out_once_the_node_is_not_settled_any_more() -> None:
    surplus = [PartitionKey(0, 0, number, 1) for number in range(SLICE_MAX + 5)]
    node = Node(*surplus)
    node.catalogue(5, tick=False)
    assert len(node.disk.present) == 5
    node.plugin.unsettle()
    node.plugin.advance(timedelta(seconds=1))
    assert len(node.disk.present) == 5


def test_br_42_what_was_to_be_removed_is_not_what_was_made_again_under_its_id() -> None:
    """Removals wait for their turn while the topic comes back under its id: they name the old incarnation, and no other is hit.

    That a request names a revision comes with the message plane.
    """
    old = [PartitionKey(0, 2, number, 10) for number in range(2 * SLICE_MAX)]
    new = [key._replace(epoch=20) for key in old]
    node = Node(*old)
    node.catalogue(15, tick=False)
    assert len(node.disk.present) == SLICE_MAX
    node.disk.present.update(new)
    node.plugin.advance(timedelta(seconds=1))
    assert node.disk.present == set(new)
    node.catalogue(25, *new)
    assert node.disk.present == set(new)


def test_br_42_a_lost_wake_up_heals_at_the_next_tick() -> None:
    node = Node(A)
    node.catalogue(5, A, tick=False)
    node.catalogue(7, A, B)
    assert node.disk.present == {A, B}


def test_failures_back_off_apart_for_making_and_removing_and_double_up_to_a_minute() -> None:
    core = Reconciler()
    make, remove = Step(What.CREATE, A), Step(What.DELETE, A)
    now, pauses = 0, []
    for attempt in range(1, 10):
        assert core.failed(make, now) == attempt
        pause = 0
        while not core.plan(lambda: [A], set(), revision=1, is_settled=True, now=now + pause).steps:
            pause += SECOND
        pauses.append(pause // SECOND)
        now += pause
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert core.plan(list, {A}, revision=1, is_settled=True, now=now).steps == (remove,)
    assert core.failing == 0, "what nobody wants any more is forgotten"


def test_operators_hear_of_the_tenth_failure_and_of_each_power_of_two_after_it() -> None:
    assert [attempt for attempt in range(1, 130) if is_loud(attempt)] == [10, 16, 32, 64, 128]


@pytest.mark.parametrize("interval", [timedelta(0), timedelta(seconds=31)])
def test_the_interval_has_bounds(interval: timedelta) -> None:
    with pytest.raises(ValueError, match="interval"):
        Settings(interval=interval)


keys = st.builds(PartitionKey, st.integers(0, 2), st.integers(0, 1), st.integers(0, 2), st.integers(1, 9))


@given(target=st.frozensets(keys), present=st.frozensets(keys), revision=st.integers(1, 9), settled=st.booleans())
def test_whatever_is_there_only_what_may_be_removed_is_removed(
    target: frozenset[PartitionKey], present: frozenset[PartitionKey], revision: int, settled: bool
) -> None:
    plan = Reconciler().plan(lambda: target, present, revision=revision, is_settled=settled, now=0)
    removed = {step.key for step in plan.steps if step.what is What.DELETE}
    made = {step.key for step in plan.steps if step.what is What.CREATE}
    assert made == target - present
    assert removed == ({key for key in present - target if key.epoch <= revision} if settled else set())
    assert set(plan.ahead) == {key for key in present - target if key.epoch > revision}
