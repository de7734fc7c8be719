"""Sealed headers between replicas: layouts, seals, rules (wire specification 4.6 to 4.15, 5.4)."""

from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import pytest
from xxhash import xxh3_64_intdigest

from levrier.wire.checksums import EMPTY_CHECKSUM, frame_seal, xxh3
from levrier.wire.control import ControlHeader
from levrier.wire.errors import ChecksumMismatch, FrameSizeOutOfRange, Truncated, UnexpectedCommand, WireError
from levrier.wire.identity import cluster_id, partition_group
from levrier.wire.replica_headers import (
    CommitHeader,
    DoViewChangeHeader,
    ExtensionHeader,
    ForwardLogoutHeader,
    ForwardLogoutResultHeader,
    ForwardRegisterHeader,
    ForwardRegisterResultHeader,
    PrepareOkHeader,
    RepairRangeReplyHeader,
    RequestPreparesHeader,
    RequestStartViewHeader,
    RequestStateChunkHeader,
    RequestStateTransferHeader,
    StartViewChangeHeader,
    StartViewHeader,
    StateChunkHeader,
    StateTransferTargetHeader,
    verified_body,
)

PREFIX: dict[str, int] = {"cluster": 201, "view": 202, "replica": 203}
Place = tuple[int, int, int]

CASES: list[tuple[ControlHeader, int, list[Place]]] = [
    (
        PrepareOkHeader(
            parent=1, prepare_checksum=2, op=3, commit=4, timestamp=5, request=6, operation=7, group=8, **PREFIX
        ),
        7,
        [(128, 16, 1), (144, 16, 2), (160, 8, 3), (168, 8, 4), (176, 8, 5), (184, 8, 6), (192, 1, 7), (200, 8, 8)],
    ),
    (
        CommitHeader(commit_checksum=1, timestamp_monotonic=2, commit=3, checkpoint_op=4, group=5, **PREFIX),
        9,
        [(128, 16, 1), (144, 8, 2), (152, 8, 3), (160, 8, 4), (168, 8, 5)],
    ),
    (StartViewChangeHeader(group=1, **PREFIX), 10, [(128, 8, 1)]),
    (
        DoViewChangeHeader(op=3, commit=2, group=4, log_view=5, nack_bitset=0, present_bitset=0, **PREFIX),
        11,
        [(128, 8, 3), (136, 8, 2), (144, 8, 4), (152, 4, 5)],
    ),
    (
        StartViewHeader(op=3, commit=2, group=4, incarnation=5, **PREFIX),
        12,
        [(128, 8, 3), (136, 8, 2), (144, 8, 4), (240, 16, 5)],
    ),
    (RequestStartViewHeader(group=1, incarnation=2, **PREFIX), 17, [(128, 8, 1), (240, 16, 2)]),
    (
        RequestPreparesHeader(nonce=1, from_op=2, to_op=3, group=4, **PREFIX),
        18,
        [(128, 16, 1), (144, 8, 2), (152, 8, 3), (160, 8, 4)],
    ),
    (
        RepairRangeReplyHeader(command=20, nonce=1, op=2, group=3, **PREFIX),
        20,
        [(128, 16, 1), (144, 8, 2), (152, 8, 3)],
    ),
    (
        RepairRangeReplyHeader(command=21, nonce=1, op=2, group=3, **PREFIX),
        21,
        [(128, 16, 1), (144, 8, 2), (152, 8, 3)],
    ),
    (RequestStateTransferHeader(nonce=1, group=2, **PREFIX), 22, [(128, 16, 1), (144, 8, 2)]),
    (
        StateTransferTargetHeader(nonce=1, commit_op=2, group=3, available=1, commit_max=4, **PREFIX),
        23,
        [(128, 16, 1), (144, 8, 2), (152, 8, 3), (160, 1, 1), (168, 8, 4)],
    ),
    (
        StateTransferTargetHeader(nonce=1, commit_op=2, group=3, available=0, unavailable_transient=1, **PREFIX),
        23,
        [(128, 16, 1), (144, 8, 2), (152, 8, 3), (161, 1, 1)],
    ),
    (
        RequestStateChunkHeader(nonce=1, offset=2, group=3, len=4, artifact=5, **PREFIX),
        24,
        [(128, 16, 1), (144, 8, 2), (152, 8, 3), (160, 4, 4), (164, 4, 5)],
    ),
    (
        StateChunkHeader(nonce=1, offset=2, group=3, artifact=4, **PREFIX),
        25,
        [(128, 16, 1), (144, 8, 2), (152, 8, 3), (160, 4, 4)],
    ),
    (ForwardRegisterHeader(client=1, nonce=2, user_id=3, **PREFIX), 26, [(128, 16, 1), (144, 16, 2), (160, 4, 3)]),
    (
        ForwardRegisterResultHeader(nonce=1, client=2, epoch=3, watermark=4, outcome=0, **PREFIX),
        27,
        [(128, 16, 1), (144, 16, 2), (160, 8, 3), (168, 8, 4)],
    ),
    (
        ForwardRegisterResultHeader(nonce=1, client=2, outcome=6, **PREFIX),
        27,
        [(128, 16, 1), (144, 16, 2), (255, 1, 6)],
    ),
    (
        ForwardLogoutHeader(client=1, nonce=2, session=3, request=4, **PREFIX),
        28,
        [(128, 16, 1), (144, 16, 2), (160, 8, 3), (168, 8, 4)],
    ),
    (
        ForwardLogoutResultHeader(nonce=1, client=2, commit=3, outcome=0, **PREFIX),
        29,
        [(128, 16, 1), (144, 16, 2), (160, 8, 3)],
    ),
    (ExtensionHeader(command=64, group=1, **PREFIX), 64, [(128, 8, 1)]),
    (ExtensionHeader(command=65, group=1, **PREFIX), 65, [(128, 8, 1)]),
    (ExtensionHeader(command=66, group=1, **PREFIX), 66, [(128, 8, 1)]),
]
IDS = [f"{command}-{type(header).__name__}" for header, command, _ in CASES]
HEADERS = [header for header, _, _ in CASES]


