"""Whatever arrives in whatever order: one frame for each request, in the order of the requests, none too many (rule 7)."""

from hypothesis import given
from hypothesis import strategies as st

from levrier.actors.bus import messages as bus
from levrier.actors.bus.effects import BuildArchive, GatewayEffect, VerifyPassword
from levrier.actors.client_table.messages import Preflight
from levrier.actors.consensus.messages import StatusQuery
from levrier.actors.metadata.messages import FindCredentials, FindSegmentSize, Query, Survey
from levrier.wire.codes import LEVRIER_STATUS, CommandCode, EvictionReason, Operation
from levrier.wire.headers import RequestHeader
from levrier.wire.identifiers import Identifier
from levrier.wire.options import KIND_UINT64, OptionEntry, encode_block
from levrier.wire.replies import result_rejection, result_success
from levrier.wire.requests.streams import CreateStream
from levrier.wire.requests.system import GetSnapshotFile
from levrier.wire.requests.topics import UpdateTopic
from tests.actors.bus.rig import (
    CLIENT,
    Rig,
    committed,
    credentials,
    node_status,
    query,
    register,
    request,
    surveyed,
    ticket_of,
)

CAP = UpdateTopic(
    stream=Identifier(1),
    topic=Identifier(2),
    name="t",
    options=encode_block([OptionEntry("max_topic_size", KIND_UINT64, (1 << 25).to_bytes(8, "little"))]),
).encode()
POOL = [
    query(CommandCode.PING),
    query(CommandCode.GET_STREAMS),
    query(CommandCode.GET_CLUSTER_METADATA),
    query(CommandCode.GET_CLIENTS),
    query(CommandCode.GET_STATS, b"x"),
    query(CommandCode.GET_SNAPSHOT_FILE, GetSnapshotFile(compression=1, types=()).encode()),
    query(CommandCode.GET_STREAM, client=CLIENT + 1),
    query(LEVRIER_STATUS),
    query(9999),
    register(),
    register(b"nonsense"),
    request(Operation.LOGOUT),
    request(Operation.LOGOUT, session=0),
    request(Operation.CREATE_STREAM, CreateStream(name="s").encode()),
    request(Operation.CREATE_STREAM, b""),
    request(Operation.UPDATE_TOPIC, CAP),
    request(Operation.SEND_MESSAGES, b"x"),
    request(Operation.CREATE_USER, b"x"),
    request(77, b""),
    request(250, b""),
    request(Operation.DELETE_STREAM, b"", session=0),
]


def possible_answers(effect: GatewayEffect, op: int) -> list[bus.Answer]:
    """What the asked actor might say."""
    match effect:
        case FindCredentials(ticket=ticket):
            return [
                credentials(ticket),
                credentials(ticket, user_id=None),
                credentials(ticket, active=False),
                credentials(ticket, bootstrapped=False),
            ]
        case VerifyPassword(ticket=ticket):
            return [bus.PasswordVerified(ticket=ticket, matches=matches) for matches in (True, False)]
        case FindSegmentSize(ticket=ticket):
            return [bus.SegmentSize(ticket=ticket, segment_size=size) for size in (None, 1 << 20)]
        case Query(ticket=ticket):
            return [bus.QueryAnswer(ticket=ticket, status=status, body=b"", commit=op) for status in (0, 41, 57)]
        case Preflight(request=asked):
            header = asked.header
            ticket = ticket_of(effect)
            bodies = [b""] if header.operation == Operation.LOGOUT else [result_success(), result_rejection(41)]
            replies = [
                committed(header.operation, op=op, client=header.client, number=header.request, body=body)
                for body in bodies
            ]
            return [
                *(bus.Reply(ticket=ticket, frame=frame) for frame in replies),
                *(bus.Deny(ticket=ticket, code=code, commit=op) for code in (4, 40, 57, 58, 59)),
                *(
                    bus.Evict(ticket=ticket, reason=reason)
                    for reason in (EvictionReason.NO_SESSION, EvictionReason.SESSION_TOO_LOW)
                ),
            ]
        case _:
            return answers_about_the_node(effect, op)


def answers_about_the_node(effect: GatewayEffect, op: int) -> list[bus.Answer]:
    """What is asked for commands about the node."""
    match effect:
        case Survey(ticket=ticket):
            return [surveyed(ticket, permitted=permitted, commit=op) for permitted in (True, False)]
        case BuildArchive(ticket=ticket):
            return [bus.ArchiveBuilt(ticket=ticket, archive=built) for built in (b"PK", None)]
        case StatusQuery(ticket=ticket):
            return [node_status(ticket)]
        case _:
            raise AssertionError(f"unexpected {effect}")


@given(st.data())
def test_every_request_gets_exactly_one_frame_in_order(data: st.DataObject) -> None:
    rig = Rig()
    sent: list[RequestHeader] = []
    told: list[bus.Answer] = []
    op = 11
    if data.draw(st.booleans(), label="log in first"):
        rig.log_in(epoch=op)
    for _ in range(data.draw(st.integers(1, 25), label="steps")):
        op += 1
        kind = data.draw(st.sampled_from(["send", "answer", "repeat"]))
        if kind == "send":
            frame = data.draw(st.sampled_from(POOL))
            sent.append(header_of(frame))
            rig.send(frame)
        elif kind == "answer" and rig.asked:
            told.append(data.draw(st.sampled_from(possible_answers(rig.asked.pop(0), op))))
            rig.tell(told[-1])
        elif told:
            rig.tell(data.draw(st.sampled_from(told)))
        # One conversation at a time.
        assert len(rig.asked) <= 1
    while rig.asked:
        op += 1
        rig.tell(possible_answers(rig.asked.pop(0), op)[0])

    assert len(rig.answers) == len(sent)
    for header, answer in zip(sent, rig.answers, strict=True):
        if answer.eviction is not None:
            assert answer.eviction.client == header.client
        else:
            assert (answer.header.client, answer.header.request) == (header.client, header.request)
            assert answer.header.operation == header.operation
    assert not rig.gateway.busy
    assert rig.gateway.backlog == 0


def header_of(frame: bytes) -> RequestHeader:
    """The header of a frame that may break a rule."""
    return RequestHeader(
        client=int.from_bytes(frame[128:144], "little"),
        request=int.from_bytes(frame[168:176], "little"),
        operation=frame[176],
    )
