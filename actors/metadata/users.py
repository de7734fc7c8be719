"""The users machine: users, their rights and their tokens (state-machine 2.1, 5, 13; D-01 to D-04).

Root is created by an operation of the log like everybody else (D-01) and has id 0: it cannot be deleted, deactivated (D-03)
or stripped of its rights. User ids are never reused: `next_user_id` is replicated state, and a deleted user takes its
rights and its tokens along (D-02).

Every operation decides first and changes afterwards, in the order of checks of section 5. Passwords come as hashes, made
once at admission; nothing here hashes or compares.

Deviation from upstream: a new user gets the next id, not the lowest free one (D-02).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from levrier.actors.metadata.digest import Digest
from levrier.actors.metadata.options import NO_OPTIONS, OptionMap, OptionPool
from levrier.actors.metadata.permissions import ROOT_USER_ID, Permissioner
from levrier.actors.metadata.tokens import Token, TokensMachine
from levrier.wire.error_codes import ErrorCode
from levrier.wire.errors import WireError
from levrier.wire.identifiers import Identifier
from levrier.wire.names import is_valid_username
from levrier.wire.permissions import Permissions
from levrier.wire.requests.users import ChangePassword, CreateUser, DeleteUser, UpdatePermissions, UpdateUser

ACTIVE: Final = 1
INACTIVE: Final = 2

_NO_USER: Final = int(ErrorCode.RESOURCE_NOT_FOUND)
_WRONG_PASSWORD: Final = int(ErrorCode.INVALID_CREDENTIALS)
_BAD_USERNAME: Final = int(ErrorCode.INVALID_USERNAME)
_USER_EXISTS: Final = int(ErrorCode.USER_ALREADY_EXISTS)
_ROOT_STAYS: Final = int(ErrorCode.CANNOT_DELETE_USER)
_ROOT_MAY_ALL: Final = int(ErrorCode.CANNOT_CHANGE_PERMISSIONS)
_BAD_OPTION: Final = int(ErrorCode.INVALID_OPTION_VALUE)


class User(NamedTuple):
    """One user. `password_hash` is an Argon2 PHC string, a secret: it must not be logged (D-20)."""

    id: int
    username: str
    password_hash: str
    status: int
    created_at: int
    permissions: Permissions | None
    options: OptionMap

    def __repr__(self) -> str:
        return f"User(id={self.id}, username={self.username!r})"


class UsersMachine:
    """Users by id and by name, in ascending order of id. Operations return 0 or the code of the rejection."""

    __slots__ = ("_by_id", "_ids", "_pool", "digest", "next_user_id", "permissioner", "tokens")

    def __init__(self, pool: OptionPool) -> None:
        self.next_user_id = 0
        self.permissioner = Permissioner()
        self.digest = Digest()
        self.tokens = TokensMachine(self.digest)
        self._pool = pool
        self._by_id: dict[int, User] = {}
        self._ids: dict[str, int] = {}

    @classmethod
    def restore(
        cls, users: Sequence[User], tokens: Sequence[Sequence[Token]], next_user_id: int, pool: OptionPool
    ) -> "UsersMachine":
        """Rebuild from users in ascending order of id, and the tokens of each, ascending by name.

        Raises `ValueError` for what no machine ever was.
        """
        machine = cls(pool)
        machine.next_user_id = next_user_id
        if next_user_id and (not users or users[0].id != ROOT_USER_ID):
            raise ValueError("the root user is missing")
        previous = -1
        for user, owned in zip(users, tokens, strict=True):
            if user.id <= previous:
                raise ValueError(f"user id {user.id} does not follow {previous}")
            if user.username in machine._ids:
                raise ValueError(f"the user name {user.username!r} stands twice")
            if user.id >= next_user_id:
                raise ValueError(f"user id {user.id} is not below the next one, {next_user_id}")
            previous = user.id
            machine._add(user)
            machine.tokens.restore(user.id, owned)
        return machine

    # Operations

    def bootstrap_root(self, username: str, password_hash: str, timestamp: int) -> None:
        """Create the root user, or do nothing when it exists: every primary of a blank cluster may commit this (D-01)."""
        if self.bootstrapped:
            return
        assert self.next_user_id == ROOT_USER_ID, "another user came before root"
        self.next_user_id += 1
        self._add(
            User(
                id=ROOT_USER_ID,
                username=username,
                password_hash=password_hash,
                status=ACTIVE,
                created_at=timestamp,
                permissions=Permissions.root(),
                options=NO_OPTIONS,
            )
        )

    def create(self, request: CreateUser, timestamp: int) -> User | int:
        """Create a user, with the password hash in the place of the password; or the code of the rejection."""
        if not is_valid_username(request.username):
            return _BAD_USERNAME
        if request.username in self._ids:
            return _USER_EXISTS
        try:
            options = self._pool.patch(NO_OPTIONS, request.options)
        except WireError:
            return _BAD_OPTION
        user = User(
            id=self.next_user_id,
            username=request.username,
            password_hash=request.password,
            status=INACTIVE if request.status == INACTIVE else ACTIVE,
            created_at=timestamp,
            permissions=request.permissions,
            options=options,
        )
        self.next_user_id += 1
        self._add(user)
        return user

    def update(self, request: UpdateUser) -> int:
        """Rename a user, change its status, patch its options. An unknown status byte changes nothing."""
        user = self.resolve(request.user)
        if user is None:
            return _NO_USER
        if user.id == ROOT_USER_ID and request.status == INACTIVE:
            return _ROOT_STAYS  # D-03: everybody would be locked out.
        try:
            options = self._pool.patch(user.options, request.options)
        except WireError:
            return _BAD_OPTION
        username = user.username if request.username is None else request.username
        if request.username is not None:
            if not is_valid_username(username):
                return _BAD_USERNAME
            if self._ids.get(username, user.id) != user.id:
                return _USER_EXISTS
        status = request.status if request.status in (ACTIVE, INACTIVE) else user.status
        del self._ids[user.username]
        self._put(user._replace(username=username, status=status, options=options))
        return 0

    def delete(self, request: DeleteUser) -> User | int:
        """Delete a user with its rights and its tokens; its memberships and sessions are the caller's to end (D-02)."""
        user = self.resolve(request.user)
        if user is None:
            return _NO_USER
        if user.id == ROOT_USER_ID:
            return _ROOT_STAYS
        self.digest.toggle_user(user)
        del self._by_id[user.id]
        del self._ids[user.username]
        self.permissioner.drop(user.id)
        self.tokens.drop_user(user.id)
        return user

    def change_password(self, request: ChangePassword) -> int:
        """Replace the password hash. Admission leaves it empty when the current password was wrong (11.2)."""
        user = self.resolve(request.user)
        if user is None:
            return _NO_USER
        if not request.new_password:
            return _WRONG_PASSWORD
        self._put(user._replace(password_hash=request.new_password))
        return 0

    def update_permissions(self, request: UpdatePermissions) -> int:
        """Replace the rights of a user; None takes all away."""
        user = self.resolve(request.user)
        if user is None:
            return _NO_USER
        if user.id == ROOT_USER_ID:
            return _ROOT_MAY_ALL
        self._put(user._replace(permissions=request.permissions))
        return 0

    # Reads

    @property
    def bootstrapped(self) -> bool:
        """Whether the root user exists. Root cannot be deleted, so once true it stays true."""
        return ROOT_USER_ID in self._by_id

    def get(self, user_id: int) -> User | None:
        """The user with this id, or None."""
        return self._by_id.get(user_id)

    def find(self, username: str) -> User | None:
        """The user of this name, compared byte by byte, or None."""
        user_id = self._ids.get(username)
        return None if user_id is None else self._by_id[user_id]

    def resolve(self, user: Identifier) -> User | None:
        """The user that this identifier names, by id or by name, or None."""
        key = user.value
        return self.find(key) if isinstance(key, str) else self._by_id.get(key)

    def freeze(self) -> tuple[User, ...]:
        """All users in ascending order of id."""
        return tuple(self._by_id.values())

    # What goes with a freed id

    def forget_stream(self, stream_id: int) -> None:
        """A stream id was freed: the permission entries that name it go with it (D-02)."""
        for user_id in self.permissioner.holders(stream_id):
            user = self._by_id[user_id]
            if user.permissions is not None:
                self._put(user._replace(permissions=user.permissions.without_stream(stream_id)))

    def forget_topic(self, stream_id: int, topic_id: int) -> None:
        """A topic id was freed: the permission entries that name it go with it (D-02)."""
        for user_id in self.permissioner.holders(stream_id):
            user = self._by_id[user_id]
            if user.permissions is not None:
                self._put(user._replace(permissions=user.permissions.without_topic(stream_id, topic_id)))

    def _add(self, user: User) -> None:
        assert user.id not in self._by_id
        self._put(user)
        self.tokens.add_user(user.id)

    def _put(self, user: User) -> None:
        before = self._by_id.get(user.id)
        if before is not None:
            self.digest.toggle_user(before)
        self.digest.toggle_user(user)
        self._by_id[user.id] = user
        self._ids[user.username] = user.id
        self.permissioner.load(user.id, user.permissions)
