"""A log with the operations on users and tokens by name, and what the machine says of them."""

from levrier.actors.metadata import queries
from levrier.actors.metadata.machine import Applied
from levrier.actors.metadata.users import User
from levrier.wire.codes import COMMITTED_CODES, CommandCode, Operation
from levrier.wire.permissions import GlobalPermissions, Permissions
from levrier.wire.replies import result_rejection
from levrier.wire.requests.replicated import CreatePersonalAccessTokenReplicated, DeletePersonalAccessTokenReplicated
from levrier.wire.requests.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    UpdatePermissions,
    UpdateUser,
)
from levrier.wire.responses.tokens import PersonalAccessTokenList
from levrier.wire.responses.users import UserDetails, UserList
from tests.actors.metadata.support import HASH, Key, Log, named

NEVER = 2**64 - 1
MANAGE_USERS = Permissions(GlobalPermissions(manage_users=True))
MANAGE_STREAMS = Permissions(GlobalPermissions(manage_streams=True))
POLL = Permissions(GlobalPermissions(poll_messages=True))


def token_hash(number: int) -> str:
    """One of many hashes."""
    return f"{number:064x}"


class UserLog(Log):
    """A machine with root; each operation may commit the codes of its row only (wire 14.1)."""

    def __init__(self) -> None:
        super().__init__()
        self.bootstrap()

    def judged(self, operation: int, applied: Applied) -> Applied:
        assert applied.code in COMMITTED_CODES[operation]
        if applied.code:
            assert applied.body == result_rejection(applied.code)
            assert applied.dropped_users == ()
        return applied

    def create_user(
        self,
        name: str,
        permissions: Permissions | None = None,
        *,
        status: int = 1,
        password_hash: str = HASH,
        options: bytes = b"",
        user: int = 0,
    ) -> Applied:
        body = CreateUser(
            username=name, password=password_hash, status=status, permissions=permissions, options=options
        )
        return self.judged(141, self.apply(Operation.CREATE_USER, body, user=user))

    def update_user(
        self, target: Key, name: str | None = None, status: int | None = None, options: bytes = b"", *, user: int = 0
    ) -> Applied:
        body = UpdateUser(user=named(target), username=name, status=status, options=options)
        return self.judged(142, self.apply(Operation.UPDATE_USER, body, user=user))

    def delete_user(self, target: Key, *, user: int = 0) -> Applied:
        return self.judged(143, self.apply(Operation.DELETE_USER, DeleteUser(user=named(target)), user=user))

    def change_password(self, target: Key, password_hash: str, *, user: int = 0) -> Applied:
        body = ChangePassword(user=named(target), current_password="", new_password=password_hash)
        return self.judged(144, self.apply(Operation.CHANGE_PASSWORD, body, user=user))

    def update_permissions(self, target: Key, permissions: Permissions | None, *, user: int = 0) -> Applied:
        body = UpdatePermissions(user=named(target), permissions=permissions)
        return self.judged(145, self.apply(Operation.UPDATE_PERMISSIONS, body, user=user))

    def create_token(self, owner: int, name: str, expiry: int = 0, *, number: int = 1, user: int = 0) -> Applied:
        body = CreatePersonalAccessTokenReplicated(
            user_id=owner, name=name, expiry=expiry, token_hash=token_hash(number)
        )
        return self.judged(146, self.apply(Operation.CREATE_PERSONAL_ACCESS_TOKEN, body, user=user))

    def delete_token(self, owner: int, name: str, *, only_if_expired: bool = False, user: int = 0) -> Applied:
        body = DeletePersonalAccessTokenReplicated(user_id=owner, name=name, only_if_expired=only_if_expired)
        return self.judged(147, self.apply(Operation.DELETE_PERSONAL_ACCESS_TOKEN, body, user=user))

    @property
    def now(self) -> int:
        """The timestamp of the last op; the next one has the one after it."""
        return 1_000_000 + self.op

    def user(self, key: Key) -> User | None:
        """The stored user."""
        return self.machine.users.resolve(named(key))

    def known(self, key: Key) -> User:
        """The stored user, which must be there."""
        user = self.user(key)
        assert user is not None
        return user

    def shown(self, key: Key, *, user: int = 0) -> UserDetails | int | None:
        """What GET_USER shows a user: the details, None for not found, or the status."""
        status, body = queries.answer(self.machine, user, 7, CommandCode.GET_USER, GetUser(user=named(key)).encode())
        return status or UserDetails.decode_found(body)

    def listed(self, *, user: int = 0) -> list[str] | int:
        """The names that GET_USERS shows a user, or the status."""
        status, body = queries.answer(self.machine, user, 7, CommandCode.GET_USERS, b"")
        return status or [shown.username for shown in UserList.decode(body).users]

    def own_tokens(self, user: int) -> list[tuple[str, int]] | int:
        """Names and expiries that GET_PERSONAL_ACCESS_TOKENS shows a user, or the status."""
        status, body = queries.answer(self.machine, user, 7, CommandCode.GET_PERSONAL_ACCESS_TOKENS, b"")
        return status or [(token.name, token.expires_at) for token in PersonalAccessTokenList.decode(body).tokens]


def with_alice(permissions: Permissions | None = None) -> UserLog:
    """Root and alice, who is user 1."""
    log = UserLog()
    assert log.create_user("alice", permissions).code == 0
    return log
