"""Repair: scope, sessions, serving, and what counts as proven (section 10, D-12, D-16)."""

from collections.abc import Sequence

import pytest

from levrier.actors.consensus.cutting import cut
from levrier.actors.consensus.effects import Append, Apply, Effect, PersistView, Read, Send, TellTransfer, Truncate
from levrier.actors.consensus.repair import (
    FED_TICKS,
    RANGE_EVICTED,
    REPAIR_DONE,
    REPAIR_RETRY_TICKS,
    STALLS_MAX,
    first_uncovered,
    is_in_scope,
    open_session,
)
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.serving import served_to
from levrier.actors.consensus.state import PendingLog, Status
from levrier.actors.consensus.verified import distrust
from levrier.actors.state_transfer.messages import FetchRequired
from levrier.wire.prepare import Prepare
from levrier.wire.replica_headers import RepairRangeReplyHeader, RequestPreparesHeader
from tests.actors.consensus.builders import of_type, position, sealed_chain, without_notes
from tests.actors.consensus.peers import (
    CLUSTER,
    GROUP,
    acknowledged,
    heartbeat,
    member,
    reborn,
    sent_of,
    settle_disk,
    start_view,
    start_view_change,
    ticks,
)


def parked_log(chain: tuple[Prepare, ...], commit: int, elsewhere: tuple[Prepare, ...] = ()) -> PendingLog:
    headers = tuple(prepare.header for prepare in reversed(chain))
    return PendingLog(
        head=headers[0].op,
        commit_max=commit,
        headers=headers,
        named={prepare.header.op: prepare.header for prepare in (*chain, *elsewhere)},
        votes=(),
        next_op=0,
    )


def asked(effects: Sequence[Effect]) -> list[tuple[int | None, int, int]]:
    return [
        (to, header.from_op, header.to_op)
        for to, header in sent_of(effects, RequestPreparesHeader)
        if isinstance(header, RequestPreparesHeader)
    ]


def done(replica: Replica, op: int, command: int = REPAIR_DONE, sender: int = 0) -> RepairRangeReplyHeader:
    session = replica.state.repair
    assert session is not None
    return RepairRangeReplyHeader(
        command=command, cluster=CLUSTER, group=GROUP, replica=sender, nonce=session.nonce, op=op
    )


def request(sender: int, from_op: int, to_op: int, *, view: int = 0) -> RequestPreparesHeader:
    return RequestPreparesHeader(
        cluster=CLUSTER, group=GROUP, replica=sender, view=view, nonce=7, from_op=from_op, to_op=to_op
    )


def test_a_backup_needs_everything_above_what_is_applied() -> None:
    """C-132, C-133: what its view named does not bound it."""
    chain = sealed_chain(from_op=145, to_op=149, parent=1)
    backup = member(1, chain=chain, commit=149, snapshot_op=145)
    assert is_in_scope(backup.state, 150)
    assert not is_in_scope(backup.state, 149)


def test_a_primary_elect_needs_its_parked_log() -> None:
    """C-134: log 98 to 100 on top of an applied 97; without a parked log only what is above the applied op."""
    chain = sealed_chain(from_op=98, to_op=100, parent=1)
    elect = member(1, snapshot_op=97)
    elect.on_frame(start_view_change(0, 1), b"")
    elect.state.pending = parked_log(chain, commit=98)
    assert [is_in_scope(elect.state, op) for op in (98, 100, 101, 97)] == [True, True, False, False]
    elect.state.pending = None
    assert [is_in_scope(elect.state, op) for op in (101, 97)] == [True, False]


def test_a_primary_elect_needs_what_was_committed_elsewhere() -> None:
    """C-135, and whatever else lies between its log and the parked one: a log has no holes."""
    elect = member(1, snapshot_op=41)
    elect.on_frame(start_view_change(0, 1), b"")
    chain = sealed_chain(from_op=42, to_op=44, parent=1)
    elect.state.pending = parked_log(chain[1:], commit=43, elsewhere=chain[:1])
    assert is_in_scope(elect.state, 42)


def test_an_unbounded_request_is_clamped() -> None:
    """C-136: to the commit point or the head, whichever is higher, and never raised."""
    backup = member(1, chain=sealed_chain(from_op=1, to_op=5, commit=0), commit=2)
    assert served_to(backup.state, 2**64 - 1) == 5
    backup.state.commit_max = 9
    assert served_to(backup.state, 2**64 - 1) == 9
    assert served_to(backup.state, 3) == 3


