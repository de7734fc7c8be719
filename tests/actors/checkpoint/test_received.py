"""A snapshot that was received: placed verbatim, named only when installed, and in place of whatever is captured (D-26)."""

import errno
from collections.abc import Iterator
from dataclasses import dataclass

from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.checkpoint.actor import FINISH_RETRY_MILLISECONDS, CheckpointActor
from levrier.actors.consensus import messages as consensus
from levrier.actors.journal import messages as journal
from levrier.actors.runtime import Probe
from levrier.actors.state_transfer import messages as state_transfer
from levrier.actors.superblock import messages as superblock
from levrier.persistence.errors import IoFailed
from levrier.persistence.snapshot import TRAILER_SIZE, SnapshotWriter, decode_payload
from tests.actors.checkpoint.rig import (
    DIRECTORY,
    SNAPSHOT,
    TEMPORARY,
    CheckpointRig,
    captured,
    file_content,
    info,
    new_storage,
    payload,
)

ATTEMPT = 5


@dataclass(frozen=True, slots=True)
class Payload:
    """A received payload in pieces; `fails` has the disk refuse the second."""

    data: bytes
    fails: bool = False

    def chunks(self) -> Iterator[bytes]:
        """The pieces."""
        yield self.data[:50]
        if self.fails:
            raise IoFailed(file="received.snapshot", call="read", error=errno.EIO)
        yield self.data[50:]


def place(
    op: int, *, attempt: int = ATTEMPT, data: bytes | None = None, fails: bool = False
) -> checkpoint.PlaceReceived:
    """The command, by default of an undamaged snapshot of that op."""
    promised = info(op)
    return checkpoint.PlaceReceived(
        attempt=attempt,
        op=op,
        size=promised.size,
        checksum=promised.checksum,
        payload=Payload(payload(op) if data is None else data, fails),
    )


class Received(CheckpointRig):
    """The coordinator beside a StateTransfer."""

    def __init__(self, *, last: int = 0) -> None:
        storage = new_storage()
        if last:
            storage.put(SNAPSHOT, file_content(last))
        super().__init__(storage=storage, last=info(last) if last else None)
        self.transfer: Probe[state_transfer.CheckpointAnswer] = Probe("state_transfer")
        CheckpointActor.start(
            name="coordinator",
            runtime=self.runtime,
            writer=lambda: SnapshotWriter(self.storage, DIRECTORY),
            superblock=self.superblock,
            journal=self.journal,
            consensus=self.consensus,
            last=info(last) if last else None,
            state_transfer=self.transfer,
        )
        self.address = self.runtime.address("coordinator")

    def assert_silent(self) -> None:
        """Nobody was told anything more."""
        super().assert_silent()
        self.transfer.assert_silent()

    def not_placed(self) -> str:
        """The reason of the one refusal that was told."""
        answer = self.transfer.take()
        assert isinstance(answer, state_transfer.ReceivedNotPlaced), answer
        assert answer.attempt == ATTEMPT
        return answer.reason


def test_it_is_placed_verbatim_and_nobody_else_hears_of_it() -> None:
    rig = Received(last=4)

    rig.tell(place(9))

    assert rig.transfer.take() == state_transfer.ReceivedPlaced(attempt=ATTEMPT)
    assert rig.storage.content(SNAPSHOT) == file_content(9)
    assert rig.storage.is_durable(SNAPSHOT)
    rig.assert_silent()


def test_it_is_named_and_the_log_drained_when_it_is_installed() -> None:
    rig = Received(last=4)
    rig.tell(place(9))
    rig.transfer.take()

    rig.tell(checkpoint.FinishReceived(op=9))
    assert rig.superblock.take() == superblock.RecordCheckpoint(op=9, checksum=info(9).checksum)
    rig.assert_silent()
    rig.tell(checkpoint.CheckpointRecorded(op=9))
    assert rig.journal.take() == journal.Drain(up_to=8)
    rig.tell(checkpoint.Drained(up_to=8, log_size=4096))

    rig.assert_silent()


def test_d26_a_capture_that_is_being_written_gives_way() -> None:
    """D-26: Consensus hears that its checkpoint failed, and the temporary file is the received one's."""
    rig = Received(last=4)
    rig.address.tell(captured(7, stream_size=1_000_000))
    rig.runtime.advance(2)
    assert rig.storage.exists(TEMPORARY)

    rig.tell(place(9))

    failure = rig.consensus.take()
    assert isinstance(failure, consensus.CheckpointFailed)
    assert failure.op == 7
    assert rig.transfer.take() == state_transfer.ReceivedPlaced(attempt=ATTEMPT)
    assert rig.storage.content(SNAPSHOT) == file_content(9)
    rig.assert_silent()


def test_d26_a_capture_that_waits_for_the_superblock_or_the_log_gives_way() -> None:
    """D-26: the answers to it are stale afterwards."""
    for answered in (False, True):
        rig = Received(last=4)
        rig.tell(captured(7))
        rig.superblock.take()
        if answered:
            rig.tell(checkpoint.CheckpointRecorded(op=7))
            rig.journal.take()

        rig.tell(place(9))

        assert isinstance(rig.consensus.take(), consensus.CheckpointFailed)
        assert rig.transfer.take() == state_transfer.ReceivedPlaced(attempt=ATTEMPT)
        rig.tell(checkpoint.CheckpointRecorded(op=7), checkpoint.Drained(up_to=6, log_size=1))
        rig.assert_silent()


