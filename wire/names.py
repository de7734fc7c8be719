"""Names and the limits on them (requests specification 1.1, state machine specification 4).

A name is 1 to 255 bytes of UTF-8. Nothing is trimmed or folded: two names are equal when their bytes are.
"""

from typing import Final

from levrier.wire.errors import WireError

NAME_SIZE_MAX: Final = 255
USERNAME_SIZE_MIN: Final = 3
USERNAME_SIZE_MAX: Final = 50
PASSWORD_SIZE_MIN: Final = 3
PASSWORD_SIZE_MAX: Final = 100
TOKEN_NAME_SIZE_MIN: Final = 3
TOKEN_NAME_SIZE_MAX: Final = 30


def encode_name(name: str, where: str = "name") -> bytes:
    """The bytes of a name, without its length. Raises `WireError` when they are not 1 to 255."""
    data = encode_text(name, where)
    if not 1 <= len(data) <= NAME_SIZE_MAX:
        raise WireError(f"{len(data)} bytes are not 1 to {NAME_SIZE_MAX}", where)
    return data


def encode_text(text: str, where: str) -> bytes:
    """The UTF-8 bytes of a text. Raises `WireError` for text that has none (a lone surrogate)."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise WireError("not a text that UTF-8 can carry", where) from error


def decode_text(data: bytes, where: str) -> str:
    """The text of UTF-8 bytes. Raises `WireError` when they are none."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise WireError("not UTF-8", where) from error


def is_valid_username(username: str) -> bool:
    """Whether a username has 3 to 50 bytes."""
    return USERNAME_SIZE_MIN <= len(username.encode(errors="replace")) <= USERNAME_SIZE_MAX


def is_valid_password(password: str) -> bool:
    """Whether a password has 3 to 100 bytes."""
    return PASSWORD_SIZE_MIN <= len(password.encode(errors="replace")) <= PASSWORD_SIZE_MAX
