"""Normal operation among several: acknowledgements, the chain, the gap rule, retransmits (sections 3, 5, 6.4)."""

import pytest

from levrier.actors.consensus.effects import Append, Apply, Flush, Send, Truncate
from levrier.actors.consensus.normal import UNAPPLIED_MAX
from levrier.actors.consensus.state import Status
from levrier.wire.headers import PrepareHeader
from levrier.wire.replica_headers import PrepareOkHeader, RequestPreparesHeader
from tests.actors.consensus.builders import admit, of_type, position, sealed_chain, without_notes
from tests.actors.consensus.peers import (
    acknowledged,
    member,
    prepare_ok,
    sent,
    sent_of,
    settle_disk,
    start_view,
    start_view_change,
    ticks,
)


def test_a_primary_counts_its_own_acknowledgement_and_sends_none() -> None:
    """C-001, C-002, C-004: there is no loopback that could hold it twice; it is counted in the same handler."""
    primary = member(0)
    prepare = admit(primary, 1)
    effects = primary.on_appended([position(prepare)])
    assert primary.state.pipeline.prepares[0].acknowledged == 0b001
    assert sent_of(effects, PrepareOkHeader) == []
    assert acknowledged(ticks(primary, 3)) == []


def test_a_backup_acknowledges_to_the_primary_once_it_is_durable() -> None:
    """C-003, C-005: one frame, to the view's primary, and only behind the disk (I6)."""
    backup = member(1)
    [prepare] = sealed_chain(from_op=1, to_op=1)
    effects = backup.on_prepare(prepare)
    assert (len(of_type(effects, Append)), sent(effects)) == (1, [])
    assert acknowledged(backup.on_appended([position(prepare)])) == [(0, 1)]


def test_a_self_acknowledgement_does_not_survive_a_view_change() -> None:
    """C-006, C-007: the entry it was counted for is gone from the pipeline, and a late completion counts for nothing."""
    primary = member(0)
    prepare = admit(primary, 1)
    primary.on_frame(start_view_change(1, 1), b"")
    assert not primary.state.pipeline.prepares
    primary.on_appended([position(prepare)])
    assert primary.state.commit_max == 0


def test_prepares_of_other_views() -> None:
    """C-070: older is dropped, newer is remembered and dropped, the present one is taken."""
    backup = member(1, view=6)
    chains = {view: sealed_chain(from_op=1, to_op=1, view=view) for view in (3, 9, 6)}
    assert without_notes(backup.on_prepare(chains[3][0])) == []
    assert without_notes(backup.on_prepare(chains[9][0])) == []
    assert backup.state.observed_newer_view == 9
    assert len(of_type(backup.on_prepare(chains[6][0]), Append)) == 1


@pytest.mark.parametrize("status", [Status.VIEW_CHANGE, Status.RECOVERING])
def test_prepares_outside_the_normal_status_are_dropped(status: Status) -> None:
    """Section 8.11."""
    backup = member(1)
    backup.state.status = status
    assert backup.on_prepare(sealed_chain(from_op=1, to_op=1)[0]) == []


def test_the_log_decides_about_a_gap_not_the_announced_head() -> None:
    """C-141: after a StartView the head may be ahead of the log."""
    backup = member(1)
    backup.state.sequencer = 5
    assert len(of_type(backup.on_prepare(sealed_chain(from_op=1, to_op=1)[0]), Append)) == 1


def test_the_first_op_behind_an_installed_snapshot_is_no_gap() -> None:
    """C-142: the log ends at 1, the snapshot at 400."""
    backup = member(1, snapshot_op=400)
    assert len(of_type(backup.on_prepare(sealed_chain(from_op=401, to_op=401)[0]), Append)) == 1


def test_a_gap_is_dropped_and_repaired_up_to_the_commit_point() -> None:
    """Section 5.4 step 8: it is not appended; what is known committed is asked for."""
    backup = member(1)
    chain = sealed_chain(from_op=1, to_op=5)
    effects = backup.on_prepare(chain[4])
    assert of_type(effects, Append) == []
    [(peer, asked)] = sent_of(effects, RequestPreparesHeader)
    assert isinstance(asked, RequestPreparesHeader)
    assert (peer, asked.from_op, asked.to_op) == (0, 1, 4)


def test_a_prepare_must_name_the_entry_below_it() -> None:
    """D-16, invariant I9: in any view."""
    backup = member(1, chain=sealed_chain(from_op=1, to_op=1))
    [stranger] = sealed_chain(from_op=2, to_op=2, parent=99)
    assert of_type(backup.on_prepare(stranger), Append) == []


