"""Whole transfers between two replicas, over networks good and bad: what is installed, and what is served meanwhile."""

import pytest

from tests.actors.state_transfer.history import History
from tests.actors.state_transfer.rig import (
    CHUNK,
    CHUNK_SIZE,
    REQUEST,
    RETRY_TICKS,
    SNAPSHOT,
    TARGET,
    TICK_MILLISECONDS,
    WANTED,
    Member,
    Weather,
    cluster,
)

RETRY_MILLISECONDS = RETRY_TICKS * TICK_MILLISECONDS


def served(member: Member, history: History, *, snapshot_op: int = 30, head: int = 40) -> None:
    """Have it commit the history up to `head`, with a checkpoint on the way."""
    history.grow_to(head)
    member.commit(history.between(1, snapshot_op))
    member.checkpoint()
    member.commit(history.between(snapshot_op + 1, head))


def checksums(history: History, first: int, last: int) -> list[int]:
    return [prepare.header.checksum for prepare in history.between(first, last)]


@pytest.mark.parametrize("seed", range(8))
def test_a_lossy_link_brings_equal_bytes(seed: int) -> None:
    """C-220, C-222: frames are lost, repeated and late; what is installed and caught up encodes as the server's does."""
    server, receiver = cluster(seed, weather=Weather(loss=0.2, repeat=0.2, delay=30))
    history = History()
    served(server, history)
    receiver.commit(history.between(1, 10))

    receiver.fetch_until_installed(0)

    assert (receiver.steward.commit_min, receiver.snapshot_op()) == (30, 30)
    receiver.commit(history.between(31, 40))
    assert receiver.state() == server.state()
    receiver.assert_alive()


def test_one_chunk_is_in_flight_and_the_file_travels_without_its_trailer() -> None:
    server, receiver = cluster(3)
    served(server, History())

    receiver.fetch_until_installed(0)

    commands = [command for _, _, command in server.network.carried]
    chunks = commands.count(CHUNK)
    assert commands == [REQUEST, TARGET, *([WANTED, CHUNK] * chunks)]
    assert chunks > 1800 // CHUNK_SIZE
    assert receiver.storage.content(SNAPSHOT) == server.storage.content(SNAPSHOT)
    assert not [name for name in receiver.storage.list(SNAPSHOT.parent) if name.startswith("received")]


def test_a_blank_replica_is_filled_by_a_server_whose_log_is_empty() -> None:
    """BR-17 (b): nothing below the snapshot is in any log, and the snapshot is what is sent."""
    server, receiver = cluster(4)
    history = History()
    served(server, history, snapshot_op=30, head=30)
    assert server.logged() == checksums(history, 30, 30)

    receiver.fetch_until_installed(0)

    assert receiver.state() == server.state()


def test_b_011_a_young_cluster_captures_a_snapshot_on_demand() -> None:
    """B-011"""
    server, receiver = cluster(5)
    history = History().grow_to(12)
    server.commit(history.between(1, 12))
    server.steward.captures_on_demand = True
    assert server.snapshot_op() == 0

    receiver.fetch_until_installed(0)

    assert (server.snapshot_op(), receiver.snapshot_op()) == (12, 12)
    assert receiver.state() == server.state()


def test_a_refusal_leaves_everything_as_it_was() -> None:
    server, receiver = cluster(6)
    history = History()
    served(server, history)
    receiver.commit(history.between(1, 10))
    server.steward.may_serve = False

    receiver.fetch(0)
    receiver.world.advance(50)

    assert receiver.steward.notes == ["refused"]
    assert (receiver.steward.commit_min, receiver.snapshot_op()) == (10, 0)
    server.steward.may_serve = True
    receiver.fetch_until_installed(0)
    assert receiver.steward.commit_min == 30


def test_behind_the_local_state_neither_state_nor_log_nor_table_goes_back() -> None:
    """The snapshot is at 30, the receiver at 35: its own machine stays, and so do the sessions of its later commits."""
    server, receiver = cluster(7)
    history = History()
    served(server, history)
    receiver.commit(history.between(1, 35))
    before = receiver.state()

    receiver.fetch_until_installed(0)

    assert receiver.steward.commit_min == 35
    assert receiver.steward.commit_max == 40
    assert receiver.state() == before
    receiver.commit(history.between(36, 40))
    assert receiver.state() == server.state()


def test_br04_a_suffix_that_was_never_committed_is_gone_before_the_snapshot_counts() -> None:
    """BR-04: committed 1-20 and 21', 22', 23' of view 1; a snapshot at 22 of view 3 arrives; 24 is committed."""
    server, receiver = cluster(8)
    history = History().grow_to(20)
    lost = history.fork(20, view=1, committed=20).grow_to(23)
    kept = history.fork(20, view=3).grow_to(24)
    served(server, kept, snapshot_op=22, head=24)
    receiver.commit(history.between(1, 20))
    receiver.journal(lost.between(21, 23))

    receiver.fetch_until_installed(0)

    assert not set(receiver.logged()) & set(checksums(lost, 21, 23))
    receiver.commit(kept.between(23, 24))
    assert receiver.logged() == checksums(kept, 23, 24)
    assert receiver.state() == server.state()


