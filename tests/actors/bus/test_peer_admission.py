"""A peer that has not shown that it is a member of this very cluster is believed nothing but its MemberState (B-009)."""

from typing import Any

import pytest
from loguru import logger

from levrier.actors.bus import messages as bus
from levrier.actors.bus.directory import ClusterDirectory
from levrier.actors.bus.handshake import LinkIdentity
from levrier.actors.bus.peers import Peers
from levrier.actors.bus.replica_side import MEMBER_STATE, ReplicaRoutes, ReplicaSide, ReplicaWiring
from levrier.actors.bus.simulated_replicas import ReplicaNetwork
from levrier.actors.consensus.messages import FrameReceived, PrepareReceived
from levrier.actors.runtime import Probe, SteppedRuntime
from levrier.wire.codes import NodeRole
from levrier.wire.responses.system import ClusterNode
from tests.actors.bus.link_rig import Entropy, dialer, extension, heartbeat, identity, prepare, roster


class Side:
    """The replicas' side of member 1, with a link that member 0 has dialled."""

    def __init__(self, *, admission: bool) -> None:
        runtime = SteppedRuntime(seed=1)
        own: LinkIdentity = identity(1)
        self.consensus: Probe[Any] = Probe("consensus")
        self.birth: Probe[Any] = Probe("birth")
        self.told: Probe[bus.PeerAdmitted] = Probe("told")
        self.directory = ClusterDirectory(
            name="prod",
            nodes=[ClusterNode(name=f"n{each}", ip="h", tcp=each, role=NodeRole.FOLLOWER) for each in range(3)],
            replica=1,
            quorum=2,
        )
        peers = Peers(identity=own, roster=roster(), entropy=Entropy(), chance=lambda: 0.5)
        self.side = ReplicaSide(
            ReplicaWiring(
                peers=peers,
                transport=ReplicaNetwork().join(1, host="node1", port=9000, runtime=runtime, bus=Probe("bus")),
                routes=ReplicaRoutes(
                    consensus=self.consensus,
                    by_command={MEMBER_STATE: self.birth},
                    watchers=(self.birth,),
                    admissions=(self.told,),
                    admission=admission,
                ),
                directory=self.directory,
            ),
            runtime=runtime,
            address=Probe("bus"),
            log=logger.bind(actor="bus", replica=1),
        )
        self.links = 0
        self.dialled()

    def dialled(self) -> None:
        """Member 0 has a new link."""
        self.links += 1
        self.side.opened(self.links, "192.0.2.1:1")
        self.side.received(self.links, dialer(identity(0), 1).hello())

    def receive(self, frame: bytes) -> None:
        """A frame of member 0 arrives."""
        self.side.received(self.links, frame)

    def tell(self, message: bus.ReplicaCommand) -> None:
        """An actor tells the Bus."""
        self.side.handlers()[type(message)](message)


def test_only_its_member_state_is_passed_on_before_admission() -> None:
    side = Side(admission=True)
    assert side.birth.take() == bus.PeerUp(replica=0)
    side.receive(heartbeat())
    side.receive(prepare())
    side.consensus.assert_silent()
    side.receive(extension(MEMBER_STATE))
    assert isinstance(side.birth.take(), bus.ReplicaFrame)


def test_after_admission_everything_is() -> None:
    side = Side(admission=True)
    side.tell(bus.AdmitPeer(replica=0))
    side.receive(heartbeat())
    side.receive(prepare())
    assert isinstance(side.consensus.take(), FrameReceived)
    assert isinstance(side.consensus.take(), PrepareReceived)
    assert side.directory.waiting == "waiting for a primary"


def test_whoever_asked_is_told_of_an_admission_before_any_frame_of_the_peer() -> None:
    """Whether it votes, too, and again when that has changed."""
    side = Side(admission=True)
    side.told.assert_silent()
    side.tell(bus.AdmitPeer(replica=0, voter=False))
    side.tell(bus.AdmitPeer(replica=0, voter=True))
    assert side.told.take_all() == [bus.PeerAdmitted(replica=0, voter=False), bus.PeerAdmitted(replica=0, voter=True)]
    side.side.closed(side.links)
    side.tell(bus.AdmitPeer(replica=0))
    side.told.assert_silent()


def test_admission_ends_with_the_link() -> None:
    """Who dials next may be another one."""
    side = Side(admission=True)
    side.tell(bus.AdmitPeer(replica=0))
    side.side.closed(side.links)
    side.dialled()
    side.receive(heartbeat())
    side.consensus.assert_silent()
    assert side.directory.waiting == "waiting for quorum: 1 of 3"


def test_admission_of_a_link_that_has_ended_is_void() -> None:
    side = Side(admission=True)
    side.side.closed(side.links)
    side.tell(bus.AdmitPeer(replica=0))
    side.dialled()
    side.receive(heartbeat())
    side.consensus.assert_silent()


@pytest.mark.parametrize("leader", [0, 2])
def test_who_leads_is_what_consensus_says_and_a_link_proves(leader: int) -> None:
    side = Side(admission=True)
    side.tell(bus.AdmitPeer(replica=0))
    side.tell(bus.Leadership(view=leader, leader=leader, serves=True))
    assert side.directory.leader == (0 if leader == 0 else None)


def test_what_the_birth_waits_for_is_shown() -> None:
    side = Side(admission=True)
    side.tell(bus.MembershipNote(waiting="waiting for first start: 2 of 3"))
    assert side.directory.waiting == "waiting for first start: 2 of 3"


def test_without_admission_every_authenticated_peer_is_heard() -> None:
    side = Side(admission=False)
    side.receive(heartbeat())
    assert isinstance(side.consensus.take(), FrameReceived)
