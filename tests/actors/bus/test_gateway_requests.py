"""Replicated requests: admission, the one answer, order, and the channel of each refusal (wire 8, design section 3 rule 7)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levrier.actors.bus import messages as bus
from levrier.actors.bus.admission import ADMISSIONS, BODY_SIZE_MAX
from levrier.actors.bus.effects import CloseConnection
from levrier.actors.bus.gateway import UNFLUSHED_MAX
from levrier.actors.bus.session import Session
from levrier.actors.client_table.messages import Preflight
from levrier.actors.metadata.messages import FindSegmentSize, Query
from levrier.wire.checksums import xxh3
from levrier.wire.codes import CLIENT_ALLOWED, INTERNAL_OPERATIONS, CommandCode, EvictionReason, Operation
from levrier.wire.errors import WireError
from levrier.wire.identifiers import Identifier
from levrier.wire.options import KIND_BOOL, KIND_STRING, KIND_UINT64, OptionEntry, encode_block
from levrier.wire.permissions import Permissions, StreamPermissions
from levrier.wire.replies import result_success
from levrier.wire.requests.groups import CreateConsumerGroup, DeleteConsumerGroup
from levrier.wire.requests.partitions import CreatePartitions, DeletePartitions
from levrier.wire.requests.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from levrier.wire.requests.topics import CreateTopic, DeleteTopic, PurgeTopic, UpdateTopic
from levrier.wire.requests.users import DeleteUser, UpdatePermissions, UpdateUser
from tests.actors.bus.rig import CLIENT, EPOCH, Rig, committed, query, request, ticket_of

USER = Identifier("alice")
STREAM = Identifier("prod")
TOPIC = Identifier(4)
ANY_OPTION = encode_block([OptionEntry("colour", KIND_STRING, b"red")])


def topic(options: bytes = b"", *, partitions_count: int = 1) -> bytes:
    return CreateTopic(stream=STREAM, partitions_count=partitions_count, name="events", options=options).encode()


def cap(size: int) -> bytes:
    block = encode_block([OptionEntry("max_topic_size", KIND_UINT64, size.to_bytes(8, "little"))])
    return UpdateTopic(stream=STREAM, topic=TOPIC, name="events", options=block).encode()


BODIES = {
    Operation.CREATE_STREAM: CreateStream(name="prod").encode(),
    Operation.UPDATE_STREAM: UpdateStream(stream=STREAM, name="prod2").encode(),
    Operation.DELETE_STREAM: DeleteStream(stream=STREAM).encode(),
    Operation.PURGE_STREAM: PurgeStream(stream=STREAM).encode(),
    Operation.CREATE_TOPIC: topic(),
    Operation.UPDATE_TOPIC: UpdateTopic(stream=STREAM, topic=TOPIC, name="events2").encode(),
    Operation.DELETE_TOPIC: DeleteTopic(stream=STREAM, topic=TOPIC).encode(),
    Operation.PURGE_TOPIC: PurgeTopic(stream=STREAM, topic=TOPIC).encode(),
    Operation.CREATE_PARTITIONS: CreatePartitions(stream=STREAM, topic=TOPIC, partitions_count=2).encode(),
    Operation.DELETE_PARTITIONS: DeletePartitions(stream=STREAM, topic=TOPIC, partitions_count=2).encode(),
    Operation.CREATE_CONSUMER_GROUP: CreateConsumerGroup(stream=STREAM, topic=TOPIC, name="group").encode(),
    Operation.DELETE_CONSUMER_GROUP: DeleteConsumerGroup(stream=STREAM, topic=TOPIC, group=TOPIC).encode(),
    Operation.UPDATE_USER: UpdateUser(user=USER, username="bob").encode(),
    Operation.DELETE_USER: DeleteUser(user=USER).encode(),
    Operation.UPDATE_PERMISSIONS: UpdatePermissions(user=USER, permissions=Permissions.root()).encode(),
}
REWRITTEN = {
    Operation.CREATE_USER,
    Operation.CHANGE_PASSWORD,
    Operation.CREATE_PERSONAL_ACCESS_TOKEN,
    Operation.DELETE_PERSONAL_ACCESS_TOKEN,
    Operation.DELETE_SEGMENTS,
    Operation.JOIN_CONSUMER_GROUP,
    Operation.LEAVE_CONSUMER_GROUP,
}
"""Operations whose body in the log is another one than the client's: see the tests of each."""

