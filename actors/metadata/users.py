"""The users machine: the root user, names, password hashes and rights (state-machine 2.1, 5, 13; D-01, D-02).

Root is created by an operation of the log like everybody else (D-01) and has id 0. User ids are never reused: `next_user_id`
is replicated state. The operations on other users follow with their commands; reads and the gate already treat rights as
what the replicated state says.
"""

from typing import Final, NamedTuple

from levrier.actors.metadata.options import NO_OPTIONS, OptionMap
from levrier.actors.metadata.permissions import ROOT_USER_ID, Permissioner
from levrier.wire.permissions import Permissions

ACTIVE: Final = 1
INACTIVE: Final = 2


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
    """Users by id and by name, in ascending order of id."""

    __slots__ = ("_by_id", "_ids", "next_user_id", "permissioner")

    def __init__(self) -> None:
        self.next_user_id = 0
        self.permissioner = Permissioner()
        self._by_id: dict[int, User] = {}
        self._ids: dict[str, int] = {}

    @classmethod
    def restore(cls, users: list[User], next_user_id: int) -> "UsersMachine":
        """Rebuild from users in ascending order of id. Raises `ValueError` for what no machine ever was."""
        machine = cls()
        machine.next_user_id = next_user_id
        if next_user_id and (not users or users[0].id != ROOT_USER_ID):
            raise ValueError("the root user is missing")
        previous = -1
        for user in users:
            if user.id <= previous:
                raise ValueError(f"user id {user.id} does not follow {previous}")
            if user.username in machine._ids:
                raise ValueError(f"the user name {user.username!r} stands twice")
            if user.id >= next_user_id:
                raise ValueError(f"user id {user.id} is not below the next one, {next_user_id}")
            previous = user.id
            machine._put(user)
        return machine

    def bootstrap_root(self, username: str, password_hash: str, timestamp: int) -> None:
        """Create the root user, or do nothing when it exists: every primary of a blank cluster may commit this (D-01)."""
        if self.bootstrapped:
            return
        assert self.next_user_id == ROOT_USER_ID, "another user came before root"
        self.next_user_id += 1
        self._put(
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

    def freeze(self) -> tuple[User, ...]:
        """All users in ascending order of id."""
        return tuple(self._by_id.values())

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

    def _put(self, user: User) -> None:
        self._by_id[user.id] = user
        self._ids[user.username] = user.id
        self.permissioner.load(user.id, user.permissions)