def _resealed(frame: bytes, *places: Place) -> bytes:
    """A frame with numbers put in at offsets and the seal made good."""
    changed = bytearray(frame)
    for offset, size, value in places:
        changed[offset : offset + size] = value.to_bytes(size, "little")
    changed[:16] = frame_seal(changed).to_bytes(16, "little")
    return bytes(changed)


@pytest.mark.parametrize(("header", "command", "places"), CASES, ids=IDS)
def test_the_layout_of_a_header(header: ControlHeader, command: int, places: list[Place]) -> None:
    expected = bytearray(256)
    for offset, size, value in [(32, 16, 201), (48, 4, 256), (52, 4, 202), (60, 1, command), (61, 1, 203), *places]:
        expected[offset : offset + size] = value.to_bytes(size, "little")
    expected[:16] = xxh3_64_intdigest(bytes(expected[16:])).to_bytes(16, "little")

    assert header.encode() == bytes(expected)


@pytest.mark.parametrize("header", HEADERS, ids=IDS)
def test_a_header_round_trips(header: ControlHeader) -> None:
    assert type(header).decode(header.encode()) == header


@pytest.mark.parametrize("header", HEADERS, ids=IDS)
def test_every_field_is_carried(header: ControlHeader) -> None:
    """Each field set to another value gives other bytes."""
    frame = header.encode()
    for field in fields(header):  # type: ignore[arg-type]
        if field.name in {"command", "release", "available", "unavailable_transient", "outcome", "log_view"}:
            continue
        changed = {field.name: getattr(header, field.name) + 1}
        with suppress(WireError):
            other: Any = replace(header, **changed)  # type: ignore[type-var]
            assert other.encode() != frame, field.name


@pytest.mark.parametrize("header", HEADERS, ids=IDS)
def test_any_damaged_byte_breaks_the_seal(header: ControlHeader) -> None:
    frame = header.encode()
    for index in range(256):
        damaged = frame[:index] + bytes((frame[index] ^ 0x10,)) + frame[index + 1 :]
        with pytest.raises(ChecksumMismatch):
            type(header).decode(damaged)


@pytest.mark.parametrize("header", HEADERS, ids=IDS)
def test_a_frame_shorter_than_a_header_is_refused(header: ControlHeader) -> None:
    for end in (0, 1, 60, 255):
        with pytest.raises(Truncated):
            type(header).decode(header.encode()[:end])