SESSION = Session(client=CLIENT, epoch=EPOCH, user_id=0)
CREATE = request(Operation.CREATE_STREAM, BODIES[Operation.CREATE_STREAM])


@pytest.fixture
def rig() -> Rig:
    logged_in = Rig()
    logged_in.log_in()
    return logged_in


@pytest.mark.parametrize("operation", sorted(BODIES))
def test_a_served_operation_goes_to_the_table_as_it_came(rig: Rig, operation: Operation) -> None:
    rig.send(request(operation, BODIES[operation], number=6))
    sent = rig.take(Preflight).request
    assert sent.body == BODIES[operation]
    assert (sent.header.operation, sent.header.request, sent.header.session) == (operation, 6, EPOCH)
    assert sent.header.request_checksum == xxh3(BODIES[operation])
    assert sent.user_id == 0


def test_every_served_operation_is_in_the_table_above() -> None:
    assert ADMISSIONS.keys() == BODIES.keys() | REWRITTEN


def test_a_committed_reply_is_passed_on_byte_for_byte(rig: Rig) -> None:
    rig.send(CREATE)
    frame = committed(Operation.CREATE_STREAM, op=12, body=result_success(b"stream"))
    rig.tell(bus.Reply(ticket=ticket_of(rig.take(Preflight)), frame=frame))
    assert rig.answer().frame == frame


def test_a_replicated_operation_without_a_session_is_evicted() -> None:
    for operation in sorted(CLIENT_ALLOWED - {1, 2, 3}):
        for session, number in ((0, 0), (EPOCH, 1)):
            answer = Rig().ask(request(operation, b"", session=session, number=number))
            assert answer.reason is EvictionReason.NO_SESSION


def test_another_client_id_than_the_bound_one_is_evicted(rig: Rig) -> None:
    answer = rig.ask(request(Operation.CREATE_STREAM, BODIES[Operation.CREATE_STREAM], client=CLIENT + 1))
    assert answer.reason is EvictionReason.NO_SESSION
    assert answer.eviction is not None
    assert answer.eviction.client == CLIENT + 1


@pytest.mark.parametrize("operation", sorted(CLIENT_ALLOWED - {1, 2, 3} - ADMISSIONS.keys()))
def test_what_is_not_served_yet_is_unavailable(rig: Rig, operation: int) -> None:
    answer = rig.ask(request(operation, b"whatever"))
    assert (answer.status, answer.body, answer.header.operation) == (5, b"", operation)


@pytest.mark.parametrize("operation", [*sorted(INTERNAL_OPERATIONS), 0, 4, 63, 70, 127, 150, 163, 255])
def test_what_no_client_may_send_is_an_invalid_command(rig: Rig, operation: int) -> None:
    answer = rig.ask(request(operation, b"", checksum=0))
    assert (answer.status, answer.header.operation, answer.header.request) == (3, operation, 1)


@pytest.mark.parametrize(("session", "number"), [(0, 1), (EPOCH, 0)])
def test_a_header_that_breaks_a_rule_is_an_invalid_command(rig: Rig, session: int, number: int) -> None:
    assert rig.ask(request(Operation.CREATE_STREAM, b"\x01s", session=session, number=number)).status == 3


def test_client_zero_is_an_invalid_command(rig: Rig) -> None:
    assert rig.ask(request(Operation.CREATE_STREAM, b"\x01s", client=0)).status == 3
    assert rig.ask(query(CommandCode.PING, client=0)).status == 3


def test_a_stamp_that_does_not_match_the_body_is_an_invalid_format(rig: Rig) -> None:
    body = BODIES[Operation.CREATE_STREAM]
    assert rig.ask(request(Operation.CREATE_STREAM, body, checksum=xxh3(body) ^ 1)).status == 4


