"""The body of frame 66 (D-34)."""

import msgpack
import pytest

from levrier.wire.errors import WireError
from levrier.wire.state_digest import StateDigest


@pytest.mark.parametrize("told", [StateDigest(1, 0), StateDigest(2**64 - 1, 2**64 - 1)])
def test_a_digest_survives_the_wire(told: StateDigest) -> None:
    """Both ends of the range."""
    assert StateDigest.decode(told.encode()) == told


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        msgpack.packb([1]),
        msgpack.packb([0, 1]),
        msgpack.packb([True, 1]),
        msgpack.packb([1, -1]),
        msgpack.packb([1, b"x"]),
        msgpack.packb({1: 2}),
        msgpack.packb([1, 2]) + b"\0",
        bytes(20),
    ],
)
def test_anything_else_is_refused(body: bytes) -> None:
    """With the name of the body, never with another error."""
    with pytest.raises(WireError):
        StateDigest.decode(body)
