"""The shell among probes: each effect reaches its neighbour, in order, and nothing else is said."""

from typing import Any

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.bus.messages import Ticket
from levrier.actors.client_table import messages as client_table
from levrier.actors.consensus import messages as consensus
from levrier.actors.consensus.actor import ConsensusActor
from levrier.actors.consensus.messages import LogPosition, Outcome, Verdict
from levrier.actors.consensus.replica import VIEW_LEAP_MAX, Replica
from levrier.actors.consensus.state import ReplicaConfig
from levrier.actors.journal import messages as journal
from levrier.actors.metadata import messages as metadata
from levrier.actors.runtime import ExitStatus, Probe, SteppedRuntime
from levrier.actors.state_transfer import messages as state_transfer
from levrier.actors.superblock import messages as superblock
from levrier.wire.codes import EvictionReason
from levrier.wire.prepare import METADATA_GROUP
from levrier.wire.replica_headers import RequestPreparesHeader, StartViewChangeHeader
from tests.actors.consensus.builders import (
    SettableClock,
    config_of,
    position,
    replica_of,
    request_of,
    sealed_chain,
    verdict_on,
)
from tests.actors.consensus.peers import member
from tests.actors.consensus.test_transfer import fetching, ready


class Neighbourhood:
    """A ConsensusActor in a stepped runtime, with a probe in place of each neighbour."""

    def __init__(self, config: ReplicaConfig | None = None, replica: Replica | None = None) -> None:
        self.runtime = SteppedRuntime(seed=1)
        self.journal: Probe[Any] = Probe("journal")
        self.metadata: Probe[Any] = Probe("metadata")
        self.client_table: Probe[Any] = Probe("client_table")
        self.bus: Probe[Any] = Probe("bus")
        self.superblock: Probe[Any] = Probe("superblock")
        self.replicas: Probe[Any] = Probe("replicas")
        self.state_transfer: Probe[Any] = Probe("state_transfer")
        ConsensusActor.start(
            name="consensus",
            runtime=self.runtime,
            replica=replica or replica_of(config, clock=SettableClock()),
            journal=self.journal,
            metadata=self.metadata,
            client_table=self.client_table,
            bus=self.bus,
            superblock=self.superblock,
            replicas=self.replicas,
            state_transfer=self.state_transfer,
        )
        self.address = self.runtime.address("consensus")

    def tell(self, *messages: object) -> None:
        """Tell the actor and let it work."""
        for message in messages:
            self.address.tell(message)
        self.runtime.run()

    def assert_silent(self) -> None:
        """Nobody was told anything that the test did not look at."""
        neighbours = (self.journal, self.metadata, self.client_table, self.bus, self.superblock)
        for probe in (*neighbours, self.replicas, self.state_transfer):
            probe.assert_silent()


def test_a_write_goes_through_journal_and_state_machine() -> None:
    """Design, the path of one write: rules 2 and 3."""
    around = Neighbourhood()
    around.tell(verdict_on(request_of(1)))
    append = around.journal.take()
    assert isinstance(append, journal.Append)
    assert (append.prepare.header.op, append.view) == (1, 0)
    around.assert_silent()

    around.tell(consensus.Appended(positions=(position(append.prepare),)))
    assert around.metadata.take() == metadata.Apply(prepare=append.prepare, reply_to=Ticket(connection=1, number=1))
    around.assert_silent()

    around.tell(consensus.Applied(op=1))
    around.assert_silent()
    around.tell(consensus.StatusQuery(ticket=Ticket(connection=9, number=1)))
    status = around.bus.take()
    assert isinstance(status, bus.NodeStatus)
    assert (status.applied, status.commit, status.op, status.pipeline) == (1, 1, 1, 0)


def test_a_batch_of_three_is_told_in_order() -> None:
    """Rules 1 and 2."""
    around = Neighbourhood()
    around.tell(*(verdict_on(request_of(client)) for client in (1, 2, 3)))
    prepares = [append.prepare for append in around.journal.take_all()]
    around.tell(consensus.Appended(positions=tuple(position(prepare) for prepare in prepares)))
    assert [apply.prepare.header.op for apply in around.metadata.take_all()] == [1, 2, 3]
    around.assert_silent()


def test_a_failed_append_hands_the_op_back() -> None:
    """C-143, BR-05: a retriable answer, the cut, and the next request becomes the same op."""
    around = Neighbourhood()
    around.tell(verdict_on(request_of(1)))
    failed = around.journal.take().prepare
    around.tell(consensus.AppendFailed(positions=(position(failed),), reason="no space left"))
    assert around.bus.take() == bus.Deny(ticket=Ticket(connection=1, number=1), code=57, commit=0)
    assert around.journal.take() == journal.Truncate(from_op=1)
    around.assert_silent()

    around.tell(verdict_on(request_of(2)))
    around.assert_silent()
    around.tell(consensus.Truncated(from_op=1))
    recheck = around.client_table.take()
    assert isinstance(recheck, client_table.Recheck)
    around.tell(Verdict(token=recheck.token, request=recheck.request, outcome=Outcome.NEW, user_id=7))
    again = around.journal.take().prepare
    assert (again.header.op, again.header.client) == (1, 2)
    around.assert_silent()


