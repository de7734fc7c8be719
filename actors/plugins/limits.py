"""Every bound of a plugin, in one place, and the bucket that says how often something may happen."""

from typing import Final

SUBMITS_IN_FLIGHT_MAX: Final = 32
"""Submits without a key that wait for their outcome, of one plugin."""

KEYED_SUBMITS_MAX: Final = 1024
"""Submits with a key that wait, of one plugin: one is under way at a time, and on a node that does not lead none is."""

SUBMITS_PER_SECOND_MAX: Final = 500
SUBMITS_AT_ONCE_MAX: Final = 300

QUESTIONS_IN_FLIGHT_MAX: Final = 8
QUESTIONS_PER_SECOND_MAX: Final = 50
QUESTIONS_AT_ONCE_MAX: Final = 50
"""A question is answered between two commits, so it costs everybody; a plugin that loops must not be felt."""

NOTICES_MAX: Final = 1024
NOTICES_SIZE_MAX: Final = 1024 * 1024
"""Commits that wait for one plugin, and their bodies in bytes; beyond it they are dropped and it has to look at the state."""

NOTICES_AT_ONCE_MAX: Final = 64
METRICS_MAX: Final = 64
METRIC_NAME_MAX: Final = 64

BLOCKED_SECONDS: Final = 5
"""A plugin that handles one delivery for longer than this is reported as blocking."""

SUBMIT_SECONDS: Final = 10
"""Without an answer for this long, a submit without a key is `UNKNOWN`, and one with a key is sent again."""

BACK_OFF_SECONDS: Final = 1
BACK_OFF_SECONDS_MAX: Final = 60
BACK_OFF_SHIFT_MAX: Final = 6
FORGIVEN_SECONDS: Final = 60
"""After this long without an exception the next one is the first again."""

INTERVAL_MILLISECONDS_MIN: Final = 100
WATCH_MILLISECONDS: Final = 100

NANOS_PER_SECOND: Final = 1_000_000_000

assert SUBMITS_IN_FLIGHT_MAX <= SUBMITS_AT_ONCE_MAX
assert NOTICES_AT_ONCE_MAX <= NOTICES_MAX
assert BACK_OFF_SECONDS << BACK_OFF_SHIFT_MAX >= BACK_OFF_SECONDS_MAX


class Bucket:
    """How often something may happen: `per_second` in the long run, `at_once` after a pause. Time is monotonic nanoseconds."""

    __slots__ = ("_at_once", "_last", "_left", "_per_second")

    def __init__(self, *, per_second: int, at_once: int, now: int) -> None:
        assert per_second > 0
        assert at_once > 0
        self._per_second = per_second
        self._at_once = at_once
        self._left = float(at_once)
        self._last = now

    def take(self, now: int) -> bool:
        """Whether it may happen now; if so, it is counted."""
        passed = max(0, now - self._last)
        self._last = now
        self._left = min(self._at_once, self._left + passed * self._per_second / NANOS_PER_SECOND)
        if self._left < 1:
            return False
        self._left -= 1
        return True


def back_off_seconds(failures: int) -> int:
    """The pause before a plugin that failed this many times in a row begins again."""
    assert failures >= 1
    return min(BACK_OFF_SECONDS_MAX, BACK_OFF_SECONDS << min(failures - 1, BACK_OFF_SHIFT_MAX))