@pytest.mark.parametrize("operation", sorted(ADMISSIONS))
def test_a_huge_body_is_refused_unread(rig: Rig, operation: int) -> None:
    """A body of 10 MB of permissions held the loop for 15 s; whoever is logged in could send it."""
    assert rig.ask(request(operation, bytes(BODY_SIZE_MAX + 1))).status == 4


def test_grants_on_ten_thousand_streams_are_taken(rig: Rig) -> None:
    streams = tuple((stream, StreamPermissions(read_stream=True)) for stream in range(10_000))
    body = UpdatePermissions(user=USER, permissions=Permissions(streams=streams)).encode()
    assert len(body) <= BODY_SIZE_MAX
    rig.send(request(Operation.UPDATE_PERMISSIONS, body))
    assert rig.take(Preflight).request.body == body


def test_an_unstamped_request_is_taken(rig: Rig) -> None:
    rig.send(request(Operation.CREATE_STREAM, BODIES[Operation.CREATE_STREAM], checksum=0))
    rig.take(Preflight)


def option(key: str, kind: int, value: bytes) -> bytes:
    return encode_block([OptionEntry(key, kind, value)])


@pytest.mark.parametrize(
    ("operation", "body", "status"),
    [
        (Operation.CREATE_STREAM, CreateStream(name="s", options=ANY_OPTION).encode(), 4041),
        (Operation.UPDATE_STREAM, UpdateStream(stream=STREAM, name="s", options=ANY_OPTION).encode(), 4041),
        (Operation.CREATE_TOPIC, topic(ANY_OPTION), 4041),
        (Operation.CREATE_TOPIC, topic(option("partitions_count", KIND_UINT64, bytes(8))), 4041),
        (Operation.CREATE_TOPIC, topic(option("enforce_fsync", KIND_BOOL, b"\x02")), 4042),
        (Operation.CREATE_TOPIC, topic(option("compression_algorithm", KIND_STRING, b"zip")), 4042),
        (Operation.CREATE_TOPIC, topic(option("segment_size", KIND_UINT64, (513).to_bytes(8, "little"))), 4042),
        (Operation.CREATE_TOPIC, topic(option("max_topic_size", KIND_UINT64, (512).to_bytes(8, "little"))), 1019),
        (Operation.CREATE_TOPIC, topic(partitions_count=1001), 2015),
        (Operation.CREATE_TOPIC, topic(option("preallocate_segments", KIND_BOOL, b"\x01"), partitions_count=65), 4042),
        (
            Operation.UPDATE_TOPIC,
            UpdateTopic(
                stream=STREAM, topic=TOPIC, name="t", options=option("segment_size", KIND_UINT64, bytes(8))
            ).encode(),
            4041,
        ),
        (
            Operation.UPDATE_TOPIC,
            UpdateTopic(
                stream=STREAM, topic=TOPIC, name="t", options=option("message_expiry", KIND_BOOL, b"\x01")
            ).encode(),
            4042,
        ),
        (Operation.CREATE_PARTITIONS, CreatePartitions(stream=STREAM, topic=TOPIC, partitions_count=0).encode(), 2015),
        (
            Operation.CREATE_PARTITIONS,
            CreatePartitions(stream=STREAM, topic=TOPIC, partitions_count=1001).encode(),
            2015,
        ),
        (Operation.DELETE_PARTITIONS, DeletePartitions(stream=STREAM, topic=TOPIC, partitions_count=0).encode(), 2015),
        (Operation.CREATE_STREAM, b"", 3),
        (Operation.CREATE_STREAM, b"\x00", 3),
        (Operation.CREATE_STREAM, b"\x02s", 3),
        (Operation.DELETE_STREAM, DeleteStream(stream=STREAM).encode()[:-1], 3),
        (Operation.PURGE_TOPIC, PurgeTopic(stream=STREAM, topic=TOPIC).encode()[:-1], 3),
    ],
)
def test_static_admission(rig: Rig, operation: Operation, body: bytes, status: int) -> None:
    answer = rig.ask(request(operation, body))
    assert (answer.status, answer.body) == (status, b"")


def test_bytes_behind_a_body_are_admitted_and_ignored(rig: Rig) -> None:
    """As the reference does: the Node SDK ends a DeleteTopic with a count of partitions."""
    body = DeleteTopic(stream=STREAM, topic=TOPIC).encode() + bytes(4)
    rig.send(request(Operation.DELETE_TOPIC, body))
    assert rig.take(Preflight).request.body == body


