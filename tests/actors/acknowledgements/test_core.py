"""When a replica speaks, whom it believes, what is written (acknowledgements 1, 4, 5): the core alone."""

import pytest

from levrier.actors.acknowledgements.core import (
    REPEAT_TICKS,
    AcknowledgementsCore,
    AskFrontier,
    Identity,
    Record,
    Refusal,
    Refused,
    Say,
)
from levrier.actors.metadata.messages import FrontierApplied
from levrier.wire.acknowledgement import Acknowledgement, Frontier, replica_id
from tests.actors.acknowledgements.replicas import A, said

CLUSTER = 0xC1
IDS = [replica_id(CLUSTER, each) for each in range(3)]
VIEW = tuple(IDS)


def core() -> AcknowledgementsCore:
    return AcknowledgementsCore(Identity(cluster=CLUSTER, replica=0, replica_count=3, node_id="node-0"))


def applied(op: int, *, group: int = 0) -> FrontierApplied:
    return FrontierApplied(op=op, positions=((A, op),) if op else (), identities=((A, group),) if group else ())


def own(op: int, *, at: int = 7) -> Acknowledgement:
    return Acknowledgement(
        replica_id=IDS[0],
        node_id="node-0",
        applied_frontier=Frontier.of({A: op}),
        origin_sequence_high_water=Frontier(),
        membership_view=VIEW,
        produced_at_ms=at,
    )


def peer(replica: int, op: int) -> Acknowledgement:
    return said(IDS[replica], {A: op}, *VIEW)


def test_it_speaks_once_after_boot_and_then_when_the_frontier_moved() -> None:
    """Written first, like any other's, then told to everybody."""
    replica = core()
    assert replica.on_tick() == [AskFrontier()]
    assert replica.on_applied(applied(5), now_ms=7) == [
        Record(forgotten=(), acknowledgements=(own(5),)),
        Say(replica=None, acknowledgement=own(5)),
    ]
    replica.on_tick()
    assert replica.on_applied(applied(5), now_ms=8) == []
    replica.on_tick()
    assert replica.on_applied(applied(6), now_ms=9) == [
        Record(forgotten=(), acknowledgements=(own(6, at=9),)),
        Say(replica=None, acknowledgement=own(6, at=9)),
    ]


def test_it_carries_the_high_water_marks() -> None:
    (_, say) = core().on_applied(applied(5, group=31), now_ms=7)
    assert isinstance(say, Say)
    assert say.acknowledgement.origin_sequence_high_water == Frontier(((A, 31),))


def test_a_replica_that_has_applied_nothing_says_and_writes_nothing() -> None:
    replica = core()
    replica.on_frame(1, peer(1, 4).encode())
    assert replica.on_applied(applied(0), now_ms=1) == []
    effects = replica.on_applied(applied(1), now_ms=7)
    assert effects[0] == Record(forgotten=(), acknowledgements=(peer(1, 4), own(1)))


def test_an_unmoved_frontier_is_stated_again_now_and_then() -> None:
    """A frame can be lost; people see a replica that is alive and stuck."""
    replica = core()
    replica.on_applied(applied(5), now_ms=7)
    for tick in range(1, 2 * REPEAT_TICKS + 1):
        replica.on_tick()
        spoken = replica.on_applied(applied(5), now_ms=100 + tick)
        assert bool(spoken) == (tick in (REPEAT_TICKS, 2 * REPEAT_TICKS))


def test_what_peers_say_is_written_together_at_the_next_tick() -> None:
    replica = core()
    replica.on_applied(applied(5), now_ms=7)
    for frame in (peer(1, 3), peer(2, 4), peer(1, 5), peer(1, 4)):
        assert replica.on_frame(int(frame.replica_id[-2:]), frame.encode()) == []
    assert replica.on_applied(applied(5), now_ms=8) == [Record(forgotten=(), acknowledgements=(peer(1, 5), peer(2, 4)))]
    assert replica.on_applied(applied(5), now_ms=8) == []


def test_a015_a_statement_in_the_name_of_another_is_refused_and_counted() -> None:
    """A-015: whoever is authenticated at the other end of the link speaks for itself only."""
    replica = core()
    replica.on_applied(applied(5), now_ms=7)
    for count in (1, 2):
        (refused,) = replica.on_frame(1, peer(2, 9).encode())
        assert isinstance(refused, Refused)
        assert (refused.replica, refused.refusal, refused.count) == (1, Refusal.SENDER, count)
    (refused,) = replica.on_frame(1, said(replica_id(0xC2, 1), {A: 9}).encode())
    assert isinstance(refused, Refused)
    assert replica.refusals == 3
    assert replica.on_applied(applied(5), now_ms=8) == []


@pytest.mark.parametrize("body", [b"", b"\xc1", b"prepare"])
def test_a014_a_body_that_is_no_acknowledgement_is_dropped_and_counted(body: bytes) -> None:
    """A-014: nothing is recorded."""
    replica = core()
    replica.on_applied(applied(5), now_ms=7)
    (refused,) = replica.on_frame(1, body)
    assert isinstance(refused, Refused)
    assert (refused.refusal, refused.count) == (Refusal.UNDECODABLE, 1)
    assert replica.on_applied(applied(5), now_ms=8) == []


def test_a_peer_that_is_admitted_is_told_what_was_said_last() -> None:
    replica = core()
    assert replica.on_peer_admitted(1, voter=True) == []
    replica.on_applied(applied(5), now_ms=7)
    assert replica.on_peer_admitted(2, voter=True) == [Say(replica=2, acknowledgement=own(5))]


def test_what_a_peer_said_before_it_lost_its_disk_is_forgotten() -> None:
    """A learner begins anew; what it says afterwards counts."""
    replica = core()
    replica.on_applied(applied(5), now_ms=7)
    replica.on_frame(1, peer(1, 5).encode())
    replica.on_peer_admitted(1, voter=False)
    replica.on_frame(1, peer(1, 2).encode())
    assert replica.on_applied(applied(5), now_ms=8) == [Record(forgotten=(IDS[1],), acknowledgements=(peer(1, 2),))]
    assert replica.on_applied(applied(5), now_ms=9) == []


def test_what_could_not_be_written_is_tried_again_with_what_came_meanwhile() -> None:
    replica = core()
    record, _ = replica.on_applied(applied(5), now_ms=7)
    replica.on_frame(1, peer(1, 4).encode())
    assert isinstance(record, Record)
    replica.on_record_failed(record)
    (again,) = replica.on_applied(applied(5), now_ms=8)
    assert again == Record(forgotten=(), acknowledgements=(own(5), peer(1, 4)))
    assert isinstance(again, Record)
    replica.on_peer_admitted(1, voter=False)
    replica.on_record_failed(again)
    assert replica.on_applied(applied(5), now_ms=9) == [Record(forgotten=(IDS[1],), acknowledgements=(own(5),))]


def test_a_forgotten_statement_stays_forgotten_when_the_write_failed() -> None:
    replica = core()
    replica.on_peer_admitted(1, voter=False)
    record = replica.on_applied(applied(5), now_ms=7)[0]
    assert isinstance(record, Record)
    replica.on_frame(1, peer(1, 2).encode())
    replica.on_record_failed(record)
    assert replica.on_applied(applied(5), now_ms=8) == [
        Record(forgotten=(IDS[1],), acknowledgements=(own(5), peer(1, 2)))
    ]


def test_a_statement_that_is_held_for_another_is_found() -> None:
    replica = core()
    replica._held[IDS[1]] = peer(2, 5)
    with pytest.raises(AssertionError):
        replica.on_tick()
