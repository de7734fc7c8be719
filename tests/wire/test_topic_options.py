"""The ten topic options: strict admission, lenient apply, description."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levrier.wire.errors import (
    InvalidOptionValue,
    InvalidTopicSize,
    TooManyPartitions,
    UnsupportedOption,
    WireError,
)
from levrier.wire.options import OptionEntry, decode_block, encode_block
from levrier.wire.quantities import parse_byte_size, parse_duration_nanoseconds
from levrier.wire.topic_options import (
    DEFAULTS,
    UNLIMITED,
    StoredOption,
    TopicOptions,
    admit_create,
    admit_update,
    check_partitions_count,
    describe_topic_options,
    encode_stored,
    merge_block,
    merge_create,
    merge_update,
    parse_strictly,
)
from tests.wire.strategies import QUIET

KEYS = [
    "compression_algorithm",
    "message_expiry",
    "max_topic_size",
    "segment_size",
    "enforce_fsync",
    "messages_required_to_save",
    "size_of_messages_required_to_save",
    "preallocate_segments",
    "consumer_offset_durability",
    "durability",
]
GIB = 1 << 30
MIB = 1 << 20


def text(value: str) -> tuple[int, bytes]:
    return 2, value.encode()


def u64(value: int) -> tuple[int, bytes]:
    return 12, value.to_bytes(8, "little")


def u32(value: int) -> tuple[int, bytes]:
    return 11, value.to_bytes(4, "little")


def block(**options: tuple[int, bytes]) -> bytes:
    return encode_block(OptionEntry(key, kind, value) for key, (kind, value) in options.items())


@pytest.mark.parametrize(
    ("key", "value", "parsed"),
    [
        ("compression_algorithm", text("none"), 1),
        ("compression_algorithm", text("GZip"), 2),
        ("compression_algorithm", (9, b"\x02"), 2),
        ("message_expiry", u64(5), 5),
        ("message_expiry", u64(UNLIMITED), UNLIMITED),
        ("message_expiry", u64(0), None),
        ("message_expiry", text("15days 2min 2s"), 1_296_122_000_000),
        ("message_expiry", text("1ms"), 1000),
        ("message_expiry", text("never_expire"), UNLIMITED),
        ("message_expiry", text("unlimited"), UNLIMITED),
        ("message_expiry", text("server_default"), None),
        ("message_expiry", text("4294967295s"), 4_294_967_295_000_000),
        ("max_topic_size", u64(GIB), GIB),
        ("max_topic_size", u64(0), None),
        ("max_topic_size", text("10 GB"), 10_000_000_000),
        ("max_topic_size", text("unlimited"), UNLIMITED),
        ("max_topic_size", text("server_default"), None),
        ("max_topic_size", text("0"), None),
        ("segment_size", u64(MIB), MIB),
        ("segment_size", u64(GIB), GIB),
        ("segment_size", u64(0), None),
        ("segment_size", text("128 MiB"), 128 * MIB),
        ("enforce_fsync", (3, b"\x01"), True),
        ("enforce_fsync", text("false"), False),
        ("messages_required_to_save", u32(1), 1),
        ("messages_required_to_save", text("16777216"), 16_777_216),
        ("size_of_messages_required_to_save", u64(GIB), GIB),
        ("size_of_messages_required_to_save", text("1 MiB"), MIB),
        ("size_of_messages_required_to_save", u64(0), None),
        ("preallocate_segments", text("true"), True),
        ("consumer_offset_durability", text("replicated"), "replicated"),
        ("durability", text("persisted"), "persisted"),
    ],
)
def test_a_value_is_read_in_each_of_its_kinds(key: str, value: tuple[int, bytes], parsed: object) -> None:
    assert getattr(parse_strictly(block(**{key: value})), key) == parsed


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("compression_algorithm", text("lz4")),
        ("compression_algorithm", (9, b"\x03")),
        ("compression_algorithm", u64(1)),
        ("message_expiry", text("15se")),
        ("message_expiry", text("4294967296s")),
        ("message_expiry", u32(5)),
        ("message_expiry", (12, b"\x01")),
        ("message_expiry", (2, b"\xff")),
        ("max_topic_size", text("huge")),
        ("segment_size", u64(MIB - 512)),
        ("segment_size", u64(GIB + 512)),
        ("segment_size", u64(MIB + 1)),
        ("enforce_fsync", (3, b"\x02")),
        ("enforce_fsync", (3, b"\x01\x01")),
        ("enforce_fsync", text("True")),
        ("messages_required_to_save", u32(0)),
        ("messages_required_to_save", u32(16_777_217)),
        ("messages_required_to_save", text("-1")),
        ("messages_required_to_save", u64(1)),
        ("messages_required_to_save", text("1.5")),
        ("size_of_messages_required_to_save", u64(GIB + 1)),
        ("preallocate_segments", u32(1)),
        ("durability", text("none")),
        ("durability", (3, b"\x01")),
    ],
)
def test_a_bad_value_is_4042_and_names_the_key(key: str, value: tuple[int, bytes]) -> None:
    with pytest.raises(InvalidOptionValue) as caught:
        admit_create(block(**{key: value}), partitions_count=1)

    assert (caught.value.code, caught.value.where) == (4042, key)


@pytest.mark.parametrize("key", ["partitions_count", "replication_factor", "Durability", "k"])
def test_a_key_outside_the_catalogue_is_4041(key: str) -> None:
    with pytest.raises(UnsupportedOption) as caught:
        admit_create(block(**{key: text("1")}), partitions_count=1)

    assert (caught.value.code, caught.value.where) == (4041, key)


def test_a_malformed_block_is_neither() -> None:
    with pytest.raises(WireError) as caught:
        admit_create(b"\x02", partitions_count=1)

    assert caught.value.code == 3


def test_the_explicit_block_is_canonical_and_without_sentinels() -> None:
    admitted = admit_create(
        block(
            max_topic_size=u64(0),
            message_expiry=text("1s"),
            compression_algorithm=(9, b"\x02"),
            enforce_fsync=text("true"),
        ),
        partitions_count=1,
    )

    assert admitted.explicit == block(
        compression_algorithm=text("gzip"), message_expiry=u64(1_000_000), enforce_fsync=(3, b"\x01")
    )


def test_the_derived_block_has_the_default_of_every_other_key() -> None:
    admitted = admit_create(block(durability=text("persisted")), partitions_count=1)

    assert admitted.derived == block(
        compression_algorithm=text("none"),
        message_expiry=u64(UNLIMITED),
        max_topic_size=u64(UNLIMITED),
        segment_size=u64(GIB),
        enforce_fsync=(3, b"\x00"),
        messages_required_to_save=u32(1024),
        size_of_messages_required_to_save=u64(MIB),
        preallocate_segments=(3, b"\x00"),
        consumer_offset_durability=text("replicated"),
    )


@pytest.mark.parametrize("keys", [[], KEYS[:3], KEYS])
def test_explicit_and_derived_cover_the_catalogue_once(keys: list[str]) -> None:
    defaults = {
        entry.key: (entry.kind, entry.value) for entry in decode_block(admit_create(b"", partitions_count=1).derived)
    }

    admitted = admit_create(block(**{key: defaults[key] for key in keys}), partitions_count=1)

    named = [entry.key for entry in decode_block(admitted.explicit)]
    derived = [entry.key for entry in decode_block(admitted.derived)]
    assert sorted(named) == sorted(keys)
    assert sorted(named + derived) == sorted(KEYS)


@pytest.mark.parametrize(("partitions", "accepted"), [(64, True), (65, False)])
def test_preallocation_is_bounded_by_64_gib(partitions: int, accepted: bool) -> None:
    sent = block(preallocate_segments=text("true"))

    if accepted:
        assert admit_create(sent, partitions_count=partitions).named.preallocate_segments is True
    else:
        with pytest.raises(InvalidOptionValue) as caught:
            admit_create(sent, partitions_count=partitions)
        assert caught.value.where == "preallocate_segments"


def test_the_bound_counts_the_segment_size_that_was_named() -> None:
    sent = block(preallocate_segments=text("true"), segment_size=u64(MIB))

    assert admit_create(sent, partitions_count=1000).named.segment_size == MIB


def test_without_preallocation_the_product_does_not_matter() -> None:
    assert admit_create(block(preallocate_segments=text("false")), partitions_count=1000).named.segment_size is None


@pytest.mark.parametrize("count", [0, 1000])
def test_a_topic_has_0_to_1000_partitions_at_creation(count: int) -> None:
    assert admit_create(b"", partitions_count=count).explicit == b""


def test_more_partitions_than_1000_are_2015() -> None:
    with pytest.raises(TooManyPartitions):
        admit_create(b"", partitions_count=1001)


@pytest.mark.parametrize(("count", "accepted"), [(0, False), (1, True), (1000, True), (1001, False)])
def test_partitions_are_added_and_deleted_1_to_1000_at_a_time(count: int, accepted: bool) -> None:
    if accepted:
        check_partitions_count(count, minimum=1)
    else:
        with pytest.raises(TooManyPartitions):
            check_partitions_count(count, minimum=1)


@pytest.mark.parametrize(
    ("sent", "accepted"),
    [
        (block(max_topic_size=u64(GIB)), True),
        (block(max_topic_size=u64(GIB - 1)), False),
        (block(max_topic_size=u64(0)), True),
        (block(max_topic_size=u64(UNLIMITED)), True),
        (block(max_topic_size=u64(MIB), segment_size=u64(MIB)), True),
        (block(max_topic_size=u64(MIB), segment_size=u64(2 * MIB)), False),
    ],
)
def test_a_cap_below_one_segment_is_1019(sent: bytes, accepted: bool) -> None:
    if accepted:
        admit_create(sent, partitions_count=1)
    else:
        with pytest.raises(InvalidTopicSize):
            admit_create(sent, partitions_count=1)


@pytest.mark.parametrize("key", KEYS[:3])
def test_three_keys_can_be_changed(key: str) -> None:
    values = {"compression_algorithm": text("gzip"), "message_expiry": u64(7), "max_topic_size": u64(GIB)}

    assert getattr(admit_update(block(**{key: values[key]}), segment_size=None), key) is not None


@pytest.mark.parametrize("key", KEYS[3:])
def test_the_other_keys_cannot_be_changed(key: str) -> None:
    with pytest.raises(UnsupportedOption):
        admit_update(block(**{key: text("true")}), segment_size=None)


@pytest.mark.parametrize(
    ("cap", "segment_size", "accepted"), [(MIB, MIB, True), (MIB, 2 * MIB, False), (MIB, None, False), (0, GIB, True)]
)
def test_a_changed_cap_is_held_against_the_stored_segment_size(
    cap: int, segment_size: int | None, accepted: bool
) -> None:
    sent = block(max_topic_size=u64(cap))

    if accepted:
        admit_update(sent, segment_size=segment_size)
    else:
        with pytest.raises(InvalidTopicSize):
            admit_update(sent, segment_size=segment_size)


def test_a_created_topic_takes_the_explicit_value_over_the_derived_one() -> None:
    """S-045, the codec's part."""
    typed, stored = merge_create(
        block(message_expiry=u64(5)), block(max_topic_size=u64(10**10), compression_algorithm=text("gzip"))
    )

    assert typed == TopicOptions(message_expiry=5, max_topic_size=10**10, compression_algorithm=2)
    assert [(option.key, option.kind, option.explicit) for option in stored] == [
        ("compression_algorithm", 2, False),
        ("max_topic_size", 12, False),
        ("message_expiry", 12, True),
    ]


