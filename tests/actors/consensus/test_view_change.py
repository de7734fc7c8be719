"""Votes, the merge's decision, starting and adopting a view (sections 8.1 to 8.9)."""

import pytest

from levrier.actors.consensus.effects import Append, Apply, Effect, PersistView, Read, Truncate
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.state import Status
from levrier.actors.consensus.timeouts import VIEW_CHANGE_STATUS_TICKS
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import Prepare
from levrier.wire.replica_headers import (
    DoViewChangeHeader,
    RequestPreparesHeader,
    StartViewChangeHeader,
    StartViewHeader,
)
from levrier.wire.suffix import decode_suffix
from tests.actors.consensus.builders import (
    admit,
    append_and_apply,
    denials,
    of_type,
    position,
    request_of,
    sealed_chain,
    verdict_on,
)
from tests.actors.consensus.peers import (
    acknowledged,
    do_view_change,
    kinds,
    member,
    persists,
    sent,
    sent_of,
    settle_disk,
    start_view,
    start_view_change,
    ticks,
)


def vote_of(effects: list[Effect]) -> DoViewChangeHeader:
    [(_, header)] = sent_of(effects, DoViewChangeHeader)
    assert isinstance(header, DoViewChangeHeader)
    return header


def body_of(effects: list[Effect]) -> tuple[PrepareHeader, ...]:
    [frame] = [effect.frame for effect in effects if hasattr(effect, "frame") and effect.frame[60] == 11]
    return decode_suffix(frame[256:], op=vote_of(effects).op)


def elect(replica: Replica, view: int, other: int) -> list[Effect]:
    """Have a member vote in a view that another one wants."""
    return settle_disk(replica, replica.on_frame(start_view_change(other, view), b""))


def test_a_vote_carries_the_commit_point_known_not_the_one_applied() -> None:
    """C-090."""
    replica = member(1, chain=sealed_chain(from_op=1, to_op=13), commit=5)
    replica.state.commit_max = 13
    assert vote_of(elect(replica, 2, 0)).commit == 13


def test_a_vote_never_claims_a_commit_point_above_its_head() -> None:
    """C-091: commit 5 with head 4 would be refused on the wire."""
    replica = member(1, chain=sealed_chain(from_op=1, to_op=4), commit=2)
    replica.state.commit_max = 5
    vote = vote_of(elect(replica, 2, 0))
    assert (vote.op, vote.commit) == (4, 4)


def test_no_vote_while_an_append_is_under_way() -> None:
    """Rule 8: what the log holds is not known yet."""
    replica = member(1)
    [prepare] = sealed_chain(from_op=1, to_op=1)
    replica.on_prepare(prepare)
    replica.on_frame(start_view_change(0, 2), b"")
    assert sent_of(replica.on_view_persisted(2, 0), DoViewChangeHeader) == []
    vote = vote_of(replica.on_appended([position(prepare)]))
    assert (vote.op, vote.present_bitset) == (1, 1)


def test_an_unproven_entry_is_passed_over_in_silence() -> None:
    """D-16: blank, neither offered nor denied."""
    chain = sealed_chain(from_op=1, to_op=2, view=0)
    replica = member(2, chain=chain, commit=1, view=3, log_view=3)
    assert replica.state.unverified == {2}
    effects = elect(replica, 4, 0)
    assert (vote_of(effects).present_bitset, vote_of(effects).nack_bitset) == (0b10, 0)
    assert [entry.is_blank for entry in body_of(effects)] == [True, False]


def test_one_replica_makes_nobody_vote_in_five() -> None:
    """Section 8.2: two others must want the view."""
    replica = member(1, count=5)
    assert sent_of(elect(replica, 2, 0), DoViewChangeHeader) == []
    assert len(sent_of(elect(replica, 2, 3), DoViewChangeHeader)) == 1