def test_an_entry_that_differs_from_the_merged_log_is_missing() -> None:
    """C-137."""
    shared = sealed_chain(from_op=1, to_op=3, commit=0)
    [other] = sealed_chain(from_op=3, to_op=3, parent=shared[1].header.checksum, timestamp=900, commit=0)
    elect = member(1, chain=shared, commit=1)
    assert first_uncovered(elect.state, parked_log((shared[1], other), commit=1)) == 3
    assert first_uncovered(elect.state, parked_log(shared[1:], commit=1)) is None


def test_what_a_snapshot_covers_is_not_missing() -> None:
    """C-138."""
    chain = sealed_chain(from_op=7, to_op=7, parent=1)
    assert first_uncovered(member(1, snapshot_op=7).state, parked_log(chain, commit=7)) is None
    assert first_uncovered(member(1).state, parked_log(chain, commit=7)) == 1


def lagging() -> tuple[Replica, tuple[Prepare, ...]]:
    """A backup that lost ops 1 to 4 of its view, and asked for them."""
    chain = sealed_chain(from_op=1, to_op=4)
    backup = member(1)
    backup.on_frame(heartbeat(0, 0, commit=4, checksum=chain[3].header.checksum), b"")
    assert backup.state.repair is not None
    return backup, chain


def test_repaired_entries_are_applied_once_they_are_durable() -> None:
    """Section 10: in order, not acknowledged, and the session ends with the range."""
    backup, chain = lagging()
    effects: list[Effect] = []
    for prepare in chain:
        effects += settle_disk(backup, backup.on_repair_prepare(prepare))
    effects += ticks(backup, 1)
    assert [apply.prepare.header.op for apply in of_type(effects, Apply)] == [1, 2, 3, 4]
    backup.on_frame(done(backup, 4), b"")
    assert backup.state.repair is None


def test_what_a_heartbeat_names_is_waited_for_while_the_log_grows() -> None:
    """Section 5.11: it comes down the chain by the tick, and is asked for only when it does not."""
    backup = member(2)
    first, second = sealed_chain(from_op=1, to_op=2)
    settle_disk(backup, backup.on_prepare(first, 1))
    effects = backup.on_frame(heartbeat(0, 0, commit=5), b"")
    assert asked(settle_disk(backup, effects + ticks(backup, FED_TICKS))) == []
    settle_disk(backup, backup.on_prepare(second, 1))
    assert asked(settle_disk(backup, ticks(backup, FED_TICKS))) == []
    assert asked(ticks(backup, 1)) == [(0, 3, 5)]


def test_a_hole_below_what_has_come_is_not_waited_for() -> None:
    backup = member(2)
    first, _, third = sealed_chain(from_op=1, to_op=3)
    settle_disk(backup, backup.on_prepare(first, 1))
    assert asked(backup.on_prepare(third, 1)) == [(0, 2, 2)]


def test_a_lost_repair_frame_is_asked_for_again_without_an_election() -> None:
    """BR-08: the second of four is lost; the end of the round asks again at once, a lost end within one interval."""
    backup, chain = lagging()
    for prepare in (chain[0], chain[2], chain[3]):
        settle_disk(backup, backup.on_repair_prepare(prepare))
    assert asked(backup.on_frame(done(backup, 4), b"")) == [(0, 2, 4)]
    assert asked(ticks(backup, REPAIR_RETRY_TICKS)) == [(0, 2, 4)]
    assert backup.state.view == 0


def test_another_peer_is_asked_after_three_stalls() -> None:
    """D-12: a dead peer does not block the repair; a late answer to the old question counts for nothing."""
    backup, _ = lagging()
    stale = done(backup, 4)
    peers = [to for to, _, _ in asked(ticks(backup, STALLS_MAX * REPAIR_RETRY_TICKS))]
    assert peers == [0, 0, 2]
    backup.on_frame(stale, b"")
    assert backup.state.repair is not None
    assert backup.state.repair.peer == 2


def test_a_view_change_closes_the_session() -> None:
    """D-12."""
    backup, chain = lagging()
    backup.on_frame(start_view_change(2, 2), b"")
    assert backup.state.repair is None
    assert without_notes(backup.on_repair_prepare(chain[0])) == []