def test_a_sentinel_in_the_explicit_block_takes_the_derived_value() -> None:
    """S-046, the codec's part."""
    typed, stored = merge_create(block(max_topic_size=u64(0)), block(max_topic_size=u64(10**10)))

    assert typed.max_topic_size == 10**10
    assert stored == (StoredOption(key="max_topic_size", kind=12, value=(10**10).to_bytes(8, "little"), explicit=True),)


def test_an_unknown_key_in_the_log_is_kept_and_not_read() -> None:
    """S-047, the codec's part: state machine specification 9.5."""
    typed, stored = merge_create(block(zzz=text("v")), b"")

    assert typed == TopicOptions()
    assert stored == (StoredOption(key="zzz", kind=2, value=b"v", explicit=True),)


def test_a_value_in_the_log_that_this_catalogue_cannot_read_is_kept_and_not_read() -> None:
    typed, stored = merge_create(block(message_expiry=text("soon")), b"")

    assert typed.message_expiry is None
    assert stored == (StoredOption(key="message_expiry", kind=2, value=b"soon", explicit=True),)


@pytest.mark.parametrize("explicit", [True, False])
def test_a_value_in_the_log_that_does_not_fit_its_kind_fails_the_block(explicit: bool) -> None:
    broken = block(message_expiry=(12, b"\x01"))

    with pytest.raises(InvalidOptionValue):
        merge_create(broken if explicit else b"", b"" if explicit else broken)


