"""The response to a login (requests specification 4.3)."""

from dataclasses import dataclass
from typing import Self

from levrier.wire.body import ResponseBody
from levrier.wire.protocol_version import CURRENT
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginResponse(ResponseBody):
    """`session` is the session epoch and must not be 0."""

    user_id: int
    session: int
    protocol_version: int = CURRENT
    server_version: str

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            user_id=reader.u32("user_id"),
            session=reader.u64("session"),
            protocol_version=reader.u32("protocol_version"),
            server_version=reader.name("server_version"),
        )

    def write(self, writer: Writer) -> None:
        writer.u32(self.user_id, "user_id")
        writer.u64(self.session, "session")
        writer.u32(self.protocol_version, "protocol_version")
        writer.name(self.server_version, "server_version")