def test_a_failed_cut_is_tried_again() -> None:
    """D-25, BR-48."""
    around = Neighbourhood()
    around.tell(verdict_on(request_of(1)))
    failed = around.journal.take().prepare
    around.tell(consensus.AppendFailed(positions=(position(failed),), reason="no space left"))
    around.tell(consensus.TruncateFailed(from_op=1, reason="no space left"))
    around.journal.take_all()
    around.tell(*(consensus.Tick() for _ in range(20)))
    assert around.journal.take_all() == [journal.Truncate(from_op=1)]


def test_an_unreconcilable_log_ends_the_node() -> None:
    """Section 7, D-36: exit status 10."""
    around = Neighbourhood()
    around.tell(consensus.AppendFailed(positions=(LogPosition(op=3, checksum=1, view=0),), reason="io"))
    [failure] = around.runtime.failures
    assert (failure.status, failure.actor) == (ExitStatus.LOG_UNRECONCILABLE, "consensus")
    around.assert_silent()


def test_a_wedged_superblock_ends_the_node() -> None:
    """Section 9, D-36: exit status 11."""
    replica = replica_of(config_of(superblock_failures_max=2))
    replica.state.view = 1
    around = Neighbourhood(replica=replica)
    around.tell(consensus.Tick())
    assert around.superblock.take() == superblock.PersistView(view=1, log_view=0, commit_max=0)
    around.tell(consensus.ViewPersistFailed(failures=2, reason="io"), consensus.Tick())
    assert [failure.status for failure in around.runtime.failures] == [ExitStatus.SUPERBLOCK_WEDGED]


def test_a_durable_view_opens_the_gate() -> None:
    """D-11, section 9."""
    replica = replica_of()
    replica.state.view = 1
    around = Neighbourhood(replica=replica)
    around.tell(verdict_on(request_of(1)))
    prepare = around.journal.take().prepare
    around.tell(consensus.Appended(positions=(position(prepare, view=1),)))
    around.metadata.assert_silent()
    around.tell(consensus.ViewPersisted(view=1, log_view=0))
    assert around.metadata.take().prepare is prepare


def test_the_checkpoint_marker_stands_behind_its_op() -> None:
    """C-144, design: what the marker finds is consistent by order alone."""
    around = Neighbourhood(config_of(depth=2, slots=6))
    for client in (1, 2, 3):
        around.tell(verdict_on(request_of(client)))
        prepare = around.journal.take().prepare
        around.tell(consensus.Appended(positions=(position(prepare),)), consensus.Applied(op=client))
    told = around.metadata.take_all()
    assert told[-1] == metadata.Capture(op=3)
    assert [apply.prepare.header.op for apply in told[:-1]] == [1, 2, 3]

    around.tell(consensus.CheckpointFailed(op=3, reason="no space left"))
    around.runtime.run()
    around.tell(*(consensus.Tick() for _ in range(10)))
    assert around.metadata.take_all() == [metadata.Capture(op=3)]
    around.tell(consensus.CheckpointDone(op=3, snapshot_size=10, log_size=20))
    around.tell(consensus.StatusQuery(ticket=Ticket(connection=1, number=2)))
    status = around.bus.take()
    assert (status.checkpoint, status.checkpoints, status.log_bytes) == (3, 1, 20)
    around.assert_silent()


@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        (
            Outcome.NO_SESSION,
            bus.Evict(ticket=Ticket(connection=1, number=1), reason=EvictionReason.NO_SESSION),
        ),
        (Outcome.ALREADY_APPLIED, bus.Deny(ticket=Ticket(connection=1, number=1), code=59, commit=0)),
    ],
)
def test_a_refusal_goes_to_the_bus_and_nowhere_else(outcome: Outcome, answer: bus.Answer) -> None:
    """Rule 4."""
    around = Neighbourhood()
    around.tell(verdict_on(request_of(1), outcome))
    assert around.bus.take() == answer
    around.assert_silent()


def test_a_queued_request_is_asked_about_again() -> None:
    """Rule 5: a replay needs nothing but the slot back."""
    around = Neighbourhood(config_of(depth=1))
    around.tell(verdict_on(request_of(1)), verdict_on(request_of(2)))
    prepare = around.journal.take().prepare
    around.tell(consensus.Appended(positions=(position(prepare),)), consensus.Applied(op=1))
    around.metadata.take_all()
    recheck = around.client_table.take()
    assert recheck.request == request_of(2)
    around.tell(Verdict(token=recheck.token, request=recheck.request, outcome=Outcome.REPLAYED, user_id=0))
    around.assert_silent()


