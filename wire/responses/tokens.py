"""Responses about personal access tokens (requests specification 6)."""

from dataclasses import dataclass, field
from typing import Self

from levrier.wire.body import ResponseBody
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedToken(ResponseBody):
    """The secret, shown once."""

    token: str = field(repr=False)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(token=reader.short_text("token"))

    def write(self, writer: Writer) -> None:
        writer.short_text(self.token, "token")


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalAccessToken(ResponseBody):
    """One token of the caller. `expires_at` in microseconds since the epoch; 0 means never."""

    name: str
    expires_at: int

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(name=reader.name("name"), expires_at=reader.u64("expires_at"))

    def write(self, writer: Writer) -> None:
        writer.name(self.name, "name")
        writer.u64(self.expires_at, "expires_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalAccessTokenList(ResponseBody):
    """The tokens of the caller. There is no count; the body ends with the last one."""

    tokens: tuple[PersonalAccessToken, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        tokens = []
        while reader.remaining:
            tokens.append(PersonalAccessToken.read(reader))
        return cls(tokens=tuple(tokens))

    def write(self, writer: Writer) -> None:
        for token in self.tokens:
            token.write(writer)
