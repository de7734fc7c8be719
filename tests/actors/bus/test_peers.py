"""The core of the links: who dials when, what a stranger can do (nothing), queues and their bounds, links that are replaced."""

import tracemalloc

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.bus.link_frames import DropReason
from levrier.actors.bus.peer_link import PeerAddress, PeerState
from levrier.actors.bus.peers import CloseLink, Dial, FrameDropped, LinkLimits, Peers, RedialAfter, Refused, WriteLink
from levrier.actors.bus.send_queue import SendQueue
from levrier.actors.consensus.messages import PrepareReceived
from levrier.wire.framing import FRAME_SIZE_MAX
from tests.actors.bus.link_rig import (
    CLUSTER,
    SECRET,
    Entropy,
    PeersRig,
    acceptor,
    dialer,
    extension,
    flip,
    heartbeat,
    identity,
    pauses,
    prepare,
    prepare_ok,
    roster,
)


def authenticated(rig: PeersRig, peer: int) -> int:
    """A link of a lower member that proved itself."""
    link = rig.accept()
    calling = dialer(identity(peer, secret=SECRET), rig.replica, start=50 + link)
    rig.receive(link, calling.hello())
    (challenge,) = rig.take(WriteLink)
    rig.receive(link, calling.on_frame(challenge.data).reply)
    return link


# Dialling.


def test_only_members_with_a_higher_id_are_dialled() -> None:
    rig = PeersRig(replica=1, members=4)
    rig.keep(rig.peers.on_start())
    assert [effect.replica for effect in rig.take(RedialAfter)] == [2, 3]
    assert [report.state for report in rig.peers.report()] == [
        PeerState.AWAITED,
        PeerState.PAUSED,
        PeerState.PAUSED,
    ]
    rig.keep(rig.peers.on_redial(3))
    assert rig.take(Dial) == [Dial(where=PeerAddress(replica=3, host="node3", port=9000))]


def test_pauses_double_up_to_a_second() -> None:
    assert pauses(PeersRig(replica=0), 1, 7) == [50, 100, 200, 400, 800, 1000, 1000]


def test_pauses_differ_by_a_quarter() -> None:
    assert pauses(PeersRig(replica=0, chance=0.0), 1, 6) == [38, 75, 150, 300, 600, 750]
    assert pauses(PeersRig(replica=0, chance=0.999), 1, 6) == [62, 125, 250, 500, 1000, 1250]


def test_members_of_a_cluster_that_is_not_born_are_dialled_quickly() -> None:
    """The shortest pause for as long as it takes, and the usual ones afterwards."""
    rig = PeersRig(replica=0, hurried=True)
    assert pauses(rig, 1, 5) == [50] * 5
    rig.peers.set_pace(hurried=False)
    assert pauses(rig, 1, 3) == [50, 100, 200]
    rig.peers.set_pace(hurried=True)
    assert pauses(rig, 1, 2) == [50, 50]


def test_a_dial_says_hello_and_without_a_secret_the_link_stands() -> None:
    rig = PeersRig(replica=0)
    link = rig.dial(1)
    assert [type(effect) for effect in rig.effects] == [Dial, WriteLink, bus.PeerUp]
    (hello,) = rig.take(WriteLink)
    assert acceptor(identity(1)).on_frame(hello.data).peer == 0
    assert rig.peer(1).up
    rig.peers.send(1, heartbeat())
    assert rig.peers.take_outgoing() == [(link, heartbeat())]


def test_with_a_secret_nothing_is_sent_before_the_peer_proved_itself() -> None:
    rig = PeersRig(replica=0, secret=SECRET)
    link = rig.dial(1)
    (hello,) = rig.take(WriteLink)
    rig.peers.send(1, heartbeat())
    assert rig.peers.take_outgoing() == []
    assert rig.peer(1).state is PeerState.SHAKING

    called = acceptor(identity(1, secret=SECRET))
    rig.receive(link, called.on_frame(hello.data).reply)
    (finish,) = [effect for effect in rig.effects if isinstance(effect, WriteLink)]
    assert called.on_frame(finish.data).peer == 0
    assert rig.take(bus.PeerUp) == [bus.PeerUp(replica=1)]
    rig.peers.send(1, heartbeat(commit=2))
    assert rig.peers.take_outgoing() == [(link, heartbeat(commit=2))]