@pytest.mark.parametrize("header", HEADERS, ids=IDS)
def test_another_command_is_refused(header: ControlHeader) -> None:
    with pytest.raises(UnexpectedCommand):
        type(header).decode(_resealed(header.encode(), (60, 1, 8)))


@pytest.mark.parametrize(
    "header", [header for header in HEADERS if not header.HAS_BODY], ids=lambda it: type(it).__name__
)
def test_a_header_only_frame_has_size_256(header: ControlHeader) -> None:
    with pytest.raises(FrameSizeOutOfRange):
        type(header).decode(_resealed(header.encode(), (48, 4, 257)))


@pytest.mark.parametrize("header", HEADERS, ids=IDS)
def test_a_size_below_a_header_is_refused(header: ControlHeader) -> None:
    with pytest.raises(FrameSizeOutOfRange):
        type(header).decode(_resealed(header.encode(), (48, 4, 255)))


BASE: dict[type[ControlHeader], ControlHeader] = {type(header): header for header in reversed(HEADERS)}


@pytest.mark.parametrize(
    ("form", "places", "problem"),
    [
        (StartViewChangeHeader, [(56, 4, 1)], "release"),
        (DoViewChangeHeader, [(56, 4, 1)], "release"),
        (DoViewChangeHeader, [(152, 4, 203)], "log_view"),
        (DoViewChangeHeader, [(136, 8, 4)], "commit"),
        (DoViewChangeHeader, [(224, 16, 1)], "bitset"),
        (DoViewChangeHeader, [(240, 16, 1)], "bitset"),
        (DoViewChangeHeader, [(48, 4, 257)], "size"),
        (DoViewChangeHeader, [(48, 4, 256 * 130)], "size"),
        (DoViewChangeHeader, [(48, 4, 512), (224, 16, 2)], "bitset"),
        (StartViewHeader, [(56, 4, 1)], "release"),
        (StartViewHeader, [(136, 8, 4)], "commit"),
        (StartViewHeader, [(48, 4, 257)], "size"),
        (RequestStartViewHeader, [(56, 4, 1)], "release"),
        (RequestPreparesHeader, [(144, 8, 0)], "from_op"),
        (RequestPreparesHeader, [(144, 8, 4)], "from_op"),
        (StateTransferTargetHeader, [(160, 1, 2)], "available"),
        (StateTransferTargetHeader, [(161, 1, 1)], "available"),
        (StateTransferTargetHeader, [(160, 1, 0), (48, 4, 300)], "size"),
        (RequestStateChunkHeader, [(160, 4, 0)], "len"),
        (ForwardRegisterHeader, [(128, 16, 0)], "client"),
        (ForwardRegisterHeader, [(144, 16, 0)], "nonce"),
        (ForwardRegisterHeader, [(200, 1, 1)], "reserved"),
        (ForwardRegisterHeader, [(70, 1, 1)], "reserved"),
        (ForwardRegisterResultHeader, [(128, 16, 0)], "nonce"),
        (ForwardRegisterResultHeader, [(255, 1, 1)], "outcome"),
        (ForwardRegisterResultHeader, [(255, 1, 7)], "outcome"),
        (ForwardLogoutHeader, [(160, 8, 0)], "session"),
        (ForwardLogoutHeader, [(168, 8, 0)], "session"),
        (ForwardLogoutResultHeader, [(255, 1, 1)], "outcome"),
        (ForwardLogoutResultHeader, [(255, 1, 5), (160, 8, 0)], "outcome"),
        (ExtensionHeader, [(136, 1, 1)], "reserved"),
    ],
)
def test_a_sealed_header_that_breaks_a_rule_is_refused(
    form: type[ControlHeader], places: list[Place], problem: str
) -> None:
    with pytest.raises(WireError) as caught:
        form.decode(_resealed(BASE[form].encode(), *places))

    assert problem in caught.value.where


def test_a_bit_of_the_last_entry_is_within_the_suffix() -> None:
    header = replace(DoViewChangeHeader(op=3, commit=2, log_view=0, group=1), nack_bitset=2, present_bitset=1)

    assert DoViewChangeHeader.decode(header.encode(bytes(512))) == header


