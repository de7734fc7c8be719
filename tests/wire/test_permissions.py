"""Permissions on the wire (BR-34)."""

import pytest

from levrier.wire.errors import WireError
from levrier.wire.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions

TOPIC = TopicPermissions(read_topic=True)
NO_MAP = Permissions(GlobalPermissions(read_streams=True))
ONE_STREAM = Permissions(streams=((7, StreamPermissions(read_stream=True)),))
TWO_STREAMS = Permissions(
    GlobalPermissions(manage_servers=True),
    (
        (1, StreamPermissions(topics=((2, TOPIC), (3, TopicPermissions(send_messages=True))))),
        (4, StreamPermissions(manage_stream=True, topics=((0, TOPIC), (9, TOPIC)))),
    ),
)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (NO_MAP, 11),
        (Permissions(streams=()), 11),
        (ONE_STREAM, 23),
        (Permissions(streams=((7, StreamPermissions(topics=())),)), 23),
        (TWO_STREAMS, 11 + 2 * (12 + 2 * 9)),
    ],
    ids=["no map", "an empty map", "one stream without topics", "an empty topic map", "two streams with two topics"],
)
def test_the_forms_that_have_failed_elsewhere_round_trip(value: Permissions, size: int) -> None:
    """BR-34"""
    encoded = value.encode()

    assert len(encoded) == size
    assert encoded[-1] == 0
    assert Permissions.decode(encoded) == value


@pytest.mark.parametrize("value", [NO_MAP, ONE_STREAM, TWO_STREAMS])
def test_permissions_cut_at_any_byte_are_refused(value: Permissions) -> None:
    """BR-34: a client that leaves out the continuation marker is one of these."""
    encoded = value.encode()

    for end in range(len(encoded)):
        with pytest.raises(WireError):
            Permissions.decode(encoded[:end])


def test_the_bytes_of_a_captured_form() -> None:
    captured = bytes.fromhex("0000000000010000000001070000000001000000000103000000000100000104000000000001000000")

    value = Permissions.decode(captured)

    assert value.encode() == captured
    assert value.global_permissions == GlobalPermissions(read_streams=True)
    assert [stream_id for stream_id, _ in value.streams] == [7]
    assert [topic_id for topic_id, _ in value.streams[0][1].topics] == [3, 4]


def test_entries_are_written_in_ascending_order_and_the_last_of_two_wins() -> None:
    unordered = Permissions(streams=((5, StreamPermissions()), (2, StreamPermissions(read_stream=True))))
    twice = Permissions(streams=((5, StreamPermissions()), (5, StreamPermissions(read_stream=True))))

    assert [stream_id for stream_id, _ in Permissions.decode(unordered.encode()).streams] == [2, 5]
    assert Permissions.decode(twice.encode()).streams == ((5, StreamPermissions(read_stream=True)),)


def test_any_byte_but_zero_is_a_grant() -> None:
    assert Permissions.decode(b"\xff" + bytes(10)).global_permissions.manage_servers


def test_root_has_every_global_flag() -> None:
    assert all(Permissions.root().global_permissions.flags())
    assert Permissions.root().encode() == b"\x01" * 10 + b"\0"


def test_a_deleted_stream_takes_its_entry_with_it() -> None:
    """Decision D-02."""
    assert [stream_id for stream_id, _ in TWO_STREAMS.without_stream(1).streams] == [4]
    assert TWO_STREAMS.without_stream(99) is TWO_STREAMS


def test_a_deleted_topic_takes_its_entry_with_it() -> None:
    """Decision D-02."""
    kept = TWO_STREAMS.without_topic(1, 2)

    assert [topic_id for topic_id, _ in kept.streams[0][1].topics] == [3]
    assert kept.streams[1] == TWO_STREAMS.streams[1]
    assert TWO_STREAMS.without_topic(1, 99) is TWO_STREAMS
    assert TWO_STREAMS.without_topic(99, 2) is TWO_STREAMS
