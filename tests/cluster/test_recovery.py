"""Replay at boot: from a snapshot and a log to state and client table (persistence 6)."""

import pytest

from levrier.actors.client_table.table import Answer
from levrier.cluster.recovery import LogBroken, Recovered
from levrier.persistence.errors import JournalDamaged
from levrier.wire.codes import Operation
from levrier.wire.replies import committed_reply
from levrier.wire.requests.streams import CreateStream
from tests.cluster.logs import CLIENT, ROOT, Disk

SOLO = 1
CLUSTER = 3
REGISTER = int(Operation.REGISTER)
LOGOUT = int(Operation.LOGOUT)


def names(recovered: Recovered) -> list[str]:
    """The streams of a recovered state, by id."""
    listed = recovered.machine.streams.freeze()
    return [stream.name for stream in listed if stream is not None]


def streams(first: int, last: int) -> list[str]:
    return [f"stream-{op}" for op in range(first, last + 1)]


def test_an_empty_directory() -> None:
    """S-102: nothing applied, an empty log."""
    recovered = Disk().recovered(replicas=SOLO)
    assert (recovered.applied, recovered.head, recovered.replayed, recovered.headers) == (0, 0, 0, ())
    assert names(recovered) == []


def test_a_snapshot_and_an_empty_log() -> None:
    """S-103: the snapshot is loaded, nothing is replayed on top of it."""
    disk = Disk()
    disk.snapshot(42, applied=[disk.entry(42)])
    disk.entries.clear()
    recovered = disk.recovered(replicas=CLUSTER)
    assert (recovered.applied, recovered.replayed, recovered.headers) == (42, 0, ())
    assert names(recovered) == ["stream-42"]
    assert recovered.timestamp == 1_000_042


def test_a_member_applies_what_is_known_to_be_committed() -> None:
    """S-104: ops 1 to 3, each stamping commit op - 1: applied 2, journaled 3."""
    disk = Disk()
    for op in (1, 2, 3):
        disk.entry(op)
    recovered = disk.recovered(replicas=CLUSTER)
    assert (recovered.applied, recovered.head) == (2, 3)
    assert names(recovered) == streams(1, 2)


def test_a_single_node_applies_all_that_it_made_durable() -> None:
    """The other side of S-104: alone, durable is committed."""
    disk = Disk()
    for op in (1, 2, 3):
        disk.entry(op)
    assert disk.recovered(replicas=SOLO).applied == 3


def test_a_member_replays_up_to_a_hole() -> None:
    """S-105 under our rulings: ops 1, 2, 3 and 5, each stamping commit op - 1.

    What is above the hole is not applied, and it is kept for repair, not cut (D-06). Op 5 says that 4 ops are committed,
    but it does not chain to op 3, so it does not say that this op 3 is the committed one (D-16): applied 2, journaled 3.
    """
    disk = Disk()
    for op in (1, 2, 3, 5):
        disk.entry(op)
    journal = disk.reopened()
    recovered = disk.recovered(replicas=CLUSTER, journal=journal)
    assert (recovered.applied, recovered.head) == (2, 3)
    assert [header.op for header in recovered.headers] == [1, 2, 3]
    assert names(recovered) == streams(1, 2)
    assert journal.header(5) is not None


def test_a_single_node_refuses_a_hole() -> None:
    """D-06: it names the op and the way out."""
    disk = Disk()
    for op in (1, 2, 3, 5):
        disk.entry(op)
    with pytest.raises(LogBroken, match="op 4 is missing before op 5 at op 4; keep the directory") as caught:
        disk.recovered(replicas=SOLO)
    assert caught.value.op == 4


def test_a_log_that_starts_above_the_snapshot_is_a_hole() -> None:
    """D-06, BR-22: the first op must be the snapshot's + 1."""
    disk = Disk()
    for op in (101, 102):
        disk.entry(op)
    with pytest.raises(LogBroken, match="op 1 is missing before op 101"):
        disk.recovered(replicas=SOLO)
    assert disk.recovered(replicas=CLUSTER).applied == 0


def test_an_entry_with_a_foreign_parent_is_never_applied() -> None:
    """S-106: op 3 names a parent that is not op 2. At the tail of the log the scan cuts it."""
    disk = Disk()
    disk.entry(1)
    disk.entry(2)
    disk.entry(3, parent=0xBAD)
    recovered = disk.recovered(replicas=SOLO, journal=disk.reopened(mark=False))
    assert (recovered.applied, recovered.head) == (2, 2)
    assert names(recovered) == streams(1, 2)


def test_interior_damage_refuses_before_anything_is_applied() -> None:
    """S-106, the other outcome: the entry with the foreign parent is followed by a good one."""
    disk = Disk()
    disk.entry(1)
    disk.entry(2)
    disk.entry(3, parent=0xBAD)
    disk.entry(4)
    with pytest.raises(JournalDamaged) as caught:
        disk.recovered(replicas=SOLO)
    assert caught.value.op == 3


