"""A log that was cut at boot denies nothing, until a view has told what the log is (D-24, last sentence)."""

from collections.abc import Sequence

from levrier.actors.consensus.effects import Broadcast, Effect, PersistView, Read
from levrier.actors.consensus.merge import AwaitingRepair, Ready, Vote, merge
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.state import RecoveredState, Status
from levrier.actors.consensus.suffix import DVC_HEADERS_MAX, Suffix
from levrier.actors.consensus.view_change import own_vote
from levrier.wire.prepare import Prepare, restamp_view
from levrier.wire.replica_headers import DoViewChangeHeader
from levrier.wire.suffix import decode_suffix
from tests.actors.consensus.builders import config_of, of_type, restarted, sealed_chain
from tests.actors.consensus.peers import (
    acknowledged,
    do_view_change,
    sent_of,
    settle_disk,
    start_view,
    start_view_change,
    ticks,
)
from tests.actors.consensus.test_merge import chain, vote

INCARNATION = config_of().incarnation
CUT = sealed_chain(from_op=1, to_op=4, commit=2)
WHOLE = sealed_chain(from_op=1, to_op=6, commit=2)


def cut(
    replica: int, *, held: Sequence[Prepare] = CUT, commit: int = 2, view: int = 1, log_view: int | None = None
) -> Replica:
    """A member of three as it begins after a boot that cut its log."""
    return restarted(
        config_of(replica_count=3, replica=replica, depth=32),
        recovered=RecoveredState(
            view=view,
            log_view=view if log_view is None else log_view,
            commit=commit,
            headers=tuple(prepare.header for prepare in held),
            commit_known=commit,
            log_cut=True,
        ),
    )


def elect(replica: Replica) -> list[Effect]:
    """Nobody answers it, so it wants the next view, and so does another one."""
    effects: list[Effect] = []
    while replica.state.status is Status.RECOVERING:
        effects += settle_disk(replica, replica.on_tick())
    other = next(each for each in range(3) if each != replica.state.config.replica)
    return effects + settle_disk(replica, replica.on_frame(start_view_change(other, replica.state.view), b""))


def vote_frame(effects: Sequence[Effect]) -> tuple[DoViewChangeHeader, bytes]:
    """The one vote that left."""
    [header] = [header for _, header in sent_of(effects, DoViewChangeHeader)]
    assert isinstance(header, DoViewChangeHeader)
    [body] = [each.frame[256:] for each in of_type(effects, Broadcast) if each.frame[60] == 11]
    return header, body


def cut_vote(replica: int, *, op: int, commit: int, log_view: int = 1) -> Vote:
    """The vote of a cut log."""
    whole = vote(replica, op=op, commit=commit, log_view=log_view)
    return Vote(replica=replica, log_view=log_view, op=op, commit=commit, suffix=whole.suffix, is_cut=True)


# The merge


def test_nobody_is_believed_that_a_cut_log_ends_the_view() -> None:
    """The third member may hold what was cut, and have committed it with this one: its vote is waited for."""
    assert merge([cut_vote(0, op=5, commit=3), vote(1, op=5, commit=3)], replica_count=3) == AwaitingRepair(6)


def test_the_member_that_holds_what_was_cut_brings_it_back() -> None:
    """One disk lost an acknowledged op, another one has it."""
    votes = [cut_vote(0, op=5, commit=3), vote(1, op=5, commit=3), vote(2, op=7, commit=3)]
    outcome = merge(votes, replica_count=3)
    assert isinstance(outcome, Ready)
    assert outcome.head == 7


def test_a_quorum_of_others_that_denies_is_enough() -> None:
    """Two members of three never held op 6, so it was never committed."""
    votes = [cut_vote(0, op=5, commit=3), vote(1, op=5, commit=3), vote(2, op=5, commit=3)]
    outcome = merge(votes, replica_count=3)
    assert isinstance(outcome, Ready)
    assert outcome.head == 5


def test_when_everybody_has_voted_there_is_nothing_to_wait_for() -> None:
    """The power failed everywhere and tore every log: what nobody holds cannot be brought back by waiting."""
    outcome = merge([cut_vote(each, op=5, commit=3) for each in range(3)], replica_count=3)
    assert isinstance(outcome, Ready)
    assert outcome.head == 5


