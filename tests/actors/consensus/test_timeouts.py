"""The timers, tick by tick."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levrier.actors.consensus.timeouts import Jitter, Timeout, Timeouts


def ticked(timer: Timeout, count: int) -> Timeout:
    for _ in range(count):
        timer.tick()
    return timer


def test_a_timer_fires_on_its_last_tick_and_not_before() -> None:
    """C-021."""
    timer = Timeout(10)
    assert not timer.ticking
    assert not ticked(timer, 20).fired
    timer.start()
    for _ in range(9):
        timer.tick()
        assert not timer.fired
    assert ticked(timer, 1).fired


def test_a_fired_timer_keeps_firing_until_it_is_re_armed() -> None:
    """Section 3."""
    timer = Timeout(3)
    timer.start()
    assert ticked(timer, 3).fired
    assert ticked(timer, 5).fired
    timer.reset()
    assert not timer.fired


def test_a_reset_timer_needs_a_full_interval_again() -> None:
    """C-022."""
    timer = Timeout(10)
    timer.start()
    ticked(timer, 5)
    timer.reset()
    assert timer.ticking
    assert not ticked(timer, 9).fired
    assert ticked(timer, 1).fired


def test_a_stopped_timer_never_fires() -> None:
    """C-023."""
    timer = Timeout(10)
    timer.start()
    ticked(timer, 5)
    timer.stop()
    assert not ticked(timer, 100).fired


def test_a_stopped_timer_cannot_be_reset() -> None:
    """Section 3: calling reset on a stopped timer is a bug."""
    with pytest.raises(AssertionError):
        Timeout(10).reset()


@given(seed=st.integers(0, 2**32), attempts=st.integers(1, 9))
def test_back_off_waits_at_least_the_doubled_interval(seed: int, attempts: int) -> None:
    """C-024: and at most as much again on top, never more than 32 intervals in all."""
    timer, jitter = Timeout(25), Jitter(seed)
    timer.start()
    for _ in range(attempts):
        timer.back_off(jitter)
    base = 25 * 2 ** min(attempts, 4)
    assert base <= timer.remaining <= 2 * base
    assert timer.remaining >= timer.after


def test_starting_forgets_the_back_off() -> None:
    """Section 3."""
    timer = Timeout(25)
    timer.start()
    timer.back_off(Jitter(1))
    timer.start()
    assert (timer.remaining, timer.attempts) == (25, 0)


def test_the_jitter_follows_replica_and_group() -> None:
    """Section 3: seeded by replica XOR group, so that replicas differ and runs repeat."""
    first, again, other = (Timeouts(replica=replica, group=8).jitter.up_to(1 << 60) for replica in (1, 1, 2))
    assert first == again
    assert first != other


def test_the_seven_intervals() -> None:
    """The table of section 3, in ticks of 10 ms."""
    timeouts = Timeouts(replica=0, group=0)
    assert [
        timeouts.prepare.after,
        timeouts.commit_message.after,
        timeouts.normal_heartbeat.after,
        timeouts.start_view_change.after,
        timeouts.do_view_change.after,
        timeouts.view_change_status.after,
        timeouts.request_start_view.after,
    ] == [25, 50, 500, 50, 50, 500, 100]


def test_the_jitter_is_spread_over_the_whole_interval() -> None:
    """Section 3: uniform, both ends included."""
    jitter = Jitter(7)
    drawn = [jitter.up_to(9) for _ in range(1000)]
    assert sorted(set(drawn)) == list(range(10))
    assert max(map(drawn.count, range(10))) < 150


def test_the_jitter_is_splitmix64() -> None:
    """The first outputs of the published generator for seed 0."""
    jitter = Jitter(0)
    assert [jitter.up_to((1 << 64) - 1) for _ in range(2)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
