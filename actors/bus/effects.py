"""What the pure parts of the Bus want done.

A message for a neighbour is its own effect: its type names the neighbour. The rest are the few things that the Bus does
itself: compare or hash a password off the hot path, write a frame, close, stop and go on reading.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from levrier.actors.bus.messages import Ticket
from levrier.actors.client_table.messages import Preflight
from levrier.actors.consensus.messages import StatusQuery
from levrier.actors.metadata import messages as metadata
from levrier.wire.frozen import quick_init
from levrier.wire.requests.system import GetSnapshotFile


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPassword:
    """Compare `password` with `password_hash` in a worker thread. Answered by bus.PasswordVerified."""

    ticket: Ticket
    password: str = field(repr=False)
    password_hash: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HashPassword:
    """Hash a new password under a fresh salt in a worker thread. Answered by bus.PasswordHashed."""

    ticket: Ticket
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildArchive:
    """Pack the diagnostics archive in a worker thread. `status` is that of the replica. Answered by bus.ArchiveBuilt."""

    ticket: Ticket
    request: GetSnapshotFile
    status: bytes


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFrame:
    """One frame for the client: the answer to exactly one of its requests. It may show a token, once."""

    frame: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseConnection:
    """Close the connection. `abort` drops what was not written yet; otherwise it is flushed first."""

    connection: int
    reason: str
    abort: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseReading:
    """Take no more bytes from the connection: it has its share in flight."""

    connection: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeReading:
    """Take bytes from the connection again."""

    connection: int


Question: TypeAlias = Preflight | metadata.Question | StatusQuery | VerifyPassword | HashPassword | BuildArchive
"""What a gateway asks on behalf of the request it is handling."""

GatewayEffect: TypeAlias = Question | WriteFrame | CloseConnection
"""What a gateway may want done."""

Effect: TypeAlias = Question | CloseConnection | PauseReading | ResumeReading
"""What the Bus core may want done; frames to write are collected and handed out joined."""