def test_an_older_log_is_not_contradicted_by_a_cut_one() -> None:
    """Op 6 of the older view may be in the newer view's log too: the only sender of that one has lost its end."""
    older = [vote(each, op=6, commit=3, log_view=1) for each in (1, 2, 3)]
    assert merge([cut_vote(0, op=5, commit=3, log_view=2), *older], replica_count=5) == AwaitingRepair(6)
    outcome = merge(
        [cut_vote(0, op=5, commit=3, log_view=2), *older, vote(4, op=6, commit=3, log_view=2)], replica_count=5
    )
    assert isinstance(outcome, Ready)
    assert outcome.head == 6


def test_an_older_log_is_contradicted_by_a_whole_one_beside_the_cut_one() -> None:
    """A sender of the newest log that never held the op says that its view left it out."""
    other = chain(1, 8, mark=2)
    votes = [
        cut_vote(0, op=5, commit=3, log_view=2),
        vote(1, op=5, commit=3, log_view=2),
        vote(2, op=6, commit=3, log_view=1),
        vote(3, op=5, commit=3, log_view=1, headers=other | {3: chain(1, 3)[3]}),
    ]
    outcome = merge(votes, replica_count=5)
    assert isinstance(outcome, Ready)
    assert outcome.head == 5


# The vote


def test_the_frame_of_a_cut_log_neither_nacks_nor_bounds() -> None:
    """Its head is the op above, blank, with a body: no other vote looks like that."""
    header, body = vote_frame(elect(cut(1)))
    headers = decode_suffix(body, op=header.op)
    assert (header.op, header.commit, header.nack_bitset) == (5, 2, 0)
    assert [each.is_blank for each in headers] == [True, False, False, False]
    assert header.present_bitset == 0b1111


def test_a_cut_log_with_a_hole_denies_the_hole_neither() -> None:
    """What was cut need not have been the highest op."""
    held = [CUT[0], CUT[1], CUT[3]]
    header, body = vote_frame(elect(cut(1, held=held)))
    assert [each.is_blank for each in decode_suffix(body, op=header.op)] == [True, False, True, False]
    assert header.nack_bitset == 0


def test_the_first_entry_of_a_log_may_be_what_was_cut() -> None:
    """An empty log says that it knows nothing, and its member does not begin as the first primary of a blank cluster."""
    replica = cut(0, held=(), commit=0, view=0)
    assert replica.state.status is Status.RECOVERING
    header, body = vote_frame(elect(replica))
    assert (header.op, header.present_bitset, header.nack_bitset) == (1, 1, 0)
    assert decode_suffix(body, op=1)[0].is_blank


def test_a_wide_suffix_loses_its_lowest_slot_to_the_mark() -> None:
    """128 slots fit."""
    held = sealed_chain(from_op=1, to_op=130, commit=2)
    header, body = vote_frame(elect(cut(1, held=held)))
    assert header.op == 131
    assert len(decode_suffix(body, op=131)) == DVC_HEADERS_MAX
    assert header.present_bitset == (1 << DVC_HEADERS_MAX) - 1


def test_a_vote_arrives_as_it_was_cast() -> None:
    """What the candidate merges is what the sender meant."""
    voter, candidate = cut(1), cut(2)
    header, body = vote_frame(elect(voter))
    elect(candidate)
    candidate.state.dvc_decided = True  # The vote is kept and not merged.
    candidate.on_frame(header, body)
    assert candidate.state.do_view_change_votes[1] == own_vote(voter.state)


def test_a_candidate_waits_for_the_third_vote() -> None:
    """Replica 2 leads view 2; of ops 5 and 6 it hears from replica 0 alone."""
    candidate = cut(2)
    elect(candidate)
    settle_disk(candidate, candidate.on_frame(*do_view_change(1, 2, log_view=1, commit=2, chain=CUT[1:])))
    assert not candidate.state.dvc_decided
    settle_disk(candidate, candidate.on_frame(*do_view_change(0, 2, log_view=1, commit=2, chain=WHOLE[1:])))
    assert candidate.state.pending is not None
    assert candidate.state.pending.head == 6


# Until a view is adopted or started


def test_an_adopted_view_ends_it() -> None:
    """The log of the new view was decided by a quorum: what this disk lost does not count any more."""
    replica = cut(1)
    settle_disk(replica, replica.on_frame(*start_view(2, 2, op=4, commit=2, chain=CUT[1:])))
    assert not own_vote(replica.state).is_cut


