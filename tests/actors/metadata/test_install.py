"""Restoring the machine in place: both halves or neither, and the stream goes on from the snapshot (section 11)."""

from dataclasses import replace
from typing import Any

import msgpack
import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.client_table import messages as client_table
from levrier.actors.metadata import messages as metadata
from levrier.actors.metadata.actor import MetadataActor
from levrier.actors.metadata.machine import MetadataMachine
from levrier.actors.runtime import Probe, SteppedRuntime
from levrier.persistence.snapshot import Snapshot, SnapshotFields
from levrier.wire.codes import Operation
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import METADATA_GROUP, Prepare
from levrier.wire.requests.streams import CreateStream
from tests.actors.metadata.support import Log


def encoded(captured: Any) -> tuple[bytes, bytes, int, int]:
    """Both sections and the numbers beside them."""
    sections = b"".join(captured.users()), b"".join(captured.streams())
    return *sections, captured.consensus_group_high, captured.next_user_id


def snapshot_of(log: Log) -> Snapshot:
    """What a peer whose machine stands at the end of this log sends."""
    captured = log.machine.capture(log.op, 5_000_000 + log.op)
    return Snapshot(
        fields=SnapshotFields(
            sequence=log.op,
            created_at=captured.timestamp,
            writer_release=1,
            consensus_group_high_water=captured.consensus_group_high,
            next_user_id=captured.next_user_id,
            acknowledgement_frontier=captured.frontier,
            acknowledgement_high_water=captured.high_water,
        ),
        users=msgpack.unpackb(b"".join(captured.users()), use_list=False, strict_map_key=False),
        streams=msgpack.unpackb(b"".join(captured.streams()), use_list=False, strict_map_key=False),
        client_table=b"",
        checksum=0,
        size=0,
    )


def remote(op: int = 12) -> Log:
    """A log of root, streams and a topic."""
    log = Log()
    log.bootstrap()
    while log.op < op - 1:
        log.create_stream(f"remote-{log.op}")
    log.create_topic("remote-1", "topic", [1, 2])
    return log


class Stage:
    """The actor with the machine of a log, between probes."""

    def __init__(self, log: Log) -> None:
        self.runtime = SteppedRuntime(seed=1)
        self.table: Probe[client_table.Command] = Probe("client_table")
        self.bus: Probe[bus.Command] = Probe("bus")
        self.ref = MetadataActor.start(
            name="metadata",
            runtime=self.runtime,
            machine=log.machine,
            last_op=log.op,
            last_timestamp=log.op,
            client_table=self.table,
            bus=self.bus,
        )

    def tell(self, *messages: metadata.Command) -> None:
        for message in messages:
            self.ref.tell(message)
        self.runtime.run()

    def state(self, op: int) -> tuple[bytes, bytes, int, int]:
        """What the machine encodes to."""
        self.tell(metadata.Capture(op=op))
        message = self.table.take()
        assert isinstance(message, client_table.Capture)
        return encoded(message.metadata)


def local(op: int = 3) -> Log:
    log = Log()
    log.bootstrap("somebody")
    while log.op < op:
        log.create_stream(f"local-{log.op}")
    return log


def install(snapshot: Snapshot, *, is_ahead: bool = True) -> metadata.Install:
    return metadata.Install(attempt=4, snapshot=snapshot, table_frontier=snapshot.op, is_ahead=is_ahead)


def test_the_machine_becomes_the_one_of_the_snapshot() -> None:
    log = remote()
    stage, snapshot = Stage(local()), snapshot_of(log)

    stage.tell(install(snapshot))

    assert stage.table.take() == client_table.Install(
        attempt=4, snapshot=snapshot, table_frontier=log.op, applied_op=log.op
    )
    assert stage.state(log.op) == encoded(log.machine.capture(log.op, 0))
    stage.bus.assert_silent()


def test_a_capture_afterwards_carries_the_time_of_the_snapshot() -> None:
    """`created_at` is the timestamp of the op, on every replica (D-05)."""
    log = remote()
    stage, snapshot = Stage(local()), snapshot_of(log)
    stage.tell(install(snapshot), metadata.Capture(op=log.op))
    stage.table.take()

    message = stage.table.take()

    assert isinstance(message, client_table.Capture)
    assert message.metadata.timestamp == snapshot.fields.created_at


def test_the_stream_goes_on_behind_the_snapshot() -> None:
    log = remote()
    stage = Stage(local())
    stage.tell(install(snapshot_of(log)))
    stage.table.take()
    header = PrepareHeader(log.op + 1, int(Operation.CREATE_STREAM), client=7, request=1, group=METADATA_GROUP)
    prepare = Prepare.seal(header, CreateStream(name="next").encode())

    stage.tell(metadata.Apply(prepare=prepare, reply_to=None))

    commit = stage.table.take()
    assert isinstance(commit, client_table.Commit)
    assert commit.header.op == log.op + 1
    log.machine.apply(prepare.header, prepare.body)
    assert stage.state(log.op + 1) == encoded(log.machine.capture(log.op + 1, 0))


def test_behind_the_local_state_the_machine_stays_and_the_marker_passes() -> None:
    log, own = remote(5), local(9)
    stage, snapshot = Stage(own), snapshot_of(log)
    before = encoded(own.machine.capture(9, 0))

    stage.tell(install(snapshot, is_ahead=False))

    assert stage.table.take() == client_table.Install(attempt=4, snapshot=snapshot, table_frontier=5, applied_op=9)
    assert stage.state(9) == before


@pytest.mark.parametrize("half", ["users", "streams"])
def test_both_halves_are_checked_before_anything_changes(half: str) -> None:
    """Persistence 4.1: a half that is absent or is no state brings the node down, and leaves the machine as it was."""
    for broken in (None, ((7,),)):
        own = local()
        stage, before = Stage(own), encoded(own.machine.capture(3, 0))
        snapshot = snapshot_of(remote())
        snapshot = replace(snapshot, users=broken) if half == "users" else replace(snapshot, streams=broken)

        stage.tell(install(snapshot))

        assert [failure.actor for failure in stage.runtime.failures] == ["metadata"]
        stage.table.assert_silent()
        assert encoded(own.machine.capture(3, 0)) == before


@pytest.mark.parametrize("is_ahead", [True, False])
def test_a_marker_that_misjudges_the_local_state_brings_the_node_down(is_ahead: bool) -> None:
    """Rule 2: the install goes down an empty stream, so what Consensus decided is what is found here."""
    log = remote(5) if is_ahead else remote(12)
    stage = Stage(local(9))

    stage.tell(install(snapshot_of(log), is_ahead=is_ahead))

    assert [failure.actor for failure in stage.runtime.failures] == ["metadata"]
    stage.table.assert_silent()


def test_a_blank_machine_is_filled() -> None:
    log = remote()
    stage = Stage(Log(MetadataMachine()))

    stage.tell(install(snapshot_of(log)))
    stage.table.take()

    assert stage.state(log.op) == encoded(log.machine.capture(log.op, 0))
