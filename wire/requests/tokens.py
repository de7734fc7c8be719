"""Requests about personal access tokens: always the caller's own (requests specification 6)."""

from dataclasses import dataclass
from typing import Self

from levrier.wire.body import Body, EmptyBody
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePersonalAccessToken(Body):
    """`expiry` is in microseconds from now; 0 and the largest u64 both mean never."""

    name: str
    expiry: int

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(name=reader.name("name"), expiry=reader.u64("expiry"))

    def write(self, writer: Writer) -> None:
        writer.name(self.name, "name")
        writer.u64(self.expiry, "expiry")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePersonalAccessToken(Body):
    """Deletes a token by its name."""

    name: str

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(name=reader.name("name"))

    def write(self, writer: Writer) -> None:
        writer.name(self.name, "name")


class GetPersonalAccessTokens(EmptyBody):
    """Asks for the caller's tokens."""

    __slots__ = ()
