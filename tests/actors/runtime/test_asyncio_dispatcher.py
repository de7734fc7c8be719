"""What is particular about a dispatcher that runs an event loop: its alarms and its end."""

import threading
import time

import pytest

from levrier.actors.runtime.asyncio_dispatcher import AsyncioDispatcher
from levrier.actors.runtime.cell import Cell
from levrier.actors.runtime.timers import MessageTimer

WAIT_SECONDS = 10.0
TICKS = 50


class Host:
    """Notes what dies."""

    def __init__(self) -> None:
        self.died: list[tuple[str, BaseException]] = []

    def actor_raised(self, cell: Cell, error: Exception) -> None:
        raise AssertionError(f"there is no actor {cell.name}") from error

    def dispatcher_died(self, name: str, error: BaseException) -> None:
        self.died.append((name, error))


@pytest.mark.parametrize("use_uvloop", [False, True], ids=["asyncio", "uvloop"])
def test_a_surplus_wake_up_behind_the_last_turn_does_not_stop_the_loop_again(use_uvloop: bool) -> None:
    """A second stop would come while the loop is being finished, and break that."""
    host = Host()
    dispatcher = AsyncioDispatcher(name="io", thread_name="io", host=host, use_uvloop=use_uvloop)
    dispatcher.post(dispatcher.rouse)
    dispatcher.close()
    dispatcher.start()
    dispatcher.thread.join(WAIT_SECONDS)

    assert not dispatcher.thread.is_alive()
    assert host.died == []


class Ticks:
    """Hears a timer; `enough` is set after `TICKS` times."""

    def __init__(self) -> None:
        self.count = 0
        self.enough = threading.Event()

    def tell(self, _message: object) -> None:
        self.count += 1
        if self.count == TICKS:
            self.enough.set()


@pytest.mark.parametrize("use_uvloop", [False, True], ids=["asyncio", "uvloop"])
def test_the_loop_does_not_spin_before_a_timer_is_due(use_uvloop: bool) -> None:
    """Whenever it has nothing to do it looks which timer is the next, and whether that one still has an owner."""
    looks = 0

    def owner_is_gone() -> bool:
        nonlocal looks
        looks += 1
        return False

    dispatcher = AsyncioDispatcher(name="io", thread_name="io", host=Host(), use_uvloop=use_uvloop)
    ticks = Ticks()
    dispatcher.add_timer(
        MessageTimer(
            now_nanos=time.monotonic_ns(),
            milliseconds=3,
            repeat=True,
            recipient=ticks,
            message=None,
            owner_is_gone=owner_is_gone,
        )
    )
    dispatcher.start()
    assert ticks.enough.wait(WAIT_SECONDS)
    dispatcher.close()
    dispatcher.thread.join(WAIT_SECONDS)
    assert looks <= 4 * TICKS