def test_the_options_that_the_released_client_always_sends_are_admitted(rig: Rig) -> None:
    block = encode_block(
        [
            OptionEntry("consumer_offset_durability", KIND_STRING, b"replicated"),
            OptionEntry("durability", KIND_STRING, b"persisted"),
        ]
    )
    rig.send(request(Operation.CREATE_TOPIC, topic(block)))
    rig.take(Preflight)


@given(operation=st.sampled_from(sorted(ADMISSIONS)), body=st.binary(max_size=80))
def test_nothing_undecodable_reaches_the_table(operation: int, body: bytes) -> None:
    rig = Rig()
    rig.log_in()
    rig.send(request(operation, body))
    code = 0
    try:
        ADMISSIONS[operation](body, SESSION)
    except WireError as error:
        code = int(error.code)
    if code:
        assert rig.answer().status == code
    else:
        assert len(rig.asked) == 1


@pytest.mark.parametrize(
    ("cap_size", "segment_size", "status"),
    [
        (1 << 20, 1 << 20, 0),
        ((1 << 20) - 1, 1 << 20, 1019),
        (1 << 30, None, 0),
        ((1 << 30) - 1, None, 1019),
    ],
)
def test_the_cap_of_an_update_is_held_against_the_stored_segment_size(
    rig: Rig, cap_size: int, segment_size: int | None, status: int
) -> None:
    rig.send(request(Operation.UPDATE_TOPIC, cap(cap_size)))
    asked = rig.take(FindSegmentSize)
    assert (asked.stream, asked.topic) == (STREAM, TOPIC)
    rig.tell(bus.SegmentSize(ticket=asked.ticket, segment_size=segment_size))
    preflight = rig.take(Preflight)
    assert preflight.request.ticket == asked.ticket
    assert preflight.request.refusal == status
    assert preflight.request.body == (b"" if status else cap(cap_size))


def test_what_is_refused_by_replicated_state_and_was_executed_is_replayed(rig: Rig) -> None:
    """Rule 7: the topic may have another segment size since the first try; that one's reply counts, byte for byte."""
    rig.send(request(Operation.UPDATE_TOPIC, cap(1)))
    rig.tell(bus.SegmentSize(ticket=rig.take(FindSegmentSize).ticket, segment_size=2))
    frame = committed(Operation.UPDATE_TOPIC, op=12)
    rig.tell(bus.Reply(ticket=ticket_of(rig.take(Preflight)), frame=frame))
    assert rig.answer().frame == frame


@pytest.mark.parametrize("size", [0, (1 << 64) - 1])
def test_a_cap_that_is_none_needs_no_look_at_the_topic(rig: Rig, size: int) -> None:
    rig.send(request(Operation.UPDATE_TOPIC, cap(size)))
    rig.take(Preflight)


def test_a_denial_before_the_log() -> None:
    """C-019: status carries the code, op 0, commit as known, the rest echoed, no body."""
    rig = Rig()
    rig.log_in(epoch=2)
    rig.send(request(Operation.CREATE_STREAM, BODIES[Operation.CREATE_STREAM], session=2, number=8))
    rig.tell(bus.Deny(ticket=ticket_of(rig.take(Preflight)), code=40, commit=4))
    answer = rig.answer()
    header = answer.header
    assert (header.status, header.op, header.commit) == (40, 0, 4)
    assert (header.client, header.request, header.operation) == (CLIENT, 8, Operation.CREATE_STREAM)
    assert (header.size, answer.body) == (256, b"")


@pytest.mark.parametrize("code", [51, 57, 58, 59])
def test_a_refusal_of_a_result_framed_operation_that_is_no_denial_is_a_result_section(rig: Rig, code: int) -> None:
    rig.send(CREATE)
    rig.tell(bus.Deny(ticket=ticket_of(rig.take(Preflight)), code=code, commit=40))
    answer = rig.answer()
    assert answer.result == code
    assert len(answer.body) == 12
    assert (answer.header.op, answer.header.commit) == (40, 40)


