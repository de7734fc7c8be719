"""The applied frontier and the high-water marks are part of the replicated state (acknowledgements 1, D-22)."""

import pytest

from levrier.actors.metadata.actor import MetadataActor
from levrier.actors.metadata.machine import MetadataMachine
from levrier.actors.metadata.messages import FrontierApplied, FrontierWanted
from levrier.actors.metadata.restore import SnapshotInvalid
from levrier.actors.runtime import Probe, SteppedRuntime
from levrier.wire.codes import Operation
from levrier.wire.headers import PrepareHeader
from levrier.wire.requests.streams import CreateStream
from tests.actors.metadata.support import Log


def create(machine: MetadataMachine, op: int, origin: int, name: str) -> int:
    """Apply an op that this replica prepared; its outcome."""
    header = PrepareHeader(op, int(Operation.CREATE_STREAM), replica=origin, timestamp=op)
    return machine.apply(header, CreateStream(name=name).encode()).code


def test_each_origin_stands_at_the_highest_op_that_it_prepared() -> None:
    """A rejected op counts, and so does one that the machine only passes through."""
    machine = MetadataMachine()
    assert machine.frontier.positions() == ()
    assert create(machine, 1, 2, "a") == 0
    assert create(machine, 2, 0, "b") == 0
    assert create(machine, 3, 2, "a") != 0
    assert machine.frontier.positions() == ((0, 2), (2, 3))
    machine.apply(PrepareHeader(4, int(Operation.LOGOUT), replica=1, client=9), b"")
    assert machine.frontier.positions() == ((0, 2), (1, 4), (2, 3))


def test_the_marks_are_the_highest_identity_of_each_origin_whether_or_not_it_was_kept() -> None:
    log = Log()
    log.bootstrap()
    log.create_stream("s")
    log.create_topic(0, "t", [0, 1], groups=((0, 7), (1, 8)))
    assert log.machine.frontier.identities() == ((0, 8),)
    log.create_topic(0, "t", [0], groups=((0, 11),))
    assert log.machine.frontier.identities() == ((0, 11),), "the name exists: rejected, and handed out all the same"
    log.create_topic(0, "u", [0], groups=((0, 9),))
    assert log.machine.frontier.identities() == ((0, 11),)


def test_both_are_captured_at_the_op_and_come_back_from_a_snapshot() -> None:
    machine = MetadataMachine()
    create(machine, 1, 2, "a")
    captured = machine.capture(1, 1)
    create(machine, 2, 0, "b")
    assert (captured.frontier, captured.high_water) == (((2, 1),), ())
    restored = _restored(captured.frontier, ((1, 9),))
    assert (restored.frontier.positions(), restored.frontier.identities()) == (((2, 1),), ((1, 9),))
    create(restored, 2, 2, "c")
    assert restored.frontier.positions() == ((2, 2),)


def _restored(frontier: tuple[tuple[int, int], ...], high_water: tuple[tuple[int, int], ...]) -> MetadataMachine:
    return MetadataMachine.restore(
        users=[[], [], [[]] * 6],
        streams=[[], 0, []],
        consensus_group_high=0,
        next_user_id=0,
        frontier=frontier,
        high_water=high_water,
    )


@pytest.mark.parametrize("bad", [((1, 2), (1, 3)), ((256, 1),), ((1, 0),)])
def test_a_snapshot_whose_frontier_is_none_is_refused(bad: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(SnapshotInvalid, match="acknowledgement_frontier"):
        _restored(bad, ())
    with pytest.raises(SnapshotInvalid, match="acknowledgement_high_water"):
        _restored((), bad)


def test_whoever_asks_is_told_how_far_the_state_is_applied() -> None:
    runtime, asker = SteppedRuntime(seed=1), Probe[FrontierApplied]("asker")
    machine = _restored(((0, 4), (2, 3)), ((0, 9),))
    nobody: Probe[object] = Probe("nobody")
    ref = MetadataActor.start(
        name="metadata", runtime=runtime, machine=machine, last_op=4, last_timestamp=4, client_table=nobody, bus=nobody
    )
    ref.tell(FrontierWanted(reply_to=asker))
    runtime.run()
    assert asker.take() == FrontierApplied(op=4, positions=((0, 4), (2, 3)), identities=((0, 9),))
    nobody.assert_silent()
