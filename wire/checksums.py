"""The one hash of the protocol, XXH3 with 64 bits and seed 0, and the seal of control frames (wire specification 5).

A checksum field is 128 bits wide; the hash stands in its low 8 bytes with zeros above.
"""

from typing import Final

from xxhash import xxh3_64_intdigest

from levrier.wire.errors import ChecksumMismatch

__all__ = ["EMPTY_CHECKSUM", "body_matches", "frame_seal", "seal_frame", "verify_seal", "xxh3"]

xxh3 = xxh3_64_intdigest
"""XXH3-64, seed 0, of a bytes-like object."""

EMPTY_CHECKSUM: Final = 0x2D06800538D394C2
"""The hash of nothing. It is not zero."""


def frame_seal(header: bytes | bytearray) -> int:
    """The seal of a control frame: over bytes 16..256 of its header (wire specification 5.4)."""
    return xxh3_64_intdigest(header[16:256])


def seal_frame(header: bytes | bytearray) -> bytes:
    """The 256 header bytes with the seal written into the checksum field."""
    return frame_seal(header).to_bytes(16, "little") + bytes(header[16:256])


def verify_seal(header: bytes) -> None:
    """Raise `ChecksumMismatch` unless the checksum field of a control frame is its seal."""
    if int.from_bytes(header[:16], "little") != frame_seal(header):
        raise ChecksumMismatch("the frame seal does not match the header", "checksum")


def body_matches(checksum: int, body: bytes) -> bool:
    """Whether a request's stamp fits its body. Zero means unstamped and always fits (wire specification 5.2)."""
    return checksum in (0, xxh3_64_intdigest(body))