def test_a_peer_that_only_closes_is_not_hammered() -> None:
    """Without a secret the link stands at once; that alone does not make the next pause short again."""
    rig = PeersRig(replica=0)
    found = []
    for _ in range(4):
        link = rig.dial(1)
        rig.effects.clear()
        rig.keep(rig.peers.on_closed(link))
        assert "cluster name and shared secret" in rig.peer(1).failure
        found += [effect.milliseconds for effect in rig.take(RedialAfter)]
    assert found == [50, 100, 200, 400]

    link = rig.dial(1)
    rig.receive(link, heartbeat(replica=1))
    rig.effects.clear()
    rig.keep(rig.peers.on_closed(link))
    assert rig.take(RedialAfter) == [RedialAfter(replica=1, milliseconds=50)]


def test_a_silent_peer_that_kept_its_link_for_long_is_dialled_at_once() -> None:
    rig = PeersRig(replica=0)
    pauses(rig, 1, 5)
    link = rig.dial(1)
    for _ in range(4):
        rig.keep(rig.peers.on_tick())
    rig.effects.clear()
    rig.keep(rig.peers.on_closed(link))
    assert rig.take(RedialAfter) == [RedialAfter(replica=1, milliseconds=50)]
    assert rig.peer(1).failure == "the connection was lost"


def test_a_dialer_that_is_refused_prints_both_values_and_waits() -> None:
    """B-009."""
    rig = PeersRig(replica=0)
    link = rig.dial(1)
    foreign = identity(1, name="staging")
    refusal = acceptor(foreign).on_frame(dialer(identity(0), 1).hello()).reply
    rig.effects.clear()
    rig.receive(link, refusal)
    assert {type(effect) for effect in rig.effects} == {FrameDropped, Refused, CloseLink, bus.PeerDown, RedialAfter}
    (refused,) = rig.take(Refused)
    assert f"{foreign.cluster:032x}" in refused.refusal.reason
    assert f"{CLUSTER:032x}" in refused.refusal.reason
    assert not rig.peer(1).up


def test_a_member_that_answers_at_the_address_of_another_is_left() -> None:
    rig = PeersRig(replica=0)
    link = rig.dial(1)
    rig.effects.clear()
    rig.receive(link, prepare_ok(replica=2))
    (refused,) = [effect for effect in rig.effects if isinstance(effect, Refused)]
    assert "replica 1 sent command 7 in the name of 2" in refused.refusal.reason
    assert [effect.link for effect in rig.take(CloseLink)] == [link]


# Accepting.


def test_a_lower_member_is_accepted_and_its_frames_are_told() -> None:
    rig = PeersRig(replica=1)
    link = rig.accept_peer(0)
    assert rig.take(bus.PeerUp) == [bus.PeerUp(replica=0)]
    rig.receive(link, prepare() + prepare_ok() + prepare(op=2))
    assert [type(effect) for effect in rig.effects] == [PrepareReceived, bus.ReplicaFrame, PrepareReceived]


def test_frames_may_follow_a_hello_in_one_segment_cut_anywhere() -> None:
    stream = dialer(identity(0), 1).hello() + prepare() + heartbeat()
    for cut in (1, 100, 255, 256, 257, 300, len(stream) - 1, len(stream)):
        rig = PeersRig(replica=1)
        link = rig.accept()
        rig.receive(link, stream[:cut])
        rig.receive(link, stream[cut:])
        assert [type(effect) for effect in rig.effects if not isinstance(effect, bus.PeerUp)] == [
            PrepareReceived,
            bus.ReplicaFrame,
        ]


