"""Streams and topics: what each operation leaves behind (state-machine 6, 9)."""

import pytest

from levrier.actors.metadata.streams import STREAMS_MAX, TOPICS_MAX
from levrier.wire.options import KIND_STRING, KIND_UINT64, OptionEntry, decode_block, encode_block
from levrier.wire.replies import result_payload
from levrier.wire.responses.streams import StreamDetails
from levrier.wire.responses.topics import TopicDetails
from levrier.wire.topic_options import UNLIMITED, admit_create
from tests.actors.metadata.support import Log, named, partitions_of, restored, sections, uint64

TEN_GB = 10_000_000_000


def stored_options(log: Log, stream: int = 0, topic: int = 0) -> dict[str, tuple[int, bytes, bool]]:
    """Key to (kind, value, explicit) of a topic, as the snapshot holds them."""
    _, streams = sections(log.machine)
    [fields] = [fields for key, fields in streams[0] if key == stream]
    [topic_fields] = [fields for key, fields in fields[4] if key == topic]
    return {key: (kind, value, explicit) for key, kind, value, explicit in streams[2][topic_fields[10]]}


def a_stream() -> Log:
    log = Log()
    log.create_stream("s")
    return log


class TestCreateStream:
    def test_the_reply_shows_the_stream_as_it_was_made(self) -> None:
        log = Log()
        reply = StreamDetails.decode(result_payload(log.create_stream("s").body))
        assert (reply.stream.id, reply.stream.name, reply.stream.created_at) == (0, "s", 1_000_001)
        assert (reply.stream.topics_count, reply.stream.options, reply.topics) == (0, b"", ())

    def test_s_062_the_same_name_twice(self) -> None:
        """S-062."""
        log = Log()
        assert [log.create_stream("s").code, log.create_stream("s").code] == [0, 1012]
        assert log.machine.streams.count == 1

    def test_names_are_compared_byte_by_byte(self) -> None:
        log = Log()
        assert [log.create_stream(name).code for name in ("s", "S", " s")] == [0, 0, 0]

    def test_s_047_an_unknown_option_survives_the_snapshot_as_explicit(self) -> None:
        """S-047: and the reply gives the options exactly as they were sent, in their order."""
        sent = encode_block([OptionEntry("b", KIND_STRING, b"1")]) + encode_block([OptionEntry("a", 200, b"2")])
        log = Log()
        reply = StreamDetails.decode(result_payload(log.create_stream("s", sent).body))
        assert reply.stream.options == sent
        _, streams = sections(restored(log.machine))
        # The entry of an unknown kind is dropped from the map (state-machine 9.5).
        assert streams[2][streams[0][0][1][5]] == [["b", KIND_STRING, b"1", True]]
        kept = log.stream("s")
        assert kept is not None
        assert kept.stream.options == encode_block([OptionEntry("b", KIND_STRING, b"1")])

    @pytest.mark.parametrize("deleted", [(1, 0), (0, 1)])
    def test_s_069_the_next_id_survives_a_restore(self, deleted: tuple[int, int]) -> None:
        """S-069 and S-075."""
        log = Log()
        for name in "abc":
            log.create_stream(name)
        for stream in deleted:
            log.delete_stream(stream)
        copy = Log(restored(log.machine))
        for each in (log, copy):
            reply = StreamDetails.decode(result_payload(each.create_stream("d").body))
            assert reply.stream.id == 0


class TestUpdateStream:
    def test_a_rename_moves_the_name_and_keeps_the_rest(self) -> None:
        log = a_stream()
        log.create_topic("s", "t", [0])
        before = log.stream("s")
        assert log.update_stream("s", "renamed").code == 0
        after = log.stream("renamed")
        assert before is not None
        assert after is not None
        assert log.stream("s") is None
        assert (after.stream.id, after.stream.created_at) == (before.stream.id, before.stream.created_at)
        assert after.topics == before.topics
        assert log.create_stream("s").code == 0

    def test_its_own_name_is_free_to_it(self) -> None:
        log = a_stream()
        assert log.update_stream("s", "s").code == 0
        assert log.stream("s") is not None

    def test_options_are_patched_key_by_key(self) -> None:
        log = Log()
        log.create_stream("s", encode_block([uint64("a", 1), uint64("b", 2)]))
        log.update_stream("s", "s", encode_block([uint64("b", 3), uint64("c", 4)]))
        stream = log.stream("s")
        assert stream is not None
        assert stream.stream.options == encode_block([uint64("a", 1), uint64("b", 3), uint64("c", 4)])


