"""Login and logout (requests specification 4).

Both logins travel as Register and nothing else tells them apart: a server tries the password form, then the token form.
Neither a password nor a token appears in the representation of a request.
"""

from dataclasses import dataclass, field
from typing import Self, TypeVar

from levrier.wire.body import Body, EmptyBody
from levrier.wire.errors import WireError
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer

_Form = TypeVar("_Form", bound=Body)


def _read_context(reader: Reader) -> bytes:
    return reader.block("context")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginPrefix:
    """What both forms start with; a login whose prefix does not decode is malformed (eviction 15)."""

    protocol_version: int
    sdk_name: str
    sdk_version: str

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the prefix of a login body; what follows is not looked at."""
        reader = Reader(data, "Login")
        return cls(
            protocol_version=reader.u32("protocol_version"),
            sdk_name=reader.name("sdk_name"),
            sdk_version=reader.name("sdk_version"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginWithPassword(Body):
    """Login with user and password (code 40)."""

    protocol_version: int
    sdk_name: str
    sdk_version: str
    username: str
    password: str = field(repr=False)
    context: bytes = b""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            protocol_version=reader.u32("protocol_version"),
            sdk_name=reader.name("sdk_name"),
            sdk_version=reader.name("sdk_version"),
            username=reader.name("username"),
            password=reader.short_text("password"),
            context=_read_context(reader),
        )

    def write(self, writer: Writer) -> None:
        writer.u32(self.protocol_version, "protocol_version")
        writer.name(self.sdk_name, "sdk_name")
        writer.name(self.sdk_version, "sdk_version")
        writer.name(self.username, "username")
        writer.short_text(self.password, "password")
        writer.block(self.context, "context")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginWithToken(Body):
    """Login with a personal access token (code 45)."""

    protocol_version: int
    sdk_name: str
    sdk_version: str
    token: str = field(repr=False)
    context: bytes = b""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            protocol_version=reader.u32("protocol_version"),
            sdk_name=reader.name("sdk_name"),
            sdk_version=reader.name("sdk_version"),
            token=reader.short_text("token"),
            context=_read_context(reader),
        )

    def write(self, writer: Writer) -> None:
        writer.u32(self.protocol_version, "protocol_version")
        writer.name(self.sdk_name, "sdk_name")
        writer.name(self.sdk_version, "sdk_version")
        writer.short_text(self.token, "token")
        writer.block(self.context, "context")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginForms:
    """The readings of one Register body: at least one is there."""

    password: LoginWithPassword | None
    token: LoginWithToken | None

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read a Register body in both forms. Raises `WireError` when neither fits."""
        password = _attempt(LoginWithPassword, data)
        token = _attempt(LoginWithToken, data)
        if password is None and token is None:
            raise WireError("neither form of a login", "Login")
        return cls(password=password, token=token)


def _attempt(form: type[_Form], data: bytes) -> _Form | None:
    try:
        return form.decode_whole(data)  # Their ends tell the two forms apart.
    except WireError:
        return None


class Logout(EmptyBody):
    """Ends the session."""

    __slots__ = ()
