"""Responses about users (requests specification 2.4, 2.5, 5)."""

from dataclasses import dataclass
from typing import Self

from levrier.wire.body import ResponseBody
from levrier.wire.errors import WireError
from levrier.wire.permissions import Permissions
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class User(ResponseBody):
    """One user. `status` is a raw byte: 1 active, 2 inactive."""

    id: int
    created_at: int
    status: int
    username: str
    options: bytes = b""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            id=reader.u32("id"),
            created_at=reader.u64("created_at"),
            status=reader.u8("status"),
            username=reader.name("username"),
            options=reader.block("options"),
        )

    def write(self, writer: Writer) -> None:
        writer.u32(self.id, "id")
        writer.u64(self.created_at, "created_at")
        writer.u8(self.status, "status")
        writer.name(self.username, "username")
        writer.block(self.options, "options")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDetails(ResponseBody):
    """One user and its permissions. Without permissions four zero bytes stand where flag and length would."""

    user: User
    permissions: Permissions | None = None

    @classmethod
    def read(cls, reader: Reader) -> Self:
        user = User.read(reader)
        flag = reader.u8("has_permissions")
        if flag == 0:
            reader.take(3, "has_permissions")
            return cls(user=user)
        if flag != 1:
            raise WireError(f"{flag} is neither 0 nor 1", reader.where("has_permissions"))
        return cls(user=user, permissions=Permissions.decode(reader.block("permissions")))

    def write(self, writer: Writer) -> None:
        self.user.write(writer)
        if self.permissions is None:
            writer.u32(0, "has_permissions")
        else:
            writer.u8(1, "has_permissions")
            writer.block(self.permissions.encode(), "permissions")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserList(ResponseBody):
    """All users. There is no count; the body ends with the last one."""

    users: tuple[User, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        users = []
        while reader.remaining:
            users.append(User.read(reader))
        return cls(users=tuple(users))

    def write(self, writer: Writer) -> None:
        for user in self.users:
            user.write(writer)