class TestDeleteStream:
    def test_everything_under_it_goes_and_the_id_is_free(self) -> None:
        log = a_stream()
        log.create_topic("s", "t", [0, 1])
        revision = log.machine.streams.revision
        assert log.delete_stream("s").code == 0
        assert log.machine.streams.revision == revision + 1
        assert log.stream(0) is None
        log.create_stream("newcomer")
        newcomer = log.stream(0)
        assert newcomer is not None
        assert newcomer.topics == ()


class TestPurge:
    def test_s_055_a_stream_without_topics(self) -> None:
        """S-055: and without a partition the revision stays."""
        log = a_stream()
        log.create_topic("s", "empty")
        revision = log.machine.streams.revision
        assert log.purge_stream("s").code == 0
        assert log.purge_topic("s", "empty").code == 0
        assert log.stream("s") is not None
        assert log.machine.streams.revision == revision

    def test_s_056_a_purge_clears_the_watermark_and_moves_the_generation(self) -> None:
        """S-056."""
        log = a_stream()
        log.create_topic("s", "t", [0])
        log.truncate("s", "t", 0, 500)
        assert partitions_of(log.machine, "s", "t") == [(0, 1, 1, 500, 0)]
        log.purge_topic("s", "t")
        assert partitions_of(log.machine, "s", "t") == [(0, 1, 1, 0, 1)]
        log.truncate("s", "t", 0, 500)
        log.purge_stream("s")
        assert partitions_of(log.machine, "s", "t") == [(0, 1, 1, 0, 2)]
        assert log.machine.streams.revision == 5

    def test_a_purge_of_the_stream_reaches_every_topic_and_bumps_once(self) -> None:
        log = a_stream()
        log.create_topic("s", "a", [0, 1])
        log.create_topic("s", "b", [0])
        revision = log.machine.streams.revision
        log.purge_stream("s")
        assert [p[4] for topic in "ab" for p in partitions_of(log.machine, "s", topic)] == [1, 1, 1]
        assert log.machine.streams.revision == revision + 1

    def test_s_061_a_missing_topic(self) -> None:
        """S-061."""
        assert a_stream().purge_topic("s", "absent").code == 2010