def test_an_answer_of_the_gateway_itself_names_the_commit_point_that_was_seen_last(rig: Rig) -> None:
    rig.send(CREATE)
    frame = committed(Operation.CREATE_STREAM, op=77)
    rig.tell(bus.Reply(ticket=ticket_of(rig.take(Preflight)), frame=frame))
    rig.answers.clear()
    assert rig.ask(request(Operation.SEND_MESSAGES, b"")).header.commit == 77


def test_a_surplus_answer_is_dropped(rig: Rig) -> None:
    """C-047, C-055: one frame for one request: whatever else is told of it changes nothing, however often."""
    rig.send(CREATE)
    ticket = ticket_of(rig.take(Preflight))
    frame = committed(Operation.CREATE_STREAM, op=12)
    rig.tell(bus.Reply(ticket=ticket, frame=frame))
    rig.answer()
    rig.tell(bus.Reply(ticket=ticket, frame=frame))
    rig.tell(bus.Deny(ticket=ticket, code=57, commit=1))
    rig.tell(bus.Evict(ticket=ticket, reason=EvictionReason.NO_SESSION))
    rig.assert_silent()
    assert rig.gateway.session is not None


def test_an_answer_to_an_earlier_request_does_not_answer_the_open_one(rig: Rig) -> None:
    """C-056: what was refused stays refused, and says nothing about anything else."""
    rig.send(CREATE)
    first = ticket_of(rig.take(Preflight))
    rig.tell(bus.Deny(ticket=first, code=57, commit=1))
    rig.answer()
    rig.send(CREATE)
    second = ticket_of(rig.take(Preflight))
    rig.tell(bus.Reply(ticket=first, frame=committed(Operation.CREATE_STREAM, op=12)))
    rig.assert_silent()
    rig.tell(bus.Reply(ticket=second, frame=committed(Operation.CREATE_STREAM, op=12)))
    rig.answer()


def test_requests_of_one_connection_are_admitted_and_answered_in_their_order(rig: Rig) -> None:
    """Rule 7: r + 1 is not admitted before r was answered, whatever kind they are."""
    rig.send(CREATE)
    rig.send(query(CommandCode.GET_STREAMS))
    rig.send(query(CommandCode.PING))
    rig.send(request(Operation.SEND_MESSAGES, b"", number=2))
    assert rig.gateway.backlog == 3
    first = rig.take(Preflight)
    assert rig.answers == []

    rig.tell(bus.Reply(ticket=ticket_of(first), frame=committed(Operation.CREATE_STREAM, op=12)))
    assert len(rig.answers) == 1
    read = rig.take(Query)

    rig.tell(bus.QueryAnswer(ticket=read.ticket, status=0, body=b"streams", commit=12))
    assert [answer.header.operation for answer in rig.answers] == [128, 2, 2, 160]
    assert rig.gateway.backlog == 0
    assert rig.gateway.backlog_size == 0


def test_who_does_not_read_is_not_served_further(rig: Rig) -> None:
    rig.send(query(CommandCode.GET_STREAMS))
    rig.tell(bus.QueryAnswer(ticket=rig.take(Query).ticket, status=0, body=bytes(UNFLUSHED_MAX), commit=12))
    rig.answer()
    rig.send(query(CommandCode.PING))
    rig.assert_silent()
    rig.keep(rig.gateway.on_flushed())
    assert rig.answer().status == 0


def test_a_frame_that_is_no_request_closes_the_connection(rig: Rig) -> None:
    frame = committed(Operation.CREATE_STREAM, op=1)
    rig.send(frame)
    assert not rig.take(CloseConnection).abort
    rig.send(CREATE)
    rig.assert_silent()


def test_a_closed_gateway_answers_nothing(rig: Rig) -> None:
    rig.send(CREATE)
    ticket = ticket_of(rig.take(Preflight))
    rig.send(query(CommandCode.PING))
    ending = rig.gateway.on_closed()
    assert ending.session is not None
    assert (ending.session.client, ending.session.epoch) == (CLIENT, EPOCH)
    rig.tell(bus.Reply(ticket=ticket, frame=committed(Operation.CREATE_STREAM, op=12)))
    rig.assert_silent()
