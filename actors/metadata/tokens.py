"""Personal access tokens by owner, by hash and by expiry (state-machine 2.1, 5; D-04, D-05).

A token is known here by the BLAKE3 hash of its text only; the secret itself is never replicated. The tokens of a user
are a tuple in ascending order of name, replaced as a whole, so that a capture copies pointers only. "Expired" means that
`expires_at` is at or before now, everywhere; what now is comes from the caller, since apply reads no clock.

Invariant: the three structures hold the same tokens, and every owner is a user.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import Final, NamedTuple

from levrier.actors.metadata.digest import Digest
from levrier.wire.error_codes import ErrorCode
from levrier.wire.requests.replicated import CreatePersonalAccessTokenReplicated, DeletePersonalAccessTokenReplicated

NEVER: Final = frozenset({0, 2**64 - 1})
"""Expiries of a request that mean no expiry at all."""

TIMESTAMP_MAX: Final = 2**64 - 1
"""The highest timestamp there is; an expiry beyond it would have wrapped around into the past."""

_NO_USER_OR_TOKEN: Final = int(ErrorCode.RESOURCE_NOT_FOUND)
_NAME_EXISTS: Final = int(ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS)
_EXPIRY_NOT_AHEAD: Final = int(ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY)


class Token(NamedTuple):
    """One token, fields in the order of the snapshot (persistence 4.1).

    `token_hash` is 64 lowercase hex digits, a secret (D-20). `expires_at` in microseconds, None for never.
    """

    user_id: int
    name: str
    token_hash: str
    expires_at: int | None

    def __repr__(self) -> str:
        return f"Token(user_id={self.user_id}, name={self.name!r}, expires_at={self.expires_at})"

    def has_expired(self, now: int) -> bool:
        """Whether the token is not valid any more at `now`, microseconds."""
        return self.expires_at is not None and self.expires_at <= now


class TokensMachine:
    """The tokens of every user; `add_user` and `drop_user` say who is one. `digest` takes note of each token."""

    __slots__ = ("_by_hash", "_by_user", "_digest", "_expiring")

    def __init__(self, digest: Digest) -> None:
        self._digest = digest
        self._by_user: dict[int, tuple[Token, ...]] = {}
        self._by_hash: dict[str, Token] = {}
        self._expiring: list[tuple[int, int, str]] = []

    def add_user(self, user_id: int) -> None:
        """A user was created, above all earlier ones: it has no tokens yet."""
        assert user_id not in self._by_user
        self._by_user[user_id] = ()

    def drop_user(self, user_id: int) -> None:
        """A user was deleted: its tokens go with it (D-02)."""
        for token in self._by_user.pop(user_id):
            self._forget(token)

    def restore(self, user_id: int, tokens: Sequence[Token]) -> None:
        """The tokens of an added user, from a snapshot. Raises `ValueError` for what no machine ever held."""
        assert self._by_user[user_id] == ()
        previous = ""
        for token in tokens:
            if token.user_id != user_id:
                raise ValueError(f"a token of user {token.user_id} among those of user {user_id}")
            if token.name <= previous:
                raise ValueError(f"the token {token.name!r} of user {user_id} does not follow {previous!r}")
            if token.token_hash in self._by_hash:
                raise ValueError(f"the hash of token {token.name!r} of user {user_id} stands twice")
            previous = token.name
            self._remember(token)
        self._by_user[user_id] = tuple(tokens)

    def create(self, request: CreatePersonalAccessTokenReplicated, timestamp: int) -> int:
        """Store a token: 0, or the code of the rejection. `timestamp` is that of the op, microseconds."""
        tokens = self._by_user.get(request.user_id)
        if tokens is None:
            return _NO_USER_OR_TOKEN  # D-04.
        # The same secret cannot be minted twice; were it, one of the two tokens would be beyond deletion.
        if _find(tokens, request.name) is not None or request.token_hash in self._by_hash:
            return _NAME_EXISTS
        expires_at = None if request.expiry in NEVER else timestamp + request.expiry
        if expires_at is not None and expires_at > TIMESTAMP_MAX:
            return _EXPIRY_NOT_AHEAD
        token = Token(request.user_id, request.name, request.token_hash, expires_at)
        self._remember(token)
        at = bisect_left(tokens, request.name, key=_name)
        self._by_user[request.user_id] = (*tokens[:at], token, *tokens[at:])
        return 0

    def delete(self, request: DeletePersonalAccessTokenReplicated, timestamp: int) -> int:
        """Remove a token: 0, or the code of the rejection. Behind the expiry gate a token that is valid stays: 0."""
        tokens = self._by_user.get(request.user_id)
        if tokens is None:
            return _NO_USER_OR_TOKEN
        token = _find(tokens, request.name)
        if request.only_if_expired and (token is None or not token.has_expired(timestamp)):
            return 0
        if token is None:
            return _NO_USER_OR_TOKEN
        self._forget(token)
        self._by_user[request.user_id] = tuple(kept for kept in tokens if kept is not token)
        return 0

    def find(self, token_hash: str) -> Token | None:
        """The token with this hash, expired or not, or None."""
        return self._by_hash.get(token_hash)

    def of_user(self, user_id: int) -> tuple[Token, ...]:
        """The tokens of a user in ascending order of name; none for an unknown user."""
        return self._by_user.get(user_id, ())

    def count(self, user_id: int) -> int:
        """How many tokens a user has, expired ones included."""
        return len(self._by_user.get(user_id, ()))

    def expired(self, now: int, limit: int | None = None) -> list[tuple[int, str]]:
        """Owner and name of the tokens that have expired at `now`, the earliest first, at most `limit` of them."""
        end = bisect_right(self._expiring, now, key=_expiry)
        return [(user_id, name) for _, user_id, name in self._expiring[: end if limit is None else min(end, limit)]]

    def freeze(self) -> tuple[tuple[int, tuple[Token, ...]], ...]:
        """Every user and its tokens in ascending order of user id, as they stand now."""
        return tuple(self._by_user.items())

    def __len__(self) -> int:
        return len(self._by_hash)

    def _remember(self, token: Token) -> None:
        self._by_hash[token.token_hash] = token
        self._digest.toggle_token(token)
        if token.expires_at is not None:
            insort(self._expiring, (token.expires_at, token.user_id, token.name))

    def _forget(self, token: Token) -> None:
        del self._by_hash[token.token_hash]
        self._digest.toggle_token(token)
        if token.expires_at is not None:
            entry = (token.expires_at, token.user_id, token.name)
            at = bisect_left(self._expiring, entry)
            assert self._expiring[at] == entry
            del self._expiring[at]


def _find(tokens: tuple[Token, ...], name: str) -> Token | None:
    at = bisect_left(tokens, name, key=_name)
    return tokens[at] if at < len(tokens) and tokens[at].name == name else None


def _name(token: Token) -> str:
    return token.name


def _expiry(entry: tuple[int, int, str]) -> int:
    return entry[0]
