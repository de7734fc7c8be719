"""Every frame of the released SDK's conversation: decoded, compared with what was written down, encoded to equal bytes."""

import json
from pathlib import Path
from typing import Any

import pytest

from levrier.wire.body import Body
from levrier.wire.checksums import body_matches
from levrier.wire.codes import CLIENT_ALLOWED, OPERATION_OF_COMMAND, RESULT_FRAMED
from levrier.wire.framing import HEADER_SIZE, FrameDecoder
from levrier.wire.headers import ReplyHeader, RequestHeader
from levrier.wire.identifiers import Identifier
from levrier.wire.options import OptionEntry, decode_block, encode_block
from levrier.wire.permissions import Permissions
from levrier.wire.replies import result_payload, result_success
from levrier.wire.requests import groups, login, partitions, streams, system, tokens, topics, users
from levrier.wire.responses import groups as group_responses
from levrier.wire.responses import login as login_responses
from levrier.wire.responses import stats as stats_responses
from levrier.wire.responses import streams as stream_responses
from levrier.wire.responses import system as system_responses
from levrier.wire.responses import tokens as token_responses
from levrier.wire.responses import topics as topic_responses
from levrier.wire.responses import users as user_responses

FOLDER = Path(__file__).parent / "vectors"


def _load(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((FOLDER / name).read_text())
    return loaded


SENT = _load("sdk-python-0.9.0.json")
ANSWERED = _load("sdk-python-0.9.0-accepted-replies.json")

BY_CODE: dict[int, type[Body]] = {
    1: system.Ping,
    10: system.GetStats,
    11: system.GetSnapshotFile,
    12: system.GetClusterMetadata,
    13: system.DescribeOptions,
    20: system.GetMe,
    21: system.GetClient,
    22: system.GetClients,
    31: users.GetUser,
    32: users.GetUsers,
    41: tokens.GetPersonalAccessTokens,
    200: streams.GetStream,
    201: streams.GetStreams,
    300: topics.GetTopic,
    301: topics.GetTopics,
    600: groups.GetConsumerGroup,
    601: groups.GetConsumerGroups,
    606: groups.SyncConsumerGroup,
}
BY_OPERATION: dict[int, type[Body]] = {
    3: login.Logout,
    128: streams.CreateStream,
    129: streams.UpdateStream,
    130: streams.DeleteStream,
    131: streams.PurgeStream,
    132: topics.CreateTopic,
    133: topics.UpdateTopic,
    134: topics.DeleteTopic,
    135: topics.PurgeTopic,
    136: partitions.CreatePartitions,
    137: partitions.DeletePartitions,
    138: partitions.DeleteSegments,
    139: groups.CreateConsumerGroup,
    140: groups.DeleteConsumerGroup,
    141: users.CreateUser,
    142: users.UpdateUser,
    143: users.DeleteUser,
    144: users.ChangePassword,
    145: users.UpdatePermissions,
    146: tokens.CreatePersonalAccessToken,
    147: tokens.DeletePersonalAccessToken,
    148: groups.JoinConsumerGroup,
    149: groups.LeaveConsumerGroup,
}
MESSAGE_PLANE_CODES = {100, 102, 120}
MESSAGE_PLANE_OPERATIONS = {160, 161, 162}
RESPONSE_OF_CODE: dict[int, type[Body]] = {
    10: stats_responses.Stats,
    12: system_responses.ClusterMetadata,
    13: system_responses.OptionDescriptions,
    20: system_responses.ClientDetails,
    21: system_responses.ClientDetails,
    22: system_responses.ClientList,
    31: user_responses.UserDetails,
    32: user_responses.UserList,
    41: token_responses.PersonalAccessTokenList,
    200: stream_responses.StreamDetails,
    201: stream_responses.StreamList,
    300: topic_responses.TopicDetails,
    301: topic_responses.TopicList,
    600: group_responses.ConsumerGroupDetails,
    601: group_responses.ConsumerGroupList,
    606: group_responses.ConsumerGroupAssignment,
}
RESPONSE_OF_OPERATION: dict[int, type[Body]] = {
    1: login_responses.LoginResponse,
    64: topic_responses.TopicDetails,
    128: stream_responses.StreamDetails,
    139: group_responses.ConsumerGroupDetails,
    141: user_responses.UserDetails,
    146: token_responses.CreatedToken,
}
NAMES = {"stream_id": "stream", "topic_id": "topic", "group_id": "group", "user_id": "user"}


def _name(entry: dict[str, Any]) -> str:
    return f"{entry['call']}#{entry['frame']}"


def _form(header: RequestHeader, decoded: dict[str, Any]) -> type[Body] | None:
    if header.operation == 1:
        return login.LoginWithToken if "token" in decoded["body"] else login.LoginWithPassword
    if header.operation == 2:
        return BY_CODE.get(header.code)
    return BY_OPERATION.get(header.operation)


def _expected(name: str, value: Any) -> tuple[str, Any]:
    """A field of the written-down body as our dataclasses hold it."""
    if isinstance(value, dict) and set(value) <= {"numeric", "name"}:
        return NAMES[name], Identifier(next(iter(value.values())))
    if name == "options":
        entries = [OptionEntry(item["key"], item["value_kind"], bytes.fromhex(item["value_hex"])) for item in value]
        return name, encode_block(entries)
    if name == "client_context":
        return "context", b"" if value is None else value
    return name, value


def _permissions(value: Permissions) -> dict[str, Any]:
    """Permissions as they were written down."""
    flags = value.global_permissions
    return {
        "global": {name: getattr(flags, name) for name in flags.__slots__},
        "streams": [
            {
                "stream_id": stream_id,
                **{name: getattr(stream, name) for name in stream.__slots__ if name != "topics"},
                "topics": [
                    {"topic_id": topic_id, **{name: getattr(topic, name) for name in topic.__slots__}}
                    for topic_id, topic in stream.topics
                ],
            }
            for stream_id, stream in value.streams
        ],
    }


@pytest.mark.parametrize("entry", SENT, ids=_name)
def test_the_header_of_a_sent_frame(entry: dict[str, Any]) -> None:
    frame, decoded = bytes.fromhex(entry["hex"]), entry["decoded"]

    header = RequestHeader.decode(frame)

    assert header == RequestHeader(
        client=int.from_bytes(bytes.fromhex(decoded["client"]), "little"),
        request=decoded["request"],
        operation=decoded["operation"],
        session=decoded["session"],
        request_checksum=decoded["request_checksum"],
        code=decoded.get("code", 0),
        size=decoded["size"],
        timestamp=decoded["timestamp"],
        user_id=decoded["user_id"],
        cluster=int.from_bytes(bytes.fromhex(decoded["cluster"]), "little"),
        view=decoded["view"],
        release=decoded["release"],
        replica=decoded["replica"],
    )
    assert header.encode() == frame[:HEADER_SIZE]
    assert header.size == len(frame)
    assert header.operation in CLIENT_ALLOWED


@pytest.mark.parametrize("entry", SENT, ids=_name)
def test_the_request_checksum_of_a_sent_frame_is_that_of_its_body(entry: dict[str, Any]) -> None:
    frame, decoded = bytes.fromhex(entry["hex"]), entry["decoded"]
    stamped = decoded["request_checksum"] != 0

    assert stamped is decoded["request_checksum_matches_xxh3_64_of_body"]
    assert stamped is (decoded["operation"] not in {2, 160, 161, 162})
    assert body_matches(decoded["request_checksum"], frame[HEADER_SIZE:])


@pytest.mark.parametrize("entry", SENT, ids=_name)
def test_the_body_of_a_sent_frame(entry: dict[str, Any]) -> None:
    frame, decoded = bytes.fromhex(entry["hex"]), entry["decoded"]
    header, body = RequestHeader.decode(frame), frame[HEADER_SIZE:]
    assert body.hex() == decoded["body_hex"]
    form = _form(header, decoded)
    if form is None:
        assert header.operation in MESSAGE_PLANE_OPERATIONS or header.code in {*MESSAGE_PLANE_CODES, 9999}
        return

    value = form.decode(body)

    assert value.encode() == body
    for name, raw in (decoded["body"] or {}).items():
        if name == "protocol_version_text":
            continue
        field, expected = _expected(name, raw)
        found = getattr(value, field)
        assert (_permissions(found) if isinstance(found, Permissions) else found) == expected, field


@pytest.mark.parametrize("entry", ANSWERED, ids=_name)
def test_the_header_of_an_accepted_reply(entry: dict[str, Any]) -> None:
    frame, decoded = bytes.fromhex(entry["hex"]), entry["decoded"]

    header = ReplyHeader.decode(frame)

    assert header == ReplyHeader(
        client=int.from_bytes(bytes.fromhex(decoded["client"]), "little"),
        request=decoded["request"],
        operation=decoded["operation"],
        op=decoded["op"],
        commit=decoded["commit"],
        status=decoded["status"],
        request_checksum=decoded["request_checksum"],
        timestamp=decoded["timestamp"],
        size=decoded["size"],
    )
    assert header.encode() == frame[:HEADER_SIZE]
    assert header.size == len(frame)


@pytest.mark.parametrize(("sent", "answered"), list(zip(SENT, ANSWERED, strict=True)), ids=map(_name, SENT))
def test_the_body_of_an_accepted_reply(sent: dict[str, Any], answered: dict[str, Any]) -> None:
    assert _name(sent) == _name(answered)
    frame = bytes.fromhex(answered["hex"])
    header, body = ReplyHeader.decode(frame), frame[HEADER_SIZE:]
    assert body.hex() == answered["decoded"]["body_hex"]
    if header.status:
        assert body == b""
        return
    code = sent["decoded"].get("code", 0)
    if header.operation in RESULT_FRAMED:
        payload = result_payload(body)
        assert result_success(payload) == body
        form = RESPONSE_OF_OPERATION.get(header.operation)
    else:
        payload = body
        form = RESPONSE_OF_CODE.get(code) if header.operation == 2 else None
    if form is None:
        assert payload == b"" or header.operation in MESSAGE_PLANE_OPERATIONS or code in {*MESSAGE_PLANE_CODES, 11}
    elif payload:
        assert form.decode(payload).encode() == payload
    else:
        assert "missing" in sent["call"]


def test_the_whole_conversation_as_one_stream() -> None:
    stream = b"".join(bytes.fromhex(entry["hex"]) for entry in SENT)
    decoder = FrameDecoder()

    frames = [frame for start in range(0, len(stream), 100) for frame in decoder.feed(stream[start : start + 100])]

    assert [frame.hex() for frame in frames] == [entry["hex"] for entry in SENT]


def test_the_operations_that_the_client_used_are_those_of_the_table() -> None:
    used = {entry["decoded"]["operation"] for entry in SENT}

    assert used - {2} <= set(OPERATION_OF_COMMAND.values())
    assert used >= set(range(128, 150)) | {1, 2, 3}


def test_the_released_client_sends_two_keys_with_every_topic() -> None:
    blocks = [
        topics.CreateTopic.decode(bytes.fromhex(entry["hex"])[HEADER_SIZE:]).options
        for entry in SENT
        if entry["decoded"]["operation"] == 132
    ]

    assert len(blocks) == 2
    for block in blocks:
        keys = [entry.key for entry in decode_block(block)]
        assert {"consumer_offset_durability", "durability"} <= set(keys)
        assert keys == sorted(keys)