def test_what_was_admitted_merges_into_the_whole_catalogue() -> None:
    admitted = admit_create(block(durability=text("persisted"), message_expiry=text("1s")), partitions_count=1)

    typed, stored = merge_create(admitted.explicit, admitted.derived)

    assert typed.values() == DEFAULTS.values() | {"durability": "persisted", "message_expiry": 1_000_000}
    assert {option.key for option in stored if option.explicit} == {"durability", "message_expiry"}
    assert encode_stored(stored, explicit=True) == admitted.explicit
    assert encode_stored(stored, explicit=False) == admitted.derived


def test_an_update_patches_what_is_stored_with_the_bytes_as_sent() -> None:
    _, stored = merge_create(block(message_expiry=u64(5)), block(max_topic_size=u64(10**10)))

    typed, patched = merge_update(stored, block(max_topic_size=u64(0), compression_algorithm=text("GZIP")))

    assert typed == TopicOptions(compression_algorithm=2)
    assert patched == (
        StoredOption(key="compression_algorithm", kind=2, value=b"GZIP", explicit=True),
        StoredOption(key="max_topic_size", kind=12, value=bytes(8), explicit=True),
        StoredOption(key="message_expiry", kind=12, value=(5).to_bytes(8, "little"), explicit=True),
    )


def test_an_empty_update_changes_nothing() -> None:
    _, stored = merge_create(block(message_expiry=u64(5)), b"")

    assert merge_block(stored, b"") == stored