def test_d26_a_capture_older_than_the_file_fails() -> None:
    """D-26: it was taken before the install, and arrives while the file is written or after."""
    rig = Received(last=4)
    rig.tell(place(9))
    rig.transfer.take()

    rig.tell(captured(7))

    assert "op 9" in rig.failed(7)
    assert rig.storage.content(SNAPSHOT) == file_content(9)


def test_a_capture_that_arrives_while_the_received_one_is_named_fails_and_the_next_is_good() -> None:
    """D-27: it is tried again later."""
    rig = Received(last=4)
    rig.tell(place(9))
    rig.transfer.take()
    rig.tell(checkpoint.FinishReceived(op=9))
    rig.superblock.take()

    rig.tell(captured(12))
    assert "op 9" in rig.failed(12)
    rig.tell(checkpoint.CheckpointRecorded(op=9))
    rig.journal.take()
    rig.tell(checkpoint.Drained(up_to=8, log_size=4096))

    rig.tell(captured(12))
    rig.finish(12)


def test_an_older_snapshot_is_not_placed() -> None:
    """D-26"""
    rig = Received(last=20)

    rig.tell(place(9))

    assert "op 20" in rig.not_placed()
    assert rig.storage.content(SNAPSHOT) == file_content(20)
    rig.assert_silent()


def test_the_same_snapshot_is_not_written_twice() -> None:
    rig = Received(last=9)
    before = rig.storage.calls

    rig.tell(place(9))

    assert rig.transfer.take() == state_transfer.ReceivedPlaced(attempt=ATTEMPT)
    assert rig.storage.calls == before


def test_bytes_that_changed_on_the_way_through_the_disk_are_not_placed() -> None:
    """The trailer is made here: it would vouch for anything."""
    rig = Received(last=4)
    wrong = bytearray(payload(9))
    wrong[60] ^= 1

    rig.tell(place(9, data=bytes(wrong)))

    assert "checksum" in rig.not_placed()
    assert rig.storage.content(SNAPSHOT) == file_content(4)
    assert not rig.storage.exists(TEMPORARY)
    rig.assert_silent()


def test_what_cannot_be_read_or_written_is_not_placed() -> None:
    for call in range(1, 6):
        rig = Received(last=4)
        rig.fail(call, errno.ENOSPC)
        rig.tell(place(9))
        assert "ENOSPC" in rig.not_placed()
        assert rig.storage.content(SNAPSHOT) == file_content(4)
        rig.assert_silent()
    rig = Received(last=4)
    rig.tell(place(9, fails=True))
    assert "EIO" in rig.not_placed()
    assert not rig.storage.exists(TEMPORARY)


def test_a_failure_after_the_rename_is_a_failure_and_the_file_never_goes_back() -> None:
    """D-26: whoever reads the file sees op 9, although a crash might undo it."""
    rig = Received(last=4)
    before = rig.storage.calls
    rig.tell(place(9))
    calls = rig.storage.calls - before
    rig = Received(last=4)
    rig.fail(calls, errno.EIO)

    rig.tell(place(9))

    rig.not_placed()
    rig.tell(captured(7))
    assert "op 9" in rig.failed(7)
    rig.tell(place(9))
    assert rig.transfer.take() == state_transfer.ReceivedPlaced(attempt=ATTEMPT)


def test_naming_and_draining_are_tried_again() -> None:
    """D-27: a full disk is no reason to keep the old log for ever."""
    rig = Received(last=4)
    rig.tell(place(9))
    rig.transfer.take()
    rig.address.tell(checkpoint.FinishReceived(op=9))
    rig.runtime.run()
    for refusal in (
        checkpoint.RecordFailed(op=9, reason="ENOSPC"),
        checkpoint.DrainFailed(up_to=8, reason="ENOSPC"),
    ):
        rig.superblock.take()
        if isinstance(refusal, checkpoint.DrainFailed):
            rig.address.tell(checkpoint.CheckpointRecorded(op=9))
            rig.runtime.run()
            rig.journal.take()
        rig.address.tell(refusal)
        rig.runtime.run()
        rig.assert_silent()
        rig.runtime.advance(FINISH_RETRY_MILLISECONDS)
    assert rig.superblock.take() == superblock.RecordCheckpoint(op=9, checksum=info(9).checksum)


def test_a_checkpoint_of_our_own_makes_the_naming_unnecessary() -> None:
    rig = Received(last=4)
    rig.tell(place(9))
    rig.transfer.take()
    rig.tell(captured(12))

    rig.tell(checkpoint.FinishReceived(op=9))

    rig.finish(12)


def test_a_newer_received_snapshot_replaces_one_that_is_being_written() -> None:
    rig = Received(last=4)
    rig.address.tell(place(9))
    rig.runtime.run()

    rig.tell(place(11, attempt=ATTEMPT + 1))

    assert "op 11" in rig.not_placed()
    assert rig.transfer.take() == state_transfer.ReceivedPlaced(attempt=ATTEMPT + 1)
    assert rig.storage.content(SNAPSHOT) == file_content(11)


def test_a_table_that_is_ahead_of_its_snapshot_says_so_in_the_file() -> None:
    """Or the ops between would be applied to its sessions a second time after a restart."""
    rig = Received(last=4)
    message = captured(9)

    rig.tell(checkpoint.Captured(op=9, metadata=message.metadata, clients=message.clients, table_frontier=15))

    content = rig.storage.content(SNAPSHOT)
    assert content is not None
    assert decode_payload(content[:-TRAILER_SIZE]).fields.table_frontier == 15
