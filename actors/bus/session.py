"""The session that a login binds to a connection, and what a closed connection leaves behind."""

from dataclasses import dataclass

from levrier.actors.bus.messages import Ticket


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Who speaks on a connection, and the epoch that every request of it must name."""

    client: int
    epoch: int
    user_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What a closed connection leaves behind: its session, or the ticket of a Register that may still commit."""

    session: Session | None
    register: Ticket | None
    register_client: int
