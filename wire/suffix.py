"""The body of DoViewChange and StartView: the headers of a log's uncommitted end, newest first (wire specification 4.9).

One header for each op without gaps, from the sender's head downwards, at most 128. An op that the sender does not hold is
a blank header. Every other one is sealed or not (checksum 0); a sealed one must be right and must name the one below it
as its parent. The views stamped on the entries may differ: the identity leaves them out.
"""

from collections.abc import Sequence
from itertools import pairwise

from levrier.wire.errors import ChainBreak, ChecksumMismatch, WireError
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import identity_checksum
from levrier.wire.replica_headers import check_suffix_size


def decode_suffix(body: bytes, *, op: int) -> tuple[PrepareHeader, ...]:
    """The headers of a suffix whose first is `op`.

    Raises `ChecksumMismatch` or `ChainBreak` naming the index, and `WireError` for a wrong size, command or op.
    """
    count = check_suffix_size(len(body))
    headers: list[PrepareHeader] = []
    for index in range(count):
        frame = body[index * HEADER_SIZE : (index + 1) * HEADER_SIZE]
        where = f"suffix[{index}]"
        header = PrepareHeader.decode(frame)
        if header.command != 6:
            raise WireError(f"command {header.command}", where)
        if header.op != op - index:
            raise WireError(f"op {header.op}, not {op - index}", where)
        if header.checksum and header.checksum != identity_checksum(frame):
            raise ChecksumMismatch("the identity does not match the header", where)
        headers.append(header)
    for index, (upper, lower) in enumerate(pairwise(headers)):
        if upper.checksum and lower.checksum and upper.parent != lower.checksum:
            raise ChainBreak(f"op {upper.op} does not follow from op {lower.op}", f"suffix[{index}]")
    return tuple(headers)


def encode_suffix(headers: Sequence[PrepareHeader]) -> bytes:
    """The body that carries these headers, newest first."""
    assert all(upper.op == lower.op + 1 for upper, lower in pairwise(headers))
    body = b"".join(header.encode() for header in headers)
    check_suffix_size(len(body))
    return body
