"""The two sections of a snapshot: layout, order, the way back, and what is refused (persistence 4.1, D-05, D-35)."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgpack
import pytest

from levrier.actors.metadata.machine import MetadataMachine
from levrier.actors.metadata.restore import SnapshotInvalid
from levrier.wire.options import encode_block
from tests.actors.metadata.support import (
    HASH,
    NO_STREAMS,
    NO_USERS,
    Log,
    decoded,
    encoded,
    grant,
    restored,
    sections,
    uint64,
    with_users,
)


def catalogue() -> Log:
    """Users 0 to 3; streams 0, 3 of four; topics 1, 2 of three in stream 0; an update, a purge, a watermark."""
    log = Log(
        with_users(
            grant("read_streams"),
            None,
            grant(topic=(0, 1, ("read_topic",)), stream=None),
            grant(stream=(0, ("manage_stream",))),
        )
    )
    for name in "abcd":
        log.create_stream(name, encode_block([uint64("k", 1)]) if name == "d" else b"")
    log.delete_stream("b")
    log.delete_stream("c")
    for name in "xyz":
        log.create_topic("a", name, [0, 1], groups=((0, 33), (1, 34)))
    log.delete_topic("a", "x")
    log.update_topic("a", "z", "renamed", encode_block([uint64("message_expiry", 9)]))
    log.truncate("a", "y", 1, 500)
    log.purge_topic("a", "renamed")
    return log


class TestLayout:
    def test_s_009_an_empty_machine_fills_both_sections(self) -> None:
        """S-009, S-010 and S-011: and so does the machine restored from them."""
        machine = MetadataMachine()
        assert sections(machine) == (NO_USERS, NO_STREAMS)
        assert sections(restored(machine)) == (NO_USERS, NO_STREAMS)

    def test_s_091_the_sizes_of_the_records(self) -> None:
        """S-091: any change of shape changes the format version."""
        users, streams = sections(catalogue().machine)
        assert (len(users), len(streams)) == (3, 3)
        assert {len(user) for _, user in users[0]} == {7}
        assert {len(stream) for _, stream in streams[0]} == {6}
        topics = [topic for _, stream in streams[0] for _, topic in stream[4]]
        assert {len(topic) for topic in topics} == {11}
        assert {len(partition) for topic in topics for partition in topic[7]} == {6}

    def test_the_fields_of_a_user(self) -> None:
        users, _ = sections(with_users(grant(topic=(3, 4, ("read_topic",)))))
        assert users[0] == [
            [0, [0, "iggy", HASH, "active", 1_000_001, [[True] * 10, None], []]],
            [
                1,
                [
                    1,
                    "user1",
                    HASH,
                    "active",
                    5,
                    [[False] * 10, [[3, [*[False] * 6, [[4, [False, True, False, False]]]]]]],
                    [],
                ],
            ],
        ]
        assert users[1:] == [[[0, []], [1, []]], [[]] * 6]

    def test_the_fields_of_a_stream_a_topic_and_its_partitions(self) -> None:
        """S-099: names, times, stats, consensus group 33 and the counter of groups."""
        log = Log()
        log.create_stream("s", encode_block([uint64("k", 1)]))
        log.create_topic("s", "t", groups=((0, 33),), options=b"", derived=encode_block([uint64("message_expiry", 7)]))
        log.truncate("s", "t", 0, 5)
        _, streams = sections(log.machine)
        eight = [(number).to_bytes(8, "little") for number in (1, 7)]
        partition = [0, 33, 1_000_002, 1, 5, 0]
        topic = [0, "t", 1_000_002, 7, "none", 0, [0, 0, 0], [partition], [], 0, 1]
        assert streams == [
            [[0, [0, "s", 1_000_001, [0, 0, 0], [[0, topic]], 0]]],
            2,
            [[["k", 12, eight[0], True]], [["message_expiry", 12, eight[1], False]]],
        ]

    def test_s_100_keys_keep_their_gaps_and_their_order(self) -> None:
        """S-100."""
        machine = restored(catalogue().machine)
        users, streams = sections(machine)
        assert [key for key, _ in users[0]] == [0, 1, 2, 3, 4]
        assert [(key, stream[0], stream[1]) for key, stream in streams[0]] == [(0, 0, "a"), (3, 3, "d")]
        assert [(key, topic[1]) for key, topic in streams[0][0][1][4]] == [(1, "y"), (2, "renamed")]

    def test_equal_option_maps_are_written_once(self) -> None:
        log = Log()
        for stream in "ab":
            log.create_stream(stream)
            for topic in "xyz":
                log.create_topic(stream, topic)
        _, streams = sections(log.machine)
        assert len(streams[2]) == 2


class TestRoundTrip:
    def test_s_048_encoding_restoring_and_encoding_again_gives_the_same_bytes(self) -> None:
        """S-048, S-092 and S-093."""
        machine = catalogue().machine
        state = encoded(machine)
        assert encoded(machine) == state
        assert encoded(decoded(state)) == state
        assert encoded(restored(decoded(state))) == state

    def test_tuples_are_as_good_as_lists(self) -> None:
        state = encoded(catalogue().machine)
        machine = MetadataMachine.restore(
            users=msgpack.unpackb(state[0], use_list=False),
            streams=msgpack.unpackb(state[1], use_list=False),
            consensus_group_high=state[2],
            next_user_id=state[3],
        )
        assert encoded(machine) == state

    def test_s_040_rights_are_rebuilt_from_the_users(self) -> None:
        """S-040: the stored lists are empty, the outcome of the rules is not."""
        users, _ = sections(catalogue().machine)
        assert users[2] == [[]] * 6
        log = Log(restored(catalogue().machine))
        assert [log.update_stream(0, "renamed", user=user).code for user in (1, 2, 3, 4)] == [41, 41, 41, 0]

    @pytest.mark.parametrize("order", [(1, 3), (3, 1), (4, 0)])
    def test_br_40_the_next_numbers_survive(self, order: tuple[int, int]) -> None:
        """BR-40: create five, delete two in either order, restore; the next three creates number alike."""
        log = Log()
        for index in range(5):
            log.create_stream(f"s{index}")
        for stream in order:
            log.delete_stream(stream)
        twin = Log(restored(log.machine), op=log.op)
        bodies = [[each.create_stream(f"later{index}").body for index in range(3)] for each in (log, twin)]
        assert bodies[0] == bodies[1]
        assert [int.from_bytes(body[4:8], "little") for body in bodies[0]] == [*sorted(order), 5]

    def test_next_user_id_is_kept_above_the_users(self) -> None:
        """D-02: a deleted user's id does not come back."""
        users, streams = sections(with_users(None))
        machine = MetadataMachine.restore(users=users, streams=streams, consensus_group_high=4, next_user_id=17)
        assert encoded(restored(machine))[2:] == (4, 17)

    def test_the_counter_of_groups_survives(self) -> None:
        """S-099: a topic that has had five groups."""
        users, streams = sections(catalogue().machine)
        streams[0][0][1][4][0][1][9] = 5
        machine = MetadataMachine.restore(users=users, streams=streams, consensus_group_high=34, next_user_id=5)
        assert sections(restored(machine))[1][0][0][1][4][0][1][9] == 5


