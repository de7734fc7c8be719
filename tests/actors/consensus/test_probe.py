"""Heartbeats and view probes: who elects, who asks, who answers (sections 3, 5.11, 8.10)."""

import pytest

from levrier.actors.consensus.effects import PersistView
from levrier.actors.consensus.state import SUPERBLOCK_FAILURES_MAX, Status
from levrier.actors.consensus.timeouts import COMMIT_MESSAGE_TICKS, NORMAL_HEARTBEAT_TICKS, REQUEST_START_VIEW_TICKS
from levrier.wire.headers import PrepareHeader
from levrier.wire.replica_headers import (
    CommitHeader,
    RequestPreparesHeader,
    RequestStartViewHeader,
    StartViewChangeHeader,
    StartViewHeader,
)
from tests.actors.consensus.builders import admit, of_type, position, sealed_chain
from tests.actors.consensus.peers import (
    acknowledged,
    do_view_change,
    heartbeat,
    kinds,
    member,
    persists,
    prepare_ok,
    probe,
    reborn,
    sent,
    sent_of,
    settle_disk,
    start_view,
    start_view_change,
    ticks,
)


def test_a_backup_that_saw_a_newer_view_asks_instead_of_electing() -> None:
    """C-027: Recovering at the same view, no StartViewChange."""
    backup = member(1)
    backup.on_frame(heartbeat(0, 3), b"")
    effects = ticks(backup, NORMAL_HEARTBEAT_TICKS)
    assert (backup.state.status, backup.state.view) == (Status.RECOVERING, 0)
    assert sent(effects) == []


def test_a_backup_that_hears_nothing_elects() -> None:
    """C-028: view + 1, own vote in the same step; the frame leaves when the view is durable (D-11)."""
    backup = member(1)
    effects = ticks(backup, NORMAL_HEARTBEAT_TICKS)
    assert (backup.state.status, backup.state.view) == (Status.VIEW_CHANGE, 1)
    assert backup.state.start_view_change_votes == 0b010
    assert persists(effects) == [(1, 0)]
    assert sent(effects) == []
    assert kinds(backup.on_view_persisted(1, 0)) == [StartViewChangeHeader]


def test_a_newer_view_must_be_strictly_newer() -> None:
    """C-029."""
    backup = member(1, view=3)
    backup.state.observed_newer_view = 3
    ticks(backup, NORMAL_HEARTBEAT_TICKS)
    assert (backup.state.status, backup.state.view) == (Status.VIEW_CHANGE, 4)


def test_a_primary_that_saw_a_newer_view_stops_its_heartbeat_and_asks() -> None:
    """C-030."""
    primary = member(0)
    primary.on_frame(heartbeat(1, 4), b"")
    effects = ticks(primary, COMMIT_MESSAGE_TICKS)
    assert primary.state.status is Status.RECOVERING
    assert sent_of(effects, CommitHeader) == []


def test_a_primary_sends_its_heartbeat() -> None:
    """C-031: it carries what is applied, and names it."""
    chain = sealed_chain(from_op=1, to_op=3)
    primary = member(0, chain=chain, commit=3)
    [(to, header)] = sent(ticks(primary, COMMIT_MESSAGE_TICKS))
    assert isinstance(header, CommitHeader)
    assert (to, header.commit, header.commit_checksum) == (None, 3, chain[-1].header.checksum)
    assert primary.state.status is Status.NORMAL


def test_the_newest_view_seen_is_kept() -> None:
    """C-032."""
    backup = member(1)
    backup.on_frame(heartbeat(2, 5), b"")
    backup.on_frame(heartbeat(2, 2), b"")
    ticks(backup, NORMAL_HEARTBEAT_TICKS)
    assert (backup.state.observed_newer_view, backup.state.status) == (5, Status.RECOVERING)


def test_only_a_heartbeat_of_the_views_primary_with_a_larger_number_counts() -> None:
    """Section 5.11: prepares, strangers and repetitions do not re-arm the timer."""
    backup = member(1)
    ticks(backup, 100)
    left = backup.state.timeouts.normal_heartbeat.remaining
    backup.on_prepare(sealed_chain(from_op=1, to_op=1)[0])
    backup.on_frame(heartbeat(2, 0), b"")
    assert backup.state.timeouts.normal_heartbeat.remaining == left
    backup.on_frame(heartbeat(0, 0, number=7), b"")
    assert backup.state.timeouts.normal_heartbeat.remaining == NORMAL_HEARTBEAT_TICKS
    ticks(backup, 10)
    backup.on_frame(heartbeat(0, 0, number=7), b"")
    assert backup.state.timeouts.normal_heartbeat.remaining == NORMAL_HEARTBEAT_TICKS - 10


def test_a_silent_disk_silences_the_heartbeat() -> None:
    """BR-46, D-15: half of the heartbeat timeout after the disk stopped to answer, so that the others elect."""
    primary = member(0)
    admit(primary, 1)
    heard = [tick for tick in range(1000) if sent_of(primary.on_tick(), CommitHeader)]
    assert max(heard) <= NORMAL_HEARTBEAT_TICKS // 2
    assert heard


