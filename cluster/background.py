"""An event loop in a thread of its own, for callers that have none: test harnesses, and the proxies of their links."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """Runs until `stop`. Work that is given to it is waited for in the caller's thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it takes work."""
        return not self._loop.is_closed()

    def run(self, work: Coroutine[Any, Any, T], *, seconds: float) -> T:
        """The result of the work. Raises `TimeoutError` when it takes longer than `seconds`; it is cancelled then."""
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C, in the middle of the wait.
            raise

    def stop(self) -> None:
        """End the thread; what still runs is cancelled. Safe to repeat."""
        if not self.running:
            return
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