START_VIEW = StartViewHeader(op=3, commit=2, group=4)


def test_a_body_that_matches_its_checksum_is_accepted() -> None:
    """C-015"""
    frame = START_VIEW.encode(b"h" * 256)

    assert StartViewHeader.decode_frame(frame) == (START_VIEW, b"h" * 256)
    assert verified_body(frame) == b"h" * 256


def test_a_body_with_checksum_zero_is_refused() -> None:
    """C-016: it does not count as unsealed."""
    frame = _resealed(START_VIEW.encode(b"h" * 256), (16, 16, 0))

    assert StartViewHeader.decode(frame) == START_VIEW
    with pytest.raises(ChecksumMismatch):
        StartViewHeader.decode_frame(frame)


@pytest.mark.parametrize("index", [256, 400, 511])
def test_a_corrupted_body_is_refused(index: int) -> None:
    """C-017"""
    frame = START_VIEW.encode(b"h" * 256)

    with pytest.raises(ChecksumMismatch):
        verified_body(frame[:index] + b"x" + frame[index + 1 :])


def test_a_frame_without_a_body_has_an_empty_body() -> None:
    """C-018"""
    assert StartViewHeader.decode_frame(START_VIEW.encode()) == (START_VIEW, b"")


def test_no_body_goes_with_the_checksum_of_nothing() -> None:
    with pytest.raises(ChecksumMismatch):
        verified_body(_resealed(START_VIEW.encode(), (16, 16, EMPTY_CHECKSUM)))


def test_a_body_cut_short_is_refused() -> None:
    with pytest.raises(Truncated):
        verified_body(START_VIEW.encode(b"h" * 256)[:-1])


def test_a_chunk_has_no_checksum_of_its_own() -> None:
    header = StateChunkHeader(nonce=1, offset=2, group=3, artifact=4)
    frame = header.encode(b"chunk")

    assert frame[16:32] == bytes(16)
    assert StateChunkHeader.decode_frame(frame) == (header, b"chunk")


def test_a_frame_of_our_own_covers_its_body() -> None:
    """Decision D-34."""
    header = ExtensionHeader(command=64, group=1)
    frame = header.encode(b"body")

    assert ExtensionHeader.decode_frame(frame) == (header, b"body")
    assert int.from_bytes(frame[16:32], "little") == xxh3(b"body")
    with pytest.raises(ChecksumMismatch):
        ExtensionHeader.decode_frame(frame[:-1] + b"x")


def test_the_hash_of_nothing_is_not_zero() -> None:
    assert xxh3(b"") == EMPTY_CHECKSUM == 0x2D06800538D394C2


def test_a_cluster_is_known_by_the_hash_of_its_name() -> None:
    assert cluster_id("a") != cluster_id("b")
    assert 0 < cluster_id("single-node") < 1 << 128


def test_a_partition_group_packs_three_ids() -> None:
    assert partition_group(1, 2, 3) == 1 << 32 | 2 << 20 | 3
    assert partition_group((1 << 20) - 1, 4095, 999_999) < 1 << 63


@pytest.mark.parametrize("ids", [(1 << 20, 0, 0), (0, 4096, 0), (0, 0, 1_000_000), (-1, 0, 0)])
def test_an_id_past_its_ceiling_is_refused_never_masked(ids: tuple[int, int, int]) -> None:
    with pytest.raises(WireError):
        partition_group(*ids)


def test_an_acknowledgement_coded_in_one_piece_is_what_its_layout_says() -> None:
    """Each field at its ends, against the table that drives every other header."""
    widths = {"parent": 128, "prepare_checksum": 128, "cluster": 128, "view": 32, "release": 32, "replica": 8}
    widths |= {"op": 64, "commit": 64, "timestamp": 64, "request": 64, "operation": 8, "group": 64}
    small = dict.fromkeys(widths, 1)
    for name, width in widths.items():
        for value in (0, 1 << width // 2, (1 << width) - 1):
            header = PrepareOkHeader(**(small | {name: value}))
            frame = header.encode()
            assert frame == ControlHeader.encode(header)
            assert PrepareOkHeader.decode_frame(frame) == (header, b"")
            assert PrepareOkHeader.LAYOUT.unpack(frame).items() <= {**small, name: value}.items()
