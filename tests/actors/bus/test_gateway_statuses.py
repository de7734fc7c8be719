"""Each status that admission may answer with, produced at the gateway: nothing of it is logged (state-machine 3.1, 11; wire 14)."""

from collections.abc import Callable
from typing import Final

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.client_table.messages import Preflight
from levrier.actors.metadata.messages import CountTokens, FindSegmentSize
from levrier.wire.codes import CommandCode, Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.options import KIND_STRING, KIND_UINT64, OptionEntry, encode_block
from levrier.wire.replies import result_rejection
from levrier.wire.requests.partitions import CreatePartitions, DeletePartitions
from levrier.wire.requests.streams import CreateStream, UpdateStream
from levrier.wire.requests.tokens import CreatePersonalAccessToken
from levrier.wire.requests.topics import CreateTopic, UpdateTopic
from levrier.wire.requests.users import CreateUser, UpdateUser
from tests.actors.bus.rig import Rig, query, request, ticket_of

STREAM, TOPIC = Identifier("s"), Identifier("t")
UNKNOWN = encode_block([OptionEntry("colour", KIND_STRING, b"red")])
SMALL_CAP = encode_block([OptionEntry("max_topic_size", KIND_UINT64, (512).to_bytes(8, "little"))])
BAD_VALUE = encode_block([OptionEntry("message_expiry", KIND_STRING, b"soon")])
CREATE_STREAM = CreateStream(name="s").encode()
CREATE_TOKEN = CreatePersonalAccessToken(name="ci", expiry=0).encode()


def logged_in() -> Rig:
    rig = Rig()
    rig.log_in()
    return rig


def asked(operation: int, body: bytes, *, checksum: int | None = None) -> int:
    """The status of a request that is refused at once."""
    answer = logged_in().ask(request(operation, body, checksum=checksum))
    assert answer.body == b""
    return answer.status


def topic(options: bytes = b"", partitions_count: int = 1) -> bytes:
    return CreateTopic(stream=STREAM, partitions_count=partitions_count, name="t", options=options).encode()


def update_topic(options: bytes) -> bytes:
    return UpdateTopic(stream=STREAM, topic=TOPIC, name="t", options=options).encode()


def a_query_before_the_login() -> int:
    return Rig().ask(query(CommandCode.GET_STREAMS)).status


def a_read_without_rights() -> int:
    rig = logged_in()
    rig.send(query(CommandCode.GET_STREAMS))
    rig.tell(bus.QueryAnswer(ticket=rig.asked.pop().ticket, status=41, body=b"", commit=3))  # type: ignore[union-attr]
    return rig.answer().status


def refused_as_admission_wants(rig: Rig) -> int:
    """Consensus finds that the request is new, so that the refusal is its answer."""
    sent = rig.take(Preflight).request
    assert sent.ticket is not None
    rig.tell(bus.Deny(ticket=sent.ticket, code=sent.refusal, commit=3))
    return rig.answer().status


def one_token_too_many() -> int:
    rig = logged_in()
    rig.send(request(Operation.CREATE_PERSONAL_ACCESS_TOKEN, CREATE_TOKEN))
    rig.tell(bus.TokenCount(ticket=rig.take(CountTokens).ticket, count=100))
    return refused_as_admission_wants(rig)


def a_cap_below_the_stored_segment_size() -> int:
    rig = logged_in()
    rig.send(request(Operation.UPDATE_TOPIC, update_topic(SMALL_CAP)))
    rig.tell(bus.SegmentSize(ticket=rig.take(FindSegmentSize).ticket, segment_size=1 << 20))
    return refused_as_admission_wants(rig)


def denied(operation: int, body: bytes, code: int) -> int:
    """Refused by the table or by Consensus: in a result section, since the operation has one."""
    rig = logged_in()
    rig.send(request(operation, body))
    if operation == Operation.CREATE_PERSONAL_ACCESS_TOKEN:
        rig.tell(bus.TokenCount(ticket=rig.take(CountTokens).ticket, count=0))
    rig.tell(bus.Deny(ticket=ticket_of(rig.take(Preflight)), code=code, commit=3))
    answer = rig.answer()
    assert answer.body == result_rejection(answer.result)
    return answer.result


