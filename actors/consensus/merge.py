"""Which log a new view begins with, from the votes of a quorum (section 8.5). Pure: nothing but `Ready` changes any state.

The senders at the highest `log_view` are canonical: theirs is the newest log that was ever installed. Above the commit point
an op is discarded only when so many replicas deny it that it cannot have been committed; at or below it nothing is ever
discarded (I7): such a contradiction is a deadlock, for the next view or an operator to resolve.

Deviation: a canonical log that was cut at a boot does not bound the new one (D-24). What lies above its head is decided as
every other op is, up to the first one that nobody holds: that one has to be denied by a quorum too, or every member has to
have voted, for then no vote can bring it any more.

Deviation: when every member has voted, only logs that were cut are canonical, and fewer members than a quorum have that
log_view durably, nothing was committed in that view, since an acknowledgement waits for the log_view (D-11). What it began
with may have been committed before, so what a cut log lacks is taken from the newest older log, as far as it chains: to leave
it out could be a loss, and to wait would be for ever.

Deviation: while a vote is missing that will not come, an op whose body is missing where the view named it counts as denied
there. A voter acknowledges only what is in its log, so an op that too few can have held was never committed; waiting for its
body would be waiting for a member that stays away: for a learner, whose disk was lost (D-09), or for whoever has not voted in
half of the time that there is for a view. One that hears nobody, or whose disk hangs, would else keep two good members of three
from ever starting one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from levrier.actors.consensus.pipeline import PREPARE_QUEUE_CEILING
from levrier.actors.consensus.quorum import quorums_of
from levrier.actors.consensus.suffix import Suffix
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import identity_checksum


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One replica's DoViewChange. `is_cut`: its log was cut at a boot, so what it does not hold it does not deny (D-24)."""

    replica: int
    log_view: int
    op: int
    commit: int
    suffix: Suffix
    is_cut: bool = False

    def denies(self, op: int) -> bool:
        """Whether the sender says, by a nack or by where its head is, that it never held an op."""
        return not self.is_cut and (self.op < op or self.suffix.nacks(op))


@dataclass(frozen=True, slots=True)
class AwaitingQuorum:
    """Too few votes."""


@dataclass(frozen=True, slots=True)
class AwaitingRepair:
    """Op cannot be decided yet: no replica heard so far offers its body, or they contradict each other."""

    op: int


