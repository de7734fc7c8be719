"""What a frame of a peer must be before anybody is told of it."""

import pytest

from levrier.actors.bus.link_frames import CONTROL_HEADERS, Dropped, DropReason, FrameReader
from levrier.actors.bus.messages import ReplicaFrame
from levrier.actors.consensus.messages import PrepareReceived, RepairPrepareReceived
from levrier.wire.checksums import seal_frame
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import restamp_view, to_repair
from levrier.wire.replica_headers import DoViewChangeHeader, ForwardRegisterHeader, PrepareOkHeader
from tests.actors.bus.link_rig import (
    CLUSTER,
    GROUP,
    extension,
    flip,
    heartbeat,
    identity,
    prepare,
    prepare_ok,
    start_view,
    vote,
)

READER = FrameReader(identity(1))
SUFFIX = PrepareHeader.blank(1).encode()


def dropped(frame: bytes, *, sender: int = 0) -> DropReason:
    """Why the frame goes nowhere."""
    read = READER.read(frame, sender=sender)
    assert isinstance(read, Dropped)
    assert read.detail
    return read.reason


def resealed(frame: bytes) -> bytes:
    """The frame with a seal that fits."""
    return seal_frame(frame) + frame[256:]


def taken(frame: bytes, *, sender: int = 0) -> ReplicaFrame:
    """The control frame that is told."""
    read = READER.read(frame, sender=sender)
    assert isinstance(read, ReplicaFrame)
    return read


def test_a_control_frame_is_read_once_and_told_whole() -> None:
    read = taken(prepare_ok(replica=2, op=9), sender=2)
    assert (read.command, read.sender, read.body) == (7, 2, b"")
    assert isinstance(read.header, PrepareOkHeader)
    assert read.header.op == 9


def test_a_body_that_fits_its_checksum_is_accepted() -> None:
    """C-015."""
    read = taken(vote(SUFFIX))
    assert isinstance(read.header, DoViewChangeHeader)
    assert read.body == SUFFIX


def test_a_body_without_a_checksum_is_refused() -> None:
    """C-016: zero does not mean unsealed here."""
    for frame in (vote(SUFFIX), start_view(SUFFIX), extension(body=b"\x81")):
        assert dropped(resealed(frame[:16] + bytes(16) + frame[32:])) is DropReason.CHECKSUM


@pytest.mark.parametrize("offset", [256, 300, 511])
def test_a_corrupted_body_is_refused(offset: int) -> None:
    """C-017."""
    assert dropped(flip(vote(SUFFIX), offset)) is DropReason.CHECKSUM
    assert dropped(flip(start_view(SUFFIX), offset)) is DropReason.CHECKSUM


def test_a_frame_without_a_body_is_accepted_with_an_empty_one() -> None:
    """C-018."""
    assert taken(start_view()).body == b""
    assert taken(heartbeat()).body == b""


@pytest.mark.parametrize("offset", [*range(0, 48, 5), *range(52, 60), *range(61, 256, 7)])
def test_a_flipped_bit_anywhere_in_a_header_is_refused(offset: int) -> None:
    """The seal covers what it does not contain, the identity of an entry all but its view."""
    for frame in (prepare_ok(), heartbeat(), vote(SUFFIX), extension()):
        assert dropped(flip(frame, offset)) is DropReason.CHECKSUM
    damaged = flip(prepare(), offset)
    if offset in range(52, 56):
        assert isinstance(READER.read(damaged, sender=0), PrepareReceived)
    else:
        assert dropped(damaged) in {DropReason.CHECKSUM, DropReason.INVALID}


def test_a_prepare_is_told_with_who_passed_it_on() -> None:
    """Its builder is another member than its sender: it comes down the chain."""
    frame = prepare(replica=0)
    read = READER.read(frame, sender=2)
    assert isinstance(read, PrepareReceived)
    assert (read.sender, read.prepare.header.replica, read.prepare.frame) == (2, 0, frame)


