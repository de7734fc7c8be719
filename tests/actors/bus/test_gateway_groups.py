"""Groups and segments at the edge: whose client id the log gets, and the truncation that a deletion of segments becomes."""

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.client_table.messages import Preflight
from levrier.actors.metadata.messages import Query
from levrier.wire.checksums import xxh3
from levrier.wire.codes import CommandCode, Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.replies import result_rejection
from levrier.wire.requests.groups import GroupTarget, JoinConsumerGroup, LeaveConsumerGroup, SyncConsumerGroup
from levrier.wire.requests.partitions import DeleteSegments
from levrier.wire.requests.replicated import (
    JoinConsumerGroupReplicated,
    LeaveConsumerGroupReplicated,
    TruncatePartition,
)
from tests.actors.bus.rig import CLIENT, EPOCH, Rig, committed, query, request, ticket_of

STREAM, TOPIC, GROUP = Identifier("prod"), Identifier(3), Identifier("group")


def target(kind: type[GroupTarget]) -> bytes:
    return kind(stream=STREAM, topic=TOPIC, group=GROUP).encode()


SEGMENTS = DeleteSegments(stream=STREAM, topic=TOPIC, partition_id=5, segments_count=2).encode()


@pytest.fixture
def rig() -> Rig:
    logged_in = Rig()
    logged_in.log_in()
    return logged_in


def test_joining_names_the_client_of_the_session_and_nothing_in_flight(rig: Rig) -> None:
    """State-machine 7.6, 11.4: without messages nothing is polled and uncommitted."""
    body = target(JoinConsumerGroup)
    rig.send(request(Operation.JOIN_CONSUMER_GROUP, body, number=6))
    sent = rig.take(Preflight).request
    assert JoinConsumerGroupReplicated.decode(sent.body) == JoinConsumerGroupReplicated(
        stream=STREAM, topic=TOPIC, group=GROUP, client=CLIENT, in_flight=()
    )
    assert (sent.header.operation, sent.header.request, sent.header.session) == (148, 6, EPOCH)
    assert sent.header.request_checksum == xxh3(body), "a replay is compared with what the client sent"


def test_leaving_names_the_client_of_the_session(rig: Rig) -> None:
    rig.send(request(Operation.LEAVE_CONSUMER_GROUP, target(LeaveConsumerGroup)))
    sent = rig.take(Preflight).request
    assert LeaveConsumerGroupReplicated.decode(sent.body) == LeaveConsumerGroupReplicated(
        stream=STREAM, topic=TOPIC, group=GROUP, client=CLIENT
    )


@pytest.mark.parametrize(
    "operation",
    [
        Operation.CREATE_CONSUMER_GROUP,
        Operation.DELETE_CONSUMER_GROUP,
        Operation.JOIN_CONSUMER_GROUP,
        Operation.LEAVE_CONSUMER_GROUP,
        Operation.DELETE_SEGMENTS,
    ],
)
@pytest.mark.parametrize("body", [b"", b"\x01\x04\x00"])
def test_a_malformed_body_never_reaches_the_log(rig: Rig, operation: Operation, body: bytes) -> None:
    assert rig.ask(request(operation, body)).status == 3


def test_deleting_segments_becomes_a_truncation_of_nothing(rig: Rig) -> None:
    """State-machine 8.3: no segments, so up to offset 0; what does not resolve is left to apply."""
    rig.send(request(Operation.DELETE_SEGMENTS, SEGMENTS, number=6))
    sent = rig.take(Preflight).request
    assert TruncatePartition.decode(sent.body) == TruncatePartition(
        stream=STREAM, topic=TOPIC, partition_id=5, up_to_offset=0
    )
    assert (sent.header.operation, sent.header.request) == (Operation.TRUNCATE_PARTITION, 6)
    assert sent.header.request_checksum == xxh3(SEGMENTS)


@pytest.mark.parametrize("code", [0, 1009, 3007])
def test_the_reply_to_deleted_segments_has_the_operation_of_the_truncation(rig: Rig, code: int) -> None:
    """Wire 3: under operation 138 the SDK would hand the result section on unparsed."""
    rig.send(request(Operation.DELETE_SEGMENTS, SEGMENTS))
    ticket = ticket_of(rig.take(Preflight))
    body = result_rejection(code) if code else bytes(4)
    rig.tell(bus.Reply(ticket=ticket, frame=committed(Operation.TRUNCATE_PARTITION, op=12, body=body)))
    answer = rig.answer()
    assert (answer.header.operation, answer.result) == (68, code)


def test_deleted_segments_that_did_not_commit_are_told_in_a_result_section(rig: Rig) -> None:
    rig.send(request(Operation.DELETE_SEGMENTS, SEGMENTS))
    rig.tell(bus.Deny(ticket=ticket_of(rig.take(Preflight)), code=57, commit=12))
    answer = rig.answer()
    assert (answer.header.operation, answer.result) == (68, 57)


def test_a_client_cannot_send_the_truncation_itself(rig: Rig) -> None:
    body = TruncatePartition(stream=STREAM, topic=TOPIC, partition_id=5, up_to_offset=7).encode()
    assert rig.ask(request(Operation.TRUNCATE_PARTITION, body)).status == 3


def test_sync_is_asked_for_the_client_of_the_session(rig: Rig) -> None:
    body = target(SyncConsumerGroup)
    rig.send(query(CommandCode.SYNC_CONSUMER_GROUP, body))
    asked = rig.take(Query)
    assert (asked.client, asked.code, asked.body) == (CLIENT, 606, body)


@pytest.mark.parametrize("operation", [Operation.SEND_MESSAGES, Operation.STORE_CONSUMER_OFFSET, 162])
def test_operations_of_messages_are_unavailable_at_once(rig: Rig, operation: int) -> None:
    """D-18: a status, never a result that a client would take for success."""
    answer = rig.ask(request(operation, b"anything"))
    assert (answer.status, answer.body) == (5, b"")


@pytest.mark.parametrize(
    "code", [CommandCode.POLL_MESSAGES, CommandCode.FLUSH_UNSAVED_BUFFER, CommandCode.GET_CONSUMER_OFFSET]
)
def test_reads_of_messages_are_unavailable_at_once(rig: Rig, code: CommandCode) -> None:
    """D-18."""
    answer = rig.ask(query(code, b"anything"))
    assert (answer.status, answer.body) == (5, b"")