def test_nothing_is_held_that_was_not_durable_when_it_crashed() -> None:
    """BR-12: five entries caught up in memory, a crash before the sync: none of them counts as held."""
    backup, chain = lagging()
    for prepare in chain:
        assert acknowledged(backup.on_repair_prepare(prepare)) == []
    assert not any(backup.state.mirror.is_durable(op) for op in range(1, 5))
    again = reborn(1)
    assert again.state.mirror.last_op == 0


def test_an_entry_that_the_view_names_differently_is_dropped() -> None:
    """Section 10: what the parked or adopted log names decides."""
    chain = sealed_chain(from_op=1, to_op=2, view=1)
    [stranger] = sealed_chain(from_op=1, to_op=1, timestamp=900)
    backup = member(2)
    settle_disk(backup, backup.on_frame(*start_view(1, 1, op=2, commit=2, chain=chain[:2])))
    backup.state.adopted = {prepare.header.op: prepare.header for prepare in chain}
    assert of_type(backup.on_repair_prepare(stranger), Append) == []
    assert len(of_type(backup.on_repair_prepare(chain[0]), Append)) == 1


def test_an_entry_that_only_its_number_makes_committed_waits_for_the_superblock() -> None:
    """D-16: at boot everything above the recorded commit point counts as reconciled, so that point moves first."""
    old = sealed_chain(from_op=1, to_op=2, view=0)
    backup = member(2, view=3)
    backup.on_frame(heartbeat(0, 3, commit=2), b"")
    effects = backup.on_repair_prepare(old[0])
    assert of_type(effects, Append) == []
    assert backup.state.gate.in_flight == (3, 3)
    backup.on_view_persisted(3, 3)
    assert len(of_type(backup.on_repair_prepare(old[0]), Append)) == 1


def test_a_stale_entry_below_the_commit_point_is_replaced_and_never_applied() -> None:
    """BR-03, rule 11: an op number alone makes nothing committed; the fork is found from below, entry by entry."""
    shared = sealed_chain(from_op=1, to_op=2, view=0, commit=0)
    stale = sealed_chain(from_op=3, to_op=4, parent=shared[1].header.checksum, view=0, commit=0)
    right = sealed_chain(from_op=3, to_op=6, parent=shared[1].header.checksum, view=1, timestamp=700, commit=0)
    backup = member(0, chain=[*shared, *stale])
    effects = settle_disk(backup, backup.on_frame(*start_view(1, 1, op=6, commit=6, chain=right[3:])))
    assert of_type(effects, Apply) == []
    assert asked(effects) == [(1, 1, 6)]
    for prepare in (*shared, *right):
        effects += settle_disk(backup, backup.on_repair_prepare(prepare))
    effects += ticks(backup, 1)
    assert Truncate(3) in of_type(effects, Truncate)
    reads = of_type(effects, Read)
    assert reads == [Read(1, 6)]
    applied = of_type(backup.on_entries((*shared, *right)), Apply)
    assert [apply.prepare for apply in applied] == [*shared, *right]


def test_an_entry_that_cannot_be_read_is_asked_for_again_once_a_tick() -> None:
    """Section 5.10: a disk that gives nothing back must not keep journal and replica busy with each other."""
    chain = sealed_chain(from_op=1, to_op=2, view=1, commit=0)
    backup = member(0, chain=chain)
    effects = settle_disk(backup, backup.on_frame(*start_view(1, 1, op=2, commit=2, chain=chain)))
    assert of_type(effects, Read) == [Read(1, 2)]
    assert of_type(backup.on_entries(()), Read) == []
    assert of_type(backup.on_tick(), Read) == [Read(1, 2)]
    applied = of_type(backup.on_entries(tuple(chain)), Apply)
    assert [apply.prepare for apply in applied] == list(chain)


def test_an_evicted_range_arms_a_state_transfer_from_the_primary() -> None:
    """Section 10; only for the question that was asked, and only when the missing op is below what is kept."""
    backup, _ = lagging()
    stale = RepairRangeReplyHeader(command=RANGE_EVICTED, cluster=CLUSTER, group=GROUP, replica=0, nonce=1, op=3)
    backup.on_frame(stale, b"")
    assert backup.state.repair is not None
    effects = backup.on_frame(done(backup, 3, RANGE_EVICTED), b"")
    [told] = of_type(effects, TellTransfer)
    assert isinstance(told.message, FetchRequired)
    assert told.message.peer == 0
    assert backup.state.is_transferring


