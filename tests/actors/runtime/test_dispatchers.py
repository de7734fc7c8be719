"""Dispatchers by themselves: no wake-up is lost, a surplus one does no harm."""

import threading
from collections.abc import Callable

import pytest

from levrier.actors.runtime import AsyncioDispatcher, ThreadDispatcher
from levrier.actors.runtime.cell import Cell
from levrier.actors.runtime.dispatchers import WAKES_WITHIN, Dispatcher

HOPS = 5000


class Host:
    """Records what went wrong."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def actor_raised(self, cell: Cell, error: Exception) -> None:  # noqa: ARG002
        self.errors.append(error)

    def dispatcher_died(self, name: str, error: BaseException) -> None:  # noqa: ARG002
        self.errors.append(error)


def make(kind: type[ThreadDispatcher] | type[AsyncioDispatcher], host: Host, name: str) -> Dispatcher:
    return kind(name=name, thread_name=f"test-{name}", host=host)


@pytest.mark.usefixtures("hasty_switching")
@pytest.mark.parametrize("kind", [ThreadDispatcher, AsyncioDispatcher])
def test_no_wake_up_is_lost(kind: type[ThreadDispatcher] | type[AsyncioDispatcher]) -> None:
    """One entry at a time, posted the moment the dispatcher goes to sleep: a lost wake-up would end the game."""
    host, done = Host(), threading.Semaphore(0)
    dispatcher = make(kind, host, "sleepy")
    dispatcher.start()
    for _ in range(HOPS):
        dispatcher.post(done.release)
        arrived = done.acquire(timeout=10)
        assert arrived, "a wake-up was lost"
    dispatcher.close()
    dispatcher.thread.join(10)

    assert not dispatcher.thread.is_alive()
    assert host.errors == []


@pytest.mark.parametrize("kind", [ThreadDispatcher, AsyncioDispatcher])
def test_surplus_wake_ups_do_no_harm_even_at_the_end(kind: type[ThreadDispatcher] | type[AsyncioDispatcher]) -> None:
    host = Host()
    dispatcher = make(kind, host, "nervous")

    def close_and_wake() -> None:
        dispatcher.close()
        dispatcher.wake()
        dispatcher.wake()

    dispatcher.start()
    dispatcher.post(close_and_wake)
    dispatcher.thread.join(10)
    dispatcher.wake()

    assert not dispatcher.thread.is_alive()
    assert host.errors == []


@pytest.mark.parametrize("kind", [ThreadDispatcher, AsyncioDispatcher])
def test_what_was_posted_before_the_close_is_done(kind: type[ThreadDispatcher] | type[AsyncioDispatcher]) -> None:
    host = Host()
    dispatcher = make(kind, host, "diligent")
    done: list[int] = []

    def job(number: int) -> Callable[[], None]:
        return lambda: done.append(number)

    for number in range(1000):
        dispatcher.post(job(number))
    dispatcher.close()
    dispatcher.start()
    dispatcher.thread.join(10)

    assert done == list(range(1000))


@pytest.mark.parametrize("kind", [ThreadDispatcher, AsyncioDispatcher])
def test_an_error_outside_any_actor_is_reported(kind: type[ThreadDispatcher] | type[AsyncioDispatcher]) -> None:
    host = Host()
    dispatcher = make(kind, host, "broken")

    def leave() -> None:
        raise SystemExit(3)

    dispatcher.post(leave)
    dispatcher.start()
    dispatcher.thread.join(10)

    assert not dispatcher.thread.is_alive()
    assert [type(error) for error in host.errors] == [SystemExit]


class Sleeper(Dispatcher):
    """Notes when it is roused, and does nothing."""

    def __init__(self, host: Host, events: list[int | str]) -> None:
        super().__init__(name="sleeper", thread_name="test-sleeper", host=host)
        self._events = events
        self.was_roused = threading.Event()
        self.idle = True

    def rouse(self) -> None:
        """Note it."""
        self._events.append("roused")
        self.was_roused.set()

    def _run(self) -> None:
        raise AssertionError("it is never started")


def run_jobs(kind: type[ThreadDispatcher] | type[AsyncioDispatcher], jobs: int) -> list[int | str]:
    """Have a dispatcher find that many jobs, of which the first wakes another dispatcher. What happened, in order."""
    host, events = Host(), list[int | str]()
    dispatcher, sleeper = make(kind, host, "busy"), Sleeper(host, events)

    def job(number: int) -> Callable[[], None]:
        def run() -> None:
            events.append(number)
            sleeper.post(run)

        return run

    for number in range(jobs):
        dispatcher.post(job(number))
    dispatcher.close()
    dispatcher.start()
    dispatcher.thread.join(10)
    assert host.errors == []
    return events


@pytest.mark.parametrize("kind", [ThreadDispatcher, AsyncioDispatcher])
def test_another_dispatcher_is_roused_once_when_the_turn_ends(
    kind: type[ThreadDispatcher] | type[AsyncioDispatcher],
) -> None:
    assert run_jobs(kind, 3) == [0, 1, 2, "roused"]


@pytest.mark.parametrize("kind", [ThreadDispatcher, AsyncioDispatcher])
def test_a_long_turn_does_not_keep_another_dispatcher_asleep(
    kind: type[ThreadDispatcher] | type[AsyncioDispatcher],
) -> None:
    events = run_jobs(kind, 3 * WAKES_WITHIN)

    assert events.index("roused") == WAKES_WITHIN
    assert events.count("roused") == 1


def test_what_a_socket_brings_rouses_another_dispatcher_though_no_turn_is_due() -> None:
    host = Host()
    dispatcher, sleeper = AsyncioDispatcher(name="io", thread_name="test-io", host=host), Sleeper(host, [])
    dispatcher.start()
    dispatcher.loop.call_soon_threadsafe(sleeper.post, lambda: None)
    roused = sleeper.was_roused.wait(10)
    dispatcher.close()
    dispatcher.thread.join(10)

    assert roused


@pytest.mark.parametrize("kind", [ThreadDispatcher, AsyncioDispatcher])
def test_a_dispatcher_that_dies_leaves_nobody_asleep(kind: type[ThreadDispatcher] | type[AsyncioDispatcher]) -> None:
    host, events = Host(), list[int | str]()
    dispatcher, sleeper = make(kind, host, "dying"), Sleeper(host, events)

    def wake_and_leave() -> None:
        sleeper.post(wake_and_leave)
        raise SystemExit(3)

    dispatcher.post(wake_and_leave)
    dispatcher.start()
    dispatcher.thread.join(10)

    assert events == ["roused"]


@pytest.mark.usefixtures("hasty_switching")
@pytest.mark.parametrize("kind", [ThreadDispatcher, AsyncioDispatcher])
def test_no_wake_up_between_two_dispatchers_is_lost(kind: type[ThreadDispatcher] | type[AsyncioDispatcher]) -> None:
    """One entry goes to and fro; each dispatcher has fallen asleep, or is about to, when its turn comes."""
    host, done = Host(), threading.Event()
    here, there = make(kind, host, "here"), make(ThreadDispatcher, host, "there")

    def hop(left: int) -> None:
        if left:
            (here if left % 2 else there).post(lambda: hop(left - 1))
        else:
            done.set()

    for dispatcher in (here, there):
        dispatcher.start()
    here.post(lambda: hop(HOPS))
    arrived = done.wait(30)
    for dispatcher in (here, there):
        dispatcher.close()
        dispatcher.thread.join(10)

    assert arrived, "a wake-up was lost"
    assert host.errors == []