def test_the_first_vote_of_a_replica_counts() -> None:
    """Section 8.4: a retransmitted vote may differ from the stored one and must never replace it."""
    chain = sealed_chain(from_op=1, to_op=2)
    candidate = member(1, count=5)
    candidate.on_frame(*do_view_change(0, 1, chain=chain))
    candidate.on_frame(*do_view_change(0, 1))
    assert candidate.state.do_view_change_votes[0].op == 2


def test_a_vote_with_a_broken_suffix_is_dropped() -> None:
    """Section 8.3: timestamps fall downwards, entries chain."""
    first = sealed_chain(from_op=1, to_op=1, timestamp=900)
    second = sealed_chain(from_op=2, to_op=2, parent=first[0].header.checksum, timestamp=1)
    candidate = member(1)
    candidate.on_frame(*do_view_change(0, 1, chain=[*first, *second]))
    assert candidate.state.do_view_change_votes == {}


def test_a_body_that_nobody_offers_is_waited_for() -> None:
    """C-092: of five, three votes without the body of op 4; a fourth offers it: head 4, commit 2."""
    chain = sealed_chain(from_op=1, to_op=4, commit=0)
    candidate = member(1, count=5)
    for sender in (2, 3):
        candidate.on_frame(*do_view_change(sender, 1, commit=2, chain=chain[1:], present=0b110))
    settle_disk(candidate, candidate.on_view_persisted(1, 0))
    assert candidate.state.pending is None
    candidate.on_frame(*do_view_change(4, 1, commit=2, chain=chain[1:]))
    pending = candidate.state.pending
    assert pending is not None
    assert (pending.head, pending.commit_max) == (4, 2)


