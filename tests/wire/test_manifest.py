"""The list of artifacts of a state transfer."""

import pytest

from levrier.wire.checksums import xxh3
from levrier.wire.errors import ChecksumMismatch, WireError
from levrier.wire.manifest import Artifact, ArtifactKind, decode_manifest, encode_manifest

SNAPSHOT = Artifact(kind=ArtifactKind.METADATA_SNAPSHOT, frontier=12, size=3, checksum=xxh3(b"abc"))
TABLE = Artifact(kind=ArtifactKind.CLIENT_TABLE, frontier=13, size=1 << 40, checksum=(1 << 64) - 1)


def _sealed(body: bytes) -> bytes:
    return body + xxh3(body).to_bytes(8, "little")


def test_two_artifacts_round_trip() -> None:
    """C-211"""
    assert decode_manifest(encode_manifest([SNAPSHOT, TABLE])) == (SNAPSHOT, TABLE)


def test_the_bytes_of_a_manifest() -> None:
    assert encode_manifest([SNAPSHOT]) == _sealed(
        b"ISM1" + b"\x01\0\0\0" + b"\x19" + b"\0" + (12).to_bytes(8, "little") + (3).to_bytes(8, "little")
        + xxh3(b"abc").to_bytes(8, "little")
    )  # fmt: skip


def test_no_artifacts_round_trip() -> None:
    """C-212"""
    assert decode_manifest(encode_manifest([])) == ()


@pytest.mark.parametrize("index", range(9 + 25 + 8))
def test_a_flipped_byte_is_refused(index: int) -> None:
    """C-213"""
    data = encode_manifest([SNAPSHOT])

    with pytest.raises(ChecksumMismatch):
        decode_manifest(data[:index] + bytes((data[index] ^ 0x01,)) + data[index + 1 :])


def test_a_missing_byte_is_refused() -> None:
    """C-213"""
    data = encode_manifest([SNAPSHOT, TABLE])

    for end in range(len(data)):
        with pytest.raises(WireError):
            decode_manifest(data[:end])


def test_entries_longer_than_known_are_read_as_far_as_known() -> None:
    """C-214"""
    entry = encode_manifest([SNAPSHOT])[9:-8]
    data = _sealed(b"ISM1" + b"\x02\0\0\0" + bytes((28,)) + (entry + b"new") * 2)

    assert decode_manifest(data) == (SNAPSHOT, SNAPSHOT)


def test_entries_shorter_than_known_are_refused() -> None:
    """C-215"""
    entry = encode_manifest([SNAPSHOT])[9:-8]

    with pytest.raises(WireError, match="shorter"):
        decode_manifest(_sealed(b"ISM1" + b"\x01\0\0\0" + bytes((24,)) + entry[:24]))


@pytest.mark.parametrize(
    "body",
    [
        b"ISM2" + b"\0\0\0\0" + b"\x19",
        b"ISM1" + b"\x01\0\0\0" + b"\x19",
        b"ISM1" + b"\xff\xff\xff\xff" + b"\x19" + bytes(25),
        b"ISM1" + b"\0\0\0\0" + b"\x19" + bytes(25),
        b"ISM1" + b"\x01\0\0\0" + b"\x19" + b"\x04" + bytes(24),
    ],
    ids=["magic", "too few entries", "count beyond reason", "too many bytes", "unknown kind"],
)
def test_a_sealed_manifest_that_breaks_a_rule_is_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        decode_manifest(_sealed(body))
