"""Tiny actors for the tests of the runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from levrier.actors.runtime import FailurePolicy, NodeActor, Recipient, Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A numbered message that says who told it."""

    sender: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Do:
    """Have the receiver do something in its own context."""

    action: Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What a `Worker` saw."""

    what: str
    message: object = None


class Worker(NodeActor):
    """Tells what happens to it; does what it is told to do."""

    def __init__(self, *, name: str, runtime: Runtime, log: Recipient[Any]) -> None:
        super().__init__(name=name, runtime=runtime)
        self._log = log

    def on_start(self) -> None:
        self._log.tell(Event(what="start"))

    def on_stop(self) -> None:
        self._log.tell(Event(what="stop"))

    def receive(self, message: object) -> None:
        if isinstance(message, Do):
            message.action()
        else:
            self._log.tell(Event(what="message", message=message))


class Batcher(Worker):
    """A worker that also tells of its batch ends."""

    def on_batch_end(self) -> None:
        self._log.tell(Event(what="batch end"))


class Plugin(Worker):
    """A worker that may fail alone."""

    failure_policy = FailurePolicy.REPORT


class Stillborn(Worker):
    """Raises when it starts."""

    def on_start(self) -> None:
        raise ValueError("no disk")


class BadLoser(Worker):
    """Raises when it ends."""

    def on_stop(self) -> None:
        raise ValueError("would not close")


class BadBatcher(Worker):
    """Raises at its batch end."""

    def on_batch_end(self) -> None:
        raise ValueError("disk full")


def raise_error(error: Exception) -> None:
    """Raise it."""
    raise error