def test_c223_what_lies_above_the_snapshot_is_cut_and_the_rest_kept() -> None:
    """C-223: ops 1 to 3 in the log, a snapshot at 2."""
    server, receiver = cluster(9)
    history = History().grow_to(3)
    served(server, history, snapshot_op=2, head=2)
    receiver.commit(history.between(1, 1))
    receiver.journal(history.between(2, 3))
    receiver.steward.proven = 2
    receiver.steward.holds_placement = True

    receiver.fetch(0)
    receiver.world.advance(100)

    assert receiver.logged() == checksums(history, 1, 2)
    assert receiver.steward.head == 2


def test_br17_a_slow_transfer_under_load_converges_in_two_rounds() -> None:
    """BR-17 (a): the server checkpoints twice while the first snapshot travels, and its log forgets what lies between."""
    server, receiver = cluster(10, weather=Weather(delay=400))
    history = History()
    served(server, history)

    receiver.fetch(0)
    for op in (60, 90):
        server.world.advance(700)
        history.grow_to(op)
        server.commit(history.between(server.steward.commit_min + 1, op))
        server.checkpoint()
    assert receiver.world.run_until(lambda: receiver.steward.installs == 1, max_milliseconds=60_000)
    assert (receiver.snapshot_op(), server.snapshot_op()) == (30, 90)
    assert server.logged() == checksums(history, 90, 90)

    assert receiver.fetch_until_installed(0) == 1
    assert receiver.steward.commit_min == 90
    assert receiver.state() == server.state()


def test_br17_a_transfer_without_progress_is_dropped_on_both_sides() -> None:
    """BR-17 (c)"""
    server, receiver = cluster(11, weather=Weather(delay=20))
    served(server, History())
    receiver.fetch(0)
    assert receiver.world.run_until(lambda: receiver.steward.notes == ["accepted"], max_milliseconds=1000)
    server.network.weather.loss = 1.0

    receiver.world.advance(7 * RETRY_MILLISECONDS)
    assert receiver.steward.notes[-1].startswith("failed: replica 0 is silent")
    server.world.advance(4 * RETRY_MILLISECONDS)
    server.network.weather = Weather()

    assert receiver.fetch_until_installed(0) == 1


def test_an_expired_offer_is_answered_as_unavailable_for_now() -> None:
    """The receiver pauses for longer than the offer lives, asks for the next chunk, and begins anew."""
    server, receiver = cluster(12, weather=Weather(delay=20))
    served(server, History())
    receiver.fetch(0)
    assert receiver.world.run_until(lambda: receiver.steward.notes == ["accepted"], max_milliseconds=1000)
    server.network.weather.loss = 1.0
    server.crash()
    server.boot()
    server.network.weather = Weather()

    assert receiver.world.run_until(lambda: receiver.steward.notes[-1] == "refused", max_milliseconds=3000)
    assert receiver.fetch_until_installed(0) == 1


@pytest.mark.parametrize("ahead", [0, 1], ids=["from the one that is ahead", "from the one that is behind"])
def test_br18_either_side_of_a_checkpoint_boundary_brings_back_the_third(ahead: int) -> None:
    """BR-18, as D-21 rules: replica 0 has checkpoint 20, replica 1 has 10 and a log; the third has nothing."""
    newer, older, third = cluster(13, replicas=3)
    history = History().grow_to(20)
    newer.commit(history.between(1, 20))
    newer.checkpoint()
    served(older, history, snapshot_op=10, head=20)

    third.fetch_until_installed(ahead)
    third.commit(history.between(third.steward.commit_min + 1, 20))

    assert third.state() == newer.state() == older.state()


@pytest.mark.parametrize("damaged", [1, 5])
def test_damaged_bytes_are_fetched_again(damaged: int) -> None:
    """C-222: one wrong bit is enough, and costs a round under a fresh nonce."""
    server, receiver = cluster(14)
    served(server, History())
    server.network.weather.damaged_chunks = damaged

    assert receiver.fetch_until_installed(0) == 1

    assert [command for _, _, command in server.network.carried].count(REQUEST) > 1
    assert receiver.state()


def test_d13_bytes_that_are_damaged_again_and_again_are_given_up() -> None:
    """D-13: six times, of one generation; afterwards not even accepted, until there is a newer snapshot."""
    server, receiver = cluster(15)
    history = History()
    served(server, history)
    server.network.weather.damaged_chunks = 1000
    receiver.fetch(0)
    receiver.world.advance(1000)
    assert receiver.steward.notes[-1].startswith("failed: the state at op 30 was damaged 6 times")
    server.network.weather.damaged_chunks = 0

    receiver.steward.notes.clear()
    receiver.fetch(0)
    receiver.world.advance(7 * RETRY_MILLISECONDS)
    assert receiver.steward.notes == ["failed: replica 0 is silent: 6 stalls in a row"]

    server.checkpoint()
    assert receiver.fetch_until_installed(0) == 1
    assert receiver.steward.commit_min == 40


def test_two_receivers_share_what_the_server_holds() -> None:
    server, one, other = cluster(16, replicas=3, weather=Weather(delay=50))
    served(server, History())

    one.fetch(0)
    other.fetch_until_installed(0)

    assert one.world.run_until(lambda: one.steward.installs == 1, max_milliseconds=10_000)
    assert one.state() == other.state()


def test_a_snapshot_that_rots_on_the_server_is_not_served() -> None:
    """BR-23: the trailer is verified when the offer is made."""
    server, receiver = cluster(17)
    served(server, History())
    server.storage.flip(SNAPSHOT, 100)

    receiver.fetch(0)
    receiver.world.advance(100)

    assert receiver.steward.notes == ["refused"]
    server.assert_alive()
