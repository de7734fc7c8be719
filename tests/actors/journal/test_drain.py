"""A drain goes on in steps: appends are made durable between them, a truncation and a stop abort it."""

from functools import cache

import pytest

from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.consensus import messages as consensus
from levrier.actors.journal import messages as journal
from levrier.persistence.data_dir import temporary
from levrier.wire.prepare import Prepare
from tests.actors.journal.rig import WAL, JournalRig, ops_on_disk, prepare

LARGE = 30_000
STEPS = 3
"""Steps of the drain below, before the last one."""


@cache
def entry(op: int) -> Prepare:
    """The first ten are large."""
    parent = entry(op - 1).header.checksum if op > 1 else 0
    return prepare(op, body_size=LARGE if op <= 10 else 24, parent=parent)


def append(op: int) -> journal.Append:
    return journal.Append(prepare=entry(op), view=3)


def in_a_drain(*, pause_milliseconds: int = 1) -> JournalRig:
    """Ops 1 to 10, of which 1 and 2 are to go: the drain has begun, its next step is due in a moment."""
    rig = JournalRig(pause_milliseconds=pause_milliseconds)
    rig.tell(*(append(op) for op in range(1, 11)))
    assert rig.durable_ops() == list(range(1, 11))
    rig.tell(journal.Drain(up_to=2))
    rig.checkpoint.assert_silent()
    return rig


def test_appends_are_durable_between_the_steps() -> None:
    rig = in_a_drain()
    op = 10
    while not rig.checkpoint.count:
        op += 1
        rig.tell(append(op))
        assert rig.durable_ops() == [op]
        rig.runtime.advance(1)

    assert op == 10 + STEPS + 1
    answer = rig.checkpoint.take()
    assert isinstance(answer, checkpoint.Drained)
    assert answer.up_to == 2
    rig.tell(append(op + 1))
    assert rig.durable_ops() == [op + 1]
    assert rig.read(3, 99) == list(range(3, op + 2))
    assert ops_on_disk(rig.storage, snapshot_op=2) == list(range(3, op + 2))


@pytest.mark.parametrize("attempt", [-1, 1, 99])
def test_a_stale_step_is_dropped(attempt: int) -> None:
    rig = in_a_drain()
    calls = rig.storage.calls
    rig.tell(journal.ContinueDrain(attempt=attempt))
    assert rig.storage.calls == calls


def test_a_step_without_a_drain_is_dropped() -> None:
    rig = JournalRig()
    calls = rig.storage.calls
    rig.tell(journal.ContinueDrain(attempt=0))
    assert rig.storage.calls == calls
    assert rig.runtime.failures == []


@pytest.mark.parametrize("steps", range(STEPS + 1))
def test_a_truncation_aborts_the_drain_which_then_begins_again(steps: int) -> None:
    rig = in_a_drain()
    rig.runtime.advance(steps)

    rig.tell(journal.Truncate(from_op=9))

    assert rig.consensus.take() == consensus.Truncated(from_op=9)
    rig.tell(append(9))
    rig.runtime.advance(30)
    answer = rig.checkpoint.take()
    assert isinstance(answer, checkpoint.Drained)
    rig.checkpoint.assert_silent()
    assert rig.durable_ops() == [9]
    assert ops_on_disk(rig.storage, snapshot_op=2) == list(range(3, 10))
    assert not rig.storage.exists(temporary(WAL))


def test_drains_that_wait_are_answered_in_order() -> None:
    rig = in_a_drain()
    rig.tell(journal.Drain(up_to=4), journal.Drain(up_to=1))
    rig.runtime.advance(60)
    answers = rig.checkpoint.take_all()
    assert [type(answer) for answer in answers] == [checkpoint.Drained] * 3
    assert [answer.up_to for answer in answers if isinstance(answer, checkpoint.Drained)] == [2, 4, 1]
    assert rig.read(5, 99) == [5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("steps", range(STEPS + 1))
def test_a_stop_aborts_the_drain(steps: int) -> None:
    rig = in_a_drain()
    rig.runtime.advance(steps)
    rig.checkpoint.assert_silent()

    rig.runtime.stop()

    rig.checkpoint.assert_silent()
    assert not rig.storage.exists(temporary(WAL))
    assert ops_on_disk(rig.storage) == list(range(1, 11))