@dataclass(frozen=True, slots=True)
class Deadlocked:
    """Op cannot be decided with these votes, however long one waits."""

    op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The log: `headers` from `head` down to the commit point; `committed_elsewhere` are ops below it, descending, that a
    sender of an older log has and that chain to it."""

    head: int
    commit_max: int
    headers: tuple[PrepareHeader, ...] = ()
    committed_elsewhere: tuple[PrepareHeader, ...] = ()


Outcome = Ready | AwaitingQuorum | AwaitingRepair | Deadlocked


@dataclass(frozen=True, slots=True)
class _Tally:
    """What the votes say of one op."""

    canonical: PrepareHeader | None
    conflict: bool
    copies: int
    nacks: int
    bodiless: int
    """Of those that do not deny it: how many were told its header and never had its body."""


def merge(votes: Sequence[Vote], *, replica_count: int, abstaining: int = 0, missed: int = 0) -> Outcome:
    """Merge the first vote of each replica. `missed` of the others are not waited for, and `abstaining` of those need not
    vote at all (B-014).
    """
    assert len({vote.replica for vote in votes}) == len(votes)
    quorums = quorums_of(replica_count)
    if len(votes) + abstaining < quorums.view_change:
        return AwaitingQuorum()
    log_view = max(vote.log_view for vote in votes)
    commit_max = commit_point(votes)
    canonical = [vote for vote in votes if vote.log_view == log_view]
    head = max(commit_max, *(vote.op for vote in canonical))
    if any(vote.is_cut for vote in canonical):
        head = max(head, *(vote.op for vote in votes)) + 1
    if head == 0:
        return Ready(head=0, commit_max=0)
    is_top_undone = (
        len(votes) == replica_count and len(canonical) < quorums.replication and all(vote.is_cut for vote in canonical)
    )
    headers: list[PrepareHeader] = []
    for op in range(max(commit_max, 1), head + 1):
        tally = _count(votes, op, log_view)
        if tally.nacks >= quorums.nack:
            if op <= commit_max:
                return Deadlocked(op)
            head = op - 1
            break
        if missed and op > commit_max and tally.nacks + tally.bodiless >= quorums.nack:
            head = op - 1
            break
        if op > max(vote.op for vote in votes) and op > commit_max and len(votes) + abstaining == replica_count:
            head = op - 1
            break
        older = _of_an_older_log(votes, op, log_view) if is_top_undone and tally.canonical is None else None
        if older is not None:
            if headers and not _chains(headers[-1], older):
                head = op - 1
                break
            headers.append(older)
            continue
        if tally.conflict or tally.canonical is None or tally.copies == 0:
            return Deadlocked(op) if len(votes) == replica_count else AwaitingRepair(op)
        if headers and not _chains(headers[-1], tally.canonical):
            return Deadlocked(op - 1)
        headers.append(tally.canonical)
    headers.reverse()
    elsewhere = _committed_elsewhere(votes, log_view, headers)
    return (
        elsewhere
        if isinstance(elsewhere, Deadlocked)
        else Ready(head=head, commit_max=commit_max, headers=tuple(headers), committed_elsewhere=elsewhere)
    )


def _of_an_older_log(votes: Sequence[Vote], op: int, log_view: int) -> PrepareHeader | None:
    """The one entry that the members of the newest log below `log_view` that has any have at an op, if a body can be had."""
    older = [vote for vote in votes if vote.log_view < log_view and _is_held(vote, op)]
    rank = max((vote.log_view for vote in older), default=0)
    found = {header.checksum: header for vote in older if vote.log_view == rank and (header := vote.suffix.header(op))}
    is_offered = any(vote.suffix.offers(op) for vote in older if vote.log_view == rank)
    return next(iter(found.values())) if len(found) == 1 and is_offered else None


def _is_held(vote: Vote, op: int) -> bool:
    header = vote.suffix.header(op)
    return header is not None and _is_valid(header)


def commit_point(votes: Sequence[Vote], *, ceiling: int = PREPARE_QUEUE_CEILING) -> int:
    """The highest op that some vote proves committed.

    By its commit number; by its head, below which no more than `ceiling` prepares can be in flight; or by what its head
    header says. Never by the lowest op of a suffix, which may have been cut off above the commit point.
    """
    point = 0
    for vote in votes:
        head = vote.suffix.header(vote.op)
        point = max(point, vote.commit, vote.op - ceiling, head.commit if head is not None and _is_valid(head) else 0)
    return point


def _count(votes: Sequence[Vote], op: int, log_view: int) -> _Tally:
    canonical: PrepareHeader | None = None
    conflict = False
    for vote in votes:
        header = vote.suffix.header(op)
        if vote.log_view != log_view or header is None or not _is_valid(header):
            continue
        if canonical is None:
            canonical = header
        elif header.checksum != canonical.checksum:
            conflict = True
    is_known = canonical is not None or not all(vote.is_cut for vote in votes if vote.log_view == log_view)
    copies = nacks = bodiless = 0
    for vote in votes:
        header = vote.suffix.header(op)
        if vote.denies(op):
            nacks += 1
        elif header is not None and _is_valid(header):
            same = canonical is not None and header.checksum == canonical.checksum
            copies += same and vote.suffix.offers(op)
            nacks += vote.log_view < log_view and not same and is_known
            bodiless += same and not vote.suffix.offers(op) and not vote.is_cut
    return _Tally(canonical, conflict, copies, nacks, bodiless)


def _committed_elsewhere(
    votes: Sequence[Vote], log_view: int, headers: Sequence[PrepareHeader]
) -> tuple[PrepareHeader, ...] | Deadlocked:
    """What senders of an older log know committed below `headers`, as far as it chains to them."""
    floor = headers[-1].op if headers else 0
    claimed: dict[int, PrepareHeader] = {}
    for vote in votes:
        if vote.log_view == log_view:
            continue
        for header in vote.suffix.headers:
            if header.op > vote.commit or header.op >= floor or header.is_blank or not _is_valid(header):
                continue
            known = claimed.setdefault(header.op, header)
            if known.checksum != header.checksum:
                return Deadlocked(header.op)
    kept: list[PrepareHeader] = []
    above = headers[-1] if headers else None
    while above is not None and above.op - 1 in claimed and _chains(claimed[above.op - 1], above):
        above = claimed[above.op - 1]
        kept.append(above)
    return tuple(kept)


def _chains(lower: PrepareHeader, upper: PrepareHeader) -> bool:
    """Whether the upper entry names the lower one as its parent; an unsealed one cannot say, and passes."""
    return lower.checksum == 0 or upper.checksum == 0 or upper.parent == lower.checksum


def _is_valid(header: PrepareHeader) -> bool:
    """Whether a header is what its checksum says; an unsealed one has nothing to verify."""
    return header.checksum == 0 or header.checksum == identity_checksum(header.encode())
