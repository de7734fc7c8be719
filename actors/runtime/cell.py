"""One running actor as its dispatcher sees it: its life from start to end, and what happens when it raises.

Both runtimes use it, so hooks, envelopes from pykka's side and failures mean the same in both. A cell goes through
waiting -> started -> ended, or is halted on the way when its node dies: a halted actor is told nothing more, but its
`on_stop` still runs once, so that files and sockets are released.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from pykka import ActorDeadError, ActorRegistry
from pykka._envelope import Envelope
from pykka.messages import _ActorStop

if TYPE_CHECKING:
    from levrier.actors.runtime.base import NodeActor


class Supervisor(Protocol):
    """Whoever decides what a failed actor means for its node."""

    def actor_raised(self, cell: Cell, error: Exception) -> None:
        """An actor raised in a handler or a hook."""
        ...


DESCRIBED_MAX: Final = 1_000


def describe_error(error: BaseException) -> str:
    """The exception in one line, with the place it was raised: an assertion often has no other words. Its text is cut at
    `DESCRIBED_MAX` characters, and one that raises while it is made is left out: it may not be ours.
    """
    frames = traceback.extract_tb(error.__traceback__)
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001
        text = "it cannot say what it is"
    if len(text) > DESCRIBED_MAX:
        text = f"{text[:DESCRIBED_MAX]}... of {len(text)} characters"
    described = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if not frames:
        return described
    file_name = "/".join(frames[-1].filename.split("/")[-3:])
    return f"{described} ({file_name}:{frames[-1].lineno})"


def answer_dead(envelope: Envelope[Any]) -> None:
    """Tell whoever asked that the actor has ended."""
    if envelope.reply_to is None:
        return
    if isinstance(envelope.message, _ActorStop):
        envelope.reply_to.set(None)
        return
    error = ActorDeadError("the actor ended before it handled the message")
    envelope.reply_to.set_exception((ActorDeadError, error, None))


@final
class Envelopes:
    """The slot behind pykka's `ActorRef`: tell, ask and stop from outside the node."""

    __slots__ = ("batches", "cell")

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.batches = cell.batches

    def receive(self, envelope: Envelope[Any]) -> None:
        """Handle one envelope. An error goes to whoever asked, and to the supervisor as well."""
        if isinstance(envelope.message, _ActorStop):
            self.cell.end()
            answer_dead(envelope)
        elif not self.cell.alive:
            answer_dead(envelope)
        else:
            self._answer(envelope)

    def _answer(self, envelope: Envelope[Any]) -> None:
        actor = self.cell.actor
        assert actor is not None
        try:
            answer = actor._handle_receive(envelope.message)
        except Exception:
            if envelope.reply_to is not None:
                envelope.reply_to.set_exception()
            raise
        if envelope.reply_to is not None:
            envelope.reply_to.set(answer)


@final
class Cell:
    """The slot for plain messages to one actor (or to a probe, which has a `receive` but no hooks)."""

    __slots__ = (
        "actor",
        "alive",
        "batch_open",
        "batches",
        "ended",
        "envelopes",
        "name",
        "receive",
        "supervisor",
        "waits",
    )

    def __init__(
        self, *, name: str, supervisor: Supervisor, receive: Callable[[Any], object], actor: NodeActor | None = None
    ) -> None:
        self.name = name
        self.supervisor = supervisor
        self.actor = actor
        self.receive = receive
        self.batches = actor is not None and actor.batches
        self.waits = actor is not None and actor.batch_end_waits
        self.envelopes = Envelopes(self)
        self.alive = True
        self.ended = False
        self.batch_open = False

    @property
    def cell(self) -> Cell:
        """Itself: a cell is the slot of plain messages."""
        return self

    def start(self) -> None:
        """Run `on_start`."""
        if self.actor is None or not self.alive:
            return
        try:
            self.actor.on_start()
        except Exception as error:  # noqa: BLE001
            self.supervisor.actor_raised(self, error)

    def end_batch(self) -> None:
        """Run `on_batch_end` if messages were handled since the last time."""
        if not self.batch_open:
            return
        self.batch_open = False
        if self.actor is None or not self.alive:
            return
        try:
            self.actor.on_batch_end()
        except Exception as error:  # noqa: BLE001
            self.supervisor.actor_raised(self, error)

    def halt(self) -> None:
        """Be told nothing more. Callable from any thread; the handler that runs runs to its end."""
        self.alive = False
        self.receive = _drop

    def end(self) -> None:
        """Close the open batch, then run `on_stop`. Once."""
        if self.ended:
            return
        self.end_batch()
        self.halt()
        self.ended = True
        if self.actor is not None:
            self.forget()
            try:
                self.actor.on_stop()
            except Exception as error:  # noqa: BLE001
                self.supervisor.actor_raised(self, error)

    def forget(self) -> None:
        """Take the actor out of pykka's registry and mark it dead for pykka's refs."""
        assert self.actor is not None
        ActorRegistry.unregister(self.actor.actor_ref)
        self.actor.actor_stopped.set()

    def discard(self) -> None:
        """Be gone without any hook, as in a crash."""
        self.halt()
        self.ended = True
        self.batch_open = False
        if self.actor is not None:
            self.forget()


def _drop(message: object) -> None:
    """Swallow what an ended actor is told."""


@final
class Control:
    """The slot of the runtime's own entries: the message is an action."""

    __slots__ = ()
    cell = None
    batches = False

    def receive(self, action: Callable[[], object]) -> None:
        """Run the action."""
        action()


CONTROL = Control()
