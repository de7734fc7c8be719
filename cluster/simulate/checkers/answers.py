"""Every request that a member took is answered, or its connection closed, within a bound of virtual time.

The bound is that of a cluster which loses its primary: a backup misses two heartbeats and a view change follows, and there is
some slack. The answer may be a transient refusal. Time in which the member could not answer, since it stood still or its disk
was bad, does not count, nor does what the links do to the client.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from levrier.cluster.simulate.checkers.violation import Rule, Violation, operation_name
from levrier.wire.headers import RequestHeader

SLACK_TICKS: Final = 500

_NANOS_PER_MILLI: Final = 1_000_000
_NANOS: Final = 1_000_000_000


def answer_bound_ms(*, heartbeat_ticks: int, view_change_ticks: int, tick_milliseconds: int) -> int:
    """Virtual milliseconds in which a request is answered."""
    return (2 * heartbeat_ticks + view_change_ticks + SLACK_TICKS) * tick_milliseconds


@dataclass(slots=True)
class _Open:
    """A request without an answer. `since`: from when on its member could have answered."""

    who: str
    replica: int
    frame: bytes
    asked_at: int
    since: int


class AnswerCheck:
    """Told what reaches the members and what they do about it; one request at a time on each connection."""

    def __init__(self, bound_ms: int) -> None:
        self.bound_ms = bound_ms
        self._open: dict[object, _Open] = {}

    def asked(self, connection: object, *, who: str, replica: int, frame: bytes, now_nanos: int) -> None:
        """A request of that client has reached a member."""
        self._open[connection] = _Open(who, replica, frame, now_nanos, now_nanos)

    def settled(self, connection: object) -> None:
        """The member has answered, or the connection is closed."""
        self._open.pop(connection, None)

    def look(self, now_nanos: int, is_fit: Callable[[int], bool]) -> None:
        """`Violation` when a request waits for longer than the bound at a member that is fit to answer all that time."""
        fit: dict[int, bool] = {}
        for waiting in self._open.values():
            replica = waiting.replica
            if replica not in fit:
                fit[replica] = is_fit(replica)
            if not fit[replica]:
                waiting.since = now_nanos
            elif now_nanos - waiting.since > self.bound_ms * _NANOS_PER_MILLI:
                header = RequestHeader.decode(waiting.frame)
                raise Violation(
                    Rule.EVERY_REQUEST_IS_ANSWERED,
                    f"node-{replica} took {operation_name(header.operation)} (request {header.request}) of {waiting.who} "
                    f"at t={waiting.asked_at / _NANOS:.3f}s, and in {self.bound_ms} ms in which it was well it has "
                    "neither answered nor closed the connection",
                )
