"""Log entries: sealing, verifying, restamping (wire specification 4.5, 5.3).

The identity checksum covers the header with `checksum` and `view` taken as zero, so an entry keeps its identity when a
later view sends it again; `checksum_body` is inside it, so the body is covered too. The metadata group seals its bodies,
a partition group leaves `checksum_body` at zero. Zero in either field means unsealed: nothing to verify.
"""

from dataclasses import dataclass, field
from struct import Struct
from typing import Final, Self

from xxhash import xxh3_64_intdigest

from levrier.wire.errors import ChecksumMismatch, Truncated, WireError
from levrier.wire.framing import COMMAND_OFFSET, HEADER_SIZE, frame_size
from levrier.wire.frozen import quick_init
from levrier.wire.headers import PrepareHeader

METADATA_GROUP: Final = 1 << 63
"""The group id of the metadata group. Partition groups are below it."""

_PREPARE: Final = Struct("<16x16s16sIIIBB66x16s16s16sQQQQB7xQI28x")
_VIEW_OFFSET: Final = 52
_PREPARE_COMMAND: Final = 6
_REPAIR_COMMAND: Final = 19
_ZERO_4: Final = bytes(4)
_ZERO_16: Final = bytes(16)
_PREPARE_BYTE: Final = bytes((_PREPARE_COMMAND,))
_REPAIR_BYTE: Final = bytes((_REPAIR_COMMAND,))

assert _PREPARE.size == HEADER_SIZE


@quick_init
@dataclass(frozen=True, slots=True)
class Prepare:
    """A log entry: the header, the body, and the frame that both were cut from or sealed into.

    Its text shows the header alone: a body may hold the hash of a password or of a token (D-20).
    """

    header: PrepareHeader
    body: bytes = field(repr=False)
    frame: bytes = field(repr=False)

    @classmethod
    def seal(cls, header: PrepareHeader, body: bytes) -> "Prepare":
        """Fill in size, body checksum and identity of an entry; what `header` says about these three is ignored."""
        return project(
            cluster=header.cluster,
            view=header.view,
            release=header.release,
            replica=header.replica,
            client=header.client,
            parent=header.parent,
            request_checksum=header.request_checksum,
            op=header.op,
            commit=header.commit,
            timestamp=header.timestamp,
            request=header.request,
            operation=header.operation,
            group=header.group,
            user_id=header.user_id,
            body=body,
        )

    @classmethod
    def decode(cls, frame: bytes) -> Self:
        """Decode and verify an entry. Bytes beyond its size are cut off; a RepairPrepare becomes the Prepare it carries.

        Raises `Truncated`, `ChecksumMismatch`, or another `WireError` for an invalid header.
        """
        frame = _sized(frame)
        if frame[COMMAND_OFFSET] == _REPAIR_COMMAND:
            frame = from_repair(frame)
        header = PrepareHeader.decode(frame)
        if header.is_blank:
            raise WireError("a blank header is no entry", "size")
        _verify(header, frame)
        return cls(header, frame[HEADER_SIZE:], frame)


def project(
    *,
    cluster: int,
    view: int,
    replica: int,
    client: int,
    parent: int,
    request_checksum: int,
    op: int,
    commit: int,
    timestamp: int,
    request: int,
    operation: int,
    group: int,
    user_id: int,
    body: bytes,
    release: int = 0,
) -> Prepare:
    """Build a sealed entry: one pack, one hash of the header, one hash of the body."""
    size = HEADER_SIZE + len(body)
    checksum_body = xxh3_64_intdigest(body) if group == METADATA_GROUP else 0
    header = _PREPARE.pack(
        checksum_body.to_bytes(16, "little"),
        cluster.to_bytes(16, "little"),
        size,
        0,
        release,
        _PREPARE_COMMAND,
        replica,
        client.to_bytes(16, "little"),
        parent.to_bytes(16, "little"),
        request_checksum.to_bytes(16, "little"),
        op,
        commit,
        timestamp,
        request,
        operation,
        group,
        user_id,
    )
    checksum = xxh3_64_intdigest(header)
    frame = b"".join(
        (checksum.to_bytes(16, "little"), header[16:_VIEW_OFFSET], view.to_bytes(4, "little"), header[56:], body)
    )
    return Prepare(
        PrepareHeader(
            op,
            operation,
            client,
            request,
            user_id,
            timestamp,
            commit,
            view,
            group,
            size,
            checksum,
            checksum_body,
            parent,
            request_checksum,
            cluster,
            release,
            replica,
        ),
        body,
        frame,
    )


def identity_checksum(frame: bytes) -> int:
    """The identity of the entry whose header `frame` starts with; the command counts as Prepare."""
    return xxh3_64_intdigest(
        b"".join((_ZERO_16, frame[16:_VIEW_OFFSET], _ZERO_4, frame[56:60], _PREPARE_BYTE, frame[61:HEADER_SIZE]))
    )


def verify_identity(header: PrepareHeader, frame: bytes) -> None:
    """Raise `ChecksumMismatch` unless the entry is unsealed or its identity is right."""
    if header.checksum and header.checksum != identity_checksum(frame):
        raise ChecksumMismatch(f"the identity of op {header.op} does not match its header", "checksum")


def verify_integrity(frame: bytes) -> PrepareHeader:
    """Check the identity and the body checksum of an entry; only `size` bytes are looked at.

    Returns the header. Raises `Truncated`, `ChecksumMismatch`, or `WireError` for an invalid header.
    """
    frame = _sized(frame)
    header = PrepareHeader.decode(frame)
    _verify(header, frame)
    return header


def restamp_view(frame: bytes, view: int) -> bytes:
    """The entry as `view` sends it. Only the view changes, so its identity is kept; the same object when it is equal."""
    if len(frame) < HEADER_SIZE or len(frame) < frame_size(frame):
        raise Truncated(f"{len(frame)} bytes are not a whole entry", "frame")
    stamp = view.to_bytes(4, "little")
    if frame[_VIEW_OFFSET:56] == stamp:
        return frame
    return b"".join((frame[:_VIEW_OFFSET], stamp, frame[56:]))


def to_repair(frame: bytes) -> bytes:
    """The entry as a RepairPrepare frame: the command byte alone differs (wire specification 5.3)."""
    return b"".join((frame[:COMMAND_OFFSET], _REPAIR_BYTE, frame[COMMAND_OFFSET + 1 :]))


def from_repair(frame: bytes) -> bytes:
    """The entry that a RepairPrepare frame carries, ready to be checked and stored."""
    return b"".join((frame[:COMMAND_OFFSET], _PREPARE_BYTE, frame[COMMAND_OFFSET + 1 :]))


def _sized(frame: bytes) -> bytes:
    """The first `size` bytes of a buffer that may go on behind the entry."""
    if len(frame) < HEADER_SIZE:
        raise Truncated(f"{len(frame)} bytes are less than a header", "header")
    size = frame_size(frame)
    if size == len(frame):
        return frame
    if size > len(frame):
        raise Truncated(f"{len(frame)} of {size} bytes", "frame")
    return frame[: max(size, HEADER_SIZE)]


def _verify(header: PrepareHeader, frame: bytes) -> None:
    verify_identity(header, frame)
    if header.checksum_body and header.checksum_body != xxh3_64_intdigest(frame[HEADER_SIZE:]):
        raise ChecksumMismatch(f"the body of op {header.op} does not match its checksum", "checksum_body")
