"""A threaded node for tests: its runtime, and what its actors logged."""

from levrier.actors.runtime import FatalReason, Probe, ThreadedRuntime
from tests.actors.runtime.actors import Event, Note

ARRANGEMENT = {"first": "core", "second": "core", "apart": "apart", "bus": "io", "later": "later"}
EVERY_KIND = ["first", "bus"]


class Node:
    """A threaded runtime and what its actors logged."""

    def __init__(self) -> None:
        self.failures = Probe[FatalReason]("failures")
        self.log = Probe[Event]("log")
        self.runtime = ThreadedRuntime("n", arrangement=ARRANGEMENT, on_failure=self.failures.tell)

    def messages(self) -> list[object]:
        """The messages that were logged and not taken yet."""
        return [event.message for event in self.log.take_all() if event.what == "message"]


def note(number: int) -> Note:
    return Note(sender="outside", number=number)
