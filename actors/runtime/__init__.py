"""The runtime of the actors: the only code that knows about threads, event loops and pykka's insides.

An actor derives from `NodeActor`, gets a `Runtime`, and tells `Recipient`s. `ThreadedRuntime` runs a node's actors on
dispatchers; `SteppedRuntime` runs any number of nodes in one thread, in an order that a seed decides.
"""

from levrier.actors.runtime.address import Address
from levrier.actors.runtime.asyncio_dispatcher import AsyncioDispatcher, new_event_loop
from levrier.actors.runtime.base import FailurePolicy, NodeActor
from levrier.actors.runtime.dispatchers import BATCH_MAX, ThreadDispatcher
from levrier.actors.runtime.handlers import Handlers
from levrier.actors.runtime.ports import (
    Clock,
    ExitStatus,
    FatalReason,
    Recipient,
    Runtime,
    SystemClock,
    Timer,
    WorkFailed,
)
from levrier.actors.runtime.probe import Probe
from levrier.actors.runtime.stepped import SteppedRuntime
from levrier.actors.runtime.stepped_node import SteppedClock, SteppedNode
from levrier.actors.runtime.threaded import ThreadedRuntime

__all__ = [
    "BATCH_MAX",
    "Address",
    "AsyncioDispatcher",
    "Clock",
    "ExitStatus",
    "FailurePolicy",
    "FatalReason",
    "Handlers",
    "NodeActor",
    "Probe",
    "Recipient",
    "Runtime",
    "SteppedClock",
    "SteppedNode",
    "SteppedRuntime",
    "SystemClock",
    "ThreadDispatcher",
    "ThreadedRuntime",
    "Timer",
    "WorkFailed",
    "new_event_loop",
]
