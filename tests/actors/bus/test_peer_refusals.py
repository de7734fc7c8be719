"""Peers that refuse us, that we refuse, or that are no members: dialled ever less often, until they are welcome."""

from collections.abc import Callable

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.bus.handshake import LinkSecret
from levrier.actors.bus.peers import CloseLink, RedialAfter, Refused, WriteLink
from tests.actors.bus.link_rig import (
    NEXT_SECRET,
    SECRET,
    PeersRig,
    acceptor,
    dialer,
    heartbeat,
    identity,
    pauses,
    prepare_ok,
)

# Refusals of a handshake.


def refuse_by_cluster(rig: PeersRig) -> None:
    """The peer answers our Hello with a refusal; we have no secret, so the link stood already."""
    link = rig.dial(1)
    rig.effects.clear()
    rig.receive(link, acceptor(identity(1, name="staging")).on_frame(dialer(rig.me, 1).hello()).reply)


def refuse_by_secret(rig: PeersRig) -> None:
    """The peer proves another secret than ours."""
    link = rig.dial(1)
    (hello,) = rig.take(WriteLink)
    rig.receive(link, acceptor(identity(1, secret=NEXT_SECRET)).on_frame(hello.data).reply)


def refuse_by_sender(rig: PeersRig) -> None:
    """Another member answers at its address."""
    link = rig.dial(1)
    rig.effects.clear()
    rig.receive(link, prepare_ok(replica=2))


@pytest.mark.parametrize("hurried", [False, True], ids=["born", "unborn"])
@pytest.mark.parametrize(
    ("refuse", "secret"),
    [(refuse_by_cluster, None), (refuse_by_secret, SECRET), (refuse_by_sender, None)],
    ids=["cluster", "secret", "sender"],
)
def test_a_peer_that_refuses_or_is_refused_is_dialled_ever_less_often(
    refuse: Callable[[PeersRig], None], secret: LinkSecret | None, hurried: bool
) -> None:
    """Only an operator can change it; both sides warn of each dial."""
    rig = PeersRig(replica=0, secret=secret, hurried=hurried)
    found = []
    for _ in range(7):
        refuse(rig)
        assert len([effect for effect in rig.effects if isinstance(effect, Refused)]) == 1
        found += [effect.milliseconds for effect in rig.take(RedialAfter)]
    assert found == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]


def test_a_refused_peer_that_is_down_is_dialled_as_any_other() -> None:
    """It may come back with another configuration at any moment."""
    rig = PeersRig(replica=0)
    for _ in range(6):
        refuse_by_cluster(rig)
    rig.effects.clear()
    assert pauses(rig, 1, 3) == [1_000, 1_000, 1_000]


def test_a_refused_peer_that_is_welcome_is_dialled_at_once_when_its_link_ends() -> None:
    rig = PeersRig(replica=0)
    for _ in range(6):
        refuse_by_cluster(rig)
    link = rig.dial(1)
    rig.receive(link, heartbeat(replica=1))
    rig.peers.welcome(1)
    rig.effects.clear()
    rig.keep(rig.peers.on_closed(link))
    assert rig.take(RedialAfter) == [RedialAfter(replica=1, milliseconds=50)]
    refuse_by_cluster(rig)
    assert rig.take(RedialAfter) == [RedialAfter(replica=1, milliseconds=1_000)]


# No members.


def test_a_peer_of_another_birth_is_dropped_and_dialled_rarely() -> None:
    """B-009, the part that the birth id decides: whoever compares the ids has the link ended."""
    rig = PeersRig(replica=0)
    link = rig.dial(1)
    rig.receive(link, heartbeat(replica=1))
    for _ in range(20):
        rig.keep(rig.peers.on_tick())
    rig.effects.clear()
    rig.keep(rig.peers.drop_peer(1, "birth id a there, b here"))
    assert [type(effect) for effect in rig.effects] == [Refused, CloseLink, bus.PeerDown, RedialAfter]
    assert [effect.link for effect in rig.effects if isinstance(effect, CloseLink)] == [link]
    assert rig.take(RedialAfter) == [RedialAfter(replica=1, milliseconds=1000)]
    assert rig.peer(1).failure == "birth id a there, b here"


def test_a_peer_that_is_no_member_is_dialled_ever_less_often_and_told_of_once() -> None:
    """Only an operator can change it: the pauses double to 30 s, and one line says why until the reason is another."""
    rig = PeersRig(replica=0)
    pauses, told = [], []
    for reason in ["another birth"] * 7 + ["another count", "another count"]:
        rig.dial(1)
        rig.effects.clear()
        rig.keep(rig.peers.drop_peer(1, reason))
        pauses += [effect.milliseconds for effect in rig.effects if isinstance(effect, RedialAfter)]
        told += [effect.refusal.reason for effect in rig.effects if isinstance(effect, Refused)]
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000, 30_000]
    assert told == ["another birth", "another count"]
    rig.dial(1)
    rig.peers.welcome(1)
    rig.effects.clear()
    rig.keep(rig.peers.drop_peer(1, "another count"))
    assert [effect.milliseconds for effect in rig.effects if isinstance(effect, RedialAfter)] == [1_000]
    assert len([effect for effect in rig.effects if isinstance(effect, Refused)]) == 1


def test_a_peer_that_has_left_already_is_told_of_once_when_it_is_dropped() -> None:
    """Of two that refuse each other one ends the link first; the other says why all the same."""
    rig = PeersRig(replica=1)
    for _ in range(2):
        rig.keep(rig.peers.drop_peer(0, "4 members there, 3 here"))
    (refused,) = rig.effects
    assert isinstance(refused, Refused)
    assert (refused.address, refused.refusal.reason) == ("node0:9000", "4 members there, 3 here")
    assert rig.peer(0).failure == "4 members there, 3 here"


def test_a_peer_that_leaves_before_it_is_dropped_is_dialled_ever_less_often_too() -> None:
    """What it says while it is no member does not make the next pause short."""
    rig = PeersRig(replica=0, hurried=True)
    found = []
    for _ in range(4):
        link = rig.dial(1)
        rig.receive(link, heartbeat(replica=1))
        rig.effects.clear()
        rig.keep(rig.peers.on_closed(link))
        found += [effect.milliseconds for effect in rig.take(RedialAfter)]
        rig.keep(rig.peers.drop_peer(1, "4 members there, 3 here"))
    assert found == [50, 1_000, 2_000, 4_000]