def unproven(room: int = 0, *, left_out: bool = False) -> tuple[Replica, tuple[Prepare, ...]]:
    """A backup in view 3 that holds ops 3 to 6 from view 0, not proven, and lacks 7 and 8; it has asked for all of them. With
    `left_out` what it holds is not what the view has there.
    """
    chain = sealed_chain(from_op=1, to_op=8, view=0, commit=0)
    others = sealed_chain(from_op=3, to_op=6, parent=chain[1].header.checksum, timestamp=77, commit=0)
    backup = member(2, chain=(*chain[:2], *others) if left_out else chain[:6], commit=2, view=3)
    distrust(backup.state)
    if room:
        object.__setattr__(backup.state.config, "journal_slots", room)
    backup.on_frame(heartbeat(0, 3, commit=8, checksum=chain[7].header.checksum), b"")
    assert backup.state.repair is not None
    assert backup.state.repair.asked_from == 3
    return backup, chain


def test_what_is_held_and_gone_elsewhere_is_proven_from_above() -> None:
    """D-16: no state is fetched in its place, which would take what may have been acknowledged from the log."""
    backup, chain = unproven()
    effects = backup.on_frame(done(backup, 5, RANGE_EVICTED), b"")
    assert of_type(effects, TellTransfer) == []
    assert asked(backup.on_frame(done(backup, 6), b"")) == [(0, 7, 8)]
    effects = []
    for prepare in (chain[6], *chain[6:]):  # The commit point has to be written before the first one is taken.
        effects += settle_disk(backup, backup.on_repair_prepare(prepare))
    effects += settle_disk(
        backup, backup.on_frame(heartbeat(0, 3, commit=8, number=9, checksum=chain[7].header.checksum), b"")
    )
    effects += settle_disk(backup, ticks(backup, 1))
    assert backup.state.unverified == set()
    assert of_type(effects, Truncate) == []
    assert of_type(effects, Read) == [Read(3, 8)]


def test_what_is_held_but_never_proven_is_fetched_after_all() -> None:
    backup, _ = unproven()
    backup.on_frame(done(backup, 5, RANGE_EVICTED), b"")
    session = backup.state.repair
    assert session is not None
    effects = backup.on_frame(done(backup, 8, RANGE_EVICTED), b"")
    [told] = of_type(effects, TellTransfer)
    assert isinstance(told.message, FetchRequired)


def test_what_was_held_and_made_way_is_fetched_after_all() -> None:
    """An entry in the middle was another one than that of the view, and those who had the right one keep it no more."""
    backup, _ = unproven()
    backup.on_frame(done(backup, 5, RANGE_EVICTED), b"")
    cut(backup.state, 4)
    backup.on_truncated(4)
    assert asked(ticks(backup, REPAIR_RETRY_TICKS)) == [(0, 3, 8)]
    [told] = of_type(backup.on_frame(done(backup, 5, RANGE_EVICTED), b""), TellTransfer)
    assert isinstance(told.message, FetchRequired)


def test_what_is_held_and_was_left_out_of_the_view_is_fetched_after_all() -> None:
    """What comes from above does not chain to it, and nobody can send what belongs there."""
    backup, chain = unproven(left_out=True)
    backup.on_frame(done(backup, 5, RANGE_EVICTED), b"")
    for _ in range(STALLS_MAX):
        for prepare in chain[6:]:
            settle_disk(backup, backup.on_repair_prepare(prepare))
        effects = settle_disk(backup, ticks(backup, REPAIR_RETRY_TICKS))
    [(peer, first, _)] = asked(effects)
    assert first == 3
    assert peer is not None
    [told] = of_type(backup.on_frame(done(backup, 5, RANGE_EVICTED), b""), TellTransfer)
    assert isinstance(told.message, FetchRequired)


def test_what_the_log_has_no_room_to_prove_is_fetched() -> None:
    backup, _ = unproven(room=8)
    assert of_type(backup.on_frame(done(backup, 5, RANGE_EVICTED), b""), TellTransfer)


def test_serving_says_what_is_gone_and_reads_the_rest() -> None:
    """Section 10: RangeEvicted first, then the entries as they stand in the log, then how far they go."""
    chain = sealed_chain(from_op=5, to_op=8, parent=1)
    server = member(0, chain=chain, commit=8, snapshot_op=5)
    effects = server.on_frame(request(1, 3, 8), b"")
    [(to, evicted)] = sent_of(effects, RepairRangeReplyHeader)
    assert isinstance(evicted, RepairRangeReplyHeader)
    assert (to, evicted.command, evicted.op) == (1, RANGE_EVICTED, 6)
    assert of_type(effects, Read) == [Read(6, 8)]
    effects = server.on_entries(chain[1:])
    frames = [effect.frame for effect in of_type(effects, Send)]
    assert [frame[60] for frame in frames] == [19, 19, 19, 20]
    assert [Prepare.decode(frame) for frame in frames[:3]] == list(chain[1:])
    [(_, last)] = sent_of(effects, RepairRangeReplyHeader)
    assert isinstance(last, RepairRangeReplyHeader)
    assert (last.op, last.nonce) == (8, 7)


