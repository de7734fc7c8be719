"""Birth and learning as Consensus sees them, what it publishes of itself, and a primary-elect that is left behind."""

from levrier.actors.bus.messages import Leadership
from levrier.actors.consensus.effects import Effect, Publish, TellBirth
from levrier.actors.consensus.messages import StandingWanted
from levrier.actors.consensus.repair import RANGE_EVICTED
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.state import RecoveredState, Status
from levrier.actors.consensus.timeouts import NORMAL_HEARTBEAT_TICKS, REQUEST_START_VIEW_TICKS
from levrier.wire.replica_headers import (
    DoViewChangeHeader,
    RepairRangeReplyHeader,
    RequestPreparesHeader,
    RequestStartViewHeader,
)
from tests.actors.consensus.builders import config_of, of_type, restarted, sealed_chain
from tests.actors.consensus.peers import (
    CLUSTER,
    GROUP,
    acknowledged,
    do_view_change,
    heartbeat,
    member,
    persists,
    reborn,
    sent,
    sent_of,
    settle_disk,
    start_view,
    start_view_change,
    ticks,
)


def unborn(replica: int, *, count: int = 3) -> Replica:
    """A member before the birth."""
    return restarted(config_of(replica_count=count, replica=replica), recovered=RecoveredState(born=False, voter=False))


def told(effects: list[Effect]) -> list[Leadership]:
    """What was published."""
    return [effect.leadership for effect in of_type(effects, Publish)]


def test_before_the_birth_nothing_is_taken_part_in() -> None:
    """B-002: no vote, no acknowledgement, no election, however long it takes and whoever speaks."""
    early = unborn(0)
    (first,) = sealed_chain(from_op=1, to_op=1)
    assert early.on_prepare(first) == []
    assert early.on_repair_prepare(first) == []
    assert early.on_frame(start_view_change(1, 1), b"") == []
    assert early.on_frame(*do_view_change(1, 3)) == []
    assert ticks(early, 4 * NORMAL_HEARTBEAT_TICKS) == []
    assert (early.state.status, early.state.view) == (Status.RECOVERING, 0)


def test_the_birth_makes_replica_0_the_primary_of_view_0() -> None:
    first, second = unborn(0), unborn(1)
    first.on_born(True)
    second.on_born(True)
    assert first.state.is_acting_primary
    assert (second.state.status, second.state.is_acting_primary) == (Status.NORMAL, False)
    assert second.state.timeouts.normal_heartbeat.ticking


def test_a_learner_is_born_asking() -> None:
    """It asks for the view, and when nobody answers it does not elect (birth specification)."""
    learner = unborn(0)
    learner.on_born(False)
    assert learner.state.status is Status.RECOVERING
    effects = ticks(learner, 12 * REQUEST_START_VIEW_TICKS)
    assert len(sent_of(effects, RequestStartViewHeader)) == 12
    assert (learner.state.status, learner.state.view) == (Status.RECOVERING, 0)


def test_what_is_published_is_published_once() -> None:
    backup = member(1)
    assert told(backup.publish()) == [Leadership(view=0, leader=0, serves=True)]
    assert backup.publish() == []
    backup.on_frame(start_view_change(2, 1), b"")
    assert told(backup.publish()) == [Leadership(view=1, leader=None, serves=False)]


def test_a_primary_says_when_it_serves() -> None:
    """Not before it has applied what it inherited."""
    chain = sealed_chain(from_op=1, to_op=3, commit=0)
    heir = member(1, chain=chain, commit=1)
    settle_disk(heir, heir.on_frame(*do_view_change(0, 1, commit=1, chain=chain)))
    heir.on_entries(chain[1:])
    assert heir.state.is_acting_primary
    assert told(heir.publish()) == [Leadership(view=1, leader=1, serves=False)]


def test_a_standing_names_the_durable_head() -> None:
    chain = sealed_chain(from_op=1, to_op=3, commit=0)
    backup = member(1, chain=chain, commit=1)
    (effect,) = of_type(
        backup.on_standing_wanted(StandingWanted(token=4, op=3, checksum=chain[2].header.checksum)), TellBirth
    )
    standing = effect.standing
    assert (standing.token, standing.view, standing.is_settled, standing.is_primary) == (4, 0, True, False)
    assert (standing.op, standing.checksum, standing.holds) == (3, chain[2].header.checksum, True)


def test_another_entry_at_that_op_is_not_held() -> None:
    """An op number alone never makes an entry the one that was named (D-16)."""
    chain = sealed_chain(from_op=1, to_op=3, commit=0)
    backup = member(1, chain=chain, commit=1)
    for wanted, holds in (
        (StandingWanted(token=1, op=3, checksum=99), False),
        (StandingWanted(token=2, op=4, checksum=99), False),
        (StandingWanted(token=3, op=1, checksum=0), True),
        (StandingWanted(token=4), True),
    ):
        (effect,) = of_type(backup.on_standing_wanted(wanted), TellBirth)
        assert effect.standing.holds is holds, wanted


