"""Dispatchers by themselves: no wake-up is lost, a surplus one does no harm."""

import threading
from collections.abc import Callable

import pytest

from levrier.actors.runtime import AsyncioDispatcher, ThreadDispatcher
from levrier.actors.runtime.cell import Cell
from levrier.actors.runtime.dispatchers import Dispatcher

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