def test_a_body_that_nobody_offers_is_given_up_after_half_of_the_time_for_a_view() -> None:
    """Three of five never had it, so it was not committed; whoever had it does not vote, and may never do so."""
    chain = sealed_chain(from_op=1, to_op=4, commit=0)
    candidate = member(1, chain=chain[:3], count=5, commit=2)
    for sender in (2, 3):
        candidate.on_frame(*do_view_change(sender, 1, commit=2, chain=chain[1:], present=0b110))
    settle_disk(candidate, candidate.on_view_persisted(1, 0))
    settle_disk(candidate, ticks(candidate, VIEW_CHANGE_STATUS_TICKS // 2 - 1))
    assert candidate.state.pending is None
    settle_disk(candidate, ticks(candidate, 1))
    pending = candidate.state.pending
    assert pending is not None
    assert (pending.head, pending.commit_max) == (3, 2)


def parked(chain: tuple[Prepare, ...], held: int, commit: int) -> Replica:
    """Replica 1 with the first `held` entries, elected for view 1 by a vote of replica 0 for the whole chain."""
    candidate = member(1, chain=chain[:held], commit=min(held, commit))
    settle_disk(candidate, candidate.on_frame(*do_view_change(0, 1, commit=commit, chain=chain[max(commit, 1) - 1 :])))
    return candidate


def test_a_decided_view_is_not_started_before_its_log_is_here() -> None:
    """C-093, C-094, BR-01: own head 3, the vote names 4 and 5: they are fetched first; log_view stays old until then."""
    chain = sealed_chain(from_op=1, to_op=5, commit=0)
    candidate = parked(chain, held=3, commit=3)
    state = candidate.state
    assert (state.status, state.view, state.log_view) == (Status.VIEW_CHANGE, 1, 0)
    assert state.dvc_decided
    assert state.repair is not None
    assert (state.repair.peer, state.repair.asked_from, state.repair.to_op) == (0, 4, 5)
    settle_disk(candidate, candidate.on_repair_prepare(chain[3]))
    assert state.status is Status.VIEW_CHANGE
    effects = settle_disk(candidate, candidate.on_repair_prepare(chain[4]))
    assert (state.status, state.log_view, state.pending, state.sequencer) == (Status.NORMAL, 1, None, 5)
    [(to, header)] = sent_of(effects, StartViewHeader)
    assert isinstance(header, StartViewHeader)
    assert (to, header.op, header.commit) == (None, 5, 3)
    assert persists(effects) == [(1, 1)]


def test_without_the_vote_that_knows_more_nothing_is_started() -> None:
    """BR-01: replica 0 silent and replica 1 missing: no start, not head 3."""
    candidate = member(2, chain=sealed_chain(from_op=1, to_op=3), commit=3)
    candidate.on_frame(start_view_change(0, 2), b"")
    settle_disk(candidate, candidate.on_view_persisted(2, 0))
    ticks(candidate, VIEW_CHANGE_STATUS_TICKS - 1)
    assert (candidate.state.status, candidate.state.pending) == (Status.VIEW_CHANGE, None)


def test_a_replica_that_never_held_history_does_not_outrank() -> None:
    """BR-09: one that came late votes with log_view 0, whatever view it was told of; head 40 is kept."""
    late = member(1)
    vote = vote_of(elect(late, 5, 0))
    assert (vote.view, vote.log_view, vote.op) == (5, 0, 0)
    chain = sealed_chain(from_op=1, to_op=40, view=2)
    candidate = member(2, chain=chain, commit=40, view=2)
    settle_disk(candidate, candidate.on_frame(*do_view_change(1, 5)))
    assert (candidate.state.status, candidate.state.sequencer) == (Status.NORMAL, 40)


def test_a_view_change_that_never_completes_goes_on_to_the_next_view() -> None:
    """C-095: the parked log is dropped."""
    candidate = parked(sealed_chain(from_op=1, to_op=5), held=3, commit=3)
    ticks(candidate, VIEW_CHANGE_STATUS_TICKS)
    assert (candidate.state.status, candidate.state.view, candidate.state.pending) == (Status.VIEW_CHANGE, 2, None)


def test_the_pipeline_is_rebuilt_from_what_is_not_committed() -> None:
    """C-096: with a depth of 64, 39 ops; each with the own acknowledgement, and only durable ones."""
    chain = sealed_chain(from_op=1, to_op=40, commit=0)
    candidate = member(1, chain=chain, commit=1, depth=64)
    effects = candidate.on_frame(*do_view_change(0, 1, commit=1, chain=chain))
    effects = settle_disk(candidate, effects)
    assert of_type(effects, Read) == [Read(2, 40)]
    settle_disk(candidate, candidate.on_entries(chain[1:]))
    entries = candidate.state.pipeline.prepares
    assert [entry.op for entry in entries] == list(range(2, 41))
    assert {entry.acknowledged for entry in entries} == {0b010}
    candidate.state.pipeline.verify()
    assert candidate.state.timeouts.prepare.ticking


def test_a_log_that_does_not_fit_the_pipeline_is_refused() -> None:
    """Section 8.5: no state changes."""
    chain = sealed_chain(from_op=1, to_op=6, commit=0)
    candidate = parked(chain, held=6, commit=1)
    assert (candidate.state.pending, candidate.state.dvc_decided) == (None, False)


def test_starting_a_view_is_local_and_telling_it_waits_for_the_disk() -> None:
    """C-105, D-11: pipeline and commit walk at once, one StartView behind the superblock."""
    chain = sealed_chain(from_op=1, to_op=3)
    candidate = member(1, chain=chain[:2], commit=1)
    candidate.state.bodies[2] = chain[1]
    candidate.on_frame(*do_view_change(0, 1, commit=2, chain=chain[1:2]))
    effects = candidate.on_truncated(3)
    assert candidate.state.status is Status.NORMAL
    assert [apply.prepare.header.op for apply in of_type(effects, Apply)] == [2]
    assert sent(effects) == []
    effects = candidate.on_view_persisted(1, 0)
    assert (sent(effects), persists(effects)) == ([], [(1, 1)])
    assert kinds(candidate.on_view_persisted(1, 1)) == [StartViewHeader]


def test_wanting_a_view_does_nothing_local() -> None:
    """C-106."""
    replica = member(1, chain=sealed_chain(from_op=1, to_op=2), commit=1)
    effects = replica.on_frame(start_view_change(2, 2), b"")
    assert of_type(effects, Apply) + of_type(effects, Append) + of_type(effects, Truncate) == []
    assert kinds(replica.on_view_persisted(2, 0)) == [StartViewChangeHeader, DoViewChangeHeader]


def test_live_prepares_wait_for_the_view_to_be_durable() -> None:
    """D-11: the gate is in front of them too."""
    candidate = member(1)
    candidate.on_frame(*do_view_change(0, 1))
    candidate.on_truncated(1)
    assert candidate.state.is_acting_primary
    prepare = admit(candidate, 1)
    assert sent(candidate.on_appended([position(prepare, 1)])) == []
    candidate.on_view_persisted(1, 0)
    assert kinds(candidate.on_view_persisted(1, 1)) == [StartViewHeader, PrepareHeader]


def test_a_view_start_bars_admission_until_what_was_inherited_is_applied() -> None:
    """Rule 4; C-267: an inherited request is in flight, its retry gets 57 and commits once."""
    chain = sealed_chain(from_op=1, to_op=2)
    candidate = member(1, chain=chain, commit=1)
    settle_disk(candidate, candidate.on_frame(*do_view_change(0, 1, commit=1, chain=chain)))
    settle_disk(candidate, candidate.on_entries(chain[1:]))
    assert candidate.state.status is Status.NORMAL
    assert denials(candidate.on_verdict(verdict_on(request_of(1002)))) == [(1002, 57)]
    assert denials(candidate.on_verdict(verdict_on(request_of(5)))) == [(5, 57)]
    candidate.state.pipeline.prepares[0].acknowledged |= 1
    candidate.state.pipeline.prepares[0].quorum_reached = True
    [apply] = of_type(candidate.on_tick(), Apply)
    assert apply.reply_to is None
    candidate.on_applied(2)
    assert admit(candidate, 6).header.op == 3


def test_what_clients_hear_when_the_primary_enters_a_view_change() -> None:
    """Rules 6 and 7, C-046: 58 for what was only queued, 57 for what was prepared; nobody hears twice."""
    primary = member(0, depth=2)
    applied = admit(primary, 1)
    primary.on_appended([position(applied)])
    entry = primary.state.pipeline.prepares[0]
    entry.quorum_reached = True
    assert len(of_type(primary.on_tick(), Apply)) == 1
    admit(primary, 2)
    primary.on_verdict(verdict_on(request_of(3)))
    assert denials(primary.on_frame(start_view_change(1, 1), b"")) == [(3, 58), (2, 57)]
    assert denials(primary.on_verdict(verdict_on(request_of(2)))) == [(2, 57)]
    assert denials(primary.on_verdict(verdict_on(request_of(1)))) == [(1, 57)]
    assert denials(primary.on_verdict(verdict_on(request_of(3)))) == [(3, 58)]


def test_a_request_that_the_new_view_left_out_never_happened() -> None:
    """D-29: 57 until the view is known, then 58."""
    primary = member(0)
    prepare = admit(primary, 1)
    primary.on_appended([position(prepare)])
    primary.on_frame(start_view_change(1, 1), b"")
    assert denials(primary.on_verdict(verdict_on(request_of(1)))) == [(1, 57)]
    settle_disk(primary, primary.on_frame(*start_view(1, 1, op=0, commit=0)))
    assert denials(primary.on_verdict(verdict_on(request_of(1)))) == [(1, 58)]


def test_a_start_view_with_headers_is_adopted() -> None:
    """C-101."""
    chain = sealed_chain(from_op=1, to_op=5, view=1)
    backup = member(2)
    backup.on_frame(*start_view(1, 1, op=5, commit=3, chain=chain[2:]))
    state = backup.state
    assert (state.status, state.view, state.log_view, state.sequencer) == (Status.NORMAL, 1, 1, 5)
    assert (sorted(state.adopted), state.commit_max) == ([3, 4, 5], 3)


def test_a_start_view_without_headers_is_adopted() -> None:
    """C-102."""
    backup = member(2)
    backup.on_frame(*start_view(1, 1, op=5, commit=3))
    assert (backup.state.sequencer, backup.state.adopted) == (5, {})


def test_a_start_view_of_the_same_view_against_the_commit_floor() -> None:
    """C-104: log_view 7, commit 105, head 120; op 104 is skipped, op 105 is adopted."""
    chain = sealed_chain(from_op=1, to_op=120, commit=0)
    backup = member(0, chain=chain, commit=105, view=7, log_view=7)
    backup.state.status = Status.RECOVERING
    backup.on_frame(*start_view(1, 7, op=104, commit=104))
    assert (backup.state.status, backup.state.sequencer) == (Status.RECOVERING, 120)
    backup.on_frame(*start_view(1, 7, op=105, commit=105))
    assert (backup.state.status, backup.state.sequencer) == (Status.NORMAL, 105)


def test_a_delayed_start_view_takes_nothing_away_that_was_acknowledged_in_its_view() -> None:
    """I6: the log only grows within a view; a repeated announcement is shorter, not newer."""
    chain = sealed_chain(from_op=1, to_op=3, view=1)
    backup = member(2, chain=chain[:1], view=1)
    for prepare in chain[1:]:
        settle_disk(backup, backup.on_prepare(prepare))
    effects = backup.on_frame(*start_view(1, 1, op=1, commit=1, chain=chain[:1]))
    assert of_type(effects, Truncate) == []
    assert (backup.state.sequencer, backup.state.mirror.last_op) == (3, 3)


@pytest.mark.parametrize("sender", [0, 2])
def test_a_start_view_of_another_than_its_primary_is_ignored(sender: int) -> None:
    """Section 8.9."""
    backup = member(1 if sender == 2 else 2)
    backup.on_frame(*start_view(sender, 1, op=5, commit=3))
    assert backup.state.view == 0


def test_a_backup_acknowledges_adopted_ops_only_behind_the_disk() -> None:
    """BR-13: no acknowledgement until log and superblock have answered."""
    chain = sealed_chain(from_op=1, to_op=3)
    backup = member(2, chain=chain)
    effects = backup.on_frame(*start_view(1, 1, op=3, commit=0, chain=chain))
    assert (acknowledged(effects), of_type(effects, Truncate), persists(effects)) == ([], [Truncate(4)], [])
    effects = backup.on_truncated(4)
    assert (acknowledged(effects), persists(effects)) == ([], [(1, 1)])
    assert acknowledged(backup.on_view_persisted(1, 1)) == [(1, 1), (1, 2), (1, 3)]


def test_a_log_view_becomes_durable_only_behind_the_reconciled_log() -> None:
    """D-16: at boot the superblock vouches for what the log holds."""
    stale = sealed_chain(from_op=1, to_op=3)
    backup = member(2, chain=stale)
    effects = backup.on_frame(*start_view(1, 1, op=0, commit=0))
    assert (of_type(effects, Truncate), of_type(effects, PersistView)) == ([Truncate(1)], [])
    assert persists(backup.on_truncated(1)) == [(1, 1)]


def test_an_announcement_of_what_is_here_asks_for_nothing() -> None:
    """BR-07: head 8, commit 8: no repair of the range 9 to 8."""
    chain = sealed_chain(from_op=1, to_op=8)
    backup = member(2, chain=chain, commit=8)
    effects = settle_disk(backup, backup.on_frame(*start_view(1, 1, op=8, commit=8, chain=chain[7:])))
    assert sent_of(effects, RequestPreparesHeader) == []
    assert backup.state.status is Status.NORMAL


def test_the_applied_prefix_is_never_cut() -> None:
    """I7: an announcement below what is applied changes nothing of it."""
    primary = member(0)
    prepare = admit(primary, 1)
    primary.state.quorums = type(primary.state.quorums)(replication=1, view_change=2, nack=2, faulty_max=1)
    append_and_apply(primary, prepare)
    effects = primary.on_frame(*start_view(1, 1, op=0, commit=0))
    assert [cut.from_op for cut in of_type(effects, Truncate)] == [2]
