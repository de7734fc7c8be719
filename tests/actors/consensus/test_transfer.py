"""The stages of a state transfer and its install (section 11, rule 2)."""

from levrier.actors.consensus.effects import Append, Apply, Capture, Effect, Install, TellTransfer, Truncate
from levrier.actors.consensus.messages import InstallReady
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.state import TransferStage
from levrier.actors.consensus.transfer import arm
from levrier.actors.state_transfer.messages import (
    FetchCanceled,
    FetchRequired,
    InstallFinished,
    OfferVerdict,
    PlaceSnapshot,
)
from levrier.persistence.snapshot import Snapshot, SnapshotFields
from levrier.wire.prepare import Prepare
from levrier.wire.replica_headers import RequestPreparesHeader
from tests.actors.consensus.builders import admit, append_and_apply, of_type, position, sealed_chain
from tests.actors.consensus.peers import (
    acknowledged,
    heartbeat,
    member,
    sent_of,
    settle_disk,
    start_view,
    start_view_change,
)


def ready(
    op: int, *, attempt: int = 1, commit_op: int | None = None, table_frontier: int | None = None
) -> InstallReady:
    """A complete state at `op`."""
    return InstallReady(
        attempt=attempt,
        snapshot=Snapshot(
            fields=SnapshotFields(sequence=op, created_at=5000, writer_release=0, consensus_group_high_water=44),
            users=None,
            streams=None,
            client_table=None,
            checksum=1,
            size=10,
        ),
        snapshot_size=10,
        table_frontier=table_frontier or op,
        commit_op=commit_op or op,
        commit_max=commit_op or op,
    )


def fetching(replica: Replica) -> Replica:
    """Bring a backup as far as fetching chunks of attempt 1."""
    arm(replica.state)
    replica.on_tick()
    replica.on_transfer_accepted(1)
    assert replica.state.transfer_stage is TransferStage.FETCHING
    return replica


def told(effects: list[Effect]) -> list[object]:
    return [effect.message for effect in of_type(effects, TellTransfer)]


def diverged() -> tuple[Replica, tuple[Prepare, ...]]:
    """BR-04's replica: 1 to 20 committed, 21' to 23' of view 1 unproven in view 3."""
    chain = sealed_chain(from_op=1, to_op=20, commit=0)
    forks = sealed_chain(from_op=21, to_op=23, parent=chain[-1].header.checksum, view=1, timestamp=900, commit=0)
    return member(1, chain=[*chain, *forks], commit=20, view=3, log_view=3), forks


def test_an_install_cuts_the_unproven_suffix_before_the_snapshot_is_placed() -> None:
    """BR-04, C-223: in the contractual order: cut, file, state machine and table, frontiers, pairing."""
    replica, _forks = diverged()
    fetching(replica)
    effects = replica.on_install_ready(ready(22, commit_op=24))
    assert of_type(effects, Truncate) == [Truncate(22)]
    assert (told(effects), of_type(effects, Install)) == ([], [])
    assert told(replica.on_truncated(22)) == [PlaceSnapshot(attempt=1)]
    [install] = of_type(replica.on_snapshot_placed(1), Install)
    assert (install.attempt, install.is_ahead, install.table_frontier) == (1, True, 22)
    assert replica.state.commit_min == 20
    effects = replica.on_installed(1, 22)
    state = replica.state
    assert told(effects) == [InstallFinished(attempt=1, applied_op=22, is_ahead=True)]
    assert (state.commit_min, state.apply_sent, state.commit_max) == (22, 22, 24)
    assert (state.mirror.snapshot_op, state.checkpoint.snapshot_op) == (22, 22)
    assert state.transfer_stage is TransferStage.IDLE
    assert state.consensus_group_high == 44
    [(_, asked)] = sent_of(effects, RequestPreparesHeader)
    assert isinstance(asked, RequestPreparesHeader)
    assert (asked.from_op, asked.to_op) == (23, 24)


def test_what_is_proven_above_the_snapshot_stays() -> None:
    """C-223: ops 1 and 2 are kept; of the suffix only what the view does not share goes."""
    chain = sealed_chain(from_op=1, to_op=3, view=3, commit=0)
    replica = fetching(member(1, chain=chain, view=3))
    assert of_type(replica.on_install_ready(ready(2)), Truncate) == [Truncate(4)]
    other = fetching(member(1, chain=sealed_chain(from_op=1, to_op=3, commit=0), view=3))
    other.state.unverified = {3}
    assert of_type(other.on_install_ready(ready(2)), Truncate) == [Truncate(3)]
    assert [other.state.mirror.header(op) is not None for op in (1, 2, 3)] == [True, True, False]


def test_a_snapshot_behind_the_local_state_installs_the_table_only() -> None:
    """Section 11, behind-snapshot case: no cut, no file, no frontier moves back."""
    chain = sealed_chain(from_op=1, to_op=5)
    replica = fetching(member(1, chain=chain, commit=5))
    effects = replica.on_install_ready(ready(3, commit_op=6, table_frontier=6))
    assert of_type(effects, Truncate) == []
    [install] = of_type(effects, Install)
    assert (install.is_ahead, install.table_frontier) == (False, 6)
    replica.on_installed(1, 5)
    assert (replica.state.commit_min, replica.state.commit_max) == (5, 6)