def test_frames_may_follow_the_proof_but_not_come_before_it() -> None:
    rig = PeersRig(replica=1, secret=SECRET)
    link = rig.accept()
    calling = dialer(identity(0, secret=SECRET), 1)
    rig.receive(link, calling.hello())
    (challenge,) = rig.take(WriteLink)
    rig.receive(link, calling.on_frame(challenge.data).reply + prepare())
    assert len(rig.take(PrepareReceived)) == 1

    link = rig.accept()
    rig.receive(link, dialer(identity(0, secret=SECRET), 1).hello() + prepare())
    assert rig.peer(0).up
    assert [effect.reason for effect in rig.take(CloseLink)] == ["bytes before the proof"]


def test_a_refusal_is_told_before_the_link_ends() -> None:
    rig = PeersRig(replica=1)
    link = rig.accept()
    rig.receive(link, dialer(identity(0, name="staging"), 1).hello())
    assert [type(effect) for effect in rig.effects] == [WriteLink, Refused, CloseLink]
    (closing,) = rig.take(CloseLink)
    assert (closing.link, closing.abort) == (link, False)
    assert rig.peers.links == 0


# Strangers.


@pytest.mark.parametrize("secret", [None, SECRET], ids=["open", "authenticated"])
@pytest.mark.parametrize(
    "data",
    [bytes(256), b"\xff" * 70_000, b"GET / HTTP/1.1\r\n" * 100, prepare(), heartbeat(), extension(), prepare() * 50],
    ids=["zeros", "ones", "http", "prepare", "heartbeat", "extension", "flood"],
)
def test_a_stranger_makes_the_node_do_nothing(data: bytes, secret: object) -> None:
    """All that comes of it is its own end: nothing is told, nobody else is touched."""
    rig = PeersRig(replica=1, secret=SECRET if secret else None)
    known = authenticated(rig, 0) if secret else rig.accept_peer(0)
    rig.effects.clear()
    link = rig.accept()
    rig.receive(link, data)
    rig.receive(link, data)
    assert {type(effect) for effect in rig.effects} <= {WriteLink, Refused, CloseLink}
    assert [effect.link for effect in rig.take(CloseLink)] == [link]
    assert rig.peer(0).up
    rig.receive(known, heartbeat())
    assert len(rig.take(bus.ReplicaFrame)) == 1


def test_a_stranger_holds_no_more_than_a_header_and_not_for_long() -> None:
    rig = PeersRig(replica=1, secret=SECRET)
    declared = heartbeat()[:48] + FRAME_SIZE_MAX.to_bytes(4, "little") + heartbeat()[52:]
    links = [rig.accept() for _ in range(10)]
    for link in links:
        rig.receive(link, declared[:255])
    assert rig.peers.held_size == 10 * 255
    for _ in range(3):
        rig.keep(rig.peers.on_tick())
        assert rig.effects == []
    rig.keep(rig.peers.on_tick())
    assert [effect.link for effect in rig.take(CloseLink)] == links
    assert (rig.peers.links, rig.peers.held_size) == (0, 0)


def test_an_endless_stream_of_a_stranger_allocates_nothing() -> None:
    rig = PeersRig(replica=1, secret=SECRET)
    piece = bytes(64 * 1024)
    tracemalloc.start()
    try:
        for _ in range(200):
            rig.receive(rig.accept(), piece)
            rig.effects.clear()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rig.peers.links == 0
    assert held < 64 * 1024


def test_of_too_many_strangers_the_oldest_goes_and_members_stay() -> None:
    rig = PeersRig(replica=1, members=3, secret=SECRET, limits=LinkLimits(anonymous_max=4))
    known = authenticated(rig, 0)
    ours = rig.dial(2)
    rig.effects.clear()
    strangers = [rig.accept() for _ in range(7)]
    assert [effect.link for effect in rig.take(CloseLink)] == strangers[:3]
    assert rig.peers.anonymous == 4
    # A flood ends neither a link nor a dial of ours whose answer is still awaited.
    assert rig.peer(2).state is PeerState.SHAKING
    assert rig.peers.links == 4 + 2
    assert {known, ours}.isdisjoint(strangers)


