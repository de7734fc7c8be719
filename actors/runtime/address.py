"""Late-bound addresses: the hot path of every message.

An address exists before its actor, so that actors can be given each other in any order. It is bound when an actor of its
name starts, and bound again when another one of that name starts after the first has ended. What is told to an actor that
has ended is dropped; telling an address that was never bound is our bug.

An entry of a mailbox is `(slot, message)`: the dispatcher calls `slot.receive(message)`. A slot stands for one way of
reaching one actor (a plain message, a pykka envelope, a timer), so the loop needs no test of what it has in hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeAlias, TypeVar, final

if TYPE_CHECKING:
    from levrier.actors.runtime.cell import Cell

M_contra = TypeVar("M_contra", contravariant=True)


class Slot(Protocol):
    """One way of reaching an actor; `cell` is none for the runtime's own entries."""

    @property
    def cell(self) -> Cell | None:
        """Whom a failure is blamed on."""
        ...

    @property
    def batches(self) -> bool:
        """Whether a batch end is owed after this entry."""
        ...

    @property
    def receive(self) -> Callable[[Any], object]:
        """Handle one entry."""
        ...


Entry: TypeAlias = tuple[Slot, Any]


class Home(Protocol):
    """Whoever empties the mailbox."""

    idle: bool

    def wake(self) -> None:
        """Called after an append that found it idle. May be called once too often, never once too few."""
        ...


@final
class Awake:
    """The home of a mailbox that needs no waking: the stepped scheduler's, or an unbound address's."""

    def __init__(self) -> None:
        self.idle = False

    def wake(self) -> None:
        """Do nothing."""


@final
class Unbound:
    """The slot of an address whose actor does not exist yet. Never reaches a mailbox."""

    __slots__ = ()
    cell = None
    batches = False

    def receive(self, message: object) -> NoReturn:
        """Refuse."""
        raise AssertionError(f"an unbound slot was told {type(message).__name__}")


_AWAKE = Awake()
_UNBOUND = Unbound()


@final
class Address(Generic[M_contra]):
    """Where to tell an actor something: one append, and a wake-up if its dispatcher sleeps."""

    __slots__ = ("_append", "_home", "_node", "_slot", "name")

    def __init__(self, *, node: str, name: str) -> None:
        self.name = name
        self._node = node
        self._slot: Slot = _UNBOUND
        self._append: Callable[[Entry], object] = self._refuse
        self._home: Home = _AWAKE

    def tell(self, message: M_contra, /) -> None:
        """Queue the message. Callable from any thread; AssertionError when no actor was ever bound."""
        self._append((self._slot, message))
        if self._home.idle:
            self._home.wake()

    def put(self, slot: Slot, message: object) -> None:
        """Queue a message that reaches the actor through another slot. For the runtimes only."""
        self._append((slot, message))
        if self._home.idle:
            self._home.wake()

    @property
    def bound(self) -> bool:
        """Whether an actor of this name was started."""
        return self._slot is not _UNBOUND

    @property
    def slot(self) -> Slot:
        """How the runtime reaches the actor. For the runtimes only."""
        return self._slot

    def assert_free(self) -> None:
        """AssertionError while an actor that has not ended is bound."""
        cell = self._slot.cell
        assert cell is None or cell.ended, f"a second actor named {self.name} on node {self._node}"

    def bind(self, *, slot: Slot, append: Callable[[Entry], object], home: Home) -> None:
        """Lead to `slot` from now on. For the runtimes only."""
        self.assert_free()
        self._slot = slot
        self._home = home
        self._append = append

    def _refuse(self, entry: Entry) -> NoReturn:
        raise AssertionError(f"{self!r} was told {type(entry[1]).__name__} but no actor of that name was started")

    def __repr__(self) -> str:
        return f"<Address {self._node}/{self.name}>"
