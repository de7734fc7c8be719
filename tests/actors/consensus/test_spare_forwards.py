"""Whoever completes a quorum lets those behind it follow together (section 5.5)."""

from collections.abc import Sequence

import pytest

from levrier.actors.consensus.effects import Effect, Send
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.spare_acks import PAUSE_TICKS
from levrier.actors.consensus.spare_forwards import GATHERED_MAX, LATE_AGAIN_TICKS, PROMPT_TICKS
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import Prepare
from tests.actors.consensus.builders import of_type, position, sealed_chain
from tests.actors.consensus.peers import heartbeat, member, sent_of, settle_disk, start_view, start_view_change, ticks


def take(replica: Replica, prepare: Prepare) -> list[tuple[int | None, int]]:
    """To whom which op is handed on when a prepare of the primary comes and is durable."""
    return handed_on(settle_disk(replica, replica.on_prepare(prepare, 0)))


def handed_on(effects: Sequence[Effect]) -> list[tuple[int | None, int]]:
    return [(to, header.op) for to, header in sent_of(effects, PrepareHeader) if isinstance(header, PrepareHeader)]


def test_what_needs_nobody_further_down_goes_on_at_the_tick_in_order() -> None:
    backup = member(1)
    chain = sealed_chain(from_op=1, to_op=3)
    assert [take(backup, prepare) for prepare in chain] == [[], [], []]
    effects = ticks(backup, 1)
    assert [send.frame for send in of_type(effects, Send) if send.replica == 2] == [prepare.frame for prepare in chain]
    assert handed_on(ticks(backup, 3)) == []


def test_much_goes_on_without_waiting() -> None:
    backup = member(1)
    *earlier, last = sealed_chain(from_op=1, to_op=GATHERED_MAX)
    assert [take(backup, prepare) for prepare in earlier] == [[]] * len(earlier)
    assert take(backup, last) == [(2, op) for op in range(1, GATHERED_MAX + 1)]


def test_what_was_applied_meanwhile_goes_on_all_the_same() -> None:
    """The next member does not have it, whatever this one has done with it."""
    backup = member(1)
    first, second = sealed_chain(from_op=1, to_op=2)
    take(backup, first)
    settle_disk(backup, backup.on_frame(heartbeat(0, 0, commit=1), b""))
    backup.on_applied(1)
    assert backup.state.commit_min == 1
    take(backup, second)
    assert handed_on(ticks(backup, 1)) == [(2, 1), (2, 2)]


def test_where_nothing_was_committed_twice_everything_goes_on_at_once_for_a_second() -> None:
    """The acknowledgements of this member may not reach the primary: then those behind it are needed."""
    backup = member(1)
    chain = sealed_chain(from_op=1, to_op=4, commit=0)
    for prepare in chain[:2]:
        assert take(backup, prepare) == []
        assert handed_on(ticks(backup, 1)) == [(2, prepare.header.op)]
    assert take(backup, chain[2]) == [(2, 3)]
    assert take(backup, chain[3]) == [(2, 4)]
    assert backup.state.spare_forwards.prompt_until == backup.state.ticks + PROMPT_TICKS


def test_what_comes_after_a_pause_goes_on_at_once() -> None:
    backup = member(1)
    chain = sealed_chain(from_op=1, to_op=3)
    assert take(backup, chain[0]) == []
    ticks(backup, PAUSE_TICKS + 1)
    assert take(backup, chain[1]) == [(2, 2)]
    assert take(backup, chain[2]) == []


@pytest.mark.parametrize("apart", [LATE_AGAIN_TICKS + 1, 10 * LATE_AGAIN_TICKS])
def test_what_was_the_last_before_a_pause_says_nothing_of_the_chain(apart: int) -> None:
    backup = member(1)
    first, second, third = sealed_chain(from_op=1, to_op=3, commit=0)
    take(backup, first)
    ticks(backup, apart)
    take(backup, second)
    ticks(backup, 1)
    assert take(backup, third) == []


def test_a_tick_that_finds_some_of_it_committed_says_nothing_of_the_chain() -> None:
    """The last one of what is kept is never known to be committed."""
    backup = member(1)
    chain = sealed_chain(from_op=1, to_op=5)
    for first, second in (chain[:2], chain[2:4]):
        take(backup, first)
        take(backup, second)
        assert backup.state.commit_max == second.header.op - 1
        ticks(backup, 1)
    assert take(backup, chain[4]) == []


def test_nothing_goes_on_that_carries_a_view_which_is_not_durable() -> None:
    """D-11. It is not sent later either: whoever lacks it asks for it."""
    backup = member(1, view=3)
    [prepare] = sealed_chain(from_op=1, to_op=1, view=3)
    backup.on_prepare(prepare, 0)
    backup.on_appended([position(prepare)])
    backup.state.gate.view_durable = 2
    assert handed_on(ticks(backup, 1)) == []
    assert handed_on(settle_disk(backup, ticks(backup, 1))) == []


@pytest.mark.parametrize(
    ("count", "view", "keeping"),
    [(2, 0, []), (3, 0, [1]), (3, 1, [2]), (4, 0, [1]), (5, 0, [2]), (5, 3, [0]), (7, 0, [2])],
)
def test_whoever_is_followed_by_one_whose_word_is_needed_hands_on_at_once(
    count: int, view: int, keeping: list[int]
) -> None:
    """The last one has nobody to hand anything on to."""
    [prepare] = sealed_chain(from_op=1, to_op=1, view=view)
    found = []
    for replica in range(count):
        if replica == view:
            continue
        backup = member(replica, count=count, view=view)
        at_once = handed_on(settle_disk(backup, backup.on_prepare(prepare, view)))
        later = handed_on(ticks(backup, 1))
        is_last = (replica + 1) % count == view
        assert len(at_once) + len(later) == (not is_last)
        if later:
            found.append(replica)
    assert found == keeping


def test_a_learner_completes_no_quorum_and_hands_on_at_once() -> None:
    """D-09: the word of the one behind it is waited for."""
    learner = member(1)
    learner.on_voter_changed(voter=False)
    learner.on_abstainers_changed(0b010)
    [prepare] = sealed_chain(from_op=1, to_op=1)
    assert take(learner, prepare) == [(2, 1)]


def test_nothing_goes_on_in_a_view_that_is_over_nor_in_the_next() -> None:
    backup = member(1)
    [prepare] = sealed_chain(from_op=1, to_op=1, commit=0)
    take(backup, prepare)
    backup.on_frame(start_view_change(2, 2), b"")
    assert handed_on(settle_disk(backup, ticks(backup, 3))) == []
    settle_disk(backup, backup.on_frame(*start_view(2, 2, op=1, commit=0, chain=[prepare])))
    assert handed_on(settle_disk(backup, ticks(backup, 3))) == []