def test_a_dial_that_is_never_answered_is_given_up() -> None:
    rig = PeersRig(replica=0, secret=SECRET)
    link = rig.dial(1)
    for _ in range(4):
        rig.effects.clear()
        rig.keep(rig.peers.on_tick())
    assert [type(effect) for effect in rig.effects] == [CloseLink, RedialAfter]
    assert [effect.link for effect in rig.take(CloseLink)] == [link]


# Frames of peers.


def test_bad_frames_of_a_peer_are_counted_and_its_link_lives() -> None:
    rig = PeersRig(replica=1)
    link = rig.accept_peer(0)
    rig.effects.clear()
    bad = [
        (DropReason.CHECKSUM, flip(heartbeat(), 140)),
        (DropReason.SENDER, heartbeat(replica=2)),
        (DropReason.GROUP, prepare_ok(group=5)),
        (DropReason.CLUSTER, prepare_ok(cluster=5)),
        (DropReason.COMMAND, heartbeat()[:60] + b"\x08" + heartbeat()[61:]),
    ]
    for reason, frame in bad:
        rig.receive(link, frame)
        assert [effect.dropped.reason for effect in rig.take(FrameDropped)] == [reason]
    report = rig.peer(0)
    assert [count for _, count in report.dropped] == [1] * 5
    assert report.frames_received == 5
    rig.receive(link, heartbeat())
    assert len(rig.take(bus.ReplicaFrame)) == 1


@pytest.mark.parametrize("size", [0, 255, FRAME_SIZE_MAX + 1, 0xFFFF_FFFF])
def test_a_size_out_of_range_ends_the_link_after_the_frames_before_it(size: int) -> None:
    rig = PeersRig(replica=1)
    link = rig.accept_peer(0)
    rig.effects.clear()
    broken = heartbeat()[:48] + size.to_bytes(4, "little") + heartbeat()[52:]
    rig.receive(link, prepare() + broken)
    assert [type(effect) for effect in rig.effects] == [PrepareReceived, CloseLink, bus.PeerDown]
    rig.receive(link, prepare())
    assert len(rig.effects) == 3


def test_what_nobody_takes_is_counted() -> None:
    rig = PeersRig(replica=1)
    rig.accept_peer(0)
    rig.peers.nobody_takes(0)
    assert rig.peer(0).drops(DropReason.NO_RECIPIENT) == 1


# Sending.


def test_a_frame_goes_once_to_its_peer_and_to_nobody_else() -> None:
    """C-005."""
    rig = PeersRig(replica=2)
    first, second = rig.accept_peer(0), rig.accept_peer(1)
    rig.peers.send(1, heartbeat(replica=2))
    assert rig.peers.take_outgoing() == [(second, heartbeat(replica=2))]
    assert rig.peers.take_outgoing() == []
    rig.peers.broadcast(heartbeat(replica=2))
    assert rig.peers.take_outgoing() == [(first, heartbeat(replica=2)), (second, heartbeat(replica=2))]


def test_nothing_is_ever_sent_to_oneself() -> None:
    """C-004, as this design has it: Consensus handles its own acknowledgement, and the Bus knows no peer of that id."""
    rig = PeersRig(replica=1)
    rig.accept_peer(0)
    with pytest.raises(AssertionError, match="replica 1 is no peer"):
        rig.peers.send(1, heartbeat(replica=1))
    rig.peers.broadcast(heartbeat(replica=1))
    assert len(rig.peers.take_outgoing()) == 1


