"""The last of a chain does not say what nobody waits to hear (section 5.5)."""

from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.spare_acks import PROMPT_TICKS
from levrier.actors.consensus.state import Status
from levrier.wire.prepare import Prepare
from tests.actors.consensus.builders import sealed_chain
from tests.actors.consensus.peers import (
    acknowledged,
    heartbeat,
    member,
    settle_disk,
    start_view_change,
    ticks,
)


def take(replica: Replica, prepare: Prepare, sender: int | None) -> list[tuple[int | None, int]]:
    """What a replica acknowledges once a prepare that came from `sender` is durable."""
    return acknowledged(settle_disk(replica, replica.on_prepare(prepare, sender)))


def test_what_is_committed_without_its_word_is_never_acknowledged() -> None:
    last = member(2)
    chain = sealed_chain(from_op=1, to_op=3)
    assert [take(last, prepare, 1) for prepare in chain] == [[], [], []]
    last.on_frame(heartbeat(0, 0, commit=3), b"")
    assert acknowledged(settle_disk(last, ticks(last, 5))) == []


def test_what_is_not_committed_within_two_ticks_is_acknowledged_and_all_that_follows_at_once() -> None:
    last = member(2)
    first, second, third, fourth = sealed_chain(from_op=1, to_op=4, commit=0)
    assert take(last, first, 1) == []
    assert acknowledged(ticks(last, 1)) == []
    assert take(last, second, 1) == []
    assert acknowledged(ticks(last, 1)) == [(0, 1), (0, 2)]
    assert take(last, third, 1) == [(0, 3)]
    ticks(last, PROMPT_TICKS)
    assert take(last, fourth, 1) == []


def test_what_the_primary_sends_itself_is_acknowledged_at_once() -> None:
    """The chain is broken then; so is what comes from nobody knows whom."""
    last = member(2)
    first, second, third = sealed_chain(from_op=1, to_op=3)
    assert take(last, first, 0) == [(0, 1)]
    assert take(last, second, None) == [(0, 2)]
    assert take(last, third, 1) == []


def test_whoever_is_needed_for_the_quorum_says_so_at_once() -> None:
    """Of three the second, of five the second and the third."""
    [prepare] = sealed_chain(from_op=1, to_op=1)
    found = {
        (count, replica): take(member(replica, count=count), prepare, replica - 1) != []
        for count in (3, 5)
        for replica in range(1, count)
    }
    assert found == {(3, 1): True, (3, 2): False, (5, 1): True, (5, 2): True, (5, 3): False, (5, 4): False}


def test_nothing_is_said_of_a_view_that_is_over() -> None:
    last = member(2)
    [prepare] = sealed_chain(from_op=1, to_op=1, commit=0)
    take(last, prepare, 1)
    settle_disk(last, last.on_frame(start_view_change(1, 1), b""))
    assert last.state.status is Status.VIEW_CHANGE
    assert acknowledged(settle_disk(last, ticks(last, 3))) == []
