"""`levrier permissions`: the notation, the JSON, and what is shown of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levrier.cluster.cli.permission_notation import as_json, from_json, short_word
from levrier.wire.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from tests.cluster.cli.running import CommandLine


@pytest.fixture
def user(levrier: CommandLine, stream: str) -> str:
    """A user without permissions, called as the stream is."""
    name = stream.removeprefix("of-test_")[:50]
    assert levrier.ask("users", "create", name, "--new-password", "abc").status == 0
    return name


def granted(levrier: CommandLine, user: str) -> dict[str, Any]:
    """What is granted, without what is not."""
    permissions = levrier.read("permissions", "show", user)

    def only(flags: dict[str, Any]) -> list[str]:
        return [word for word, flag in flags.items() if flag is True]

    return {
        "global": only(permissions["global"]),
        "streams": {
            number: [only(stream), {topic: only(flags) for topic, flags in (stream["topics"] or {}).items()}]
            for number, stream in (permissions["streams"] or {}).items()
        },
    }


def test_who_has_none_is_said_to_have_none(levrier: CommandLine, user: str) -> None:
    assert levrier.ask("permissions", "show", user).out == f"{user} has no permissions\n"
    assert levrier.read("permissions", "show", user) is None


def test_what_holds_everywhere_is_a_list_of_words(levrier: CommandLine, user: str) -> None:
    ran = levrier.ask("permissions", "set", user, "--global", "read_streams, m_usr")
    assert ran.out == f"set the permissions of user {user}\n"
    assert granted(levrier, user) == {"global": ["manage_users", "read_streams"], "streams": {}}


def test_a_stream_and_its_topics_are_named_or_numbered(levrier: CommandLine, user: str, stream: str) -> None:
    for topic in ("first", "second"):
        levrier.ask("topics", "create", stream, topic)
    number = levrier.read("streams", "get", stream)["id"]
    by_name = f"{stream}:read_stream,p_msg#first:poll_messages#second"
    assert levrier.ask("permissions", "set", user, "--stream", by_name).status == 0
    expected = {
        "global": [],
        "streams": {str(number): [["read_stream", "poll_messages"], {"0": ["poll_messages"], "1": []}]},
    }
    assert granted(levrier, user) == expected
    by_id = f"id:{number}:r_str,poll_messages#id:0:p_msg#id:1"
    assert levrier.ask("permissions", "set", user, "--stream", by_id).status == 0
    assert granted(levrier, user) == expected


def test_permissions_are_shown_with_the_names_of_what_they_are_on(levrier: CommandLine, user: str, stream: str) -> None:
    levrier.ask("topics", "create", stream, "placed")
    number = levrier.read("streams", "get", stream)["id"]
    levrier.ask("permissions", "set", user, "-g", "all", "-s", f"{stream}:r_str#placed#id:9:all")
    lines = [line.split("  ", 1) for line in levrier.ask("permissions", "show", user).lines]
    assert [(on, words.strip()) for on, words in lines] == [
        ("on", "granted"),
        ("everything", "all"),
        (f"stream {stream} (id:{number})", "read_stream"),
        (f"stream {stream} (id:{number}), topic placed (id:0)", "nothing"),
        (f"stream {stream} (id:{number}), topic id:9", "all"),
    ]


def test_who_may_not_read_streams_sees_their_ids(levrier: CommandLine, user: str, stream: str) -> None:
    number = levrier.read("streams", "get", stream)["id"]
    levrier.ask("permissions", "set", user, "-g", "read_users", "-s", f"{stream}:send_messages")
    lines = levrier.ask("permissions", "show", user, "--username", user, "--password", "abc").lines
    assert lines[-1] == f"stream id:{number}  send_messages"


def test_what_is_not_named_is_taken_away(levrier: CommandLine, user: str) -> None:
    levrier.ask("permissions", "set", user, "-g", "all")
    levrier.ask("permissions", "set", user, "-g", "read_topics")
    assert granted(levrier, user) == {"global": ["read_topics"], "streams": {}}


def test_all_are_taken_away(levrier: CommandLine, user: str) -> None:
    levrier.ask("permissions", "set", user, "-g", "all")
    assert levrier.read("permissions", "clear", user) == {"user": user}
    assert levrier.read("permissions", "show", user) is None


def test_what_is_printed_as_json_can_be_set_from_a_file(
    levrier: CommandLine, user: str, stream: str, tmp_path: Path
) -> None:
    levrier.ask("permissions", "set", user, "-g", "read_users", "-s", f"{stream}:m_top#id:0:s_msg#id:7:all")
    printed = levrier.ask("permissions", "show", user, "--json").out
    file = tmp_path / "permissions.json"
    file.write_text(printed)
    levrier.ask("permissions", "clear", user)
    assert levrier.ask("permissions", "set", user, "--file", str(file)).status == 0
    assert levrier.ask("permissions", "show", user, "--json").out == printed


def test_a_topic_that_is_not_there_changes_nothing(levrier: CommandLine, user: str, stream: str) -> None:
    levrier.ask("permissions", "set", user, "-g", "read_users")
    ran = levrier.ask("permissions", "set", user, "-s", f"{stream}:all#nope:all")
    assert ran.status == 1
    assert ran.complaint == f"there is no topic nope in stream {stream}, so nothing was changed"
    assert granted(levrier, user) == {"global": ["read_users"], "streams": {}}


def test_a_bare_number_is_a_name_and_the_id_is_offered(levrier: CommandLine, user: str) -> None:
    ran = levrier.ask("permissions", "set", user, "-s", "0:all")
    assert ran.status == 1
    assert ran.complaint == "there is no stream 0 (the id is written id:0), so nothing was changed"


@pytest.mark.parametrize(
    "command", [("show", "nobody"), ("set", "nobody", "-g", "all"), ("clear", "nobody")], ids=" ".join
)
def test_a_user_that_is_not_there_is_named(levrier: CommandLine, command: tuple[str, ...]) -> None:
    ran = levrier.ask("permissions", *command)
    assert ran.status == 1
    assert "no user nobody" in ran.complaint


def test_the_first_user_keeps_its_permissions(levrier: CommandLine) -> None:
    ran = levrier.ask("permissions", "clear", "iggy")
    assert ran.status == 1
    assert ran.complaint.endswith("the permissions of the first user cannot be changed (code 49)")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "no permissions are named: use --global, --stream or --file"),
        (("-g", "read_strems"), "'read_strems' cannot be granted globally; did you mean read_streams?"),
        (("-g", "read_streams,"), "'' cannot be granted globally"),
        (("-g", "qqq"), "known are manage_servers, read_servers"),
        (("-s", "orders:manage_users"), "'manage_users' cannot be granted for a stream"),
        (("-s", "orders#placed:m_str"), "'m_str' cannot be granted for a topic"),
        (("-s", ":read_stream"), "STREAM[:WORDS][#TOPIC[:WORDS]] is expected"),
        (("-s", "orders#"), "STREAM[:WORDS][#TOPIC[:WORDS]] is expected"),
        (("-s", "id:4294967296"), "a number is expected behind id:"),
        (("-f", "/no/such/file"), "/no/such/file: No such file or directory"),
        (("-f", "/dev/null"), "/dev/null: no JSON"),
        (("-f", "/dev/null", "-g", "all"), "a permissions file stands alone"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_misuse_is_found_before_anybody_is_asked(levrier: CommandLine, options: tuple[str, ...], said: str) -> None:
    ran = levrier("permissions", "set", "alice", *options, "--connect", "127.0.0.1:1")
    assert ran.status == 2
    assert said in ran.complaint


@pytest.mark.parametrize("twice", ["id:1:all", "id:1#id:2#id:2:all"], ids=["stream", "topic"])
def test_what_is_named_twice_is_refused(levrier: CommandLine, twice: str) -> None:
    ran = levrier.ask("permissions", "set", "iggy", "-s", "id:1:read_stream", "-s", twice)
    assert ran.status == 2
    assert "is named twice" in ran.complaint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "the whole is no object with global, streams"),
        ("null", "the whole is no object"),
        ('{"globl": {}}', "the whole: 'globl' is not known; known are global, streams"),
        ('{"global": {"read_stream": true}}', "global: 'read_stream' is not known"),
        ('{"global": {"read_streams": 1}}', "global.read_streams is 1, neither true nor false"),
        ('{"global": true}', "global is no object"),
        ('{"streams": []}', "streams is no object with ids as keys"),
        ('{"streams": {"orders": {}}}', "streams: 'orders' is no id; a file names streams and topics by their numbers"),
        ('{"streams": {"4294967296": {}}}', "streams: '4294967296' is no id"),
        ('{"streams": {"1": {"topics": {"x": {}}}}}', "streams.1.topics: 'x' is no id"),
        ('{"streams": {"1": {"topics": {"2": {"read": true}}}}}', "streams.1.topics.2: 'read' is not known"),
        ('{"streams": {"1": {}, "01": {}}}', "streams: '01' is there twice"),
        ("[" * 100_000, "no JSON"),
    ],
    ids=lambda value: value[:30],
)
def test_a_file_that_says_something_else_is_refused(
    levrier: CommandLine, tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "permissions.json"
    file.write_text(content)
    ran = levrier("permissions", "set", "alice", "-f", str(file), "--connect", "127.0.0.1:1")
    assert ran.status == 2
    assert ran.complaint.startswith(f"{file}: ")
    assert said in ran.complaint


def test_the_short_words_are_those_of_iggys_own_tool() -> None:
    words = ["manage_servers", "read_users", "manage_streams", "read_topics", "manage_topic", "poll_messages"]
    assert [short_word(word) for word in words] == ["m_srv", "r_usr", "m_str", "r_top", "m_top", "p_msg"]
    assert short_word("send_messages") == "s_msg"


IDS = st.integers(min_value=0, max_value=2**32 - 1)
TOPICS = st.dictionaries(IDS, st.builds(TopicPermissions, *[st.booleans()] * 4), max_size=3)
STREAMS = st.dictionaries(
    IDS,
    st.builds(StreamPermissions, *[st.booleans()] * 6, topics=TOPICS.map(lambda found: tuple(sorted(found.items())))),
    max_size=3,
)
PERMISSIONS = st.builds(
    Permissions,
    st.builds(GlobalPermissions, *[st.booleans()] * 10),
    STREAMS.map(lambda found: tuple(sorted(found.items()))),
)


@given(PERMISSIONS)
def test_every_permission_survives_the_way_through_json(permissions: Permissions) -> None:
    assert from_json(json.dumps(as_json(permissions))) == permissions