def test_a_started_view_ends_it() -> None:
    """A primary holds the whole merged log when it starts."""
    candidate = cut(2)
    elect(candidate)
    effects = settle_disk(candidate, candidate.on_frame(*do_view_change(1, 2, log_view=1, commit=2, chain=CUT[1:])))
    effects += settle_disk(candidate, candidate.on_frame(*do_view_change(0, 2, log_view=1, commit=2, chain=CUT[1:])))
    assert of_type(effects, Read) == [Read(3, 4)]
    effects += settle_disk(candidate, candidate.on_entries(CUT[2:]))
    assert candidate.state.is_acting_primary
    assert not own_vote(candidate.state).is_cut
    assert [each.settles_cut for each in of_type(effects, PersistView)][-1]


def test_a_disk_that_cannot_read_is_asked_again_by_the_next_tick_only() -> None:
    """Asked again by its own answer, it would be asked for ever, and nothing else would happen on this node."""
    candidate = cut(2)
    elect(candidate)
    settle_disk(candidate, candidate.on_frame(*do_view_change(1, 2, log_view=1, commit=2, chain=CUT[1:])))
    effects = settle_disk(candidate, candidate.on_frame(*do_view_change(0, 2, log_view=1, commit=2, chain=CUT[1:])))
    assert of_type(effects, Read) == [Read(3, 4)]
    assert of_type(candidate.on_entries(()), Read) == []
    assert of_type(candidate.on_frame(start_view_change(1, 2), b""), Read) == []
    assert of_type(candidate.on_tick(), Read) == [Read(3, 4)]
    settle_disk(candidate, candidate.on_entries(CUT[2:]))
    assert candidate.state.is_acting_primary


def test_the_answer_to_its_own_question_ends_it() -> None:
    """The primary of the same view says now how far its log goes, and it holds what this member acknowledged."""
    replica = cut(1, view=2)
    settle_disk(replica, replica.on_frame(*start_view(2, 2, op=4, commit=2, chain=CUT[1:], incarnation=INCARNATION)))
    assert replica.state.status is Status.NORMAL
    assert not own_vote(replica.state).is_cut


def test_an_old_start_view_of_the_same_view_ends_nothing() -> None:
    """It may have been under way since before the entries that were cut."""
    replica = cut(1, view=2)
    replica.on_frame(*start_view(2, 2, op=4, commit=2, chain=CUT[1:]))
    assert replica.state.status is Status.RECOVERING
    assert own_vote(replica.state).is_cut


def test_the_mark_stays_on_the_disk_until_the_log_of_the_view_is_held() -> None:
    """A restart in between forgets what the view named, and must not deny it then."""
    replica = cut(1)
    effects = settle_disk(replica, replica.on_frame(*start_view(2, 2, op=6, commit=2, chain=WHOLE[1:])))
    effects += ticks(replica, 3)
    assert [each for each in of_type(effects, PersistView) if each.settles_cut] == []
    assert replica.state.gate.cut_durable
    for prepare in WHOLE[4:]:
        effects = settle_disk(replica, replica.on_prepare(_in_view(prepare, 2)))
    assert [each.settles_cut for each in of_type(effects, PersistView)] == [True]
    assert not replica.state.gate.cut_durable
    assert acknowledged(effects)


def test_a_failed_write_of_the_mark_is_tried_again() -> None:
    """In the view that it was in already nothing else would write the superblock."""
    replica = cut(1, view=2)
    effects = replica.on_frame(*start_view(2, 2, op=4, commit=2, chain=CUT[1:], incarnation=INCARNATION))
    settle_disk(replica, [each for each in effects if not isinstance(each, PersistView)])
    written = [*of_type(effects, PersistView), *of_type(ticks(replica, 1), PersistView)]
    assert [each.settles_cut for each in written] == [True]
    replica.on_view_persist_failed(1, "a broken disk")
    again = of_type(ticks(replica, 10), PersistView)
    assert [each.settles_cut for each in again] == [True]


def _in_view(prepare: Prepare, view: int) -> Prepare:
    """As the primary of a later view sends it: the identity leaves the view out."""
    return Prepare.decode(restamp_view(prepare.frame, view))


def test_an_empty_suffix_is_no_cut_log() -> None:
    """It says nothing of what is below its head, and denies what is above."""
    quiet = Vote(replica=0, log_view=1, op=5, commit=3, suffix=Suffix())
    assert quiet.denies(6)
    assert not quiet.denies(5)
