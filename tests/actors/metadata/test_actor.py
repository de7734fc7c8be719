"""The actor between probes: the commit stream in order, reads of what is applied, captures."""

from dataclasses import replace

import msgpack
import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.client_table import messages as client_table
from levrier.actors.metadata import messages as metadata
from levrier.actors.metadata.actor import MetadataActor
from levrier.actors.metadata.machine import MetadataMachine
from levrier.actors.runtime import ExitStatus, Probe, SteppedRuntime
from levrier.wire.codes import CommandCode, Operation
from levrier.wire.headers import PrepareHeader, ReplyHeader
from levrier.wire.options import encode_block
from levrier.wire.prepare import METADATA_GROUP, Prepare
from levrier.wire.replies import committed_reply
from levrier.wire.requests.replicated import BootstrapRoot
from levrier.wire.requests.streams import CreateStream
from levrier.wire.responses.streams import StreamList
from tests.actors.metadata.support import HASH, Log, encoded, named, uint64

TICKET = bus.Ticket(connection=3, number=9)


def prepare(op: int, operation: int, body: bytes, *, user: int = 0, client: int = 7) -> Prepare:
    header = PrepareHeader(
        op,
        int(operation),
        client=client,
        request=op,
        user_id=user,
        timestamp=5000 + op,
        commit=op - 1,
        view=2,
        group=METADATA_GROUP,
        cluster=77,
    )
    return Prepare.seal(header, body)


def create(op: int, name: str, **fields: int) -> Prepare:
    return prepare(op, Operation.CREATE_STREAM, CreateStream(name=name).encode(), **fields)


class Stage:
    """The actor and the two neighbours that it tells."""

    def __init__(self, machine: MetadataMachine | None = None, *, last_op: int = 0, last_timestamp: int = 0) -> None:
        self.runtime = SteppedRuntime(seed=1)
        self.machine = MetadataMachine() if machine is None else machine
        self.table: Probe[client_table.Command] = Probe("client_table")
        self.bus: Probe[bus.Command] = Probe("bus")
        self.ref = MetadataActor.start(
            name="metadata",
            runtime=self.runtime,
            machine=self.machine,
            last_op=last_op,
            last_timestamp=last_timestamp,
            client_table=self.table,
            bus=self.bus,
        )

    def tell(self, *messages: metadata.Command) -> None:
        for message in messages:
            self.ref.tell(message)
        self.runtime.run()

    def assert_down(self) -> None:
        """The node is down, and this actor is why."""
        assert [(failure.status, failure.actor) for failure in self.runtime.failures] == [
            (ExitStatus.ACTOR_FAILED, "metadata")
        ]


def query(code: int, body: bytes = b"", *, user: int = 0) -> metadata.Query:
    return metadata.Query(ticket=TICKET, user_id=user, client=7, code=code, body=body)


def test_a_commit_carries_the_reply_that_any_replica_would_build() -> None:
    """Design section 3, rule 2: header and reply address pass unchanged; the bus is not told."""
    stage, twin = Stage(), MetadataMachine()
    entry = create(1, "s")
    stage.tell(metadata.Apply(prepare=entry, reply_to=TICKET))
    reply = committed_reply(entry.header, twin.apply(entry.header, entry.body).body)
    assert stage.table.take() == client_table.Commit(header=entry.header, reply=reply, reply_to=TICKET)
    header = ReplyHeader.decode(reply)
    assert (header.op, header.commit, header.status, header.size) == (1, 1, 0, len(reply))
    stage.bus.assert_silent()


def test_a_session_operation_passes_with_an_empty_body() -> None:
    """Rule 2: Register and Logout are ops like any other; nobody waits on a backup."""
    stage = Stage()
    entry = prepare(1, Operation.REGISTER, b"")
    stage.tell(metadata.Apply(prepare=entry, reply_to=None))
    commit = stage.table.take()
    assert commit == client_table.Commit(header=entry.header, reply=committed_reply(entry.header, b""), reply_to=None)


def test_a_rejection_is_committed_too() -> None:
    stage = Stage()
    stage.tell(
        metadata.Apply(prepare=create(1, "s"), reply_to=None), metadata.Apply(prepare=create(2, "s"), reply_to=None)
    )
    first, second = stage.table.take_all()
    assert isinstance(first, client_table.Commit)
    assert isinstance(second, client_table.Commit)
    assert second.header.op == 2
    assert second.reply[256:] == b"\x01" + bytes(7) + (1012).to_bytes(4, "little")


@pytest.mark.parametrize("op", [5, 7, 4])
def test_an_op_out_of_order_is_our_bug(op: int) -> None:
    """Rule 2: neither a gap nor a repetition; nothing is told and the node goes down."""
    stage = Stage(last_op=5)
    stage.tell(metadata.Apply(prepare=create(op, "s"), reply_to=None))
    stage.assert_down()
    stage.table.assert_silent()
    assert stage.machine.streams.count == 0