def test_a_member_is_never_its_own_peer() -> None:
    """Whatever the roster lists, a node has each other member exactly once, and never itself."""
    rig = PeersRig(replica=1)
    assert [report.replica for report in rig.peers.report()] == [0, 2]
    for wrong in (roster(2), (*roster(3), roster(3)[2]), roster(4)):
        with pytest.raises(AssertionError, match="each member once"):
            Peers(identity=identity(1), roster=wrong, entropy=Entropy(), chance=lambda: 0.5)


def test_frames_of_one_batch_leave_in_one_write_in_order() -> None:
    rig = PeersRig(replica=1)
    link = rig.accept_peer(0)
    frames = [prepare(op=op) for op in range(1, 6)]
    for frame in frames:
        rig.peers.send(0, frame)
    assert rig.peers.take_outgoing() == [(link, b"".join(frames))]
    assert (rig.peer(0).frames_sent, rig.peer(0).bytes_sent) == (5, sum(map(len, frames)))


def test_frames_to_a_peer_without_a_link_are_dropped_and_counted() -> None:
    rig = PeersRig(replica=1)
    rig.peers.send(0, heartbeat(replica=1))
    assert rig.peers.take_outgoing() == []
    assert rig.peer(0).drops(DropReason.NOT_CONNECTED) == 1
    link = rig.accept_peer(0)
    assert rig.peers.take_outgoing() == []
    rig.peers.on_blocked(link)
    rig.peers.send(0, heartbeat(replica=1))
    rig.keep(rig.peers.on_closed(link))
    assert rig.peer(0).drops(DropReason.NOT_CONNECTED) == 2


def test_a_peer_that_does_not_read_has_a_bounded_queue_and_the_oldest_frame_goes() -> None:
    rig = PeersRig(replica=1, limits=LinkLimits(queue_frames_max=3))
    link = rig.accept_peer(0)
    rig.peers.on_blocked(link)
    frames = [prepare(op=op) for op in range(1, 6)]
    for frame in frames:
        rig.peers.send(0, frame)
    assert rig.peers.take_outgoing() == []
    assert rig.peer(0).queued == 3
    rig.peers.on_resumed(link)
    assert rig.peers.take_outgoing() == [(link, b"".join(frames[2:]))]
    assert rig.peer(0).drops(DropReason.QUEUE_FULL) == 2


def test_a_long_batch_for_a_peer_that_reads_is_written_in_between() -> None:
    """Or the queue would run over although nothing is in the way."""
    rig = PeersRig(replica=1, limits=LinkLimits(queue_frames_max=4))
    link = rig.accept_peer(0)
    written = []
    for op in range(1, 20):
        rig.peers.send(0, prepare(op=op))
        if rig.peers.urgent:
            written += [number for number, _ in rig.peers.take_outgoing()]
    assert written == [link] * 9
    assert rig.peer(0).drops(DropReason.QUEUE_FULL) == 0
    assert rig.peer(0).queued == 1
    rig.peers.take_outgoing()
    rig.peers.send(0, prepare(body=bytes(1 << 20)))
    assert rig.peers.urgent
    rig.peers.take_outgoing()
    rig.peers.on_blocked(link)
    rig.peers.send(0, prepare(body=bytes(1 << 20)))
    assert not rig.peers.urgent


def test_a_queue_is_bounded_in_bytes_and_always_holds_the_newest_frame() -> None:
    queue = SendQueue(frames_max=100, size_max=1_000)
    assert [queue.push(bytes(400)) for _ in range(4)] == [0, 0, 1, 1]
    assert (len(queue), queue.size) == (2, 800)
    assert queue.push(bytes(5_000)) == 2
    assert (queue.take(), queue.size, len(queue)) == (bytes(5_000), 0, 0)


def test_a_peer_that_does_not_read_for_long_loses_its_link() -> None:
    rig = PeersRig(replica=1)
    link = rig.accept_peer(0)
    rig.peers.on_blocked(link)
    for _ in range(10):
        rig.keep(rig.peers.on_tick())
    assert rig.take(CloseLink) == []
    rig.keep(rig.peers.on_tick())
    assert [effect.link for effect in rig.take(CloseLink)] == [link]


