"""The base of every actor: a pykka actor whose inbox and loop belong to a dispatcher.

Of pykka we use the actor's identity, its ref, its registry and its envelopes; we replace the inbox (`put` appends to the
mailbox of the dispatcher that runs this actor) and the loop (starting only registers with the runtime). `receive` gets
plain messages; nothing is ever returned from it.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, final

import pykka
from pykka._envelope import Envelope

from levrier.actors.runtime.address import Address, Entry, Home
from levrier.actors.runtime.ports import Runtime

if TYPE_CHECKING:
    from levrier.actors.runtime.cell import Cell


@enum.unique
class FailurePolicy(enum.Enum):
    """What an exception in an actor means."""

    NODE_DOWN = "node_down"
    """The node is dead, exit status 12. For every core actor."""

    REPORT = "report"
    """The actor ends and is reported; the node goes on. For plugins, whose supervisor starts another one."""


@final
class NodeInbox:
    """pykka's side of a mailbox: envelopes go into the same queue as plain messages, in order."""

    def __init__(self) -> None:
        self._cell: Cell | None = None
        self._append: Callable[[Entry], object] | None = None
        self._home: Home | None = None

    def bind(self, *, cell: Cell, append: Callable[[Entry], object], home: Home) -> None:
        """Lead to the mailbox from now on. For the runtimes only."""
        assert self._cell is None, "an actor is adopted once"
        self._cell, self._append, self._home = cell, append, home

    def put(self, envelope: Envelope[Any], /) -> None:
        """Queue the envelope. Callable from any thread."""
        assert self._cell is not None, "the actor was not started"
        assert self._append is not None
        assert self._home is not None
        self._append((self._cell.envelopes, envelope))
        if self._home.idle:
            self._home.wake()

    def get(self) -> NoReturn:
        """Refuse: only pykka's own loop would call it, and it does not run."""
        raise AssertionError("a node actor's inbox is emptied by its dispatcher")

    def empty(self) -> bool:
        """Whether nothing waits here; envelopes wait in the dispatcher's mailbox, never here."""
        return True


class NodeActor(pykka.ThreadingActor):
    """Base of all actors. Subclasses implement `receive` and give `name` and `runtime` on."""

    failure_policy: ClassVar[FailurePolicy] = FailurePolicy.NODE_DOWN
    batch_end_waits: ClassVar[bool] = False
    """Whether the batch end waits for a disk: that of the other actors of the thread comes first."""

    def __init__(self, *, name: str, runtime: Runtime) -> None:
        super().__init__()
        self.name = name
        self.runtime = runtime

    @abc.abstractmethod
    def receive(self, message: object) -> None:
        """Handle one message, to its end, without waiting for anybody. What it raises brings the node down."""

    def on_batch_end(self) -> None:
        """Run after the messages that were queued for this actor have been handled, and before `on_stop`.

        The place for work that is cheaper once for many messages, such as one write and one sync.
        """

    @property
    def address(self) -> Address[Any]:
        """This actor's own address."""
        return self.runtime.address(self.name)

    @property
    def batches(self) -> bool:
        """Whether this class has a batch end."""
        return type(self).on_batch_end is not NodeActor.on_batch_end

    @final
    def on_receive(self, message: Any) -> None:
        """Handle a message that came through pykka's ref."""
        self.receive(message)

    @staticmethod
    def _create_actor_inbox() -> NodeInbox:
        return NodeInbox()

    def _start_actor_loop(self) -> None:
        adopted = False
        try:
            self.runtime.adopt(self)
            adopted = True
        finally:
            if not adopted:
                # pykka registered it before it called us; a refused actor stays nowhere.
                pykka.ActorRegistry.unregister(self.actor_ref)

    @property
    def inbox(self) -> NodeInbox:
        """The inbox, as the runtimes bind it."""
        inbox = self.actor_inbox
        assert isinstance(inbox, NodeInbox)
        return inbox
