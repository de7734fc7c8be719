"""How two replicas meet: three header-only frames and a mutual proof of a shared secret (wire specification 6.2).

The replica with the lower id dials. Without authentication it sends a Hello and starts; with it, Hello, Challenge, Finish.
The frames are neither sealed nor checksummed: what protects them is the MAC.
"""

import hmac
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final, Self

from blake3 import blake3

from levrier.wire.errors import FrameSizeOutOfRange, Truncated, UnexpectedCommand, WireError
from levrier.wire.framing import HEADER_SIZE

NONCE_SIZE: Final = 32
MAC_SIZE: Final = 32

_HANDSHAKE: Final = Struct("<32x16sI8xBB66x32s32sB63x")
_COMMANDS: Final = (14, 15, 16)
_KEY_CONTEXT: Final = "apache-iggy replica-auth v1 psk->mac-key"
_MAC_DOMAIN: Final = b"apache-iggy replica-auth v1"
_ZERO_32: Final = bytes(32)

assert _HANDSHAKE.size == HEADER_SIZE


class HandshakeStatus(IntEnum):
    """What an acceptor thinks of a Hello. The last two are only logged; the connection just closes."""

    OK = 0
    UNKNOWN_COMMAND = 1
    CLUSTER_MISMATCH = 2
    DIRECTIONAL_RULE = 3
    AUTHENTICATION_REQUIRED = 4
    MAC_MISMATCH = 5


class Direction(IntEnum):
    """Whose proof a MAC is."""

    DIALER = 1
    ACCEPTOR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake:
    """Hello (14), Challenge (15) or Finish (16). `replica` is the sender; unused fields are zeros."""

    command: int
    cluster: int
    replica: int
    nonce: bytes = _ZERO_32
    mac: bytes = _ZERO_32
    status: int = 0

    @classmethod
    def decode(cls, frame: bytes) -> Self:
        """Decode a handshake frame. Raises `WireError`."""
        if len(frame) < HEADER_SIZE:
            raise Truncated(f"{len(frame)} bytes are less than a header", "header")
        cluster, size, command, replica, nonce, mac, status = _HANDSHAKE.unpack_from(frame)
        if command not in _COMMANDS:
            raise UnexpectedCommand(f"{command} is not part of a handshake", "command")
        if size != HEADER_SIZE:
            raise FrameSizeOutOfRange(f"{size} in a frame without a body", "size")
        if status > HandshakeStatus.MAC_MISMATCH:
            raise WireError(f"{status} is not a status", "status")
        return cls(
            command=command,
            cluster=int.from_bytes(cluster, "little"),
            replica=replica,
            nonce=nonce,
            mac=mac,
            status=status,
        )

    def encode(self) -> bytes:
        """The 256 bytes of the frame."""
        assert self.command in _COMMANDS
        assert len(self.nonce) == NONCE_SIZE
        assert len(self.mac) == MAC_SIZE
        return _HANDSHAKE.pack(
            self.cluster.to_bytes(16, "little"),
            HEADER_SIZE,
            self.command,
            self.replica,
            self.nonce,
            self.mac,
            self.status,
        )


def mac_key(secret: bytes) -> bytes:
    """The key that a shared secret stands for."""
    return blake3(secret, derive_key_context=_KEY_CONTEXT).digest()


def mac(
    key: bytes,
    *,
    cluster: int,
    dialer: int,
    acceptor: int,
    dialer_nonce: bytes,
    acceptor_nonce: bytes,
    direction: Direction,
    tls_exporter: bytes | None = None,
) -> bytes:
    """The proof of one side: it binds both ids, both nonces and, over TLS, the very connection."""
    assert len(dialer_nonce) == len(acceptor_nonce) == NONCE_SIZE
    return blake3(
        b"".join(
            (
                _MAC_DOMAIN,
                cluster.to_bytes(16, "little"),
                bytes((dialer, acceptor)),
                dialer_nonce,
                acceptor_nonce,
                bytes((0 if tls_exporter is None else 1,)),
                _ZERO_32 if tls_exporter is None else tls_exporter,
                bytes((direction,)),
            )
        ),
        key=key,
    ).digest()


def mac_is(expected: bytes, received: bytes) -> bool:
    """Compare two proofs in constant time."""
    return hmac.compare_digest(expected, received)