class TestCreateTopic:
    def test_s_045_explicit_and_derived_options(self) -> None:
        """S-045."""
        log = a_stream()
        log.create_topic(
            "s",
            "t",
            [0],
            options=encode_block([uint64("message_expiry", 60_000_000)]),
            derived=encode_block(
                [uint64("max_topic_size", TEN_GB), OptionEntry("compression_algorithm", KIND_STRING, b"gzip")]
            ),
        )
        details = log.topic("s", "t")
        assert details is not None
        topic = details.topic
        assert (topic.message_expiry, topic.compression_algorithm, topic.max_topic_size) == (60_000_000, 2, TEN_GB)
        assert stored_options(log) == {
            "compression_algorithm": (KIND_STRING, b"gzip", False),
            "max_topic_size": (KIND_UINT64, TEN_GB.to_bytes(8, "little"), False),
            "message_expiry": (KIND_UINT64, (60_000_000).to_bytes(8, "little"), True),
        }
        assert [entry.key for entry in decode_block(topic.explicit_options)] == ["message_expiry"]
        assert [entry.key for entry in decode_block(topic.derived_options)] == [
            "compression_algorithm",
            "max_topic_size",
        ]

    def test_s_046_a_sentinel_zero_is_resolved_from_the_derived_block(self) -> None:
        """S-046."""
        log = a_stream()
        log.create_topic(
            "s",
            "t",
            options=encode_block([uint64("max_topic_size", 0)]),
            derived=encode_block([uint64("max_topic_size", TEN_GB)]),
        )
        details = log.topic("s", "t")
        assert details is not None
        assert details.topic.max_topic_size == TEN_GB
        assert stored_options(log)["max_topic_size"] == (KIND_UINT64, TEN_GB.to_bytes(8, "little"), True)

    def test_what_no_block_names_is_the_servers_default(self) -> None:
        log = a_stream()
        log.create_topic("s", "t", options=b"", derived=b"")
        details = log.topic("s", "t")
        assert details is not None
        topic = details.topic
        assert (topic.message_expiry, topic.compression_algorithm, topic.max_topic_size) == (0, 1, 0)

    def test_s_051_the_reply_is_the_topic_and_its_partitions(self) -> None:
        """S-051 and S-049: no segments yet, unlike every later read."""
        log = a_stream()
        reply = TopicDetails.decode(result_payload(log.create_topic("s", "t", [0, 1]).body))
        assert (reply.topic.id, reply.topic.name, reply.topic.partitions_count) == (0, "t", 2)
        assert (reply.topic.message_expiry, reply.topic.max_topic_size) == (UNLIMITED, UNLIMITED)
        assert [(p.id, p.created_at, p.segments_count) for p in reply.partitions] == [
            (0, 1_000_002, 0),
            (1, 1_000_002, 0),
        ]
        read = log.topic("s", "t")
        assert read is not None
        assert [p.segments_count for p in read.partitions] == [1, 1]

    def test_ids_in_the_list_are_absolute_and_the_count_is_not_compared(self) -> None:
        log = a_stream()
        log.create_topic("s", "t", groups=((7, 4), (3, 5)))
        assert partitions_of(log.machine, "s", "t") == [(7, 4, 1, 0, 0), (3, 5, 1, 0, 0)]
        assert log.create_partitions("s", "t", [0], groups=((0, 9),)).code == 0
        assert [p[0] for p in partitions_of(log.machine, "s", "t")] == [7, 3, 8]
        assert log.truncate("s", "t", 3, 11).code == 0
        assert [p[3] for p in partitions_of(log.machine, "s", "t")] == [0, 11, 0]

    def test_the_revision_moves_even_without_partitions(self) -> None:
        log = a_stream()
        log.create_topic("s", "t")
        assert log.machine.streams.revision == 1

    def test_s_066_the_topic_ceiling(self) -> None:
        """S-066 and S-071."""
        log = a_stream()
        admitted = admit_create(b"", partitions_count=0)
        for index in range(TOPICS_MAX):
            created = log.create_topic("s", f"t{index}", options=admitted.explicit, derived=admitted.derived)
            assert created.code == 0
        assert log.create_topic("s", "one more").code == 2021
        stream = log.stream("s")
        assert stream is not None
        assert stream.stream.topics_count == TOPICS_MAX == 4096
        assert log.topic("s", "one more") is None
        log.delete_topic("s", 17)
        assert log.create_topic("s", "one more").code == 0
        assert log.topic("s", 17) is not None

    def test_s_068_a_partition_id_at_the_ceiling(self) -> None:
        """S-068 and S-071."""
        log = a_stream()
        assert log.create_topic("s", "t", [1_000_000]).code == 3013
        assert log.topic("s", "t") is None
        assert log.create_topic("s", "t", [999_999]).code == 0

    def test_s_072_a_repeated_partition_id(self) -> None:
        """S-072."""
        log = a_stream()
        assert log.create_topic("s", "t", [7, 7]).code == 2019
        assert log.topic("s", "t") is None

    @pytest.mark.parametrize(("ids", "code"), [([7, 7, 1_000_000], 2019), ([7, 1_000_000, 7], 3013)])
    def test_the_first_bad_partition_id_names_the_code(self, ids: list[int], code: int) -> None:
        assert a_stream().create_topic("s", "t", ids).code == code

    def test_s_070_the_next_topic_id_survives_a_restore(self) -> None:
        """S-070."""
        log = a_stream()
        for name in "abc":
            log.create_topic("s", name)
        log.delete_topic("s", 1)
        log.delete_topic("s", 0)
        for each in (log, Log(restored(log.machine))):
            reply = TopicDetails.decode(result_payload(each.create_topic("s", "d").body))
            assert reply.topic.id == 0

    def test_a_name_is_unique_in_its_stream_alone(self) -> None:
        log = a_stream()
        log.create_stream("other")
        assert [log.create_topic(stream, "t").code for stream in ("s", "other", "s")] == [0, 0, 2013]


