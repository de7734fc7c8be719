"""How two replicas meet."""

from contextlib import suppress
from typing import Any

import pytest

from levrier.wire.errors import FrameSizeOutOfRange, Truncated, UnexpectedCommand, WireError
from levrier.wire.handshake import Direction, Handshake, HandshakeStatus, mac, mac_is, mac_key

CHALLENGE = Handshake(
    command=15, cluster=9, replica=2, nonce=b"n" * 32, mac=b"m" * 32, status=HandshakeStatus.DIRECTIONAL_RULE
)


@pytest.mark.parametrize(
    "frame",
    [
        Handshake(command=14, cluster=9, replica=1),
        Handshake(command=14, cluster=9, replica=1, nonce=b"n" * 32),
        CHALLENGE,
        Handshake(command=16, cluster=9, replica=1, mac=b"m" * 32),
    ],
)
def test_a_handshake_frame_round_trips(frame: Handshake) -> None:
    assert Handshake.decode(frame.encode()) == frame


def test_the_layout_of_a_challenge() -> None:
    expected = bytearray(256)
    expected[32:48] = (9).to_bytes(16, "little")
    expected[48:52] = (256).to_bytes(4, "little")
    expected[60], expected[61], expected[192] = 15, 2, 3
    expected[128:160], expected[160:192] = b"n" * 32, b"m" * 32

    assert CHALLENGE.encode() == bytes(expected)


def test_a_short_frame_is_refused() -> None:
    with pytest.raises(Truncated):
        Handshake.decode(CHALLENGE.encode()[:255])


@pytest.mark.parametrize(
    ("offset", "value", "error"), [(60, 13, UnexpectedCommand), (48, 1, FrameSizeOutOfRange), (192, 6, WireError)]
)
def test_a_frame_that_breaks_a_rule_is_refused(offset: int, value: int, error: type[WireError]) -> None:
    frame = bytearray(CHALLENGE.encode())
    frame[offset] = value

    with pytest.raises(error):
        Handshake.decode(bytes(frame))


def test_a_damaged_frame_is_refused_or_another_value() -> None:
    frame = CHALLENGE.encode()
    for index in range(256):
        with suppress(WireError):
            Handshake.decode(frame[:index] + bytes((frame[index] ^ 0xFF,)) + frame[index + 1 :]).encode()


INPUTS: dict[str, Any] = {
    "cluster": 9,
    "dialer": 0,
    "acceptor": 1,
    "dialer_nonce": b"d" * 32,
    "acceptor_nonce": b"a" * 32,
    "direction": Direction.DIALER,
}


@pytest.mark.parametrize(
    "changed",
    [
        {"cluster": 8},
        {"dialer": 2},
        {"acceptor": 2},
        {"dialer_nonce": b"e" * 32},
        {"acceptor_nonce": b"e" * 32},
        {"direction": Direction.ACCEPTOR},
        {"tls_exporter": bytes(32)},
        {"tls_exporter": b"x" * 32},
    ],
    ids=str,
)
def test_a_proof_binds_everything_it_is_made_of(changed: dict[str, Any]) -> None:
    key = mac_key(b"secret")

    assert not mac_is(mac(key, **INPUTS), mac(key, **INPUTS | changed))


def test_a_proof_needs_the_secret() -> None:
    assert mac_is(mac(mac_key(b"secret"), **INPUTS), mac(mac_key(b"secret"), **INPUTS))
    assert not mac_is(mac(mac_key(b"secret"), **INPUTS), mac(mac_key(b"other"), **INPUTS))