def test_unproven_entries_are_not_served() -> None:
    """D-16: to serve an entry is to vouch for it."""
    server = member(1, chain=sealed_chain(from_op=1, to_op=2, view=0, commit=0), view=3, log_view=3)
    effects = server.on_frame(request(2, 1, 2, view=3), b"")
    assert of_type(effects, Read) == []
    [(_, header)] = sent_of(effects, RepairRangeReplyHeader)
    assert isinstance(header, RepairRangeReplyHeader)
    assert (header.command, header.op) == (REPAIR_DONE, 0)


@pytest.mark.parametrize(("view", "ops"), [(0, 2), (9, 1)])
def test_what_is_not_committed_is_served_in_the_same_view_only(view: int, ops: int) -> None:
    """A repair frame names no view: what another view may leave out must not travel into it."""
    server = member(0, chain=sealed_chain(from_op=1, to_op=2, commit=0), commit=1)
    assert of_type(server.on_frame(request(1, 1, 2, view=view), b""), Read) == [Read(1, ops)]


@pytest.mark.parametrize("status", [Status.RECOVERING])
def test_a_recovering_replica_serves_nothing(status: Status) -> None:
    """Section 8.11."""
    server = member(0, chain=sealed_chain(from_op=1, to_op=2), commit=2)
    server.state.status = status
    assert server.on_frame(request(1, 1, 2), b"") == []


def test_what_the_disk_alone_proves_at_boot() -> None:
    """D-16: the stamp of the durable view; the recorded commit point; a commit field above; a parent of a proven one."""
    chain = sealed_chain(from_op=1, to_op=4, view=0, commit=0)
    assert reborn(1, chain=chain, view=0).state.unverified == set()
    assert reborn(1, chain=chain, view=2).state.unverified == {1, 2, 3, 4}
    assert reborn(1, chain=chain, view=2, commit_known=2).state.unverified == set()
    assert reborn(1, chain=chain, view=2, commit_known=5).state.unverified == {1, 2, 3, 4}
    [top] = sealed_chain(from_op=5, to_op=5, parent=chain[-1].header.checksum, view=0, commit=3)
    assert reborn(1, chain=[*chain, top], view=2).state.unverified == {4, 5}
    [fresh] = sealed_chain(from_op=5, to_op=5, parent=chain[-1].header.checksum, view=2, commit=0)
    assert reborn(1, chain=[*chain, fresh], view=2).state.unverified == set()


def test_a_heartbeat_proves_the_entry_that_it_names() -> None:
    """D-16: by checksum; one that differs is cut."""
    chain = sealed_chain(from_op=1, to_op=2, view=0, commit=0)
    backup = member(1, chain=chain, view=3, log_view=3)
    backup.on_frame(heartbeat(0, 3, commit=2, checksum=chain[1].header.checksum), b"")
    assert backup.state.unverified == set()
    other = member(1, chain=chain, view=3, log_view=3)
    effects = other.on_frame(heartbeat(0, 3, commit=2, checksum=5), b"")
    assert of_type(effects, Truncate) == [Truncate(2)]


def test_a_failed_append_of_a_repaired_entry_is_no_end() -> None:
    """Section 7: a primary-elect has not gone ahead for it; the log is cut and the entry is asked for again."""
    elect = member(1)
    elect.on_frame(start_view_change(0, 1), b"")
    chain = sealed_chain(from_op=1, to_op=1)
    elect.state.pending = parked_log(chain, commit=1)
    elect.state.pending.reconciled = True
    elect.state.repair = None
    elect.on_tick()
    open_session(elect.state, peer=0, from_op=1, to_op=1)
    assert len(of_type(elect.on_repair_prepare(chain[0]), Append)) == 1
    effects = elect.on_append_failed([position(chain[0], 1)], "io")
    assert of_type(effects, Truncate) == [Truncate(1)]
    assert not elect.state.failed