class TestUpdateTopic:
    def test_only_the_keys_that_were_sent_change(self) -> None:
        log = a_stream()
        log.create_topic("s", "t", [0])
        before = stored_options(log)
        assert log.update_topic("s", "t", "renamed", encode_block([uint64("message_expiry", 5)])).code == 0
        details = log.topic("s", "renamed")
        assert details is not None
        topic = details.topic
        assert (topic.message_expiry, topic.compression_algorithm, topic.max_topic_size) == (5, 1, UNLIMITED)
        assert stored_options(log) == before | {"message_expiry": (KIND_UINT64, (5).to_bytes(8, "little"), True)}
        assert log.topic("s", "t") is None
        assert [p.id for p in details.partitions] == [0]
        assert log.machine.streams.revision == 1

    def test_values_are_stored_as_they_were_sent(self) -> None:
        log = a_stream()
        log.create_topic("s", "t")
        sent = [OptionEntry("message_expiry", KIND_STRING, b"7 days"), OptionEntry("compression_algorithm", 9, b"\x02")]
        log.update_topic("s", "t", "t", encode_block(sent))
        details = log.topic("s", "t")
        assert details is not None
        assert (details.topic.message_expiry, details.topic.compression_algorithm) == (7 * 86_400_000_000, 2)
        assert stored_options(log)["message_expiry"] == (KIND_STRING, b"7 days", True)
        assert stored_options(log)["compression_algorithm"] == (9, b"\x02", True)

    def test_a_sentinel_zero_is_stored_and_leaves_the_value(self) -> None:
        """Quirk 6 of state-machine 17, kept: an update is not rewritten."""
        log = a_stream()
        log.create_topic("s", "t", options=encode_block([uint64("max_topic_size", TEN_GB)]), derived=b"")
        log.update_topic("s", "t", "t", encode_block([uint64("max_topic_size", 0)]))
        details = log.topic("s", "t")
        assert details is not None
        assert details.topic.max_topic_size == TEN_GB
        assert stored_options(log)["max_topic_size"] == (KIND_UINT64, bytes(8), True)


class TestDeleteTopic:
    def test_the_id_is_free_again_and_the_revision_moves(self) -> None:
        log = a_stream()
        log.create_topic("s", "a", [0])
        log.create_topic("s", "b", [0])
        assert log.delete_topic("s", "a").code == 0
        assert log.machine.streams.revision == 3
        assert log.topic("s", "a") is None
        log.create_topic("s", "c")
        reused = log.topic("s", 0)
        assert reused is not None
        assert reused.topic.name == "c"


