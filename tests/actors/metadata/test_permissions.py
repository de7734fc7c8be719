"""The rules, flag by flag, and the lookup that the users' records fold into (state-machine 10)."""

from typing import Any

import pytest

from levrier.actors.metadata import permissions as rules
from levrier.actors.metadata.permissions import Permissioner, Rule
from levrier.wire.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from tests.actors.metadata.support import GLOBAL_FLAGS, STREAM_FLAGS, TOPIC_FLAGS

READ = "manage_streams read_streams manage_topics read_topics"
STREAM_READ = "manage_stream read_stream manage_topics read_topics"

# Rule, and the flags that pass it: global, of the stream, of the topic (state-machine 10.2, wire 12.2).
TABLE: list[tuple[str, Rule, str, str, str]] = [
    ("create stream", rules.CREATE_STREAM, "manage_streams", "", ""),
    ("get streams", rules.READ_STREAMS, "manage_streams read_streams", "", ""),
    ("get stream", rules.READ_STREAM, "manage_streams read_streams", "manage_stream read_stream", ""),
    ("manage stream", rules.MANAGE_STREAM, "manage_streams", "manage_stream", ""),
    ("get topics", rules.READ_TOPICS, READ, STREAM_READ, ""),
    ("get topic, groups", rules.READ_TOPIC, READ, STREAM_READ, "manage_topic read_topic"),
    ("create topic", rules.CREATE_TOPIC, "manage_streams manage_topics", "manage_stream manage_topics", ""),
    ("manage topic", rules.MANAGE_TOPIC, "manage_streams manage_topics", "manage_stream manage_topics", "manage_topic"),
    (
        "poll",
        rules.POLL,
        f"{READ} poll_messages",
        f"{STREAM_READ} poll_messages",
        "manage_topic read_topic poll_messages",
    ),
    (
        "send",
        rules.SEND,
        "manage_streams manage_topics send_messages",
        "manage_stream manage_topics send_messages",
        "manage_topic send_messages",
    ),
    ("stats, clients", rules.READ_SERVERS, "manage_servers read_servers", "", ""),
    ("read users", rules.READ_USERS, "manage_users read_users", "", ""),
    ("manage users", rules.MANAGE_USERS, "manage_users", "", ""),
]


def loaded(permissions: Permissions | None) -> Permissioner:
    permissioner = Permissioner()
    permissioner.load(1, permissions)
    return permissioner


def stream_grant(flag: str, stream: int = 3) -> Permissions:
    flags: dict[str, Any] = {flag: True}
    return Permissions(streams=((stream, StreamPermissions(**flags)),))


def topic_grant(flag: str, stream: int = 3, topic: int = 4) -> Permissions:
    topics = ((topic, TopicPermissions(**{flag: True})),)
    return Permissions(streams=((stream, StreamPermissions(topics=topics)),))


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_each_rule_passes_on_exactly_its_flags(row: tuple[str, Rule, str, str, str]) -> None:
    """S-041 for what is not root's: every flag of every scope, alone."""
    _, rule, everywhere, on_stream, on_topic = row
    for flag in GLOBAL_FLAGS:
        permissioner = loaded(Permissions(GlobalPermissions(**{flag: True})))
        assert permissioner.allows(1, rule, 3, 4) == (flag in everywhere.split()), flag
    for flag in STREAM_FLAGS:
        permissioner = loaded(stream_grant(flag))
        assert permissioner.allows(1, rule, 3, 4) == (flag in on_stream.split()), flag
        assert not permissioner.allows(1, rule, 2, 4)
        assert not permissioner.allows(1, rule)
    for flag in TOPIC_FLAGS:
        permissioner = loaded(topic_grant(flag))
        assert permissioner.allows(1, rule, 3, 4) == (flag in on_topic.split()), flag
        assert not permissioner.allows(1, rule, 3, 5)
        assert not permissioner.allows(1, rule, 2, 4)
        assert not permissioner.allows(1, rule, 3)


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_s_041_root_passes_and_a_user_without_a_record_does_not(row: tuple[str, Rule, str, str, str]) -> None:
    """S-041: root by its id, independent of any record."""
    permissioner = Permissioner()
    assert permissioner.allows(0, row[1], 3, 4)
    assert not permissioner.allows(1, row[1], 3, 4)


def test_s_037_a_global_poll_grant_polls_anything() -> None:
    """S-037."""
    permissioner = loaded(Permissions(GlobalPermissions(poll_messages=True)))
    assert permissioner.allows(1, rules.POLL, 17, 99)
    assert not permissioner.allows(1, rules.READ_TOPIC, 17, 99)


def test_s_038_losing_the_record_loses_the_rights() -> None:
    """S-038."""
    permissioner = loaded(Permissions(GlobalPermissions(poll_messages=True)))
    permissioner.load(1, None)
    assert not permissioner.allows(1, rules.POLL, 0, 0)


def test_s_039_a_dropped_user_leaves_no_trace() -> None:
    """S-039: no right, and no stream remembers the user."""
    permissioner = loaded(stream_grant("poll_messages"))
    assert permissioner.holders(3) == [1]
    permissioner.drop(1)
    permissioner.drop(1)
    assert permissioner.holders(3) == []
    assert not permissioner.allows(1, rules.POLL, 3, 0)


def test_a_new_record_replaces_the_old_one() -> None:
    permissioner = loaded(stream_grant("manage_stream", stream=3))
    permissioner.load(1, stream_grant("manage_stream", stream=5))
    assert not permissioner.allows(1, rules.MANAGE_STREAM, 3)
    assert permissioner.allows(1, rules.MANAGE_STREAM, 5)
    assert (permissioner.holders(3), permissioner.holders(5)) == ([], [1])


def test_br_41_holders_of_a_stream_come_in_ascending_order() -> None:
    """BR-41: who has to be visited when the id is freed, topic grants included."""
    permissioner = Permissioner()
    for user in (9, 2, 5):
        permissioner.load(user, topic_grant("read_topic") if user == 5 else stream_grant("read_stream"))
    assert permissioner.holders(3) == [2, 5, 9]


def test_a_later_entry_for_the_same_id_wins() -> None:
    """State-machine 10.1."""
    twice = Permissions(streams=((3, StreamPermissions(manage_stream=True)), (3, StreamPermissions(read_stream=True))))
    permissioner = loaded(Permissions.decode(twice.encode()))
    assert not permissioner.allows(1, rules.MANAGE_STREAM, 3)
    assert permissioner.allows(1, rules.READ_STREAM, 3)
