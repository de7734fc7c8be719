"""The Acknowledgements actor alone, with probes for its neighbours and a simulated disk."""

import errno
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from loguru import logger

from levrier.actors.acknowledgements import messages as acknowledgements
from levrier.actors.acknowledgements.actor import INTERVAL_MILLISECONDS, AcknowledgementsActor
from levrier.actors.acknowledgements.core import Identity
from levrier.actors.bus import messages as bus
from levrier.actors.journal.messages import Reclaim
from levrier.actors.metadata import messages as metadata
from levrier.actors.runtime import Probe, SteppedRuntime
from levrier.persistence.acknowledgement_store import AcknowledgementStore
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.wire.acknowledgement import Acknowledgement, Frontier, replica_id
from levrier.wire.replica_headers import ExtensionHeader
from tests.actors.acknowledgements.replicas import A, said

CLUSTER, GROUP = 0xC1, 1 << 63
IDS = [replica_id(CLUSTER, each) for each in range(2)]
FILE = Path("/data/metadata/acknowledgements.bin")


@pytest.fixture
def log() -> Iterator[list[str]]:
    """What was logged from INFO on."""
    lines: list[str] = []
    number = logger.add(lambda message: lines.append(str(message)), format="{message}", level="INFO")
    yield lines
    logger.remove(number)


class World:
    """Replica 0 of two, or of one."""

    def __init__(
        self,
        *,
        replica_count: int = 2,
        storage: SimulatedStorage | None = None,
        keeps_history: bool = False,
        archive_limit: int = 0,
    ) -> None:
        self.runtime = SteppedRuntime(seed=1)
        self.storage = storage or SimulatedStorage(Random(1))
        self.storage.make_directory(FILE.parent)
        self.metadata: Probe[metadata.FrontierWanted] = Probe("metadata")
        self.bus: Probe[bus.HistoryChanged] = Probe("bus")
        self.replicas: Probe[bus.SendToReplica | bus.Broadcast] = Probe("replicas")
        self.asker: Probe[acknowledgements.EvidenceAnswer] = Probe("asker")
        self.journal: Probe[Reclaim] = Probe("journal")
        self.ref = AcknowledgementsActor.start(
            name="acknowledgements",
            runtime=self.runtime,
            identity=Identity(cluster=CLUSTER, replica=0, replica_count=replica_count, node_id="node-0"),
            group=GROUP,
            names={IDS[1]: "node-1"},
            store=AcknowledgementStore.open(self.storage, FILE),
            metadata=self.metadata,
            bus=self.bus,
            replicas=self.replicas if replica_count > 1 else None,
            journal=self.journal if keeps_history else None,
            archive_limit=archive_limit,
        )
        self.runtime.run()

    def tell(self, message: acknowledgements.Command) -> None:
        """A neighbour tells it something."""
        self.ref.tell(message)
        self.runtime.run()

    def interval(self, op: int) -> None:
        """One interval passes; the state machine stands at `op`."""
        self.runtime.advance(INTERVAL_MILLISECONDS)
        for wanted in self.metadata.take_all():
            positions = ((A, op),) if op else ()
            wanted.reply_to.tell(metadata.FrontierApplied(op=op, positions=positions, identities=((A, 31),)))
        self.runtime.run()

    def hear(self, sender: int, statement: Acknowledgement) -> None:
        """A frame of that peer arrives."""
        header = ExtensionHeader(command=64, group=GROUP, cluster=CLUSTER, replica=sender)
        self.ref.tell(bus.ReplicaFrame(command=64, header=header, body=statement.encode(), sender=sender))
        self.runtime.run()

    def evidence(self) -> acknowledgements.EvidenceAnswer:
        """What it answers."""
        self.ref.tell(acknowledgements.EvidenceQuery(token=9, reply_to=self.asker))
        self.runtime.run()
        return self.asker.take()


def test_a_node_of_its_own_records_itself_and_sends_nothing() -> None:
    world = World(replica_count=1)
    assert world.evidence().evidence == acknowledgements.Blocked(waiting_on=(IDS[0],))
    world.interval(op=4)
    answer = world.evidence()
    assert answer.token == 9
    assert answer.evidence == acknowledgements.SafeThrough(frontier=Frontier(((A, 4),)), covered=(IDS[0],))
    (statement,) = answer.acknowledgements
    assert (statement.node_id, statement.origin_sequence_high_water.at(A)) == ("node-0", 31)
    assert statement.membership_view == (IDS[0],)
    world.replicas.assert_silent()


def test_what_it_says_is_a_sealed_frame_64_for_all_peers() -> None:
    world = World()
    world.interval(op=4)
    sent = world.replicas.take()
    assert isinstance(sent, bus.Broadcast)
    header, body = ExtensionHeader.decode_frame(sent.frame)
    assert (header.command, header.cluster, header.group, header.replica) == (64, CLUSTER, GROUP, 0)
    assert Acknowledgement.decode(body).applied_frontier == Frontier(((A, 4),))
    world.interval(op=4)
    world.replicas.assert_silent()
    world.ref.tell(bus.PeerAdmitted(replica=1, voter=True))
    world.runtime.run()
    assert world.replicas.take() == bus.SendToReplica(replica=1, frame=sent.frame)


