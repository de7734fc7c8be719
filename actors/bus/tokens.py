"""Minting a personal access token, and showing it once (state-machine 11.3; design section 3, rule 7; D-20).

The secret is made here and lives in the one pending request until its reply. What is replicated, and what a login is
compared with, is the BLAKE3 hash of the text.
"""

from base64 import b64encode
from collections.abc import Callable
from typing import Final, NamedTuple

from blake3 import blake3

from levrier.wire.checksums import xxh3
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.replies import result_success
from levrier.wire.responses.tokens import CreatedToken

SECRET_SIZE: Final = 50
"""Random bytes of a token."""

_SIZE_OFFSET: Final = 48


class Minted(NamedTuple):
    """A token that may be shown when exactly this body has committed. `body_checksum` is that of the body."""

    secret: str
    body_checksum: int

    def __repr__(self) -> str:
        return "Minted()"


def mint(entropy: Callable[[int], bytes]) -> str:
    """The text of a new token: random bytes in base64."""
    return b64encode(entropy(SECRET_SIZE)).decode()


def hash_token(secret: str) -> str:
    """What is stored of a token: BLAKE3 of its text as 64 lowercase hex digits."""
    return blake3(secret.encode(errors="replace")).hexdigest()


def minted(secret: str, body: bytes) -> Minted:
    """The promise to show the secret once `body`, which holds its hash, has committed."""
    return Minted(secret, xxh3(body))


def spliced(frame: bytes, secret: str) -> bytes:
    """The reply of a committed creation with the secret as its payload: for the wire alone, never for the table."""
    assert frame[HEADER_SIZE:] == result_success()
    body = result_success(CreatedToken(token=secret).encode())
    size = (HEADER_SIZE + len(body)).to_bytes(4, "little")
    return b"".join((frame[:_SIZE_OFFSET], size, frame[_SIZE_OFFSET + 4 : HEADER_SIZE], body))