class TestChunks:
    def test_chunks_stay_below_64_kibibytes(self) -> None:
        log = Log()
        for index in range(3):
            log.create_stream(f"s{index}")
            log.create_topic(index, "many", list(range(3000)))
            for topic in range(200):
                log.create_topic(index, f"{topic}-" + "x" * 200, [0, 1])
        chunks = list(log.machine.capture(0, 0).streams())
        assert len(chunks) > 5
        assert max(map(len, chunks)) <= 64 * 1024
        state = encoded(log.machine)
        assert state[1] == b"".join(chunks)
        assert encoded(decoded(state)) == state


@dataclass
class Sections:
    """What is damaged."""

    users: Any
    streams: Any


Damage = Callable[[Sections], object]


def _user(at: Sections) -> Any:
    return at.users[0][1][1]


def _stream(at: Sections) -> Any:
    return at.streams[0][0][1]


def _topic(at: Sections) -> Any:
    return _stream(at)[4][0][1]


def set_at(container: Any, index: int, value: object) -> object:
    container[index] = value
    return container


DAMAGE: dict[str, Damage] = {
    "a user under another key": lambda at: set_at(_user(at), 0, 9),
    "users out of order": lambda at: (at.users[0].reverse(), at.users[1].reverse()),
    "a user name twice": lambda at: set_at(_user(at), 1, "iggy"),
    "an empty user name": lambda at: set_at(_user(at), 1, ""),
    "a hash that is no text": lambda at: set_at(_user(at), 2, b"hash"),
    "an unknown status": lambda at: set_at(_user(at), 3, "sleeping"),
    "an inactive root": lambda at: set_at(at.users[0][0][1], 3, "inactive"),
    "a negative time": lambda at: set_at(_user(at), 4, -1),
    "nine flags": lambda at: _user(at)[5][0].pop(),
    "a flag that is a number": lambda at: set_at(_user(at)[5][0], 0, 1),
    "stream grants out of order": lambda at: set_at(
        _user(at)[5], 1, [[2, [*[True] * 6, None]], [1, [*[True] * 6, None]]]
    ),
    "no root": lambda at: (at.users[0].pop(0), at.users[1].pop(0)),
    "a user without tokens entry": lambda at: at.users[1].pop(),
    "tokens": lambda at: set_at(at.users[1][0], 1, [["name", [0, "name", "hash", None]]]),
    "a filled permissioner": lambda at: set_at(at.users[2], 0, [1]),
    "an id at next_user_id": lambda at: (
        set_at(at.users[0][-1], 0, 5),
        set_at(at.users[0][-1][1], 0, 5),
        set_at(at.users[1][-1], 0, 5),
    ),
    "a users section of two": lambda at: at.users.pop(),
    "streams that are no array": lambda at: set_at(at.streams, 0, {}),
    "streams out of order": lambda at: at.streams[0].reverse(),
    "a stream under another key": lambda at: set_at(at.streams[0][0], 0, 1),
    "a stream id at the ceiling": lambda at: (
        set_at(at.streams[0][1], 0, 1 << 20),
        set_at(at.streams[0][1][1], 0, 1 << 20),
    ),
    "a stream name twice": lambda at: set_at(_stream(at), 1, "d"),
    "a stream name of 256 bytes": lambda at: set_at(_stream(at), 1, "é" * 128),
    "counters": lambda at: set_at(_stream(at), 3, [1, 0, 0]),
    "an option map that is not there": lambda at: set_at(_stream(at), 5, 99),
    "a negative option map": lambda at: set_at(_stream(at), 5, -1),
    "a stream of five fields": lambda at: _stream(at).pop(),
    "a topic id at the ceiling": lambda at: (
        set_at(_stream(at)[4][1], 0, 4096),
        set_at(_stream(at)[4][1][1], 0, 4096),
    ),
    "topics out of order": lambda at: _stream(at)[4].reverse(),
    "a topic name twice": lambda at: set_at(_topic(at), 1, "renamed"),
    "an expiry above 64 bits": lambda at: set_at(_topic(at), 3, 1 << 64),
    "an expiry that is a flag": lambda at: set_at(_topic(at), 3, True),
    "an unknown compression": lambda at: set_at(_topic(at), 4, "zstd"),
    "consumer groups": lambda at: set_at(_topic(at), 8, [[0, [0, 0, "g", []]]]),
    "a partition id twice": lambda at: set_at(_topic(at)[7][1], 0, 0),
    "a partition id at the ceiling": lambda at: set_at(_topic(at)[7][1], 0, 1_000_000),
    "a group above the high water": lambda at: set_at(_topic(at)[7][1], 1, 35),
    "a partition of five fields": lambda at: _topic(at)[7][1].pop(),
    "a partition field that is none": lambda at: set_at(_topic(at)[7][1], 4, None),
    "a revision that is a text": lambda at: set_at(at.streams, 1, "7"),
    "options out of order": lambda at: at.streams[2][1].reverse(),
    "an option value that is a text": lambda at: set_at(at.streams[2][1][0], 2, "value"),
    "an option value of no bytes": lambda at: set_at(at.streams[2][1][0], 2, b""),
    "an option that is neither explicit nor derived": lambda at: set_at(at.streams[2][1][0], 3, 1),
    "no users": lambda at: at.users.clear(),
    "no streams": lambda at: at.streams.clear(),
}