def test_a_backup_among_probes() -> None:
    """A prepare comes, is durable, is acknowledged, goes on down the chain, and is applied when it is committed.

    What that gives others to do waits for the tick: the primary waits for the acknowledgement alone.
    """
    around = Neighbourhood(replica=member(1))
    first, second = sealed_chain(from_op=1, to_op=2)
    around.tell(consensus.PrepareReceived(prepare=first, sender=0))
    assert around.journal.take() == journal.Append(prepare=first, view=0)
    around.tell(consensus.Appended(positions=(position(first),)))
    acknowledgement = around.replicas.take()
    assert (acknowledgement.replica, acknowledgement.frame[60]) == (0, 7)
    around.tell(consensus.PrepareReceived(prepare=second, sender=0))
    around.journal.take()
    around.tell(consensus.Appended(positions=(position(second),)))
    around.replicas.take()
    around.assert_silent()
    around.tell(consensus.Tick())
    assert around.replicas.take_all() == [
        bus.SendToReplica(replica=2, frame=first.frame),
        bus.SendToReplica(replica=2, frame=second.frame),
        bus.FlushLinks(),
    ]
    assert around.metadata.take() == metadata.Apply(prepare=first, reply_to=None)
    around.assert_silent()


@pytest.mark.parametrize("together", [False, True], ids=["alone", "together"])
def test_prepares_that_come_together_are_taken_as_if_each_came_alone(*, together: bool) -> None:
    around = Neighbourhood(replica=member(1))
    chain = sealed_chain(from_op=1, to_op=3)
    frames = tuple([consensus.PrepareReceived(prepare=prepare, sender=0) for prepare in chain])
    around.tell(*([consensus.FramesReceived(frames=frames)] if together else frames))
    assert around.journal.take_all() == [journal.Append(prepare=prepare, view=0) for prepare in chain]
    around.tell(consensus.Appended(positions=tuple([position(prepare) for prepare in chain])))
    told = around.replicas.take_all()
    assert {each.replica for each in told} == {0}
    assert [each.frame[60] for each in told if each.replica == 0] == [7, 7, 7]
    around.tell(consensus.Tick())
    *told, flush = around.replicas.take_all()
    assert [each.frame for each in told] == [prepare.frame for prepare in chain]
    assert flush == bus.FlushLinks()
    committed = chain[-1].header.commit
    assert around.metadata.take_all() == [metadata.Apply(prepare=each, reply_to=None) for each in chain[:committed]]
    around.assert_silent()


def test_a_far_view_among_frames_that_come_together_is_not_believed() -> None:
    """What a frame may not do alone, it may not do in company."""
    replica = member(1)
    around = Neighbourhood(replica=replica)
    far = StartViewChangeHeader(cluster=77, group=METADATA_GROUP, replica=0, view=VIEW_LEAP_MAX + 1)
    frame = consensus.FrameReceived(header=far, body=b"", sender=0)
    around.tell(consensus.FramesReceived(frames=(frame, frame)))
    assert replica.state.view == 0
    around.assert_silent()


def test_a_read_for_a_peer_goes_through_the_journal() -> None:
    """Section 10: the answer comes back by message, and leaves as repair frames."""
    chain = sealed_chain(from_op=1, to_op=2)
    around = Neighbourhood(replica=member(0, chain=chain, commit=2))
    request = RequestPreparesHeader(cluster=77, group=METADATA_GROUP, replica=1, view=0, nonce=5, from_op=1, to_op=2)
    around.tell(consensus.FrameReceived(header=request, body=b"", sender=1))
    read = around.journal.take()
    assert isinstance(read, journal.Read)
    read.reply_to.tell(journal.Entries(from_op=1, prepares=chain))
    around.runtime.run()
    assert [told.frame[60] for told in around.replicas.take_all()] == [19, 19, 20]
    around.assert_silent()


def test_an_install_goes_down_the_commit_stream() -> None:
    """Rule 2: told to the machine, answered by the table, and the frontiers follow."""
    replica = fetching(member(1))
    around = Neighbourhood(replica=replica)
    around.tell(ready(7))
    assert around.journal.take() == journal.Truncate(from_op=8)
    around.tell(consensus.Truncated(from_op=8))
    assert around.state_transfer.take() == state_transfer.PlaceSnapshot(attempt=1)
    around.tell(consensus.SnapshotPlaced(attempt=1))
    install = around.metadata.take()
    assert isinstance(install, metadata.Install)
    assert (install.attempt, install.is_ahead) == (1, True)
    around.tell(consensus.Installed(attempt=1, applied_op=7))
    finished = around.state_transfer.take()
    assert finished == state_transfer.InstallFinished(attempt=1, applied_op=7, is_ahead=True)
    assert replica.state.commit_min == 7
    around.assert_silent()


def test_votes_go_to_everybody_once_the_superblock_has_answered() -> None:
    """D-11."""
    around = Neighbourhood(replica=member(1))
    header = StartViewChangeHeader(cluster=77, group=METADATA_GROUP, replica=0, view=2)
    around.tell(consensus.FrameReceived(header=header, body=b"", sender=0))
    assert around.superblock.take() == superblock.PersistView(view=2, log_view=0, commit_max=0)
    around.assert_silent()
    around.tell(consensus.ViewPersisted(view=2, log_view=0))
    assert [told.frame[60] for told in around.replicas.take_all()] == [10, 11]
    assert around.state_transfer.take() == state_transfer.ViewObserved(view=2)
