"""The sealed table from message type to handler: a lookup by exact type, complete or the actor does not start."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any, TypeVar, final

M = TypeVar("M")


@final
class Handlers:
    """Which handler gets which message of one protocol (a union of message classes, or a single class)."""

    __slots__ = ("_expected", "_sealed", "_table")

    def __init__(self, command_union: Any) -> None:
        members = typing.get_args(command_union) or (command_union,)
        for member in members:
            assert isinstance(member, type), f"{member!r} is not a message class"
        self._expected: tuple[type, ...] = members
        self._table: dict[type, Callable[[Any], object]] = {}
        self._sealed = False

    def on(self, message_type: type[M], handler: Callable[[M], None]) -> None:
        """Have `handler` get the messages of exactly this type."""
        assert not self._sealed, "the table is sealed"
        assert message_type not in self._table, f"{message_type.__name__} has two handlers"
        self._table[message_type] = handler

    def seal(self) -> None:
        """Close the table. AssertionError when a member of the union is missing or a handler is surplus."""
        assert not self._sealed, "the table is sealed twice"
        missing = [member.__name__ for member in self._expected if member not in self._table]
        surplus = [member.__name__ for member in self._table if member not in self._expected]
        assert not missing, f"no handler for {', '.join(missing)}"
        assert not surplus, f"handler for a type outside the protocol: {', '.join(surplus)}"
        self._sealed = True

    def dispatch(self, message: object) -> None:
        """Hand the message to its handler. AssertionError for a type that has none."""
        try:
            handler = self._table[message.__class__]
        except KeyError:
            raise AssertionError(f"no handler for {message.__class__.__name__}") from None
        handler(message)
