"""An actor that raises is never silent: its policy is applied at once (BR-55)."""

from collections.abc import Callable, Iterator

import pykka
import pytest

from levrier.actors.runtime import ExitStatus, FatalReason, Probe, SteppedRuntime, ThreadedRuntime
from tests.actors.runtime.actors import (
    BadBatcher,
    BadLoser,
    Do,
    Event,
    Note,
    Plugin,
    Stillborn,
    Worker,
    raise_error,
)

ARRANGEMENT = {"first": "core", "second": "core", "apart": "apart", "bus": "io"}


class Node:
    """A threaded runtime, what it failed of, what it reported, and what its actors logged."""

    def __init__(self) -> None:
        self.failures = Probe[FatalReason]("failures")
        self.reports = Probe[FatalReason]("reports")
        self.log = Probe[Event]("log")
        self.runtime = ThreadedRuntime(
            "n", arrangement=ARRANGEMENT, on_failure=self.failures.tell, on_report=self.reports.tell
        )


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.runtime.stop()


@pytest.mark.parametrize("name", ["first", "apart", "bus"])
@pytest.mark.parametrize("error", [ValueError("torn"), AssertionError("torn")], ids=type)
def test_an_actor_that_raises_brings_the_node_down_br_55(node: Node, name: str, error: Exception) -> None:
    """BR-55: a one-way message whose handler raises ends the node with status 12, on every kind of dispatcher."""
    Worker.start(name=name, runtime=node.runtime, log=node.log)
    node.runtime.start()

    node.runtime.address(name).tell(Do(action=lambda: raise_error(error)))

    node.failures.wait()
    reason = node.failures.take()
    assert (reason.status, reason.actor) == (ExitStatus.ACTOR_FAILED, name)
    assert f"{type(error).__name__}: torn" in reason.reason
    assert node.runtime.failure == reason


def test_a_message_through_pykka_that_raises_brings_the_node_down_br_55(node: Node) -> None:
    """BR-55 by the door of jodal/pykka#187: `ActorRef.tell`."""
    ref = Worker.start(name="first", runtime=node.runtime, log=node.log)
    node.runtime.start()

    ref.tell(Do(action=lambda: raise_error(ValueError("torn"))))

    node.failures.wait()
    assert node.failures.take().status == ExitStatus.ACTOR_FAILED


def test_an_asked_message_that_raises_fails_both_the_asker_and_the_node(node: Node) -> None:
    """BR-55: an answer to the asker does not make the failure harmless."""
    ref = Worker.start(name="first", runtime=node.runtime, log=node.log)
    node.runtime.start()

    with pytest.raises(ValueError, match="torn"):
        ref.ask(Do(action=lambda: raise_error(ValueError("torn"))), timeout=10)

    node.failures.wait()


@pytest.mark.parametrize(
    ("actor_class", "words"), [(Stillborn, "no disk"), (BadBatcher, "disk full"), (BadLoser, "would not close")]
)
def test_a_hook_that_raises_brings_the_node_down(node: Node, actor_class: type[Worker], words: str) -> None:
    """BR-55 for on_start, on_batch_end and on_stop."""
    actor_class.start(name="first", runtime=node.runtime, log=node.log)
    node.runtime.start()
    node.runtime.address("first").tell(Note(sender="outside", number=1))

    node.runtime.stop()

    reason = node.failures.take()
    assert (reason.status, reason.actor) == (ExitStatus.ACTOR_FAILED, "first")
    assert words in reason.reason


def test_nobody_of_a_dead_node_is_told_anything_more(node: Node) -> None:
    """BR-55: what was queued behind the failure is not handled, whatever the dispatcher."""
    for name in ("first", "second", "bus"):
        Worker.start(name=name, runtime=node.runtime, log=node.log)
    node.runtime.start()
    node.runtime.address("first").tell(Do(action=lambda: raise_error(ValueError("torn"))))
    node.runtime.address("second").tell(Note(sender="outside", number=1))
    node.failures.wait()
    node.runtime.address("bus").tell(Note(sender="outside", number=2))

    node.runtime.stop()

    assert [event for event in node.log.take_all() if event.what == "message"] == []


def test_every_actor_of_a_dead_node_still_releases_what_it_holds(node: Node) -> None:
    for name in ("first", "second"):
        Worker.start(name=name, runtime=node.runtime, log=node.log)
    node.runtime.start()
    node.runtime.address("first").tell(Do(action=lambda: raise_error(ValueError("torn"))))
    node.failures.wait()

    node.runtime.stop()

    assert [event.what for event in node.log.take_all()] == ["start", "start", "stop", "stop"]


def test_only_the_first_reason_counts(node: Node) -> None:
    first = FatalReason(status=ExitStatus.SUPERBLOCK_WEDGED, reason="both copies differ", actor="superblock")
    second = FatalReason(status=ExitStatus.ACTOR_FAILED, reason="and so on", actor="journal")

    node.runtime.fail(first)
    node.runtime.fail(second)

    assert node.failures.take_all() == [first]


def test_a_core_that_gives_up_names_its_own_status(node: Node) -> None:
    wedged = FatalReason(status=ExitStatus.SUPERBLOCK_WEDGED, reason="no copy writable", actor="first")
    Worker.start(name="first", runtime=node.runtime, log=node.log)
    node.runtime.start()

    node.runtime.address("first").tell(Do(action=lambda: node.runtime.fail(wedged)))

    node.failures.wait()
    assert node.failures.take() == wedged


