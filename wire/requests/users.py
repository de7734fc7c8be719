"""Requests about users (requests specification 5). A password never appears in the representation of a request."""

from dataclasses import dataclass, field
from typing import Self

from levrier.wire.body import Body, EmptyBody
from levrier.wire.identifiers import Identifier
from levrier.wire.options import read_options
from levrier.wire.permissions import Permissions, read_optional_permissions, write_optional_permissions
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateUser(Body):
    """`password` is clear in a request and an Argon2 hash in the log. `status` is the raw byte as sent."""

    username: str
    password: str = field(repr=False)
    status: int = 1
    permissions: Permissions | None = None
    options: bytes = b""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            username=reader.name("username"),
            password=reader.short_text("password"),
            status=reader.u8("status"),
            permissions=read_optional_permissions(reader),
            options=read_options(reader),
        )

    def write(self, writer: Writer) -> None:
        writer.name(self.username, "username")
        writer.short_text(self.password, "password")
        writer.u8(self.status, "status")
        write_optional_permissions(writer, self.permissions)
        writer.raw(self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTarget(Body):
    """A request that names a user and nothing else."""

    user: Identifier

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(user=Identifier.read(reader, "user"))

    def write(self, writer: Writer) -> None:
        self.user.write(writer)


class DeleteUser(UserTarget):
    """Deletes a user with its tokens and memberships."""

    __slots__ = ()


class GetUser(UserTarget):
    """Asks for one user and its permissions."""

    __slots__ = ()


class GetUsers(EmptyBody):
    """Asks for all users."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateUser(Body):
    """Changes what is given; `status` is the raw byte as sent."""

    user: Identifier
    username: str | None = None
    status: int | None = None
    options: bytes = b""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            user=Identifier.read(reader, "user"),
            username=reader.name("username") if reader.flag("has_username") else None,
            status=reader.u8("status") if reader.flag("has_status") else None,
            options=read_options(reader),
        )

    def write(self, writer: Writer) -> None:
        self.user.write(writer)
        writer.flag(self.username is not None)
        if self.username is not None:
            writer.name(self.username, "username")
        writer.flag(self.status is not None)
        if self.status is not None:
            writer.u8(self.status, "status")
        writer.raw(self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePermissions(Body):
    """Replaces the permissions of a user; None takes all away."""

    user: Identifier
    permissions: Permissions | None

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(user=Identifier.read(reader, "user"), permissions=read_optional_permissions(reader))

    def write(self, writer: Writer) -> None:
        self.user.write(writer)
        write_optional_permissions(writer, self.permissions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePassword(Body):
    """In the log the current password is empty and the new one a hash; empty there: the current one was wrong."""

    user: Identifier
    current_password: str = field(repr=False)
    new_password: str = field(repr=False)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            user=Identifier.read(reader, "user"),
            current_password=reader.short_text("current_password"),
            new_password=reader.short_text("new_password"),
        )

    def write(self, writer: Writer) -> None:
        self.user.write(writer)
        writer.short_text(self.current_password, "current_password")
        writer.short_text(self.new_password, "new_password")
