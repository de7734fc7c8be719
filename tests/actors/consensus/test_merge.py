"""The merge of a view change, vote by vote (section 8.5)."""

from collections.abc import Iterable
from dataclasses import replace

from levrier.actors.consensus.merge import (
    AwaitingQuorum,
    AwaitingRepair,
    Deadlocked,
    Ready,
    Vote,
    commit_point,
    merge,
)
from levrier.actors.consensus.suffix import Suffix
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import METADATA_GROUP, project


def chain(from_op: int, to_op: int, *, parent: int = 0, commit: int = 0, mark: int = 1) -> dict[int, PrepareHeader]:
    """Headers by op that chain; `mark` tells two chains apart, `commit` is stamped into each."""
    headers = {}
    for op in range(from_op, to_op + 1):
        header = project(
            cluster=77, view=0, replica=0, client=mark, parent=parent, request_checksum=0, op=op, commit=commit,
            timestamp=op, request=op, operation=129, group=METADATA_GROUP, user_id=1, body=b"",
        ).header  # fmt: skip
        parent = header.checksum
        headers[op] = header
    return headers


LOG = chain(1, 8)


def vote(
    replica: int,
    *,
    op: int,
    commit: int,
    floor: int | None = None,
    log_view: int = 1,
    headers: dict[int, PrepareHeader] | None = None,
    nacks: Iterable[int] = (),
    bodiless: Iterable[int] = (),
    blanks: Iterable[int] = (),
) -> Vote:
    """A vote whose slots from `op` down to `floor` hold `headers`, with bodies except where said otherwise."""
    known = LOG if headers is None else headers
    nacked, without_body, blank = set(nacks), set(bodiless), set(blanks)
    slots, present, nack = [], 0, 0
    for index, slot in enumerate(range(op, max(commit if floor is None else floor, 1) - 1, -1)):
        if slot in nacked or slot in blank:
            slots.append(PrepareHeader.blank(slot))
            nack |= (slot in nacked) << index
        else:
            slots.append(known[slot])
            present |= (slot not in without_body) << index
    suffix = Suffix(head=op, headers=tuple(slots), present=present, nack=nack)
    return Vote(replica=replica, log_view=log_view, op=op, commit=commit, suffix=suffix)


def silent(replica: int, *, op: int, commit: int) -> Vote:
    """A vote with numbers and an empty suffix."""
    return Vote(replica=replica, log_view=1, op=op, commit=commit, suffix=Suffix())


def ready(*votes: Vote, missed: int = 0) -> Ready:
    outcome = merge(votes, replica_count=3, missed=missed)
    assert isinstance(outcome, Ready), outcome
    return outcome


def ops(headers: Iterable[PrepareHeader]) -> list[int]:
    return [header.op for header in headers]


def test_one_vote_of_three_is_no_quorum() -> None:
    """Section 8.5."""
    assert merge([vote(0, op=5, commit=3)], replica_count=3) == AwaitingQuorum()


def test_equal_votes_give_their_log() -> None:
    """C-115."""
    outcome = ready(vote(0, op=5, commit=3), vote(1, op=5, commit=3))
    assert (outcome.head, outcome.commit_max, ops(outcome.headers)) == (5, 3, [5, 4, 3])


def test_a_nack_quorum_discards_an_op() -> None:
    """C-116."""
    outcome = ready(vote(0, op=4, commit=3, nacks=[4]), vote(1, op=4, commit=3, nacks=[4]))
    assert (outcome.head, ops(outcome.headers)) == (3, [3])


def test_one_nack_discards_nothing() -> None:
    """C-117."""
    assert ready(vote(0, op=4, commit=3, nacks=[4]), vote(1, op=4, commit=3)).head == 4


def test_the_commit_point_is_never_discarded() -> None:
    """C-118: I7."""
    votes = [vote(0, op=3, commit=3, nacks=[3]), vote(1, op=3, commit=3, nacks=[3])]
    assert merge(votes, replica_count=3) == Deadlocked(3)


def test_a_commit_point_that_nobody_has_is_a_deadlock() -> None:
    """C-119."""
    votes = [vote(replica, op=3, commit=3, blanks=[3]) for replica in range(3)]
    assert merge(votes, replica_count=3) == Deadlocked(3)


def test_one_holder_of_the_commit_point_is_enough() -> None:
    """C-120."""
    outcome = ready(vote(0, op=3, commit=3, blanks=[3]), vote(1, op=3, commit=3))
    assert outcome.headers == (LOG[3],)


def test_a_header_without_a_body_waits_for_the_last_replica() -> None:
    """C-121."""
    votes = [vote(replica, op=4, commit=3, bodiless=[4]) for replica in range(2)]
    assert merge(votes, replica_count=3) == AwaitingRepair(4)


def test_a_header_whose_body_nobody_has_is_a_deadlock() -> None:
    """C-122."""
    votes = [vote(replica, op=4, commit=3, bodiless=[4]) for replica in range(3)]
    assert merge(votes, replica_count=3) == Deadlocked(4)