def test_the_chain_ends_before_the_primary() -> None:
    """C-069, section 5.5: 0 sends to 1, 1 to 2, and 2 to nobody; only what is durable is forwarded."""
    [prepare] = sealed_chain(from_op=1, to_op=1)
    middle, last = member(1), member(2)
    for backup, target in ((middle, [2]), (last, [])):
        effects = settle_disk(backup, backup.on_prepare(prepare)) + ticks(backup, 1)
        assert [to for to, _ in sent_of(effects, PrepareHeader)] == target
    primary = member(0)
    own = admit(primary, 1)
    assert [to for to, _ in sent_of(primary.on_appended([position(own)]), PrepareHeader)] == [1]


def test_only_whoever_completes_the_quorum_does_not_hand_on_at_once() -> None:
    """Section 5.5: of five, 1 is one of two, 2 is the third and answers alone, and 3 hands on what 2 has gathered."""
    [prepare] = sealed_chain(from_op=1, to_op=1)
    for replica, order in ((1, [2, 0]), (2, [0]), (3, [4])):
        backup = member(replica, count=5)
        assert [to for to, _ in sent(settle_disk(backup, backup.on_prepare(prepare, replica - 1)))] == order


def test_what_is_committed_is_applied_at_the_tick() -> None:
    """Section 5.4, step 15: nobody waits for it on a backup, but somebody may for what it forwards."""
    backup = member(1)
    first, second = sealed_chain(from_op=1, to_op=2)
    settle_disk(backup, backup.on_prepare(first))
    assert second.header.commit == 1
    assert of_type(settle_disk(backup, backup.on_prepare(second)), Apply) == []
    effects = ticks(backup, 1)
    assert [apply.prepare for apply in of_type(effects, Apply)] == [first]
    assert [type(effect) for effect in effects] == [Send, Send, Flush, Apply]


def test_much_that_is_committed_is_applied_at_once_behind_the_acknowledgement_of_what_is_not() -> None:
    """Section 5.4, steps 14 and 15: the primary waits for the one, and nobody for the other."""
    backup = member(1)
    *earlier, last = sealed_chain(from_op=1, to_op=UNAPPLIED_MAX + 1)
    for prepare in earlier:
        assert of_type(settle_disk(backup, backup.on_prepare(prepare)), Apply) == []
    assert last.header.commit == UNAPPLIED_MAX
    assert of_type(backup.on_prepare(last), Apply) == []
    effects = without_notes(backup.on_appended([position(last)]))
    assert [type(effect) for effect in effects] == [Send, Flush] + [Apply] * UNAPPLIED_MAX


def test_a_disk_that_takes_its_time_does_not_keep_what_is_committed_from_being_applied() -> None:
    """Section 5.10: a tick is enough."""
    backup = member(1)
    first, second = sealed_chain(from_op=1, to_op=2)
    settle_disk(backup, backup.on_prepare(first))
    backup.on_prepare(second)
    assert len(of_type(backup.on_tick(), Apply)) == 1


def test_a_repeated_prepare_is_acknowledged_again_but_not_appended() -> None:
    """Section 5.4 step 4."""
    backup = member(1)
    [prepare] = sealed_chain(from_op=1, to_op=1)
    settle_disk(backup, backup.on_prepare(prepare))
    again = backup.on_prepare(prepare)
    assert of_type(again, Append) == []
    assert acknowledged(again) == [(0, 1)]


def test_a_repeated_prepare_that_is_not_durable_yet_is_not_acknowledged() -> None:
    """I6."""
    backup = member(1)
    [prepare] = sealed_chain(from_op=1, to_op=1)
    backup.on_prepare(prepare)
    assert acknowledged(backup.on_prepare(prepare)) == []


def test_a_quorum_behind_a_gap_commits_nothing_until_the_gap_is_closed() -> None:
    """Section 5.7: op 2 has its quorum first, op 1 then commits both in one walk."""
    primary = member(0, count=5)
    first, second = admit(primary, 1), admit(primary, 2)
    primary.on_appended([position(first), position(second)])
    for sender in (1, 2):
        assert of_type(primary.on_frame(prepare_ok(sender, second), b""), Apply) == []
    primary.on_frame(prepare_ok(1, first), b"")
    assert [apply.prepare.header.op for apply in of_type(primary.on_frame(prepare_ok(3, first), b""), Apply)] == [1, 2]


def test_what_does_not_count_as_an_acknowledgement() -> None:
    """Section 5.7: another view, another entry, the same replica twice, an op nobody knows."""
    primary = member(0, count=5)
    prepare = admit(primary, 1)
    primary.on_appended([position(prepare)])
    [stranger] = sealed_chain(from_op=1, to_op=1)
    [unknown] = sealed_chain(from_op=2, to_op=2)
    for header in (
        prepare_ok(1, prepare, view=5),
        prepare_ok(2, stranger),
        prepare_ok(3, unknown),
        prepare_ok(1, prepare),
        prepare_ok(1, prepare),
    ):
        assert of_type(primary.on_frame(header, b""), Apply) == []
    assert primary.state.pipeline.prepares[0].acknowledged == 0b00011


