"""The member-state actor among probes: what goes to which neighbour, and in which order."""

from levrier.actors.birth import messages as birth
from levrier.actors.birth.actor import BirthActor
from levrier.actors.birth.core import TICK_MILLISECONDS, BirthCore, Own
from levrier.actors.birth.member_state import COMMAND, Answer, Ask, Hello, MemberPhase, decode
from levrier.actors.bus import messages as bus
from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.consensus import messages as consensus
from levrier.actors.runtime import SteppedRuntime
from levrier.actors.superblock import messages as superblock
from levrier.persistence.superblock import Phase
from levrier.wire.prepare import METADATA_GROUP
from levrier.wire.replica_headers import ExtensionHeader
from tests.actors.birth.members import BLANK, learner, voter

CLUSTER = 0xC1


class Neighbourhood:
    """One actor of replica 1 among three, started."""

    def __init__(self, own: Own) -> None:
        self.runtime = SteppedRuntime(seed=1)
        self.replicas = self.runtime.probe("bus")
        self.consensus = self.runtime.probe("consensus")
        self.superblock = self.runtime.probe("superblock")
        self.checkpoint = self.runtime.probe("checkpoint")
        BirthActor.start(
            name="birth",
            runtime=self.runtime,
            core=BirthCore(replica=1, addresses=["a:1", "b:1", "c:1"], own=own, mint=lambda: 77),
            cluster=CLUSTER,
            group=METADATA_GROUP,
            replica=1,
            replicas=self.replicas,
            consensus=self.consensus,
            superblock=self.superblock,
            checkpoint=self.checkpoint,
        )
        self.runtime.run()

    def tell(self, message: birth.Command) -> None:
        """Tell the actor, and let everything happen that follows at once."""
        self.runtime.address("birth").tell(message)
        self.runtime.run()

    def hears(self, sender: int, hello: Hello) -> None:
        """A frame of another member arrives."""
        header = ExtensionHeader(command=COMMAND, group=METADATA_GROUP, cluster=CLUSTER, replica=sender)
        self.tell(bus.ReplicaFrame(command=COMMAND, header=header, body=hello.encode(), sender=sender))


def hello(phase: MemberPhase, birth_id: int = 7, *, is_voter: bool = False) -> Hello:
    return Hello(phase=phase, birth_id=birth_id, voter=is_voter, replica_count=3, admits=True)


def test_an_unborn_member_hurries_and_says_what_it_waits_for() -> None:
    around = Neighbourhood(BLANK)
    assert around.replicas.take() == bus.SetDialPace(hurried=True)
    note = around.replicas.take()
    assert note == bus.MembershipNote(
        waiting="waiting for first start: 1 of 3 members seen (missing: replica 0 at a:1, replica 2 at c:1)"
    )
    around.consensus.assert_silent()


def test_a_link_that_comes_up_is_told_who_this_is() -> None:
    around = Neighbourhood(voter())
    around.replicas.take_all()
    around.tell(bus.PeerUp(replica=2))
    sent = around.replicas.take()
    assert isinstance(sent, bus.SendToReplica)
    header, body = ExtensionHeader.decode_frame(sent.frame)
    assert (sent.replica, header.command, header.replica, header.cluster) == (2, COMMAND, 1, CLUSTER)
    assert decode(body) == Hello(phase=MemberPhase.BORN, birth_id=7, voter=True, replica_count=3, admits=False)


def test_a_birth_goes_to_the_superblock_first() -> None:
    """Consensus hears of it only when it is durable; snapshots carry the id from then on."""
    around = Neighbourhood(BLANK)
    around.hears(0, hello(MemberPhase.PREPARED))
    assert around.superblock.take() == superblock.PersistBirth(birth_id=7, phase=Phase.PREPARED, voter=False)
    around.tell(birth.BirthPersisted(birth_id=7, is_born=False, voter=False))
    around.hears(0, hello(MemberPhase.BORN, is_voter=True))
    assert around.superblock.take() == superblock.PersistBirth(birth_id=7, phase=Phase.BORN, voter=True)
    around.consensus.assert_silent()
    around.replicas.take_all()
    around.tell(birth.BirthPersisted(birth_id=7, is_born=True, voter=True))
    assert around.consensus.take() == consensus.Born(voter=True)
    assert around.checkpoint.take() == checkpoint.BirthKnown(birth_id=7)
    told = around.replicas.take_all()
    assert bus.SetDialPace(hurried=False) in told
    assert bus.AdmitPeer(replica=0, voter=True) in told


def test_a_member_of_another_birth_is_dropped() -> None:
    """B-009: the Bus is told to end the link, with both values in the reason."""
    around = Neighbourhood(voter())
    around.replicas.take_all()
    around.hears(2, hello(MemberPhase.BORN, 8, is_voter=True))
    dropped = around.replicas.take()
    assert isinstance(dropped, bus.DropPeer)
    assert dropped.replica == 2
    assert f"{8:032x} there, {7:032x} here" in dropped.reason


def test_bytes_that_are_no_member_state_change_nothing() -> None:
    around = Neighbourhood(voter())
    around.replicas.take_all()
    header = ExtensionHeader(command=COMMAND, group=METADATA_GROUP, cluster=CLUSTER, replica=2)
    around.tell(bus.ReplicaFrame(command=COMMAND, header=header, body=b"\xc1", sender=2))
    around.replicas.assert_silent()


def test_a_learner_that_learned_becomes_a_voter() -> None:
    """It asks Consensus whether it holds the head, writes it down, and only then votes."""
    around = Neighbourhood(learner())
    for peer in (0, 2):
        around.hears(peer, hello(MemberPhase.BORN, is_voter=True))
    around.runtime.advance(TICK_MILLISECONDS * 12)
    nonce = _asked_nonce(around)
    for peer in (0, 2):
        _answers(around, peer, nonce)
    around.runtime.advance(TICK_MILLISECONDS * 4)
    wanted = around.consensus.take()
    assert isinstance(wanted, consensus.StandingWanted)
    assert (wanted.op, wanted.checksum) == (9, 99)
    around.tell(
        birth.Standing(token=wanted.token, view=0, is_settled=True, is_primary=False, op=9, checksum=99, holds=True)
    )
    around.runtime.advance(TICK_MILLISECONDS * 4)
    for later in around.consensus.take_all():
        around.tell(
            birth.Standing(token=later.token, view=0, is_settled=True, is_primary=False, op=9, checksum=99, holds=True)
        )
    assert around.superblock.take() == superblock.PersistBirth(birth_id=7, phase=Phase.BORN, voter=True)
    around.tell(birth.BirthPersisted(birth_id=7, is_born=True, voter=True))
    assert consensus.VoterChanged(voter=True) in around.consensus.take_all()


def _asked_nonce(around: Neighbourhood) -> int:
    bodies = [
        decode(ExtensionHeader.decode_frame(sent.frame)[1])
        for sent in around.replicas.take_all()
        if isinstance(sent, bus.SendToReplica)
    ]
    return next(body.nonce for body in bodies if isinstance(body, Ask))


def _answers(around: Neighbourhood, sender: int, nonce: int) -> None:
    header = ExtensionHeader(command=COMMAND, group=METADATA_GROUP, cluster=CLUSTER, replica=sender)
    answer = Answer(nonce=nonce, view=0, is_primary=sender == 0, op=9, checksum=99)
    around.tell(bus.ReplicaFrame(command=COMMAND, header=header, body=answer.encode(), sender=sender))
