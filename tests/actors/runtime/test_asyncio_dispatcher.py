"""The end of a dispatcher that runs an event loop."""

import pytest

from levrier.actors.runtime.asyncio_dispatcher import AsyncioDispatcher
from levrier.actors.runtime.cell import Cell

WAIT_SECONDS = 10.0


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
