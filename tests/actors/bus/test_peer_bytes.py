"""Whatever bytes arrive on the replica port, in whatever pieces, nothing breaks and nothing false is told."""

from hypothesis import given, settings
from hypothesis import strategies as st

from levrier.actors.bus import messages as bus
from levrier.actors.bus.link_frames import Dropped, FrameReader
from levrier.actors.bus.messages import ReplicaFrame
from levrier.actors.bus.peers import CloseLink, FrameDropped, Refused, WriteLink
from levrier.actors.consensus.messages import PrepareReceived, RepairPrepareReceived
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import to_repair
from tests.actors.bus.link_rig import (
    SECRET,
    PeersRig,
    dialer,
    extension,
    heartbeat,
    identity,
    prepare,
    prepare_ok,
    start_view,
    vote,
)

SUFFIX = PrepareHeader.blank(1).encode()
FRAMES = (prepare(), to_repair(prepare(op=2)), prepare_ok(), heartbeat(), vote(SUFFIX), start_view(), extension())
STRANGER_EFFECTS = {WriteLink, Refused, CloseLink}
VIEW = range(52, 56)


@settings(max_examples=200, deadline=None)
@given(pieces=st.lists(st.binary(max_size=700), max_size=6), secret=st.booleans())
def test_any_bytes_of_a_stranger_end_in_nothing(pieces: list[bytes], *, secret: bool) -> None:
    rig = PeersRig(replica=1, secret=SECRET if secret else None)
    link = rig.accept()
    for piece in pieces:
        rig.receive(link, piece)
    assert {type(effect) for effect in rig.effects} <= STRANGER_EFFECTS
    assert rig.peers.held_size < 256


@settings(max_examples=200, deadline=None)
@given(
    frame=st.sampled_from(FRAMES),
    changes=st.lists(st.tuples(st.integers(0, 511), st.integers(1, 255)), min_size=1, max_size=4),
)
def test_a_damaged_frame_is_never_told_as_something_else(frame: bytes, changes: list[tuple[int, int]]) -> None:
    """The one thing that no checksum covers is the view of an entry: a later view sends it again unchanged."""
    damaged = bytearray(frame)
    for offset, mask in changes:
        damaged[offset % len(frame)] ^= mask
    reader = FrameReader(identity(1))
    intact, read = reader.read(frame, sender=0), reader.read(bytes(damaged), sender=0)
    if isinstance(read, Dropped):
        return
    assert type(read) is type(intact)
    if isinstance(read, ReplicaFrame):
        assert read == intact
    else:
        assert isinstance(intact, PrepareReceived | RepairPrepareReceived)
        assert read.prepare.header.checksum == intact.prepare.header.checksum
        assert all(damaged[at] == frame[at] for at in range(len(frame)) if at not in VIEW)


@settings(max_examples=100, deadline=None)
@given(garbage=st.binary(max_size=2_000), cuts=st.lists(st.integers(1, 900), max_size=8))
def test_garbage_behind_good_frames_of_a_member_costs_at_most_its_link(garbage: bytes, cuts: list[int]) -> None:
    stream = dialer(identity(0), 1).hello() + b"".join(FRAMES) + garbage
    rig = PeersRig(replica=1)
    link = rig.accept()
    start = 0
    for cut in cuts:
        rig.receive(link, stream[start : start + cut])
        start += cut
    rig.receive(link, stream[start:])
    told = [
        effect for effect in rig.effects if isinstance(effect, PrepareReceived | RepairPrepareReceived | ReplicaFrame)
    ]
    assert len(told) == len(FRAMES)
    rest = {type(effect) for effect in rig.effects} - {PrepareReceived, RepairPrepareReceived, ReplicaFrame}
    assert rest <= {bus.PeerUp, bus.PeerDown, CloseLink, FrameDropped}