def test_a_body_that_does_not_decode_ends_the_node() -> None:
    """State-machine 1: it is log corruption, never a rejection."""
    stage = Stage()
    stage.tell(metadata.Apply(prepare=prepare(1, Operation.CREATE_STREAM, b""), reply_to=TICKET))
    stage.assert_down()
    stage.table.assert_silent()


def test_a_read_sees_what_was_told_before_it_and_nothing_later() -> None:
    """D-19: and the answer names the op it reflects."""
    stage = Stage()
    stage.tell(
        query(CommandCode.GET_STREAMS),
        metadata.Apply(prepare=create(1, "s"), reply_to=None),
        query(CommandCode.GET_STREAMS),
        metadata.Apply(prepare=create(2, "t"), reply_to=None),
    )
    before, after = stage.bus.take_all()
    assert before == bus.QueryAnswer(ticket=TICKET, status=0, body=b"", commit=0)
    assert isinstance(after, bus.QueryAnswer)
    assert (after.ticket, after.status, after.commit) == (TICKET, 0, 1)
    assert [stream.name for stream in StreamList.decode(after.body).streams] == ["s"]


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (query(CommandCode.GET_STREAMS, user=4), 41),
        (query(9999), 3),
        (query(CommandCode.GET_STREAM), 3),
        (query(CommandCode.CREATE_STREAM), 5),
        (query(CommandCode.POLL_MESSAGES), 5),
    ],
)
def test_a_refused_read_has_a_status_and_no_body(message: metadata.Query, status: int) -> None:
    """D-18."""
    stage = Stage(last_op=8)
    stage.tell(message)
    assert stage.bus.take() == bus.QueryAnswer(ticket=TICKET, status=status, body=b"", commit=8)


UNKNOWN = bus.Credentials(ticket=TICKET, bootstrapped=True, user_id=None, active=False, password_hash="")


def test_credentials_of_root_of_nobody_and_before_the_bootstrap() -> None:
    """D-01: until root exists a login cannot be judged."""
    stage = Stage()
    body = BootstrapRoot(username="iggy", password_hash=HASH).encode()
    stage.tell(
        metadata.FindCredentials(ticket=TICKET, username="iggy"),
        metadata.Apply(prepare=prepare(1, Operation.BOOTSTRAP_ROOT, body, client=0), reply_to=None),
        metadata.FindCredentials(ticket=TICKET, username="iggy"),
        metadata.FindCredentials(ticket=TICKET, username="Iggy"),
    )
    assert stage.bus.take_all() == [
        replace(UNKNOWN, bootstrapped=False),
        replace(UNKNOWN, user_id=0, active=True, password_hash=HASH),
        UNKNOWN,
    ]


def test_the_segment_size_of_a_topic() -> None:
    log = Log()
    log.create_stream("s")
    log.create_topic("s", "t", options=encode_block([uint64("segment_size", 1 << 22)]), derived=b"")
    stage = Stage(log.machine, last_op=log.op)
    for topic in ("t", "absent"):
        stage.tell(metadata.FindSegmentSize(ticket=TICKET, stream=named("s"), topic=named(topic)))
    assert stage.bus.take_all() == [
        bus.SegmentSize(ticket=TICKET, segment_size=1 << 22),
        bus.SegmentSize(ticket=TICKET, segment_size=None),
    ]


def test_br_21_a_capture_stands_behind_the_commit_of_its_op() -> None:
    """BR-21: it reflects exactly that op, whatever is applied before it is encoded."""
    stage = Stage()
    stage.tell(
        metadata.Apply(prepare=create(1, "s"), reply_to=None),
        metadata.Capture(op=1),
        metadata.Apply(prepare=create(2, "t"), reply_to=None),
    )
    first, marker, second = stage.table.take_all()
    assert isinstance(first, client_table.Commit)
    assert isinstance(marker, client_table.Capture)
    assert isinstance(second, client_table.Commit)
    assert (marker.op, marker.metadata.op, marker.metadata.timestamp) == (1, 1, 5001)
    streams = msgpack.unpackb(b"".join(marker.metadata.streams()))
    assert [fields[1] for _, fields in streams[0]] == ["s"]


def test_a_capture_right_after_boot_carries_the_time_of_the_op_it_stands_at() -> None:
    log = Log()
    log.create_stream("s")
    stage = Stage(log.machine, last_op=40, last_timestamp=123)
    stage.tell(metadata.Capture(op=40))
    marker = stage.table.take()
    assert isinstance(marker, client_table.Capture)
    assert (marker.metadata.op, marker.metadata.timestamp) == (40, 123)
    assert b"".join(marker.metadata.streams()) == encoded(log.machine)[1]


@pytest.mark.parametrize("op", [4, 6])
def test_a_capture_of_another_op_is_our_bug(op: int) -> None:
    stage = Stage(last_op=5)
    stage.tell(metadata.Capture(op=op))
    stage.assert_down()
    stage.table.assert_silent()