def test_an_unproven_entry_is_not_held_for_a_standing() -> None:
    chain = sealed_chain(from_op=1, to_op=3, commit=0)
    restarted_one = reborn(1, chain=chain, view=4, log_view=4)
    assert 3 in restarted_one.state.unverified
    wanted = StandingWanted(token=1, op=3, checksum=chain[2].header.checksum)
    (effect,) = of_type(restarted_one.on_standing_wanted(wanted), TellBirth)
    assert not effect.standing.holds
    assert not effect.standing.is_settled


def test_of_two_the_survivor_starts_a_view_alone_while_the_other_learns() -> None:
    """B-014: the learner's vote is not waited for; without a learner it is."""
    chain = sealed_chain(from_op=1, to_op=2)
    for abstaining, status in ((0b10, Status.NORMAL), (0, Status.VIEW_CHANGE)):
        survivor = member(0, count=2, chain=chain, commit=2, view=1)
        survivor.on_abstainers_changed(abstaining)
        settle_disk(survivor, ticks(survivor, NORMAL_HEARTBEAT_TICKS))
        assert (survivor.state.view, survivor.state.status) == (2, status)


def test_of_three_nobody_s_vote_is_done_without() -> None:
    candidate = member(1, count=3)
    candidate.on_abstainers_changed(0b101)
    settle_disk(candidate, ticks(candidate, NORMAL_HEARTBEAT_TICKS))
    assert candidate.state.status is Status.VIEW_CHANGE


def test_a_primary_elect_that_is_left_behind_leaves_the_lead() -> None:
    """What it misses nobody keeps any more, and no state is offered before a view begins: the next replica leads.

    Asking again at once would go on for as long as the view.
    """
    chain = sealed_chain(from_op=1, to_op=9)
    late = member(1, chain=chain[:2], commit=2)
    settle_disk(late, late.on_frame(*do_view_change(0, 1, commit=8, chain=chain[7:])))
    session = late.state.repair
    assert session is not None
    gone = RepairRangeReplyHeader(
        command=RANGE_EVICTED, cluster=CLUSTER, group=GROUP, replica=0, view=1, nonce=session.nonce, op=7
    )
    effects = settle_disk(late, late.on_frame(gone, b""))
    assert (late.state.view, late.state.status, late.state.pending) == (2, Status.VIEW_CHANGE, None)
    assert start_view_change(1, 2) in [header for _, header in sent(effects)]


def test_a_heartbeat_before_the_birth_is_not_heard() -> None:
    early = unborn(1)
    early.on_frame(heartbeat(0, 3, commit=9), b"")
    assert (early.state.commit_max, early.state.observed_newer_view) == (0, 0)


def test_a_log_view_is_written_only_with_the_log_that_was_announced() -> None:
    """Else a restart would vote with the rank of a log that is not here, and leave out what others acknowledged.

    Replica 2 adopts view 1, whose head 3 it lacks: view 1 is durable at once, log_view 1 only behind op 3, and until then it
    acknowledges nothing and votes for another view all the same.
    """
    chain = sealed_chain(from_op=1, to_op=3, commit=0)
    backup = member(2, chain=chain[:2], commit=1)
    effects = settle_disk(backup, backup.on_frame(*start_view(1, 1, op=3, commit=1, chain=chain)))
    effects += settle_disk(backup, ticks(backup, 2))
    assert persists(effects) == [(1, 0)]
    assert acknowledged(effects) == []
    assert backup.state.log_view == 1
    [(peer, asked)] = sent_of(effects, RequestPreparesHeader)
    assert isinstance(asked, RequestPreparesHeader)
    assert (peer, asked.from_op, asked.to_op) == (1, 3, 3)  # Committed or not.
    arrived = settle_disk(backup, backup.on_repair_prepare(chain[2]))
    arrived += settle_disk(backup, ticks(backup, 2))
    assert persists(arrived) == [(1, 1)]
    assert {op for _, op in acknowledged(arrived)} == {2, 3}


def test_a_vote_does_not_wait_for_an_announced_log() -> None:
    """What it says of that log is true whether the log has come or not: its names are passed on, without their bodies."""
    chain = sealed_chain(from_op=1, to_op=3, commit=0)
    backup = member(2, chain=chain[:2], commit=1)
    settle_disk(backup, backup.on_frame(*start_view(1, 1, op=3, commit=1, chain=chain)))
    effects = settle_disk(backup, backup.on_frame(start_view_change(0, 3), b""))
    votes = [header for _, header in sent_of(effects, DoViewChangeHeader)]
    assert [(vote.view, getattr(vote, "op", None), getattr(vote, "log_view", None)) for vote in votes] == [(3, 3, 1)]
