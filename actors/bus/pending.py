"""The one request of a connection that is being handled, and how far it has come."""

from enum import IntEnum, unique

from levrier.actors.bus import admission, login, tokens
from levrier.actors.bus.messages import Ticket
from levrier.wire.headers import RequestHeader


@unique
class Stage(IntEnum):
    """What the open request waits for."""

    CREDENTIALS = 0
    VERIFICATION = 1
    REGISTER = 2
    COMMIT = 3
    LOGOUT = 4
    QUERY = 5
    COURSE = 6
    STATUS = 7
    TOKEN = 8


class Pending:
    """The open request. `login` belongs to a Register; `course` and `awaited`, the class of the answer that the course
    waits for, to an admission under way; `minted` to a token whose creation is in the log."""

    __slots__ = ("awaited", "course", "header", "login", "minted", "stage", "ticket")

    def __init__(self, ticket: Ticket, header: RequestHeader, stage: Stage, minted: tokens.Minted | None) -> None:
        self.ticket = ticket
        self.header = header
        self.stage = stage
        self.minted = minted
        self.login: login.Attempt | None = None
        self.course: admission.Course | None = None
        self.awaited: type | None = None