def test_a_peer_that_reads_again_is_not_held_against_it() -> None:
    rig = PeersRig(replica=1)
    link = rig.accept_peer(0)
    for _ in range(3):
        rig.peers.on_blocked(link)
        for _ in range(9):
            rig.keep(rig.peers.on_tick())
        rig.peers.on_resumed(link)
    assert rig.take(CloseLink) == []


# Links that end.


def test_a_newer_link_of_a_peer_replaces_the_older_one() -> None:
    rig = PeersRig(replica=1)
    old = rig.accept_peer(0)
    rig.peers.send(0, heartbeat(replica=1))
    rig.effects.clear()
    new = rig.accept_peer(0)
    assert [type(effect) for effect in rig.effects] == [CloseLink, bus.PeerDown, bus.PeerUp]
    assert [effect.link for effect in rig.take(CloseLink)] == [old]
    # What the old link was owed is not sent on the new one, and its end changes nothing any more.
    assert rig.peers.take_outgoing() == []
    rig.keep(rig.peers.on_closed(old))
    rig.receive(old, heartbeat())
    assert rig.effects == []
    rig.peers.send(0, heartbeat(replica=1, commit=2))
    assert rig.peers.take_outgoing() == [(new, heartbeat(replica=1, commit=2))]


def test_a_link_is_not_replaced_by_somebody_who_only_claims_to_be_the_peer() -> None:
    rig = PeersRig(replica=1, secret=SECRET)
    authenticated(rig, 0)
    rig.effects.clear()
    link = rig.accept()
    rig.receive(link, dialer(identity(0, secret=SECRET), 1).hello())
    rig.receive(link, dialer(identity(0), 1).hello())
    assert {type(effect) for effect in rig.effects} == {WriteLink, Refused, CloseLink}
    assert rig.peer(0).up


def test_a_dialer_that_leaves_instead_of_proving_itself_is_told_of() -> None:
    """As one with another secret does: without a line here, only its own log would say why there is no link."""
    rig = PeersRig(replica=1, secret=SECRET)
    link = rig.accept()
    rig.receive(link, dialer(identity(0, secret=SECRET), 1).hello())
    rig.effects.clear()
    rig.keep(rig.peers.on_closed(link))
    (refused,) = rig.effects
    assert isinstance(refused, Refused)
    assert "shared secrets may differ" in refused.refusal.reason
    rig.effects.clear()
    rig.keep(rig.peers.on_closed(rig.accept()))
    rig.keep(rig.peers.on_closed(authenticated(rig, 0)))
    assert rig.take(Refused) == []


def test_a_dialer_dials_again_when_its_link_ends() -> None:
    rig = PeersRig(replica=0)
    link = rig.dial(1)
    rig.receive(link, heartbeat(replica=1))
    rig.effects.clear()
    rig.keep(rig.peers.on_closed(link))
    assert rig.effects == [
        bus.PeerDown(replica=1, reason="the connection was lost"),
        RedialAfter(replica=1, milliseconds=50),
    ]
    rig.effects.clear()
    rig.dial(1)
    assert rig.peer(1).up


# What has to hold.


def test_a_link_without_its_peer_is_found_by_the_next_write() -> None:
    """Which looks at the peer concerned alone."""
    rig = PeersRig(replica=2)
    first = rig.accept_peer(0)
    rig.accept_peer(1)
    rig.peers._links[first].peer = None
    rig.peers.send(1, heartbeat(replica=2))
    rig.peers.take_outgoing()
    rig.peers.send(0, heartbeat(replica=2))
    with pytest.raises(AssertionError):
        rig.peers.take_outgoing()


def test_a_frame_that_nobody_would_write_is_found_within_a_second() -> None:
    rig = PeersRig(replica=1)
    rig.accept_peer(0)
    rig.peers.send(0, heartbeat(replica=1))
    rig.peers._dirty.clear()
    with pytest.raises(AssertionError):
        rig.peers.on_tick()