def test_what_left_the_log_and_is_kept_is_served_like_the_log() -> None:
    """Acknowledgements 5: nothing is gone for whoever lacks an op that the archive reaches."""
    chain = sealed_chain(from_op=1, to_op=8)
    server = member(0, chain=chain[4:], commit=8, snapshot_op=5)
    server.on_archive_reaches(1)
    effects = server.on_frame(request(1, 3, 8), b"")
    assert sent_of(effects, RepairRangeReplyHeader) == []
    assert of_type(effects, Read) == [Read(3, 8)]
    frames = [effect.frame for effect in of_type(server.on_entries(chain[2:]), Send)]
    assert [Prepare.decode(frame) for frame in frames[:-1]] == list(chain[2:])
    assert frames[-1][60] == REPAIR_DONE


@pytest.mark.parametrize(("first_op", "evicted"), [(4, 4), (0, 6)])
def test_what_the_archive_does_not_reach_is_gone(first_op: int, evicted: int) -> None:
    chain = sealed_chain(from_op=1, to_op=8)
    server = member(0, chain=chain[4:], commit=8, snapshot_op=5)
    server.on_archive_reaches(1)
    server.on_archive_reaches(first_op)
    effects = server.on_frame(request(1, 2, 8), b"")
    [(_, header)] = sent_of(effects, RepairRangeReplyHeader)
    assert isinstance(header, RepairRangeReplyHeader)
    assert (header.command, header.op) == (RANGE_EVICTED, evicted)
    assert of_type(effects, Read) == [Read(evicted, 8)]


def test_an_entry_of_the_archive_that_cannot_be_read_ends_the_answer() -> None:
    chain = sealed_chain(from_op=1, to_op=8)
    server = member(0, chain=chain[4:], commit=8, snapshot_op=5)
    server.on_archive_reaches(1)
    server.on_frame(request(1, 1, 8), b"")
    [(_, header)] = sent_of(server.on_entries(chain[:2]), RepairRangeReplyHeader)
    assert isinstance(header, RepairRangeReplyHeader)
    assert (header.command, header.op) == (REPAIR_DONE, 2)


def test_the_entry_at_the_snapshot_is_served_to_whoever_has_what_was_reclaimed() -> None:
    """The archive is empty, the log still holds the entry at the snapshot's op: the next one that such a member lacks."""
    chain = sealed_chain(from_op=5, to_op=8)
    server = member(0, chain=chain, commit=8, snapshot_op=5)
    server.on_archive_reaches(5)
    effects = server.on_frame(request(1, 5, 8), b"")
    assert sent_of(effects, RepairRangeReplyHeader) == []
    assert of_type(effects, Read) == [Read(5, 8)]
    assert len(of_type(server.on_entries(chain), Send)) == 5


def test_what_the_log_itself_proves_committed_stays_proven_in_a_new_view() -> None:
    """D-16: a log that is full of such entries has no room for the one that would prove them once more."""
    backup = member(1, chain=sealed_chain(from_op=1, to_op=6, commit=4), commit=2)
    distrust(backup.state)
    assert backup.state.unverified == {5, 6}
    unproven = member(1, chain=sealed_chain(from_op=1, to_op=6, commit=0), commit=2)
    distrust(unproven.state)
    assert unproven.state.unverified == {3, 4, 5, 6}


def test_what_the_primary_sends_itself_is_repaired_up_to_there() -> None:
    """Section 3: it is waited for, and sent again only after a longer while; so what is not committed is asked for as well."""
    backup = member(2)
    chain = sealed_chain(from_op=1, to_op=4, commit=1)
    assert asked(backup.on_prepare(chain[2], 1)) == [(0, 1, 1)]
    backup.on_prepare(chain[3], 0)
    assert backup.state.repair is not None
    assert backup.state.repair.to_op == 4
    another = member(2)
    assert asked(another.on_prepare(chain[3], 0)) == [(0, 1, 4)]


def test_what_waited_for_the_superblock_is_asked_for_as_soon_as_it_is_written() -> None:
    """D-16: and not when the interval of a session is over."""
    chain = sealed_chain(from_op=1, to_op=2, view=0)
    backup = member(2, view=3)
    backup.on_frame(heartbeat(0, 3, commit=2), b"")
    effects = [effect for prepare in chain for effect in backup.on_repair_prepare(prepare)]
    assert of_type(effects, Append) == []
    assert of_type(effects, PersistView)
    assert asked(backup.on_view_persisted(3, 3)) == [(0, 1, 2)]
