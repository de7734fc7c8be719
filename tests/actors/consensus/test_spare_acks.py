"""The last of a chain does not say what nobody waits to hear (sections 5.5 and 5.6)."""

import pytest

from levrier.actors.consensus.effects import Apply, Flush, Send
from levrier.actors.consensus.normal import UNAPPLIED_MAX
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.spare_acks import (
    FOLLOWS_TICKS,
    KEPT_TICKS,
    PAUSE_TICKS,
    PROMPT_TICKS_MAX,
    PROMPT_TICKS_MIN,
)
from levrier.actors.consensus.state import Status
from levrier.wire.prepare import Prepare
from tests.actors.consensus.builders import of_type, position, sealed_chain, without_notes
from tests.actors.consensus.peers import (
    acknowledged,
    heartbeat,
    member,
    settle_disk,
    start_view,
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
    assert acknowledged(settle_disk(last, ticks(last, 3 * KEPT_TICKS))) == []


def test_what_is_not_committed_in_time_is_acknowledged_and_all_that_follows_soon_at_once() -> None:
    last = member(2)
    first, second, third, fourth = sealed_chain(from_op=1, to_op=4, commit=0)
    assert take(last, first, 1) == []
    assert acknowledged(ticks(last, KEPT_TICKS)) == []
    assert take(last, second, 1) == []
    assert acknowledged(ticks(last, KEPT_TICKS - 1)) == []
    assert acknowledged(ticks(last, 1)) == [(0, 1), (0, 2)]
    ticks(last, FOLLOWS_TICKS)
    assert take(last, third, 1) == [(0, 3)]
    assert take(last, fourth, 1) == [(0, 4)]
    assert last.state.spare_acks.prompt_until == last.state.ticks + PROMPT_TICKS_MIN


def test_one_word_that_was_needed_counts_once() -> None:
    last = member(2)
    first, second, third = sealed_chain(from_op=1, to_op=3, commit=0)
    take(last, first, 1)
    ticks(last, 2 * KEPT_TICKS)
    take(last, second, 1)
    take(last, third, 1)
    assert last.state.spare_acks.prompt_until == last.state.ticks + PROMPT_TICKS_MIN


def test_what_follows_after_a_pause_did_not_wait_for_the_word() -> None:
    """The last entry before a pause is acknowledged, since nothing names it as committed; that says nothing of the chain."""
    last = member(2)
    first, second, third = sealed_chain(from_op=1, to_op=3, commit=0)
    take(last, first, 1)
    assert acknowledged(ticks(last, 2 * KEPT_TICKS + FOLLOWS_TICKS + 1)) == [(0, 1)]
    assert take(last, second, 1) == [(0, 2)]
    assert take(last, third, 1) == []


@pytest.mark.parametrize("pause", [PAUSE_TICKS, PAUSE_TICKS + 1, 10, 100])
def test_whoever_writes_now_and_then_does_not_wait_for_a_word_that_is_kept_back(pause: int) -> None:
    """Where the acknowledgements of the member before never arrive, this one's are needed, at any pace."""
    last = member(2)
    late = 0
    for op in range(1, 41):
        [prepare] = sealed_chain(from_op=op, to_op=op, commit=op - 1, parent=last.state.last_prepare_checksum)
        waited = 0
        told = take(last, prepare, 1)
        while not told:
            waited += 1
            told = acknowledged(settle_disk(last, ticks(last, 1)))
        assert told == [(0, op)]
        late += waited > 0
        settle_disk(last, ticks(last, pause))
        last.on_frame(heartbeat(0, 0, number=op, commit=op - 1), b"")
    assert late <= 2


def test_of_what_was_kept_only_the_uncommitted_is_acknowledged() -> None:
    last = member(2)
    first, second = sealed_chain(from_op=1, to_op=2, commit=0)
    take(last, first, 1)
    take(last, second, 1)
    last.on_frame(heartbeat(0, 0, commit=1), b"")
    assert acknowledged(settle_disk(last, ticks(last, 2 * KEPT_TICKS))) == [(0, 2)]


def test_each_word_that_was_needed_doubles_the_time_until_the_next_is_kept_back() -> None:
    last = member(2)
    op = 0
    found = []
    for _ in range(7):
        for expected in (None, [], [(0, op + 3)]):
            op += 1
            [prepare] = sealed_chain(from_op=op, to_op=op, commit=0, parent=last.state.last_prepare_checksum)
            told = take(last, prepare, 1)
            assert expected is None or told == expected
            if expected == []:
                ticks(last, 2 * KEPT_TICKS)
        found.append(last.state.spare_acks.prompt_until - last.state.ticks)
        for number in range(found[-1]):
            last.on_frame(heartbeat(0, 0, number=op * PROMPT_TICKS_MAX + number), b"")
            ticks(last, 1)
    assert found == [PROMPT_TICKS_MIN << each for each in range(6)] + [PROMPT_TICKS_MAX]
    for each in sealed_chain(from_op=op + 1, to_op=op + 2, commit=0, parent=last.state.last_prepare_checksum):
        take(last, each, 1)
    last.on_frame(heartbeat(0, 0, commit=op + 2, number=(op + 1) * PROMPT_TICKS_MAX), b"")
    settle_disk(last, ticks(last, 2 * KEPT_TICKS))
    assert last.state.spare_acks.prompt_ticks == 0


def test_what_the_primary_sends_itself_is_acknowledged_at_once() -> None:
    """The chain is broken then; so may it be for what comes from nobody knows whom."""
    last = member(2)
    first, second, third = sealed_chain(from_op=1, to_op=3)
    assert take(last, first, 0) == [(0, 1)]
    assert take(last, second, None) == [(0, 2)]
    assert take(last, third, 1) == []


def test_a_second_copy_down_the_chain_does_not_keep_back_the_word_for_the_first() -> None:
    last = member(2)
    [prepare] = sealed_chain(from_op=1, to_op=1)
    last.on_prepare(prepare, 0)
    last.on_prepare(prepare, 1)
    assert acknowledged(last.on_appended([position(prepare)])) == [(0, 1)]


@pytest.mark.parametrize(
    ("count", "view", "spare"),
    [(2, 0, []), (3, 0, [2]), (3, 1, [0]), (4, 0, [2, 3]), (5, 0, [3, 4]), (5, 3, [1, 2]), (7, 0, [3, 4, 5, 6])],
)
def test_whoever_is_needed_for_the_quorum_says_so_at_once(count: int, view: int, spare: list[int]) -> None:
    [prepare] = sealed_chain(from_op=1, to_op=1, view=view)
    others = [replica for replica in range(count) if replica != view]
    silent = [
        replica
        for replica in others
        if take(
            member(replica, count=count, view=view), prepare, (replica - 1) % count if replica - 1 != view else None
        )
        == []
    ]
    assert silent == spare


def test_nothing_is_remembered_of_what_was_applied_before_it_was_durable_here() -> None:
    last = member(2)
    [prepare] = sealed_chain(from_op=1, to_op=1)
    ticks(last, PAUSE_TICKS + 1)
    last.on_prepare(prepare, 0)
    assert last.state.spare_acks.direct == last.state.unhurried == {1}
    last.state.commit_max = last.state.apply_sent = last.state.commit_min = 1  # As after the install of a state.
    last.on_appended([position(prepare)])
    assert last.state.spare_acks.direct == last.state.unhurried == set()


def test_a_learner_in_the_chain_does_not_count() -> None:
    """D-09: it hands on, and acknowledges nothing."""
    last = member(2)
    last.on_abstainers_changed(0b010)
    [prepare] = sealed_chain(from_op=1, to_op=1)
    assert take(last, prepare, 1) == [(0, 1)]


def test_nothing_is_said_of_a_view_that_is_over() -> None:
    last = member(2)
    [prepare] = sealed_chain(from_op=1, to_op=1, commit=0)
    take(last, prepare, 1)
    settle_disk(last, last.on_frame(start_view_change(1, 1), b""))
    assert last.state.status is Status.VIEW_CHANGE
    assert acknowledged(settle_disk(last, ticks(last, 2 * KEPT_TICKS))) == []
    assert last.state.spare_acks.prompt_until == 0


def test_a_view_that_is_adopted_in_between_has_everything_acknowledged() -> None:
    last = member(2)
    chain = sealed_chain(from_op=1, to_op=2, commit=0)
    for prepare in chain:
        take(last, prepare, 1)
    effects = settle_disk(last, last.on_frame(*start_view(1, 1, op=2, commit=0, chain=chain)))
    assert acknowledged(effects) == [(1, 1), (1, 2)]


def test_nothing_is_flushed_where_nothing_was_sent() -> None:
    last = member(2)
    *earlier, newest = sealed_chain(from_op=1, to_op=UNAPPLIED_MAX + 1)
    for prepare in earlier:
        take(last, prepare, 1)
    last.on_prepare(newest, 1)
    effects = without_notes(last.on_appended([position(newest)]))
    assert of_type(effects, Send) == []
    assert of_type(effects, Flush) == []
    assert len(of_type(effects, Apply)) == UNAPPLIED_MAX
