"""Log entries: identity, integrity, restamping, projection."""

from dataclasses import replace

import pytest
from xxhash import xxh3_64_intdigest

from levrier.wire.errors import ChecksumMismatch, Truncated, WireError
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import (
    METADATA_GROUP,
    Prepare,
    from_repair,
    identity_checksum,
    project,
    restamp_view,
    to_repair,
    verify_integrity,
)

HEADER = PrepareHeader(
    op=5,
    operation=128,
    client=7 << 100,
    request=3,
    user_id=2,
    timestamp=1_700_000_000_000_000,
    commit=4,
    view=1,
    group=METADATA_GROUP,
    parent=99,
    request_checksum=55,
    cluster=12345,
    replica=1,
)
SEALED = Prepare.seal(HEADER, b"body")


def _projected(group: int) -> Prepare:
    return project(
        cluster=1, view=0, release=0, replica=0, client=7, parent=0, request_checksum=8, op=1, commit=0, timestamp=9,
        request=1, operation=128, group=group, user_id=3, body=b"body",
    )  # fmt: skip


def _flipped(frame: bytes, index: int) -> bytes:
    return frame[:index] + bytes((frame[index] ^ 0x01,)) + frame[index + 1 :]


def test_a_sealed_entry_is_accepted() -> None:
    """C-009"""
    assert verify_integrity(SEALED.frame) == SEALED.header
    assert Prepare.decode(SEALED.frame) == SEALED


def test_sealing_fills_in_size_and_both_checksums() -> None:
    assert SEALED.header == replace(
        HEADER, size=260, checksum_body=xxh3_64_intdigest(b"body"), checksum=identity_checksum(SEALED.frame)
    )
    assert SEALED.frame == SEALED.header.encode() + b"body"


def test_the_identity_is_the_hash_of_the_header_without_checksum_and_view() -> None:
    frame = bytearray(SEALED.header.encode())
    frame[0:16] = bytes(16)
    frame[52:56] = bytes(4)

    assert SEALED.header.checksum == xxh3_64_intdigest(bytes(frame))


def test_a_changed_header_is_refused() -> None:
    """C-010: every byte of the header but those of the size, below, and of the view, which the identity leaves out."""
    for index in [*range(48), *range(56, 256)]:
        with pytest.raises(WireError):
            verify_integrity(_flipped(SEALED.frame, index))


@pytest.mark.parametrize("index", [48, 49, 50, 51])
def test_a_changed_size_is_refused(index: int) -> None:
    """C-010"""
    with pytest.raises(WireError):
        verify_integrity(_flipped(SEALED.frame, index))


def test_a_smaller_size_is_refused_by_the_identity() -> None:
    """C-010"""
    frame = bytearray(SEALED.frame)
    frame[48] = 3

    with pytest.raises(ChecksumMismatch):
        verify_integrity(bytes(frame))


def test_an_unsealed_entry_has_nothing_to_verify() -> None:
    """C-011"""
    unsealed = replace(HEADER, size=260)

    assert verify_integrity(unsealed.encode() + b"body") == unsealed


@pytest.mark.parametrize("index", range(256, 260))
def test_a_changed_body_is_refused(index: int) -> None:
    """C-012"""
    with pytest.raises(ChecksumMismatch, match="body"):
        verify_integrity(_flipped(SEALED.frame, index))


def test_only_the_sized_bytes_are_hashed() -> None:
    """C-013"""
    assert verify_integrity(SEALED.frame + b"garbage") == SEALED.header
    assert Prepare.decode(SEALED.frame + b"garbage") == SEALED


@pytest.mark.parametrize("end", [0, 255, 256, 259])
def test_a_frame_below_its_declared_size_is_refused(end: int) -> None:
    """C-014"""
    with pytest.raises(Truncated):
        verify_integrity(SEALED.frame[:end])
    with pytest.raises(Truncated):
        Prepare.decode(SEALED.frame[:end])


def test_a_blank_header_is_no_entry() -> None:
    with pytest.raises(WireError, match="blank"):
        Prepare.decode(PrepareHeader.blank(3).encode())


def test_the_metadata_group_seals_the_body() -> None:
    """C-063"""
    assert _projected(METADATA_GROUP).header.checksum_body == xxh3_64_intdigest(b"body")


def test_a_partition_group_leaves_the_body_unsealed() -> None:
    """C-063"""
    prepare = _projected(group=1 << 32)

    assert prepare.header.checksum_body == 0
    assert Prepare.decode(prepare.frame) == prepare


def test_an_empty_body_of_the_metadata_group_is_sealed_too() -> None:
    prepare = Prepare.seal(HEADER, b"")

    assert prepare.header.checksum_body == 0x2D06800538D394C2
    assert Prepare.decode(prepare.frame) == prepare


def test_an_entry_has_one_identity_in_all_views() -> None:
    """C-064"""
    later = Prepare.seal(replace(HEADER, view=9), b"body")

    assert later.header.checksum == SEALED.header.checksum
    assert later.header.view == 9


@pytest.mark.parametrize("other", [Prepare.seal(replace(HEADER, client=8), b"body"), Prepare.seal(HEADER, b"Body")])
def test_another_client_or_body_is_another_identity(other: Prepare) -> None:
    """C-065"""
    assert other.header.op == SEALED.header.op
    assert other.header.checksum != SEALED.header.checksum


def test_restamping_with_the_same_view_reuses_the_buffer() -> None:
    """C-066"""
    assert restamp_view(SEALED.frame, 1) is SEALED.frame


def test_restamping_changes_the_view_only() -> None:
    """C-067"""
    restamped = Prepare.decode(restamp_view(SEALED.frame, 9))

    assert restamped.header == replace(SEALED.header, view=9)
    assert restamped.body == SEALED.body


@pytest.mark.parametrize("end", [0, 255, 256, 259])
def test_a_truncated_buffer_is_not_restamped(end: int) -> None:
    """C-068"""
    with pytest.raises(Truncated):
        restamp_view(SEALED.frame[:end], 9)


def test_a_repair_differs_in_the_command_byte_alone() -> None:
    repair = to_repair(SEALED.frame)

    assert repair[60] == 19
    assert _flipped(repair, 60)[:60] == SEALED.frame[:60]
    assert repair[61:] == SEALED.frame[61:]
    assert from_repair(repair) == SEALED.frame


def test_a_repair_decodes_to_the_entry_it_carries() -> None:
    assert Prepare.decode(to_repair(SEALED.frame)) == SEALED
    assert identity_checksum(to_repair(SEALED.frame)) == SEALED.header.checksum


def test_the_chain_is_by_identity() -> None:
    following = Prepare.seal(replace(HEADER, op=6, parent=SEALED.header.checksum), b"next")

    assert following.header.parent == identity_checksum(SEALED.frame)
