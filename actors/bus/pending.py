"""The one request of a connection that is being handled, and how far it has come."""

from enum import IntEnum, unique

from levrier.actors.bus import admission, login, tokens
from levrier.actors.bus.messages import Ticket
from levrier.wire.headers import RequestHeader


@unique
class Stage(IntEnum):
    """What the open request waits for."""

    REGISTER = 0
    COMMIT = 1
    LOGOUT = 2
    QUERY = 3
    COURSE = 4
    STATUS = 5


class Pending:
    """The open request. `course` and `awaited`, the class of the answer that the course waits for, belong to a login or an
    admission under way; `user_id` to a login that is in the log, `minted` to a token whose creation is."""

    __slots__ = ("awaited", "course", "header", "minted", "stage", "ticket", "user_id")

    def __init__(self, ticket: Ticket, header: RequestHeader, stage: Stage, minted: tokens.Minted | None) -> None:
        self.ticket = ticket
        self.header = header
        self.stage = stage
        self.minted = minted
        self.user_id: int | None = None
        self.course: admission.Course | login.Course | None = None
        self.awaited: type | None = None
