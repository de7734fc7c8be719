"""Reads: bodies, the gate, and the codes that are not served (state-machine 10.4; requests 3, 7, 9.5)."""

import pytest

from levrier.actors.metadata import queries
from levrier.wire.codes import LEVRIER_STATUS, OPERATION_OF_COMMAND, CommandCode
from levrier.wire.requests.streams import GetStream
from levrier.wire.requests.topics import GetTopic, GetTopics
from levrier.wire.responses.streams import StreamDetails, StreamList
from levrier.wire.responses.system import OptionDescriptions
from levrier.wire.responses.topics import TopicDetails, TopicList
from levrier.wire.topic_options import describe_topic_options
from tests.actors.metadata.support import Key, Log, grant, named, with_users

SERVED = {
    CommandCode.GET_STREAM,
    CommandCode.GET_STREAMS,
    CommandCode.GET_TOPIC,
    CommandCode.GET_TOPICS,
    CommandCode.DESCRIBE_OPTIONS,
    CommandCode.GET_USER,
    CommandCode.GET_USERS,
    CommandCode.GET_PERSONAL_ACCESS_TOKENS,
    CommandCode.GET_CONSUMER_GROUP,
    CommandCode.GET_CONSUMER_GROUPS,
    CommandCode.SYNC_CONSUMER_GROUP,
}


def stream_query(stream: Key) -> bytes:
    return GetStream(stream=named(stream)).encode()


def topics_query(stream: Key) -> bytes:
    return GetTopics(stream=named(stream)).encode()


def topic_query(stream: Key, topic: Key) -> bytes:
    return GetTopic(stream=named(stream), topic=named(topic)).encode()


def catalogue() -> Log:
    log = Log(
        with_users(
            None,
            grant("read_streams"),
            grant(stream=(0, ("read_stream",))),
            grant(topic=(0, 0, ("read_topic",))),
        )
    )
    log.create_stream("été")
    log.create_stream("other")
    log.create_topic("été", "t", [0, 1])
    log.create_topic("été", "u")
    return log


class TestBodies:
    def test_streams_come_in_ascending_order_of_id(self) -> None:
        log = catalogue()
        log.create_stream("last")
        log.delete_stream(0)
        log.create_stream("first")
        body = log.query(CommandCode.GET_STREAMS, b"")
        streams = StreamList.decode(body)
        assert [(s.id, s.name, s.topics_count) for s in streams.streams] == [
            (0, "first", 0),
            (1, "other", 0),
            (2, "last", 0),
        ]
        assert streams.encode() == body

    def test_no_streams_is_an_empty_body(self) -> None:
        assert Log().query(CommandCode.GET_STREAMS, b"") == b""

    @pytest.mark.parametrize("key", [0, "été"])
    def test_a_stream_with_its_topics(self, key: Key) -> None:
        body = catalogue().query(CommandCode.GET_STREAM, stream_query(key))
        details = StreamDetails.decode(body)
        assert (details.stream.id, details.stream.name, details.stream.topics_count) == (0, "été", 2)
        assert [(t.id, t.name, t.partitions_count) for t in details.topics] == [(0, "t", 2), (1, "u", 0)]
        assert details.encode() == body

    @pytest.mark.parametrize("key", [0, "t"])
    def test_a_topic_with_its_partitions(self, key: Key) -> None:
        body = catalogue().query(CommandCode.GET_TOPIC, topic_query("été", key))
        details = TopicDetails.decode(body)
        assert [(p.id, p.segments_count, p.messages_count) for p in details.partitions] == [(0, 1, 0), (1, 1, 0)]
        assert details.encode() == body

    def test_the_topics_of_a_stream(self) -> None:
        body = catalogue().query(CommandCode.GET_TOPICS, topics_query("été"))
        topics = TopicList.decode(body)
        assert [topic.name for topic in topics.topics] == ["t", "u"]
        assert topics.encode() == body

    @pytest.mark.parametrize("key", ["other", "absent", 77])
    def test_no_topics_and_no_stream_are_both_count_zero(self, key: Key) -> None:
        assert catalogue().query(CommandCode.GET_TOPICS, topics_query(key)) == bytes(4)

    @pytest.mark.parametrize(
        ("code", "body"),
        [
            (CommandCode.GET_STREAM, stream_query("absent")),
            (CommandCode.GET_STREAM, stream_query("0")),
            (CommandCode.GET_TOPIC, topic_query("absent", "t")),
            (CommandCode.GET_TOPIC, topic_query("été", 9)),
            (CommandCode.GET_TOPIC, topic_query("other", "t")),
        ],
    )
    def test_what_is_not_found_is_an_empty_body(self, code: CommandCode, body: bytes) -> None:
        assert catalogue().query(code, body) == b""

    def test_options_of_topics_are_described(self) -> None:
        described = OptionDescriptions.decode(Log().query(CommandCode.DESCRIBE_OPTIONS, b"\x01"))
        assert described.options == describe_topic_options()
        assert len(described.options) == 10

    @pytest.mark.parametrize("scope", [2, 3])
    def test_streams_and_users_have_no_options(self, scope: int) -> None:
        assert Log().query(CommandCode.DESCRIBE_OPTIONS, bytes([scope])) == bytes(4)


