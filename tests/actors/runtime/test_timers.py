"""A timer by itself: when it is due again, and what it never does."""

from levrier.actors.runtime import Probe, SteppedRuntime
from levrier.actors.runtime.timers import MessageTimer

MILLI = 1_000_000


def tick_of(recipient: Probe[str], *, milliseconds: int = 10, repeat: bool = True) -> MessageTimer:
    return MessageTimer(now_nanos=0, milliseconds=milliseconds, repeat=repeat, recipient=recipient, message="tick")


def test_a_late_timer_fires_once_and_keeps_its_rhythm() -> None:
    probe = Probe[str]()
    timer = tick_of(probe)

    assert timer.fire(57 * MILLI)

    assert probe.take_all() == ["tick"]
    assert timer.due_nanos == 60 * MILLI


def test_a_timer_on_time_is_due_one_interval_later() -> None:
    timer = tick_of(Probe[str]())

    assert timer.fire(10 * MILLI)

    assert timer.due_nanos == 20 * MILLI


def test_a_timer_that_does_not_repeat_has_no_next_time() -> None:
    probe = Probe[str]()

    assert not tick_of(probe, repeat=False).fire(10 * MILLI)

    assert probe.take_all() == ["tick"]


def test_a_cancelled_timer_does_not_fire() -> None:
    probe = Probe[str]()
    timer = tick_of(probe)
    timer.cancel()

    assert not timer.fire(10 * MILLI)

    probe.assert_silent()


def test_a_tick_that_still_waits_is_not_queued_again() -> None:
    runtime = SteppedRuntime(1)
    probe = runtime.probe("slow")
    timer = MessageTimer(now_nanos=0, milliseconds=10, repeat=True, recipient=runtime.address("slow"), message="tick")

    for milliseconds in (10, 20, 30):
        timer.fire(milliseconds * MILLI)
    runtime.run()
    flooded = probe.take_all()
    timer.fire(40 * MILLI)
    runtime.run()

    assert flooded == ["tick"]
    assert probe.take_all() == ["tick"]


def test_a_tick_in_the_mailbox_is_taken_back_by_cancel() -> None:
    runtime = SteppedRuntime(1)
    probe = runtime.probe("slow")
    timer = MessageTimer(now_nanos=0, milliseconds=10, repeat=True, recipient=runtime.address("slow"), message="tick")
    timer.fire(10 * MILLI)

    timer.cancel()
    runtime.run()

    probe.assert_silent()
