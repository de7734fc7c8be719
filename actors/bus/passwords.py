"""Password hashes: Argon2id with the reference's defaults, as PHC strings (state-machine 11.2). Slow on purpose.

The defaults meant are those of the reference's library, 19 MiB, two passes, one lane: this library's own would take 64 MiB and
four cores for every login. A hash names its parameters, so hashes made with others stay good.

Both functions run in a worker thread. The salt is a parameter, since randomness is given by whoever owns the runtime.
"""

from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError

SALT_SIZE: Final = 16

_HASHER: Final = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


def hash_password(password: str, salt: bytes) -> str:
    """The PHC string of a password under a fresh random salt of SALT_SIZE bytes."""
    assert len(salt) == SALT_SIZE
    return _HASHER.hash(password, salt=salt)


def verify_password(password_hash: str, password: str) -> bool:
    """Whether the password is the one that was hashed. Fails closed on a hash that cannot be parsed.

    Raises `VerificationError` when it could not be found out, for want of memory.
    """
    try:
        return _HASHER.verify(password_hash, password)
    except (VerifyMismatchError, InvalidHashError):
        return False


DUMMY_PASSWORD_HASH: Final = (
    "$argon2id$v=19$m=19456,t=2,p=1$bGV2cmllciBkdW1teSEhIQ$pVzaKQdDJiaMtWfOtZ8gBP1TVeLiLj3OO3NpPpbT/Mw"
)
"""What the password of an unknown user is compared with, so that its refusal costs what a wrong password costs."""