class TestGate:
    """Users: 1 without rights, 2 reads all streams, 3 reads stream 0, 4 reads topic 0 of it, 5 is gone."""

    @pytest.mark.parametrize(
        ("code", "body", "allowed"),
        [
            (CommandCode.GET_STREAMS, b"", {0, 2}),
            (CommandCode.GET_STREAM, stream_query("été"), {0, 2, 3}),
            (CommandCode.GET_STREAM, stream_query("other"), {0, 2}),
            (CommandCode.GET_TOPICS, topics_query("été"), {0, 2, 3}),
            (CommandCode.GET_TOPIC, topic_query("été", "t"), {0, 2, 3, 4}),
            (CommandCode.GET_TOPIC, topic_query("été", "u"), {0, 2, 3}),
        ],
    )
    def test_a_read_is_for_those_who_may(self, code: CommandCode, body: bytes, allowed: set[int]) -> None:
        machine = catalogue().machine
        answers = {user: queries.answer(machine, user, 7, code, body) for user in range(6)}
        assert {user for user, (status, _) in answers.items() if status == 0} == allowed
        assert {answers[user] for user in answers if user not in allowed} == {(41, b"")}

    @pytest.mark.parametrize(
        ("code", "body", "answer"),
        [
            (CommandCode.GET_STREAM, stream_query("absent"), b""),
            (CommandCode.GET_TOPIC, topic_query("été", "absent"), b""),
            (CommandCode.GET_TOPICS, topics_query("absent"), bytes(4)),
        ],
    )
    def test_a_missing_target_is_reported_to_anybody(self, code: CommandCode, body: bytes, answer: bytes) -> None:
        assert queries.answer(catalogue().machine, 1, 7, code, body) == (0, answer)

    def test_every_user_may_ask_for_the_options_unless_deleted(self) -> None:
        machine = catalogue().machine
        statuses = [queries.answer(machine, user, 7, CommandCode.DESCRIBE_OPTIONS, b"\x01")[0] for user in (0, 1, 5)]
        assert statuses == [0, 0, 41]


class TestRefused:
    @pytest.mark.parametrize(
        ("code", "body"),
        [
            (CommandCode.GET_STREAM, b""),
            (CommandCode.GET_STREAMS, b"\x00"),
            (CommandCode.GET_TOPIC, stream_query("s")),
            (CommandCode.GET_TOPICS, b"\x01\x03\x00\x00\x00"),
            (CommandCode.DESCRIBE_OPTIONS, b""),
            (CommandCode.DESCRIBE_OPTIONS, b"\x04"),
        ],
    )
    def test_a_malformed_body_is_an_invalid_command(self, code: CommandCode, body: bytes) -> None:
        assert queries.answer(Log().machine, 0, 7, code, body) == (3, b"")

    @pytest.mark.parametrize(
        ("code", "body"),
        [
            (CommandCode.GET_STREAM, stream_query("s")),
            (CommandCode.GET_TOPICS, stream_query("s")),
            (CommandCode.DESCRIBE_OPTIONS, b"\x01"),
        ],
    )
    def test_bytes_behind_a_body_change_nothing(self, code: CommandCode, body: bytes) -> None:
        machine = catalogue().machine
        expected = queries.answer(machine, 0, 7, code, body)
        assert expected[0] == 0
        assert queries.answer(machine, 0, 7, code, body + b"\x00") == expected

    @pytest.mark.parametrize("code", [0, 2, 302_000, LEVRIER_STATUS, 2**32 - 1])
    def test_an_unknown_code_is_an_invalid_command(self, code: int) -> None:
        assert queries.answer(Log().machine, 0, 7, code, b"") == (3, b"")

    @pytest.mark.parametrize("code", sorted(OPERATION_OF_COMMAND))
    def test_a_replicated_command_is_not_a_query(self, code: int) -> None:
        assert queries.answer(Log().machine, 0, 7, code, b"") == (5, b"")

    @pytest.mark.parametrize("code", sorted(set(CommandCode) - SERVED))
    def test_a_family_that_is_not_served_is_unavailable(self, code: CommandCode) -> None:
        """D-18."""
        assert queries.answer(Log().machine, 0, 7, code, b"") == (5, b"")