class TestPartitions:
    def test_s_050_group_ids_are_stored_in_order(self) -> None:
        """S-050 and S-052."""
        log = a_stream()
        log.create_topic("s", "t", groups=((0, 10), (1, 11)))
        created = log.create_partitions("s", "t", [], groups=((0, 12), (1, 13)))
        assert (created.code, created.body) == (0, bytes(4))
        assert partitions_of(log.machine, "s", "t") == [
            (0, 10, 1, 0, 0),
            (1, 11, 1, 0, 0),
            (2, 12, 2, 0, 0),
            (3, 13, 2, 0, 0),
        ]

    def test_s_053_a_missing_topic(self) -> None:
        """S-053."""
        assert a_stream().create_partitions("s", "absent", [0]).code == 2010

    @pytest.mark.parametrize(
        ("partitions", "count", "code", "left"),
        [(3, 4, 2019, 3), (0, 1, 2019, 0), (3, 0, 0, 3), (3, 3, 0, 0), (3, 2, 0, 1)],
    )
    def test_s_054_deleting_takes_the_last_ones(self, partitions: int, count: int, code: int, left: int) -> None:
        """S-054: nothing moves for a rejection, nor for a count of 0."""
        log = a_stream()
        log.create_topic("s", "t", list(range(partitions)))
        deleted = log.delete_partitions("s", "t", count)
        assert deleted.code == code
        assert len(deleted.body) == (12 if code else 4)
        assert [p[0] for p in partitions_of(log.machine, "s", "t")] == list(range(left))
        assert log.machine.streams.revision == (1 if left == partitions else 2)

    def test_s_067_the_partition_id_ceiling(self) -> None:
        """S-067."""
        log = a_stream()
        log.create_topic("s", "t", [999_998])
        assert log.create_partitions("s", "t", [0]).code == 0
        assert log.create_partitions("s", "t", [0]).code == 3013
        assert [p[0] for p in partitions_of(log.machine, "s", "t")] == [999_998, 999_999]

    def test_s_073_a_repeated_offset(self) -> None:
        """S-073."""
        log = a_stream()
        log.create_topic("s", "t", [0])
        assert log.create_partitions("s", "t", [0, 0]).code == 2019
        assert [p[0] for p in partitions_of(log.machine, "s", "t")] == [0]

    def test_an_offset_that_leaves_32_bits(self) -> None:
        log = a_stream()
        log.create_topic("s", "t", [0])
        assert log.create_partitions("s", "t", [2**32 - 1]).code == 2019
        assert log.create_partitions("s", "t", [2**32 - 2]).code == 3013

    def test_s_074_offsets_count_from_the_highest_id(self) -> None:
        """S-074."""
        log = a_stream()
        log.create_topic("s", "t", [0])
        assert log.create_partitions("s", "t", [0, 1]).code == 0
        assert [p[0] for p in partitions_of(log.machine, "s", "t")] == [0, 1, 2]

    def test_s_173_a_returning_id_has_another_revision(self) -> None:
        """S-173."""
        log = a_stream()
        log.create_topic("s", "t", [0, 1])
        first = partitions_of(log.machine, "s", "t")[1]
        log.delete_partitions("s", "t", 1)
        log.create_partitions("s", "t", [0])
        again = partitions_of(log.machine, "s", "t")[1]
        assert first[0] == again[0]
        assert first[2] < again[2]

    def test_truncating_moves_the_watermark_up_only_and_the_revision_always(self) -> None:
        log = a_stream()
        log.create_topic("s", "t", [0])
        for offset, watermark, revision in ((9, 9, 2), (4, 9, 3), (0, 9, 4)):
            assert log.truncate("s", "t", 0, offset).code == 0
            assert partitions_of(log.machine, "s", "t")[0][3] == watermark
            assert log.machine.streams.revision == revision


class TestGroupHighWater:
    def test_creates_raise_it_and_deletes_do_not_lower_it(self) -> None:
        """D-07."""
        log = a_stream()
        log.create_topic("s", "t", groups=((0, 5), (1, 6)))
        log.delete_stream("s")
        assert log.machine.streams.consensus_group_high == 6
        assert restored(log.machine).streams.consensus_group_high == 6

    def test_a_rejected_and_a_denied_create_raise_it_too(self) -> None:
        """D-07: the primary burned these ids."""
        log = a_stream()
        assert log.create_topic("absent", "t", groups=((0, 3),)).code == 1009
        assert log.machine.streams.consensus_group_high == 3
        assert log.create_partitions("s", "t", [0], groups=((0, 8),), user=9).code == 41
        assert log.machine.streams.consensus_group_high == 8


class TestSegmentSize:
    def test_the_stored_one_the_default_and_none(self) -> None:
        log = a_stream()
        log.create_topic("s", "sized", options=encode_block([uint64("segment_size", 1 << 21)]), derived=b"")
        log.create_topic("s", "unsized", options=b"", derived=b"")
        streams = log.machine.streams
        assert streams.segment_size(named("s"), named("sized")) == 1 << 21
        assert streams.segment_size(named("s"), named("unsized")) == 1 << 30
        assert streams.segment_size(named("s"), named("absent")) is None


def test_s_071_the_ceilings_are_those_of_the_specification() -> None:
    """S-071."""
    assert (STREAMS_MAX, TOPICS_MAX) == (1_048_576, 4096)