def test_a_primary_that_no_quorum_acknowledges_falls_silent() -> None:
    """Beyond D-15: it may be heard and hear nobody, and the others would never elect."""
    primary = member(0)
    settle_disk(primary, primary.on_appended([position(admit(primary, 1))]))
    heard = [tick for tick in range(1, 1001) if sent_of(primary.on_tick(), CommitHeader)]
    assert heard
    assert max(heard) <= NORMAL_HEARTBEAT_TICKS // 2


def test_a_primary_that_is_acknowledged_again_goes_on() -> None:
    primary = member(0)
    prepare = admit(primary, 1)
    settle_disk(primary, primary.on_appended([position(prepare)]))
    ticks(primary, NORMAL_HEARTBEAT_TICKS)
    primary.on_frame(prepare_ok(1, prepare), b"")
    assert primary.state.commit_max == 1
    assert len(sent_of(ticks(primary, 2 * COMMIT_MESSAGE_TICKS), CommitHeader)) >= 2


def test_a_primary_with_nothing_to_commit_is_never_silent() -> None:
    primary = member(0)
    beats = sent_of(ticks(primary, 4 * NORMAL_HEARTBEAT_TICKS), CommitHeader)
    assert len(beats) >= 4 * NORMAL_HEARTBEAT_TICKS // COMMIT_MESSAGE_TICKS - 1