def test_a_peer_counts_once_it_is_durable_and_still_after_a_crash() -> None:
    world = World()
    world.interval(op=4)
    world.hear(1, said(IDS[1], {A: 3}, *IDS))
    assert world.evidence().evidence == acknowledgements.Blocked(waiting_on=(IDS[1],))
    world.interval(op=4)
    expected = acknowledgements.SafeThrough(frontier=Frontier(((A, 3),)), covered=tuple(IDS))
    assert world.evidence().evidence == expected
    world.storage.crash()
    again = World(storage=world.storage)
    assert again.evidence().evidence == expected
    assert again.bus.take_all()[-1].safe_op == 3


def test_nothing_counts_while_the_disk_refuses_and_everything_does_afterwards() -> None:
    """A-012: the old statement still answers."""
    world = World()
    world.interval(op=4)
    world.hear(1, said(IDS[1], {A: 3}, *IDS))
    world.storage.faults.error_probability = 1.0
    world.storage.faults.errors = (errno.EIO,)
    for _ in range(3):
        world.interval(op=5)
    assert world.evidence().evidence == acknowledgements.Blocked(waiting_on=(IDS[1],))
    assert world.evidence().acknowledgements[0].applied_frontier.at(A) == 4
    world.storage.faults.error_probability = 0.0
    world.interval(op=5)
    found = world.evidence()
    assert found.evidence == acknowledgements.SafeThrough(frontier=Frontier(((A, 3),)), covered=tuple(IDS))
    assert found.acknowledgements[0].applied_frontier.at(A) == 5


def test_a015_a_frame_in_another_name_changes_nothing_and_is_shown() -> None:
    """A-015."""
    world = World()
    world.interval(op=4)
    before = world.evidence()
    world.hear(1, said(IDS[0], {A: 99}, *IDS))
    world.interval(op=4)
    assert world.evidence() == before
    assert world.bus.take_all()[-1].frames_refused == 1


def test_the_bus_is_told_who_blocks_and_from_which_op() -> None:
    world = World()
    world.interval(op=4)
    shown = world.bus.take_all()[-1]
    assert [(each.node, each.blocks_from) for each in shown.replicas] == [("node-0", 0), ("node-1", 1)]
    world.hear(1, said(IDS[1], {A: 3}, *IDS))
    world.interval(op=4)
    shown = world.bus.take_all()[-1]
    assert [(each.node, each.blocks_from) for each in shown.replicas] == [("node-0", 0), (IDS[1].upper(), 4)]
    assert (shown.safe_op, shown.applied) == (3, 4)
    world.interval(op=4)
    world.bus.assert_silent()


def kept(size: int, *, segments: int = 1) -> acknowledgements.ArchiveChanged:
    """What the Journal says that it keeps."""
    return acknowledgements.ArchiveChanged(first_op=1, last_op=3, segments=segments, size=size)


def test_the_journal_is_told_what_everybody_has_as_soon_as_that_is_durable() -> None:
    """Nothing while somebody has said nothing; then the frontier of the slowest."""
    world = World(keeps_history=True)
    world.tell(kept(1_000))
    world.interval(op=4)
    world.journal.assert_silent()
    world.hear(1, said(IDS[1], {A: 3}, *IDS))
    world.journal.assert_silent()
    world.interval(op=4)
    assert world.journal.take() == Reclaim(frontier=Frontier(((A, 3),)))
    world.tell(kept(2_000))
    assert world.journal.take() == Reclaim(frontier=Frontier(((A, 3),)))
    world.tell(kept(0, segments=0))
    world.interval(op=9)
    world.journal.assert_silent()


def test_what_is_not_durable_is_no_reason_to_reclaim() -> None:
    world = World(keeps_history=True)
    world.tell(kept(1_000))
    world.hear(1, said(IDS[1], {A: 3}, *IDS))
    world.storage.faults.error_probability = 1.0
    world.storage.faults.errors = (errno.EIO,)
    for _ in range(3):
        world.interval(op=5)
    world.journal.assert_silent()
    world.storage.faults.error_probability = 0.0
    world.interval(op=5)
    assert world.journal.take() == Reclaim(frontier=Frontier(((A, 3),)))


def test_above_the_limit_one_warning_names_who_is_waited_for(log: list[str]) -> None:
    """And one line says that it is over; what is kept is shown all the time."""
    world = World(keeps_history=True, archive_limit=1_000)
    world.tell(kept(900))
    for _ in range(10):
        world.interval(op=4)
    assert [line for line in log if "archive_limit" in line] == []
    world.tell(kept(2_048))
    for _ in range(10):
        world.interval(op=4)
    [warning] = [line for line in log if "archive_limit" in line]
    assert "2.0 KiB of history are kept" in warning
    assert "blocked by node-1 from op 1" in warning
    shown = world.bus.take_all()[-1].kept
    assert shown is not None
    assert (shown.size, shown.limit, shown.is_over_limit) == (2_048, 1_000, True)
    world.hear(1, said(IDS[1], {A: 3}, *IDS))
    for _ in range(10):
        world.interval(op=4)
    assert "blocked by RB from op 4" in [line for line in log if "archive_limit" in line][1].replace(
        IDS[1].upper(), "RB"
    )
    world.tell(kept(100))
    for _ in range(10):
        world.interval(op=4)
    assert "within acknowledgements.archive_limit again" in log[-1]
    assert len([line for line in log if "archive_limit" in line]) == 3
