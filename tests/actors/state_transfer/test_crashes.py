"""A receiver that stops after any call of its disk, or whose disk refuses any one of them: it boots, and gets there."""

import errno
from functools import cache

import pytest

from levrier.persistence.simulated_storage import Tear
from tests.actors.state_transfer.history import History
from tests.actors.state_transfer.rig import Member, cluster

SNAPSHOT_OP, HEAD = 22, 24


@cache
def histories() -> tuple[History, History, History]:
    """What was committed up to 20, what view 1 left behind there, and what view 3 made of it (BR-04)."""
    past = History().grow_to(20)
    lost = past.fork(20, view=1, committed=20).grow_to(23)
    kept = past.fork(20, view=3).grow_to(HEAD)
    return past, lost, kept


def pair(seed: int) -> tuple[Member, Member]:
    """A server with a snapshot at 22, and a receiver with 20 committed ops and a suffix that never was."""
    past, lost, kept = histories()
    server, receiver = cluster(seed)
    server.commit(kept.between(1, SNAPSHOT_OP))
    server.checkpoint()
    server.commit(kept.between(SNAPSHOT_OP + 1, HEAD))
    receiver.commit(past.between(1, 20))
    receiver.journal(lost.between(21, 23))
    return server, receiver


@cache
def calls_of_a_transfer() -> tuple[int, int]:
    """The receiver's disk calls before a transfer and after it."""
    _, receiver = pair(1)
    first = receiver.storage.calls
    receiver.fetch_until_installed(0)
    return first, receiver.storage.calls


def finish(server: Member, receiver: Member) -> None:
    """Transfer, catch up, and compare every byte."""
    _, _, kept = histories()
    receiver.fetch_until_installed(0)
    assert receiver.snapshot_op() == SNAPSHOT_OP
    receiver.commit(kept.between(receiver.steward.commit_min + 1, HEAD))
    assert receiver.state() == server.state()
    receiver.assert_alive()


@pytest.mark.parametrize(("tear", "stride"), [(Tear.LOSE, 1), (Tear.KEEP, 3), (Tear.SECTORS, 3)])
def test_br04_a_crash_at_any_step_of_an_install_recovers(tear: Tear, stride: int) -> None:
    """BR-04, S-176: after the restart it stands at 20 or at 22, nothing uncommitted is applied, and the transfer succeeds."""
    first, last = calls_of_a_transfer()
    assert last - first > 30
    found = set()
    for crash_after in range(first, last + 1, stride):
        server, receiver = pair(1)
        receiver.storage.faults.crash_after = crash_after
        receiver.storage.faults.tear = tear
        receiver.fetch(0)
        receiver.world.advance(200)
        receiver.crash()

        receiver.boot()

        assert (receiver.steward.commit_min, receiver.snapshot_op()) in {(20, 0), (22, 22)}
        found.add(receiver.steward.commit_min)
        finish(server, receiver)
    assert found == {20, 22}


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_refuses_one_call_costs_an_attempt_at_most(error: int) -> None:
    """BR-48, BR-51: unless the log is poisoned, whatever is refused is tried again or fails the attempt, cleanly."""
    first, last = calls_of_a_transfer()
    failed = 0
    for call in range(first + 1, last + 1):
        server, receiver = pair(1)
        receiver.storage.faults.fail_at[call] = error
        receiver.fetch(0)
        receiver.world.advance(3000)
        before, refused = (each for each in receiver.storage.audit if each.number in (call - 1, call))
        assert refused.error == error
        if refused.path.name.startswith("journal.wal") or (
            refused.name == "sync_directory" and before.path.name.startswith("journal.wal")
        ):
            continue  # The log's own tests say what becomes of it.
        receiver.assert_alive()
        failed += receiver.steward.notes[-1] != "installed"
        finish(server, receiver)
    assert failed > 5


def test_a_superblock_that_cannot_be_written_is_a_degraded_success() -> None:
    """Section 11, step 11: installed all the same; the pairing is recorded when the disk allows it."""
    _, clean = pair(1)
    first = clean.storage.calls
    clean.fetch_until_installed(0)
    naming = next(each for each in clean.storage.audit if each.number > first and "superblock" in each.path.name)
    server, receiver = pair(1)
    receiver.storage.faults.fail_at = dict.fromkeys(range(naming.number, naming.number + 400), errno.EIO)
    receiver.fetch(0)
    receiver.world.advance(1500)

    assert receiver.steward.notes[-1] == "installed"
    receiver.storage.faults.fail_at.clear()
    receiver.world.advance(2000)
    receiver.crash()
    receiver.boot()

    assert receiver.steward.commit_min == SNAPSHOT_OP
    finish(server, receiver)