def test_a_repair_is_told_as_the_entry_it_carries() -> None:
    frame = prepare(op=5, replica=2)
    read = READER.read(to_repair(frame), sender=0)
    assert isinstance(read, RepairPrepareReceived)
    assert read.prepare.frame == frame
    assert read.prepare.header.command == 6


def test_a_prepare_that_is_sent_again_in_a_later_view_is_accepted() -> None:
    read = READER.read(restamp_view(prepare(), 9), sender=0)
    assert isinstance(read, PrepareReceived)
    assert read.prepare.header.view == 9


def test_a_corrupted_prepare_body_is_refused() -> None:
    frame = prepare(body=b"the body")
    assert dropped(flip(frame, 258)) is DropReason.CHECKSUM
    assert dropped(to_repair(flip(frame, 258))) is DropReason.CHECKSUM


def test_a_prepare_of_no_member_is_refused() -> None:
    assert dropped(prepare(replica=3)) is DropReason.SENDER


@pytest.mark.parametrize("group", [0, 1, GROUP | 1])
def test_another_group_is_refused(group: int) -> None:
    assert dropped(prepare_ok(group=group)) is DropReason.GROUP
    assert dropped(prepare(group=group)) is DropReason.GROUP


def test_another_cluster_is_refused() -> None:
    assert dropped(prepare_ok(cluster=CLUSTER + 1)) is DropReason.CLUSTER
    assert dropped(prepare(cluster=CLUSTER + 1)) is DropReason.CLUSTER


@pytest.mark.parametrize(
    "frame", [prepare_ok(replica=2), heartbeat(replica=2), extension(replica=2), vote(b"", replica=2)]
)
def test_a_peer_cannot_speak_for_another(frame: bytes) -> None:
    assert dropped(frame, sender=0) is DropReason.SENDER
    assert isinstance(READER.read(frame, sender=2), ReplicaFrame)


@pytest.mark.parametrize("command", [0, 1, 2, 3, 4, 5, 8, 13, 14, 15, 16, 30, 63, 67, 255])
def test_commands_that_replicas_do_not_send_each_other_are_refused(command: int) -> None:
    frame = prepare_ok()
    assert dropped(resealed(frame[:60] + bytes((command,)) + frame[61:])) is DropReason.COMMAND


def test_every_command_between_replicas_has_a_header() -> None:
    assert sorted(CONTROL_HEADERS) == [7, 9, 10, 11, 12, 17, 18, *range(20, 30), 64, 65, 66]


def test_a_forwarding_frame_needs_no_group() -> None:
    frame = ForwardRegisterHeader(client=1, nonce=2, user_id=3, cluster=CLUSTER, replica=2).encode()
    assert taken(frame, sender=2).command == 26


def test_a_rule_of_the_header_that_is_broken_under_a_right_seal_is_refused() -> None:
    """A vote whose commit point is above its head."""
    frame = vote(b"")
    assert dropped(resealed(frame[:136] + (2).to_bytes(8, "little") + frame[144:])) is DropReason.INVALID


@pytest.mark.parametrize("command", [64, 65, 66])
def test_an_acknowledgement_is_never_taken_for_an_entry_nor_an_entry_for_one(command: int) -> None:
    """A-014: the tag alone, and the tag under a seal that was made to fit, both ways."""
    entry, ours = prepare(), extension(command)
    relabelled = entry[:60] + bytes((command,)) + entry[61:]
    assert dropped(relabelled) is DropReason.CHECKSUM
    assert dropped(resealed(relabelled)) is DropReason.INVALID
    for tag in (6, 19):
        disguised = ours[:60] + bytes((tag,)) + ours[61:]
        assert isinstance(READER.read(disguised, sender=0), Dropped)
        assert isinstance(READER.read(resealed(disguised), sender=0), Dropped)
    assert isinstance(READER.read(ours, sender=0), ReplicaFrame)