class TestRefusal:
    @pytest.mark.parametrize("name", DAMAGE)
    def test_a_section_that_no_machine_wrote_is_refused(self, name: str) -> None:
        """S-098 for what is behind the seal: typed, naming the place, nothing shortened or corrected."""
        users, streams = sections(catalogue().machine)
        MetadataMachine.restore(
            users=copy.deepcopy(users), streams=copy.deepcopy(streams), consensus_group_high=34, next_user_id=5
        )
        DAMAGE[name](Sections(users, streams))
        with pytest.raises(SnapshotInvalid) as caught:
            MetadataMachine.restore(users=users, streams=streams, consensus_group_high=34, next_user_id=5)
        assert caught.value.where
        assert HASH not in str(caught.value)

    @pytest.mark.parametrize("section", [None, 7, "text", b"bytes", {}])
    def test_an_absent_section_is_refused(self, section: object) -> None:
        """Persistence 4.1: both must be there."""
        users, streams = sections(catalogue().machine)
        with pytest.raises(SnapshotInvalid, match="users"):
            MetadataMachine.restore(users=section, streams=streams, consensus_group_high=34, next_user_id=5)
        with pytest.raises(SnapshotInvalid, match="streams"):
            MetadataMachine.restore(users=users, streams=section, consensus_group_high=34, next_user_id=5)

    @pytest.mark.parametrize(("high", "next_user_id"), [(-1, 5), (1 << 64, 5), (34, -1), (34, (1 << 32) + 1)])
    def test_a_number_beside_them_out_of_range_is_refused(self, high: int, next_user_id: int) -> None:
        users, streams = sections(catalogue().machine)
        with pytest.raises(SnapshotInvalid):
            MetadataMachine.restore(users=users, streams=streams, consensus_group_high=high, next_user_id=next_user_id)