def test_a_silent_replica_is_sent_the_entry_directly_and_the_chain_is_not_relied_upon() -> None:
    """Section 3, retransmit targets: everybody who did not acknowledge; live prepares then go to all until it does."""
    primary = member(0, count=5)
    prepare = admit(primary, 1)
    primary.on_appended([position(prepare)])
    primary.on_frame(prepare_ok(1, prepare), b"")
    assert [to for to, _ in sent_of(ticks(primary, 26), PrepareHeader)] == [2, 3, 4]
    following = admit(primary, 2)
    assert [to for to, _ in sent_of(primary.on_appended([position(following)]), PrepareHeader)] == [None]
    for sender in (2, 3, 4):
        primary.on_frame(prepare_ok(sender, prepare), b"")
    third = admit(primary, 3)
    assert [to for to, _ in sent_of(primary.on_appended([position(third)]), PrepareHeader)] == [1]


def test_nobody_is_sent_what_is_not_durable() -> None:
    """BR-12: durable before forward, retransmits included."""
    primary = member(0)
    admit(primary, 1)
    assert sent_of(ticks(primary, 100), PrepareHeader) == []


def test_a_full_log_drops_the_prepare() -> None:
    """Rule 10: no free slot is no failure."""
    backup = member(1)
    backup.state.checkpoint.snapshot_op = 0
    chain = sealed_chain(from_op=1, to_op=3)
    object.__setattr__(backup.state.config, "journal_slots", 3)
    appended = [prepare.header.op for prepare in chain for _ in of_type(backup.on_prepare(prepare), Append)]
    assert appended == [1, 2]


def test_another_body_at_a_journaled_op_replaces_it_before_anything_is_acknowledged() -> None:
    """BR-03: op 9 body A of view 1; in view 2 comes body B. B is on the disk before an acknowledgement leaves."""
    shared = sealed_chain(from_op=1, to_op=8)
    [old] = sealed_chain(from_op=9, to_op=9, parent=shared[-1].header.checksum, view=1)
    [new] = sealed_chain(from_op=9, to_op=9, parent=shared[-1].header.checksum, view=2, timestamp=500)
    backup = member(1, chain=[*shared, old], commit=8, view=1, log_view=1)
    header, body = start_view(2, 2, op=8, commit=8, chain=shared[-1:])
    effects = backup.on_frame(header, body)
    assert of_type(effects, Truncate) == [Truncate(9)]
    held_back = backup.on_prepare(new)
    assert (of_type(held_back, Append), acknowledged(held_back)) == ([], [])
    [append] = of_type(backup.on_truncated(9), Append)
    assert append.prepare is new
    assert acknowledged(backup.on_view_persisted(2, 2)) == []
    assert acknowledged(backup.on_appended([position(new, 2)])) == [(2, 9)]


def test_an_unproven_entry_that_a_live_prepare_contradicts_makes_way() -> None:
    """BR-03, D-16: the shortcut for what is journaled already compares checksums."""
    [old] = sealed_chain(from_op=1, to_op=1, view=0)
    [new] = sealed_chain(from_op=1, to_op=1, view=1, timestamp=500)
    backup = member(2, chain=[old], view=1, log_view=1)
    assert backup.state.unverified == {1}
    effects = backup.on_prepare(new)
    assert of_type(effects, Truncate) == [Truncate(1)]
    assert acknowledged(effects) == []
    assert [append.prepare for append in of_type(backup.on_truncated(1), Append)] == [new]


def test_an_unproven_entry_is_not_acknowledged() -> None:
    """D-16: not while the view announces itself without naming it; once it is named, it is."""
    chain = sealed_chain(from_op=1, to_op=2, view=0)
    backup = member(1, chain=chain, view=3, log_view=3)
    assert backup.state.unverified == {2}
    assert acknowledged(backup.on_frame(*start_view(0, 3, op=2, commit=0, chain=()))) == [(0, 1)]
    assert acknowledged(backup.on_frame(*start_view(0, 3, op=2, commit=0, chain=chain))) == [(0, 1), (0, 2)]


def test_a_late_acknowledgement_of_an_old_view_is_refused() -> None:
    """BR-16: a primary that slept through views 1 and 2 is refused by the view number, which nothing reclaims."""
    sleeper = member(0)
    late = admit(sleeper, 1)
    sleeper.on_appended([position(late)])
    survivor = member(2, view=2, snapshot_op=400)
    assert without_notes(survivor.on_prepare(late)) == []
    assert of_type(survivor.on_frame(prepare_ok(0, late), b""), Apply) == []