Scenario = Callable[[], int]
STATUSES: Final[dict[int, dict[str, Scenario]]] = {
    3: {
        "an unknown command": lambda: logged_in().ask(query(999)).status,
        "an operation of nodes": lambda: asked(Operation.TRUNCATE_PARTITION, b""),
        "a body that does not decode": lambda: asked(Operation.CREATE_STREAM, b"\x02s"),
    },
    4: {"a stamp of another body": lambda: asked(Operation.CREATE_STREAM, CREATE_STREAM, checksum=5)},
    5: {
        "messages": lambda: asked(Operation.SEND_MESSAGES, b""),
        "a poll": lambda: logged_in().ask(query(CommandCode.POLL_MESSAGES)).status,
        "a flush": lambda: logged_in().ask(query(CommandCode.FLUSH_UNSAVED_BUFFER)).status,
        "a write that comes as a query": lambda: logged_in().ask(query(CommandCode.CREATE_STREAM)).status,
    },
    40: {"a query before the login": a_query_before_the_login},
    41: {"a read without rights": a_read_without_rights},
    51: {
        "the replay of a creation whose secret is gone": lambda: denied(
            Operation.CREATE_PERSONAL_ACCESS_TOKEN, CREATE_TOKEN, 51
        )
    },
    52: {"one token too many": one_token_too_many},
    57: {"not known to be committed": lambda: denied(Operation.CREATE_STREAM, CREATE_STREAM, 57)},
    58: {"never accepted": lambda: denied(Operation.CREATE_STREAM, CREATE_STREAM, 58)},
    59: {"applied, and the reply is gone": lambda: denied(Operation.CREATE_STREAM, CREATE_STREAM, 59)},
    1019: {
        "a new topic below one segment": lambda: asked(Operation.CREATE_TOPIC, topic(SMALL_CAP)),
        "a topic below its stored segments": a_cap_below_the_stored_segment_size,
    },
    2015: {
        "too many partitions of a new topic": lambda: asked(Operation.CREATE_TOPIC, topic(partitions_count=1_001)),
        "too many new partitions": lambda: asked(
            Operation.CREATE_PARTITIONS,
            CreatePartitions(stream=STREAM, topic=TOPIC, partitions_count=1_001).encode(),
        ),
        "no new partition": lambda: asked(
            Operation.CREATE_PARTITIONS, CreatePartitions(stream=STREAM, topic=TOPIC, partitions_count=0).encode()
        ),
        "no partition to delete": lambda: asked(
            Operation.DELETE_PARTITIONS, DeletePartitions(stream=STREAM, topic=TOPIC, partitions_count=0).encode()
        ),
    },
    4041: {
        "an option of a topic": lambda: asked(Operation.CREATE_TOPIC, topic(UNKNOWN)),
        "an option of a stream": lambda: asked(
            Operation.CREATE_STREAM, CreateStream(name="s", options=UNKNOWN).encode()
        ),
        "an option of an updated stream": lambda: asked(
            Operation.UPDATE_STREAM, UpdateStream(stream=STREAM, name="s", options=UNKNOWN).encode()
        ),
        "an option of a user": lambda: asked(
            Operation.CREATE_USER, CreateUser(username="ann", password="secret", options=UNKNOWN).encode()
        ),
        "an option of an updated user": lambda: asked(
            Operation.UPDATE_USER, UpdateUser(user=STREAM, options=UNKNOWN).encode()
        ),
    },
    4042: {
        "a value of a new topic": lambda: asked(Operation.CREATE_TOPIC, topic(BAD_VALUE)),
        "a value of an updated topic": lambda: asked(Operation.UPDATE_TOPIC, update_topic(BAD_VALUE)),
    },
}
"""What produces each status. 5009 belongs to the plane of messages, which is not served (D-18)."""

ROWS: Final = [
    pytest.param(status, scenario, id=f"{status}: {name}")
    for status, scenarios in STATUSES.items()
    for name, scenario in scenarios.items()
]


@pytest.mark.parametrize(("status", "scenario"), ROWS)
def test_each_status_is_produced(status: int, scenario: Scenario) -> None:
    assert scenario() == status


def test_every_status_of_the_specification_is_above() -> None:
    """State-machine 3.1, the codes that are not committed, and 4 and 51 of D-30 and 11.3."""
    assert STATUSES.keys() == {3, 4, 5, 40, 41, 51, 52, 57, 58, 59, 1019, 2015, 4041, 4042}