def test_a_body_that_only_a_lost_disk_had_is_not_waited_for() -> None:
    """Two of three never had it, so it was not committed; the vote of the third is not waited for, as that of a learner."""
    votes = [vote(replica, op=5, commit=3, bodiless=[5]) for replica in range(2)]
    assert merge(votes, replica_count=3) == AwaitingRepair(5)
    assert ops(ready(*votes, missed=1).headers) == [4, 3]
    assert merge([votes[0], vote(1, op=5, commit=5, bodiless=[5])], replica_count=3, missed=1) == AwaitingRepair(5)
    assert merge([votes[0], replace(votes[1], is_cut=True)], replica_count=3, missed=1) == AwaitingRepair(5)
    assert ops(ready(votes[0], vote(1, op=5, commit=3), missed=1).headers) == [5, 4, 3]


def test_the_newer_log_wins() -> None:
    """C-123."""
    stale = LOG | chain(4, 4, parent=LOG[3].checksum, mark=9)
    outcome = ready(vote(0, op=4, commit=3, log_view=1, headers=stale), vote(1, op=4, commit=3, log_view=2))
    assert outcome.headers == (LOG[4], LOG[3])


def test_a_committed_op_below_the_window_is_listed() -> None:
    """C-124."""
    outcome = ready(
        vote(0, op=4, commit=4, floor=2, log_view=1),
        vote(1, op=6, commit=5, log_view=2),
        vote(2, op=6, commit=5, log_view=2),
    )
    assert ops(outcome.headers) == [6, 5]
    assert ops(outcome.committed_elsewhere) == [4, 3, 2]


def test_a_committed_claim_that_does_not_chain_is_not_listed() -> None:
    """C-125."""
    stranger = chain(2, 4, mark=9)
    outcome = ready(
        vote(0, op=4, commit=4, floor=2, log_view=1, headers=stranger),
        vote(1, op=6, commit=5, log_view=2),
        vote(2, op=6, commit=5, log_view=2),
    )
    assert outcome.committed_elsewhere == ()


def test_a_corrupted_header_discards_nothing() -> None:
    """C-126: it is no copy, but no nack either."""
    damaged = PrepareHeader(4, client=5, checksum=LOG[4].checksum, parent=LOG[3].checksum)
    outcome = ready(vote(0, op=4, commit=3, headers=LOG | {4: damaged}), vote(1, op=4, commit=3))
    assert (outcome.head, outcome.headers[0]) == (4, LOG[4])


def test_two_valid_headers_of_the_newest_log_that_differ_discard_nothing() -> None:
    """C-126: a conflict is never resolved by guessing."""
    other = LOG | chain(4, 4, parent=LOG[3].checksum, mark=9)
    votes = [vote(0, op=4, commit=3, headers=other), vote(1, op=4, commit=3)]
    assert merge(votes, replica_count=3) == AwaitingRepair(4)


def test_silence_is_not_a_nack() -> None:
    """C-127."""
    outcome = ready(silent(0, op=4, commit=3), vote(1, op=4, commit=3, nacks=[]), vote(2, op=3, commit=3))
    assert outcome.head == 4


def test_a_clamped_window_does_not_raise_the_commit_point() -> None:
    """C-128."""
    headers = chain(1, 400)
    clamped = vote(0, op=400, commit=200, floor=273, headers=headers)
    assert commit_point([clamped], ceiling=1000) == 200
    assert commit_point([clamped]) == 400 - 127


def test_the_floor_of_a_window_is_not_a_commit_point() -> None:
    """C-129."""
    assert commit_point([vote(0, op=3, commit=0, floor=1)]) == 0


def test_two_older_senders_that_disagree_on_a_committed_op_are_a_deadlock() -> None:
    """C-130."""
    stranger = chain(2, 4, mark=9)
    votes = [
        vote(0, op=4, commit=4, floor=2, log_view=1),
        vote(1, op=4, commit=4, floor=2, log_view=1, headers=stranger),
        vote(2, op=6, commit=5, log_view=2),
        vote(3, op=6, commit=5, log_view=2),
        vote(4, op=6, commit=5, log_view=2),
    ]
    assert isinstance(merge(votes, replica_count=5), Deadlocked)


def test_the_head_header_proves_what_was_committed() -> None:
    """C-131."""
    headers = chain(1, 5, commit=3)
    assert commit_point([vote(replica, op=5, commit=2, headers=headers) for replica in range(2)]) == 3


def test_a_log_that_does_not_chain_is_a_deadlock() -> None:
    """Section 8.5: each header names the one below."""
    torn = LOG | chain(5, 5, parent=12345)
    votes = [vote(replica, op=5, commit=3, headers=torn) for replica in range(2)]
    assert merge(votes, replica_count=3) == Deadlocked(4)


def test_blank_replicas_begin_with_an_empty_log() -> None:
    """Section 8.5: Ready(empty)."""
    assert ready(silent(0, op=0, commit=0), silent(1, op=0, commit=0)) == Ready(head=0, commit_max=0)


def test_a_short_log_of_an_older_view_denies_what_it_lacks() -> None:
    """Section 8.5: vote.op < op is a nack."""
    outcome = ready(vote(0, op=3, commit=3), vote(1, op=3, commit=3), vote(2, op=4, commit=3))
    assert outcome.head == 3
