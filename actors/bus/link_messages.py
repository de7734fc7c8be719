"""What happens on the links between replicas, as the Bus actor is told it by timers and by a simulated network.

A real transport calls the Bus directly instead. Other actors never tell these: what they may tell is in `messages`.
Link numbers are unique within one node's life and never reused; they have nothing to do with replica ids.
"""

from dataclasses import dataclass

from levrier.wire.frozen import quick_init


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkAccepted:
    """Somebody dialled this node. `peer` is the address as `ip:port`; who it is, nobody knows yet."""

    link: int
    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkDialled:
    """A dial to that replica's address succeeded."""

    link: int
    replica: int
    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DialFailed:
    """A dial to that replica's address failed."""

    replica: int
    reason: str


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class LinkReceived:
    """Bytes arrived on a link, cut anywhere."""

    link: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkClosed:
    """A link is gone, whoever closed it."""

    link: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkResumed:
    """The peer reads again, after too much waited for it."""

    link: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RedialDue:
    """The pause before the next dial to that replica is over."""

    replica: int


LinkEvent = LinkAccepted | LinkDialled | DialFailed | LinkReceived | LinkClosed | LinkResumed | RedialDue
