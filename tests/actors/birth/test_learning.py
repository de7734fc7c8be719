"""A member whose disk was lost: it learns before it votes (B-005 to B-008, B-013, B-016)."""

import pytest

from levrier.actors.birth import core
from levrier.actors.birth.core import answers_needed
from levrier.actors.birth.member_state import MemberPhase
from tests.actors.birth.members import BLANK, Machine, Members, learner, voter


def wiped(count: int, *gone: int) -> Members:
    """A born cluster in which some members come back blank. Replica 1 leads view 1, with op 40 at its head."""
    members = Members([BLANK if each in gone else voter() for each in range(count)])
    for replica in range(count):
        machine = members.start(replica)
        machine.view = 1
        machine.op, machine.checksum, machine.leads = (40, 4040, True) if replica == 1 else (39, 3939, False)
    members.run()
    return members


def test_how_many_have_to_answer() -> None:
    """B-013: of four, three others, since two could miss a view that was promised."""
    assert [answers_needed(count) for count in (2, 3, 4, 5, 7)] == [1, 2, 3, 3, 4]


def test_a_blank_member_of_a_born_cluster_is_a_learner() -> None:
    """B-005: durably, and it says so to its Consensus; it votes only when it holds the head that was named to it."""
    members = wiped(3, 2)
    machine = members.up[2]
    assert members.disks[2] == learner()
    assert machine.all(core.Begin) == [core.Begin(birth_id=7, voter=False)]
    members.tick(100)
    assert members.voters == [0, 1]
    asked = machine.all(core.WantStanding)[-1]
    assert (asked.op, asked.checksum) == (40, 4040)
    machine.holds = True
    members.tick(core.HOLD_TICKS)
    assert members.voters == [0, 1, 2]
    assert machine.all(core.BecomeVoter) == [core.BecomeVoter()]


def test_a_learner_that_crashes_is_still_one() -> None:
    """B-006."""
    members = wiped(3, 2)
    members.tick(5)
    members.crash(2)
    members.run()
    machine = members.start(2)
    machine.view = 1
    members.tick(100)
    assert members.disks[2] == learner()
    assert machine.all(core.Begin) == []
    machine.holds = True
    members.tick(30)
    assert members.voters == [0, 1, 2]


def test_a_learner_follows_the_highest_view() -> None:
    """B-007: it had the head of a deposed primary named to it; a higher view starts the asking again."""
    members = wiped(3, 2)
    members.tick(30)
    machine, heir = members.up[2], members.up[0]
    members.up[1].leads = False
    for each in members.up.values():
        each.view = 3
    heir.leads, heir.op, heir.checksum = True, 50, 5050
    machine.holds = True
    members.tick(2)
    assert members.voters == [0, 1], "the head of the old view makes nobody a voter"
    machine.holds = False
    members.tick(30)
    asked = machine.all(core.WantStanding)[-1]
    assert (asked.op, asked.checksum) == (50, 5050)
    machine.holds = True
    members.tick(2)
    assert members.voters == [0, 1, 2]


def test_holding_the_head_is_not_enough_before_the_view_is_durable() -> None:
    members = wiped(3, 2)
    machine = members.up[2]
    machine.holds, machine.settled = True, False
    members.tick(50)
    assert members.voters == [0, 1]


def test_an_answer_of_the_wrong_round_counts_nothing() -> None:
    """The nonce tells an answer to this question from one to an earlier life's."""
    members = wiped(3, 2)
    members.crash(0)
    members.run()
    machine = members.up[2]
    machine.holds = True
    members.tick(100)
    assert members.voters == [0, 1]
    assert "1 of the 2 voters" in machine.all(core.Waiting)[-1].text


def test_a_wiped_majority_stays_down_and_says_so() -> None:
    """B-008: both stay learners, nothing is born again."""
    members = wiped(3, 0, 2)
    for each in members.up.values():
        each.holds = True
    members.tick(200)
    assert members.voters == [1]
    assert {own.birth_id for own in members.disks.values()} == {7}
    text = members.up[0].all(core.Waiting)[-1].text
    assert "1 of the 2 voters that have to answer" in text


def test_of_four_two_other_answers_are_too_few() -> None:
    """B-013: replica 3 promised view 1 and is wiped; only two others answer: it stays a learner."""
    members = wiped(4, 3)
    members.crash(0)
    members.run()
    members.up[3].holds = True
    members.tick(100)
    assert members.voters == [0, 1, 2]
    members.start(0).view = 1
    members.tick(30)
    assert members.voters == [0, 1, 2, 3]


def test_the_head_that_was_named_does_not_move() -> None:
    """B-016: under a load that never pauses the primary's head runs on; the learner's goal stands."""
    members = wiped(3, 2)
    members.tick(30)
    goals = set()
    for op in range(41, 90):
        members.up[1].op = op
        members.tick()
        goals.add(members.up[2].all(core.WantStanding)[-1].op)
    assert len(goals) == 1


@pytest.mark.parametrize("is_learner", [True, False])
def test_a_learner_is_said_to_abstain_until_it_votes(is_learner: bool) -> None:
    """B-014: the survivor of two may start a view without the vote of a learner."""
    members = Members([voter(), learner() if is_learner else voter()]).started()
    members.tick(2)
    said = members.up[0].all(core.Abstaining)
    assert said == ([core.Abstaining(replicas=0b10)] if is_learner else [])
    if is_learner:
        survivor: Machine = members.up[0]
        survivor.leads = True
        members.up[1].holds = True
        members.tick(30)
        assert survivor.all(core.Abstaining)[-1] == core.Abstaining(replicas=0)


def test_in_a_cluster_of_three_a_learner_is_told_of_too() -> None:
    """Its vote is not counted there, but nobody waits for a body that only its lost disk had."""
    members = wiped(3, 2)
    members.tick(30)
    assert members.up[0].all(core.Abstaining)[0] == core.Abstaining(replicas=0b100)


def test_a_learner_answers_no_learner() -> None:
    members = Members([voter(), learner(), learner()]).started()
    members.tick(60)
    assert all(own.phase is MemberPhase.BORN for own in members.disks.values())
    assert members.up[1].all(core.Send)
    answers = [effect for effect in members.up[1].all(core.Send) if type(effect.body).__name__ == "Answer"]
    assert answers == []