def test_the_catalogue_is_described_in_its_order() -> None:
    described = describe_topic_options()

    assert [option.key for option in described] == KEYS
    assert [option.kind for option in described] == [2, 12, 12, 12, 3, 11, 12, 3, 2, 2]
    assert [option.default for option in described] == [
        b"none",
        b"\xff" * 8,
        b"\xff" * 8,
        (1 << 30).to_bytes(8, "little"),
        b"\0",
        b"\0\x04\0\0",
        (1 << 20).to_bytes(8, "little"),
        b"\0",
        b"replicated",
        b"replicated",
    ]
    assert all(option.description for option in described)


@pytest.mark.parametrize(
    ("written", "nanoseconds"),
    [
        ("0", 0),
        ("1ns", 1),
        ("1us", 10**3),
        ("1µs", 10**3),
        ("5 millis", 5 * 10**6),
        ("2h 30m", 9000 * 10**9),
        ("2h30m", 9000 * 10**9),
        (" 1 day ", 86400 * 10**9),
        ("1w", 604800 * 10**9),
        ("1M", 2_630_016 * 10**9),
        ("1month", 2_630_016 * 10**9),
        ("1year", 31_557_600 * 10**9),
    ],
)
def test_a_duration_as_people_write_it(written: str, nanoseconds: int) -> None:
    assert parse_duration_nanoseconds(written) == nanoseconds


@pytest.mark.parametrize("written", ["", " ", "5", "s", "-1s", "1.5s", "1 fortnight", "1s x", "1S", "9" * 300 + "s"])
def test_what_is_no_duration(written: str) -> None:
    with pytest.raises(WireError):
        parse_duration_nanoseconds(written)


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("4096", 4096),
        ("1B", 1),
        ("1 kB", 1000),
        ("1 KiB", 1024),
        ("1.5 GB", 1_500_000_000),
        ("1.5gib", 1_610_612_736),
        ("2M", 2_000_000),
        ("2Mi", 2 * MIB),
        ("16EB", 16 * 10**18),
        ("0.1 KiB", 102),
    ],
)
def test_a_byte_size_as_people_write_it(written: str, size: int) -> None:
    assert parse_byte_size(written) == size


@pytest.mark.parametrize("written", ["", "MB", "-1", "1.", ".5", "1 XB", "1iB", "16EiB", "1 M B", "1e9", "1" * 300])
def test_what_is_no_byte_size(written: str) -> None:
    with pytest.raises(WireError):
        parse_byte_size(written)


@QUIET
@given(st.text(max_size=20))
def test_any_text_is_a_quantity_or_a_wire_error(written: str) -> None:
    for parse in (parse_byte_size, parse_duration_nanoseconds):
        with suppress(WireError):
            assert parse(written) >= 0


@QUIET
@given(st.sampled_from(KEYS), st.integers(1, 255), st.binary(min_size=1, max_size=16))
def test_any_value_of_any_key_is_admitted_or_refused_with_4042(key: str, kind: int, value: bytes) -> None:
    try:
        admitted = admit_create(block(**{key: (kind, value)}), partitions_count=1)
    except (InvalidOptionValue, InvalidTopicSize):
        return
    assert admit_create(admitted.explicit, partitions_count=1) == admitted