def test_the_marker_waits_until_the_commit_stream_is_empty() -> None:
    """Rule 2: Install only when apply_sent == commit_min."""
    backup = member(1)
    [prepare] = sealed_chain(from_op=1, to_op=1)
    settle_disk(backup, backup.on_prepare(prepare))
    assert len(of_type(backup.on_frame(heartbeat(0, 0, commit=1), b""), Apply)) == 1
    fetching(backup)
    assert of_type(backup.on_install_ready(ready(9)), Truncate) == []
    assert of_type(backup.on_applied(1), Truncate) == [Truncate(10)]


def test_nothing_is_taken_acknowledged_or_applied_meanwhile() -> None:
    """Section 11: while the stage is not Idle."""
    backup = fetching(member(1))
    [prepare] = sealed_chain(from_op=1, to_op=1)
    effects = backup.on_prepare(prepare)
    assert (of_type(effects, Append), acknowledged(effects)) == ([], [])
    assert of_type(backup.on_frame(heartbeat(0, 0, commit=1), b""), Apply) == []


def test_an_attempt_that_fails_goes_back_to_repair() -> None:
    """Section 11: stage Idle, commit walk, repair; an answer of an older attempt means nothing."""
    backup = member(1)
    backup.on_frame(heartbeat(0, 0, commit=5), b"")
    backup.state.repair = None
    fetching(backup)
    backup.on_transfer_failed(7, "stale")
    assert backup.state.is_transferring
    effects = backup.on_transfer_failed(1, "no answer")
    assert not backup.state.is_transferring
    assert len(sent_of(effects, RequestPreparesHeader)) == 1


def test_an_election_gives_the_attempt_up_and_a_new_primary_is_asked_anew() -> None:
    """Sections 3 and 8.9: views are adopted and votes cast; the session opens again with whoever leads."""
    backup = fetching(member(2))
    effects = backup.on_frame(start_view_change(1, 1), b"")
    assert told(effects) == [FetchCanceled(attempt=1)]
    assert backup.state.transfer_stage is TransferStage.IDLE
    waiting = member(2)
    arm(waiting.state)
    effects = waiting.on_frame(*start_view(1, 1, op=3, commit=3))
    fetches = [message for message in told(effects) if isinstance(message, FetchRequired)]
    assert [(fetch.attempt, fetch.peer) for fetch in fetches] == [(1, 0), (2, 1)]


def test_an_offer_is_the_newest_snapshot() -> None:
    """Section 11: granted by whoever leads; a backup has nothing to offer."""
    primary = member(0, snapshot_op=7)
    [verdict] = told(primary.on_offer_wanted(4))
    assert verdict == OfferVerdict(token=4, granted=True, snapshot_op=7, commit_op=7, commit_max=7, view=0)
    assert told(member(1, snapshot_op=7).on_offer_wanted(4)) == [OfferVerdict(token=4, granted=False)]


def test_without_a_snapshot_one_is_captured_first() -> None:
    """The answer comes when the checkpoint has ended, either way."""
    primary = member(0)
    primary.state.quorums = type(primary.state.quorums)(replication=1, view_change=2, nack=2, faulty_max=1)
    append_and_apply(primary, admit(primary, 1))
    effects = primary.on_offer_wanted(4)
    assert (told(effects), of_type(effects, Capture)) == ([], [Capture(1)])
    [verdict] = told(primary.on_checkpoint_done(op=1, snapshot_size=1, log_size=1))
    assert isinstance(verdict, OfferVerdict)
    assert (verdict.granted, verdict.snapshot_op) == (True, 1)
    blank = member(0)
    assert told(blank.on_offer_wanted(4)) == [OfferVerdict(token=4, granted=False)]


def test_a_checkpoint_that_a_received_snapshot_overtook_changes_nothing() -> None:
    """D-26."""
    replica, _ = diverged()
    checkpoint = replica.state.checkpoint
    checkpoint.in_flight = 20
    fetching(replica)
    replica.on_install_ready(ready(22))
    replica.on_truncated(22)
    replica.on_snapshot_placed(1)
    replica.on_installed(1, 22)
    replica.on_checkpoint_done(op=20, snapshot_size=1, log_size=1)
    assert checkpoint.snapshot_op == 22
    assert not replica.state.checkpoint.in_flight


def test_the_log_goes_on_behind_the_installed_snapshot() -> None:
    """C-142."""
    replica, _ = diverged()
    fetching(replica)
    replica.on_install_ready(ready(22))
    replica.on_truncated(22)
    replica.on_snapshot_placed(1)
    replica.on_installed(1, 22)
    [following] = sealed_chain(from_op=23, to_op=23, parent=12345, view=3)
    assert len(of_type(replica.on_prepare(following), Append)) == 1
    assert acknowledged(replica.on_appended([position(following, 3)])) == [(0, 23)]
