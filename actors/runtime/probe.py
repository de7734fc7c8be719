"""A recipient that records what it was told, in place of an actor's neighbour in tests."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar, final

E = TypeVar("E")


@final
class Probe(Generic[E]):
    """Records every message. Free-standing it gets them at once; bound by `runtime.probe(name)`, by delivery."""

    def __init__(self, name: str = "probe") -> None:
        self.name = name
        self._messages: deque[E] = deque()
        self._changed = threading.Condition()

    def tell(self, message: E, /) -> None:
        """Record the message."""
        with self._changed:
            self._messages.append(message)
            self._changed.notify_all()

    @property
    def count(self) -> int:
        """How many messages were not taken yet."""
        return len(self._messages)

    def take(self) -> E:
        """The oldest message not taken yet. AssertionError when there is none."""
        assert self._messages, f"{self.name} was told nothing"
        return self._messages.popleft()

    def take_all(self) -> list[E]:
        """All messages not taken yet, oldest first."""
        messages = []
        while self._messages:
            messages.append(self._messages.popleft())
        return messages

    def assert_silent(self) -> None:
        """AssertionError when there is a message not taken yet."""
        assert not self._messages, f"{self.name} was told {list(self._messages)!r}"

    def wait(self, count: int = 1, *, timeout_seconds: float = 10.0) -> None:
        """Block until `count` messages are there. For the threaded runtime; AssertionError after the timeout."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: len(self._messages) >= count, timeout_seconds)
        assert arrived, f"{self.name} was told {len(self._messages)} of {count} messages in {timeout_seconds} s"

    def __repr__(self) -> str:
        return f"<Probe {self.name}>"
