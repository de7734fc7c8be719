"""What an actor and its wiring see of a runtime: recipients, the clock, timers, offloaded work and fatal reasons.

Both runtimes (`threaded`, `stepped`) satisfy `Runtime`; an actor written against this module runs in either unchanged.
Nothing here knows about threads, pykka or the event loop.
"""

from __future__ import annotations

import enum
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, final

if TYPE_CHECKING:
    from levrier.actors.runtime.address import Address
    from levrier.actors.runtime.base import NodeActor

M = TypeVar("M")
M_contra = TypeVar("M_contra", contravariant=True)
R = TypeVar("R")


class Recipient(Protocol[M_contra]):
    """Somebody who may be told messages of one protocol."""

    def tell(self, message: M_contra, /) -> None:
        """Hand the message over and return at once; it is handled later, in the order it was told by this sender."""
        ...


class Clock(Protocol):
    """Where time comes from."""

    def now_micros(self) -> int:
        """Wall clock, microseconds since the Unix epoch. May go backwards."""
        ...

    def monotonic_nanos(self) -> int:
        """Nanoseconds since an arbitrary point. Never goes backwards."""
        ...


class Timer(Protocol):
    """A message that is told later, once or again and again."""

    def cancel(self) -> None:
        """Tell it no more. Called by the actor that gets it, nothing of it arrives afterwards."""
        ...


@enum.unique
class ExitStatus(enum.IntEnum):
    """Exit statuses of the command line and of a node (decision D-36)."""

    GOOD = 0
    BAD = 1
    MISUSED = 2
    LOG_UNRECONCILABLE = 10
    SUPERBLOCK_WEDGED = 11
    ACTOR_FAILED = 12
    BOOT_DAMAGED = 13
    BOOT_IDENTITY = 14
    IN_USE = 15


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FatalReason:
    """Why a node is down: the exit status it ends with (an `ExitStatus`), a sentence, and the actor that said so."""

    status: int
    reason: str
    actor: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFailed:
    """Offloaded work raised; `reason` is the exception in words."""

    reason: str


class Runtime(Protocol):
    """One node's runtime as its actors and its wiring see it."""

    @property
    def name(self) -> str:
        """The node's name."""
        ...

    @property
    def clock(self) -> Clock:
        """The node's clock; virtual in the stepped runtime."""
        ...

    @property
    def random(self) -> random.Random:
        """For jitter. Seeded in the stepped runtime, the system's in the threaded one."""
        ...

    def entropy(self, size: int) -> bytes:
        """`size` random bytes, fit for secrets in the threaded runtime; seeded in the stepped one."""
        ...

    def address(self, actor_name: str) -> Address[Any]:
        """The address of the actor of that name, which need not exist yet. The same object each time."""
        ...

    def every(self, milliseconds: int, recipient: Recipient[M], message: M) -> Timer:
        """Tell `message` again and again. A late timer coalesces: what was missed is told once."""
        ...

    def after(self, milliseconds: int, recipient: Recipient[M], message: M) -> Timer:
        """Tell `message` once, `milliseconds` from now."""
        ...

    def offload(self, work: Callable[[], R], deliver: Callable[[R | WorkFailed], object], to: Recipient[Any]) -> None:
        """Run slow pure `work` off the hot path, then tell `to` what `deliver` makes of its result.

        An AssertionError in the work is our bug and fails the node; any other exception is delivered as WorkFailed.
        """
        ...

    def fail(self, reason: FatalReason) -> None:
        """Declare the node dead: no actor of it is told anything more. The first reason counts."""
        ...

    def adopt(self, actor: NodeActor) -> None:
        """Take a new actor in and bind its address. Called by `NodeActor` only."""
        ...


@final
class SystemClock:
    """The operating system's clock."""

    __slots__ = ()

    def now_micros(self) -> int:
        """Wall clock, microseconds since the Unix epoch."""
        return time.time_ns() // 1000

    def monotonic_nanos(self) -> int:
        """Nanoseconds since an arbitrary point."""
        return time.monotonic_ns()