def test_a_chain_break_refuses_a_single_node() -> None:
    """D-06: not even a log that passed its scan is applied across a break."""
    disk = Disk()
    disk.entry(1)
    disk.entry(2)
    disk.entry(3, parent=0xBAD)
    with pytest.raises(LogBroken, match="parent 0xbad is not the checksum") as caught:
        disk.recovered(replicas=SOLO, journal=disk.journal())
    assert caught.value.op == 3


def test_the_commit_point_of_the_last_entry() -> None:
    """S-107: ops 1 to 5, the last stamps commit 3: applied 3, journaled 5."""
    disk = Disk()
    for op in range(1, 6):
        disk.entry(op, commit=3 if op == 5 else 0)
    recovered = disk.recovered(replicas=CLUSTER)
    assert (recovered.applied, recovered.head) == (3, 5)


def test_the_highest_commit_point_counts_wherever_it_stands() -> None:
    """BR-06: commit fields 5, 9, 7 on ops 8, 9, 10: exactly 9 is applied."""
    disk = Disk()
    disk.snapshot(7)
    for op, commit in ((8, 5), (9, 9), (10, 7)):
        disk.entry(op, commit=commit)
    recovered = disk.recovered(replicas=CLUSTER)
    assert (recovered.applied, recovered.head) == (9, 10)
    assert names(recovered) == streams(8, 9)


def test_replay_starts_behind_the_snapshot() -> None:
    """S-108: a snapshot at 5 and ops 1 to 10: ops 6 to 9 are applied, 10 journaled."""
    disk = Disk()
    for op in range(1, 11):
        disk.entry(op)
    disk.snapshot(5, applied=disk.entries[:5])
    recovered = disk.recovered(replicas=CLUSTER)
    assert (recovered.applied, recovered.replayed, recovered.head) == (9, 4, 10)
    assert names(recovered) == streams(1, 9)


def _hidden_session(*, with_table: bool) -> Recovered:
    """A Register and request 1 below a snapshot at 2, and a later Register at op 3."""
    disk = Disk()
    disk.entry(1, operation=REGISTER, request=0)
    disk.entry(2, request=1)
    disk.entry(3, operation=REGISTER, request=0)
    disk.snapshot(2, applied=disk.entries[:2], with_table=with_table)
    return disk.recovered(replicas=SOLO)


def test_a_snapshot_without_sessions_hides_them() -> None:
    """S-109: only the later Register counts: epoch 3, watermark 0."""
    entry = _hidden_session(with_table=False).table.entry_of(CLIENT)
    assert entry is not None
    assert (entry.epoch, entry.watermark) == (3, 0)


def test_a_snapshot_with_sessions_keeps_them() -> None:
    """S-110: the later Register moves the epoch and keeps the watermark: epoch 3, watermark 1, the same user."""
    entry = _hidden_session(with_table=True).table.entry_of(CLIENT)
    assert entry is not None
    assert (entry.epoch, entry.watermark, entry.user_id) == (3, 1, ROOT)


def test_a_retry_after_replay_gets_the_cached_reply() -> None:
    """S-111, C-242: Register at op 1, request 1 at op 2: request 1 is replayed byte for byte, request 2 is new."""
    disk = Disk()
    disk.entry(1, operation=REGISTER, request=0)
    done = disk.entry(2, request=1)
    recovered = disk.recovered(replicas=SOLO)
    table = recovered.table
    retried = table.check_request(client=CLIENT, epoch=1, request=1, request_checksum=0)
    assert retried.answer is Answer.DUPLICATE
    assert retried.reply is not None
    fresh = Disk().recovered(replicas=SOLO).machine
    for entry in disk.entries:
        applied = fresh.apply(entry.header, entry.body)
    assert retried.reply.frame == committed_reply(done.header, applied.body)
    assert table.check_request(client=CLIENT, epoch=1, request=2, request_checksum=0).answer is Answer.NEW


def test_a_logout_ends_the_session_in_replay_too() -> None:
    """S-112: Register, then Logout: no session, applied 2."""
    disk = Disk()
    disk.entry(1, operation=REGISTER, request=0)
    disk.entry(2, operation=LOGOUT, request=1)
    recovered = disk.recovered(replicas=SOLO)
    assert recovered.table.entry_of(CLIENT) is None
    assert recovered.applied == 2


def test_replay_and_the_live_path_make_the_same_state() -> None:
    """Twice from the same log: the same bytes of state and table (design 5)."""
    disk = Disk()
    disk.entry(1, operation=REGISTER, request=0)
    for op in range(2, 20):
        disk.entry(op, body=CreateStream(name=f"stream-{op % 5}").encode())

    def encoded() -> bytes:
        recovered = disk.recovered(replicas=SOLO)
        captured = recovered.machine.capture(recovered.applied, recovered.timestamp)
        return b"".join((*captured.users(), *captured.streams(), *recovered.table.capture().chunks()))

    assert encoded() == encoded()