def test_each_commit_starts_the_wait_for_a_quorum_again() -> None:
    """A quorum that is slow is a quorum: op after op waits, none of them for too long."""
    primary = member(0)
    first = admit(primary, 1)
    settle_disk(primary, primary.on_appended([position(first)]))
    for client in range(2, 8):
        following = admit(primary, client)
        settle_disk(primary, primary.on_appended([position(following)]))
        ticks(primary, NORMAL_HEARTBEAT_TICKS // 2 - 1)
        primary.on_frame(prepare_ok(1, first), b"")
        primary.on_applied(first.header.op)
        first = following
    assert sent_of(ticks(primary, COMMIT_MESSAGE_TICKS), CommitHeader)


def test_a_deposed_primary_is_shown_the_view() -> None:
    """Section 5.11: its heartbeat of an older view is answered with the log of the present one."""
    chain = sealed_chain(from_op=1, to_op=2, view=1)
    primary = member(1, chain=chain, commit=1, view=1)
    primary.state.commit_max = 1
    [(to, header)] = sent(primary.on_frame(heartbeat(0, 0), b""))
    assert isinstance(header, StartViewHeader)
    assert (to, header.view, header.op, header.commit) == (0, 1, 2, 1)


def test_a_restarted_member_joins_as_a_backup_and_asks() -> None:
    """C-240, section 12 step 9: same view from the superblock, Recovering, ceded; the first question after a second."""
    again = reborn(0, chain=sealed_chain(from_op=1, to_op=2), view=3)
    assert (again.state.status, again.state.view, again.state.ceded_primaryship) == (Status.RECOVERING, 3, True)
    assert sent(ticks(again, REQUEST_START_VIEW_TICKS - 1)) == []
    [(to, header)] = sent(again.on_tick())
    assert isinstance(header, RequestStartViewHeader)
    assert (to, header.view, header.incarnation) == (None, 3, again.state.config.incarnation)


@pytest.mark.parametrize("replica", [0, 1, 2])
def test_a_recovering_replica_is_in_no_quorum(replica: int) -> None:
    """Section 8.11: votes, prepares and heartbeats mean nothing to it, whatever view they are of."""
    recovering = reborn(replica, chain=sealed_chain(from_op=1, to_op=1), view=3)
    others = [other for other in range(3) if other != replica]
    effects = recovering.on_frame(start_view_change(others[0], 4), b"")
    effects += recovering.on_frame(*do_view_change(others[1], 4))
    effects += recovering.on_prepare(sealed_chain(from_op=2, to_op=2, view=3)[0])
    assert (sent(effects), persists(effects), recovering.state.view) == ([], [], 3)


def test_an_unanswered_probe_elects() -> None:
    """Section 3, BR-47: view 314 in the superblock, log at 250: something leaves, and in the end it elects."""
    chain = sealed_chain(from_op=246, to_op=250, parent=5)
    again = reborn(1, chain=chain, commit=0, view=314)
    questions = sent_of(settle_disk(again, ticks(again, 5 * REQUEST_START_VIEW_TICKS)), RequestStartViewHeader)
    assert len(questions) == 4
    assert (again.state.status, again.state.view) == (Status.VIEW_CHANGE, 315)


def test_who_answers_a_probe() -> None:
    """Section 8.10: the primary of the view alone, and it echoes the incarnation."""
    chain = sealed_chain(from_op=1, to_op=2)
    primary, backup = member(0, chain=chain, commit=1), member(1, chain=chain, commit=1)
    [(to, header)] = sent(primary.on_frame(probe(2, 0, incarnation=55), b""))
    assert isinstance(header, StartViewHeader)
    assert (to, header.op, header.incarnation) == (2, 2, 55)
    assert sent(backup.on_frame(probe(2, 0), b"")) == []


def test_an_answer_names_only_what_the_primary_durably_holds() -> None:
    """What may still fail to append is announced to nobody, or a rollback would take back what others know."""
    primary = member(0, chain=sealed_chain(from_op=1, to_op=2), commit=2)
    primary.state.commit_max = 2
    admit(primary, 1)
    [(_, header)] = sent(primary.on_frame(probe(2, 0), b""))
    assert isinstance(header, StartViewHeader)
    assert header.op == 2


def test_a_primary_that_asks_has_lost_its_place() -> None:
    """Section 8.10: the others elect at once, unless it asks about a view that is not theirs."""
    backup = member(1, view=3)
    backup.on_frame(probe(0, 2), b"")
    assert backup.state.status is Status.NORMAL
    backup.on_frame(probe(0, 3), b"")
    assert (backup.state.status, backup.state.view) == (Status.VIEW_CHANGE, 4)


def test_the_answer_to_an_older_probe_is_ignored() -> None:
    """C-103: Recovering at view 1, head 5; a foreign incarnation changes nothing, the own one is adopted."""
    chain = sealed_chain(from_op=1, to_op=5, view=0)
    again = reborn(0, chain=chain, commit=2, view=1, log_view=1)
    foreign = start_view(1, 1, op=4, commit=2, chain=chain[1:4], incarnation=77)
    again.on_frame(*foreign)
    assert (again.state.status, again.state.sequencer) == (Status.RECOVERING, 5)
    own = start_view(1, 1, op=4, commit=2, chain=chain[1:4], incarnation=again.state.config.incarnation)
    again.on_frame(*own)
    assert (again.state.status, again.state.sequencer) == (Status.NORMAL, 4)


def test_an_isolated_replica_does_not_come_back_with_an_inflated_view_as_a_backup_that_asked() -> None:
    """BR-11: one that saw a newer view asks, and adopts without a view change."""
    backup = member(2)
    backup.on_frame(heartbeat(1, 1), b"")
    ticks(backup, NORMAL_HEARTBEAT_TICKS)
    backup.on_frame(*start_view(1, 1, op=0, commit=0))
    assert (backup.state.status, backup.state.view) == (Status.NORMAL, 1)


def test_a_learner_never_elects_votes_or_acknowledges() -> None:
    """Birth, D-09: an exhausted probe does not either."""
    learner = reborn(2, voter=False)
    effects = settle_disk(learner, ticks(learner, 20 * REQUEST_START_VIEW_TICKS))
    assert (learner.state.status, learner.state.view) == (Status.RECOVERING, 0)
    assert set(kinds(effects)) == {RequestStartViewHeader}
    chain = sealed_chain(from_op=1, to_op=1, view=1)
    effects = settle_disk(learner, learner.on_frame(*start_view(1, 1, op=1, commit=0, chain=chain)))
    effects += settle_disk(learner, learner.on_prepare(chain[0]))
    effects += learner.on_frame(start_view_change(1, 2), b"")
    effects += settle_disk(learner, ticks(learner, 2 * NORMAL_HEARTBEAT_TICKS))
    assert acknowledged(effects) == []
    assert learner.state.view == 1
    # It is a link of the chain, and asks for what it lacks, no more.
    assert set(kinds(effects)) <= {RequestStartViewHeader, PrepareHeader, RequestPreparesHeader}


@pytest.mark.parametrize(("failures", "bound", "wedged"), [(119, 120, False), (120, 120, True), (121, 120, True)])
def test_a_wedged_superblock(failures: int, bound: int, wedged: bool) -> None:
    """C-139; C-140: a bound of 0 never ends the node, as the gate's own tests show."""
    backup = member(1)
    assert backup.state.config.superblock_failures_max == bound == SUPERBLOCK_FAILURES_MAX
    ticks(backup, NORMAL_HEARTBEAT_TICKS)
    backup.on_view_persist_failed(failures, "io")
    backup.on_tick()
    assert backup.state.failed is wedged


def test_nothing_is_said_while_the_superblock_fails() -> None:
    """C-243: the view moves in memory only; a few tries, no frame."""
    backup = member(1)
    effects = ticks(backup, NORMAL_HEARTBEAT_TICKS)
    tries = failures = 0
    for _ in range(800):
        if of_type(effects, PersistView):
            tries += 1
            failures += 1
            effects = backup.on_view_persist_failed(failures, "io")
            assert sent(effects) == []
            continue
        effects = backup.on_tick()
        assert sent(effects) == []
    assert 1 < tries < 40
    assert (backup.state.gate.view_durable, backup.state.status) == (0, Status.VIEW_CHANGE)