@pytest.mark.parametrize("name", ["first", "bus"])
def test_a_system_exit_in_a_handler_is_a_failure_of_this_node_alone(node: Node, name: str) -> None:
    """BR-55, jodal/pykka#70: pykka would stop every actor of the process."""
    bystander = Node()
    Worker.start(name="first", runtime=bystander.runtime, log=bystander.log)
    bystander.runtime.start()
    Worker.start(name=name, runtime=node.runtime, log=node.log)
    node.runtime.start()

    def leave() -> None:
        raise SystemExit(3)

    node.runtime.address(name).tell(Do(action=leave))
    node.failures.wait()
    bystander.runtime.address("first").tell(Note(sender="outside", number=1))
    bystander.runtime.stop()

    assert node.failures.take().status == ExitStatus.ACTOR_FAILED
    assert Event(what="message", message=Note(sender="outside", number=1)) in bystander.log.take_all()


def test_a_callback_of_the_event_loop_that_raises_brings_the_node_down(node: Node) -> None:
    """BR-55 for the transport: what raises in the loop outside any handler is not lost either."""
    node.runtime.start()

    node.runtime.loop.call_soon_threadsafe(raise_error, ValueError("bad frame"))

    node.failures.wait()
    assert "bad frame" in node.failures.take().reason


def test_a_plugin_that_raises_is_reported_and_the_node_goes_on(node: Node) -> None:
    """BR-55 with the other policy: the plugin ends, its supervisor is told and can start another one."""
    Plugin.start(name="first", runtime=node.runtime, log=node.log)
    node.runtime.start()
    node.runtime.address("first").tell(Do(action=lambda: raise_error(ValueError("bad rule"))))
    node.reports.wait()
    node.runtime.address("first").tell(Note(sender="outside", number=1))

    Plugin.start(name="first", runtime=node.runtime, log=node.log)
    node.runtime.address("first").tell(Note(sender="outside", number=2))
    node.runtime.stop()

    assert node.reports.take().actor == "first"
    assert [event.message for event in node.log.take_all() if event.what == "message"] == [
        Note(sender="outside", number=2)
    ]
    node.failures.assert_silent()


def test_a_stepped_node_that_fails_is_dead_and_the_others_go_on_br_55() -> None:
    """BR-55 in the simulation: the failure is recorded in the very step, and stays in its node."""
    world, log = SteppedRuntime(1), Probe[Event]()
    for name in ("n0", "n1"):
        Worker.start(name="first", runtime=world.node(name), log=log)
    world.run()
    log.take_all()

    world.node("n0").address("first").tell(Do(action=lambda: raise_error(AssertionError("op 3 after op 5"))))
    world.step()
    world.node("n0").address("first").tell(Note(sender="n0", number=1))
    world.node("n1").address("first").tell(Note(sender="n1", number=1))
    world.run()

    assert [(reason.status, reason.actor) for reason in world.failures] == [(ExitStatus.ACTOR_FAILED, "first")]
    assert "op 3 after op 5" in world.failures[0].reason
    assert (world.node("n0").dead, world.node("n1").dead) == (True, False)
    assert log.take_all() == [Event(what="message", message=Note(sender="n1", number=1))]


@pytest.mark.parametrize(
    ("actor_class", "words"), [(Stillborn, "no disk"), (BadBatcher, "disk full"), (BadLoser, "would not close")]
)
def test_a_hook_that_raises_fails_a_stepped_node(actor_class: type[Worker], words: str) -> None:
    runtime = SteppedRuntime(1)
    actor_class.start(name="first", runtime=runtime, log=Probe[Event]())
    runtime.address("first").tell(Note(sender="outside", number=1))

    runtime.stop()

    assert [words in reason.reason for reason in runtime.failures] == [True]


def test_a_plugin_that_raises_is_reported_by_the_stepped_runtime() -> None:
    runtime, log = SteppedRuntime(1), Probe[Event]()
    Plugin.start(name="first", runtime=runtime, log=log)
    runtime.address("first").tell(Do(action=lambda: raise_error(ValueError("bad rule"))))
    runtime.run()
    Plugin.start(name="first", runtime=runtime, log=log)
    runtime.run()

    assert [event.what for event in log.take_all()] == ["start", "stop", "start"]
    assert [reason.actor for reason in runtime.reports] == ["first"]
    assert runtime.failures == []


@pytest.mark.parametrize("make", [lambda: ValueError("x"), AssertionError], ids=["words", "bare"])
def test_the_reason_says_where_it_was_raised(make: Callable[[], Exception]) -> None:
    runtime = SteppedRuntime(1)
    ref = Worker.start(name="first", runtime=runtime, log=Probe[Event]())
    ref.tell(Do(action=lambda: raise_error(make())))

    runtime.run()

    assert "runtime/actors.py:" in runtime.failures[0].reason


def test_whoever_asks_an_actor_whose_thread_is_gone_gets_an_answer(node: Node) -> None:
    """BR-55: nobody waits for an answer that cannot come."""

    def leave() -> None:
        raise SystemExit(3)

    ref = Worker.start(name="first", runtime=node.runtime, log=node.log)
    ref.tell(Do(action=leave))
    answer = ref.ask(Note(sender="outside", number=1), block=False)
    node.runtime.start()
    node.failures.wait()
    node.runtime.stop()

    with pytest.raises(pykka.ActorDeadError):
        answer.get(timeout=10)
    assert [event.what for event in node.log.take_all()] == ["start", "stop"]


def test_an_ended_actor_is_dead_for_pykka(node: Node) -> None:
    ref = Worker.start(name="first", runtime=node.runtime, log=node.log)
    node.runtime.start()
    node.runtime.stop()

    with pytest.raises(pykka.ActorDeadError):
        ref.ask(Note(sender="outside", number=1), timeout=10)
