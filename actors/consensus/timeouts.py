"""The seven timers of a replica, in whole ticks (consensus specification 3).

A fired timer keeps firing at every tick until something re-arms or stops it. Only the prepare timer backs off; its jitter
comes from a generator of its own (SplitMix64), seeded with the replica index XOR the group, so that replicas differ and
runs repeat.
Which message a firing sends is decided elsewhere.
"""

from typing import Final

TICK_MILLISECONDS: Final = 10
"""One consensus tick."""

BACKOFF_SHIFT_MAX: Final = 4
"""The interval is doubled at most this often."""

PREPARE_TICKS: Final = 25
COMMIT_MESSAGE_TICKS: Final = 50
NORMAL_HEARTBEAT_TICKS: Final = 500
START_VIEW_CHANGE_TICKS: Final = 50
DO_VIEW_CHANGE_TICKS: Final = 50
VIEW_CHANGE_STATUS_TICKS: Final = 500
REQUEST_START_VIEW_TICKS: Final = 100

assert COMMIT_MESSAGE_TICKS * 2 < NORMAL_HEARTBEAT_TICKS, "a lost heartbeat must not cause an election"


_U64_MASK: Final = (1 << 64) - 1


class Jitter:
    """A small repeatable source of numbers: SplitMix64. For spreading retries, for nothing that must be secret."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _U64_MASK

    def up_to(self, limit: int) -> int:
        """A number from 0 to `limit`, both included; the next one each time."""
        assert limit >= 0
        self._state = (self._state + 0x9E3779B97F4A7C15) & _U64_MASK
        mixed = self._state
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _U64_MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _U64_MASK
        return (mixed ^ mixed >> 31) % (limit + 1)


class Timeout:
    """One timer: an interval, whether it ticks, and what remains. `after` and `remaining` are ticks."""

    __slots__ = ("after", "attempts", "remaining", "ticking")

    def __init__(self, after: int) -> None:
        assert after > 0
        self.after = after
        self.remaining = 0
        self.attempts = 0
        self.ticking = False

    @property
    def fired(self) -> bool:
        """Whether the interval has passed and nothing has re-armed or stopped the timer since."""
        return self.ticking and self.remaining == 0

    def start(self) -> None:
        """Tick, with a full interval ahead and no back-off."""
        self.remaining = self.after
        self.attempts = 0
        self.ticking = True

    def stop(self) -> None:
        """Tick no more."""
        self.ticking = False

    def reset(self) -> None:
        """A full interval ahead and no back-off, on a timer that ticks already."""
        assert self.ticking, "a stopped timer is started, not reset"
        self.remaining = self.after
        self.attempts = 0

    def back_off(self, jitter: Jitter) -> None:
        """Wait longer than the last time: the doubled interval, at most sixteen times, and up to as much again."""
        assert self.ticking
        self.attempts += 1
        base = self.after << min(self.attempts, BACKOFF_SHIFT_MAX)
        self.remaining = base + jitter.up_to(base)

    def tick(self) -> None:
        """One tick has passed."""
        if self.ticking and self.remaining > 0:
            self.remaining -= 1


class Timeouts:
    """All seven timers of a replica; none ticks until it is started."""

    __slots__ = (
        "commit_message",
        "do_view_change",
        "jitter",
        "normal_heartbeat",
        "prepare",
        "request_start_view",
        "start_view_change",
        "view_change_status",
    )

    def __init__(
        self,
        *,
        replica: int,
        group: int,
        heartbeat_ticks: int = NORMAL_HEARTBEAT_TICKS,
        view_change_ticks: int = VIEW_CHANGE_STATUS_TICKS,
    ) -> None:
        self.jitter = Jitter(replica ^ group)
        self.prepare = Timeout(PREPARE_TICKS)
        self.commit_message = Timeout(COMMIT_MESSAGE_TICKS)
        self.normal_heartbeat = Timeout(heartbeat_ticks)
        self.start_view_change = Timeout(START_VIEW_CHANGE_TICKS)
        self.do_view_change = Timeout(DO_VIEW_CHANGE_TICKS)
        self.view_change_status = Timeout(view_change_ticks)
        self.request_start_view = Timeout(REQUEST_START_VIEW_TICKS)

    def tick(self) -> None:
        """One tick has passed for all of them."""
        self.prepare.tick()
        self.commit_message.tick()
        self.normal_heartbeat.tick()
        self.start_view_change.tick()
        self.do_view_change.tick()
        self.view_change_status.tick()
        self.request_start_view.tick()
