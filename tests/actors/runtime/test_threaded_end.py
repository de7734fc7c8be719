"""How the threaded runtime ends: in order, under traffic, once, and with nothing left behind."""

import asyncio
import gc
import itertools
import threading
from functools import partial

import pykka
import pytest

from levrier.actors.runtime import FatalReason, Probe, ThreadedRuntime
from tests.actors.runtime.actors import Batcher, Do, Event, Worker
from tests.actors.runtime.threaded_node import ARRANGEMENT, Node, note


def start_everybody(node: Node) -> None:
    for name in ARRANGEMENT:
        Batcher.start(name=name, runtime=node.runtime, log=node.log)


def test_an_ordered_stop_leaves_no_thread_and_no_registry_entry(node: Node) -> None:
    threads_before = threading.enumerate()
    registered_before = pykka.ActorRegistry.get_all()
    start_everybody(node)
    node.runtime.start()
    assert len(threading.enumerate()) == len(threads_before) + len(set(ARRANGEMENT.values())) + 2

    node.runtime.stop(order=["bus", "first"])

    assert threading.enumerate() == threads_before
    assert pykka.ActorRegistry.get_all() == registered_before


def test_a_runtime_that_never_started_leaves_nothing_either(node: Node) -> None:
    start_everybody(node)

    node.runtime.stop()

    assert pykka.ActorRegistry.get_all() == []
    assert node.runtime.loop.is_closed()
    node.log.assert_silent()


def test_actors_end_in_the_order_given_and_the_rest_last_started_first(node: Node) -> None:
    order: list[str] = []

    class Leaver(Worker):
        def on_stop(self) -> None:
            order.append(self.name)

    for name in ARRANGEMENT:
        Leaver.start(name=name, runtime=node.runtime, log=node.log)
    node.runtime.start()

    node.runtime.stop(order=["apart", "first"])

    assert order == ["apart", "first", "later", "bus", "second"]


def test_what_an_actor_tells_while_it_empties_its_mailbox_reaches_those_behind_it(node: Node) -> None:
    later = node.runtime.address("later")
    for name in ("first", "later"):
        Worker.start(name=name, runtime=node.runtime, log=node.log)
    for number in range(100):
        node.runtime.address("first").tell(Do(action=partial(later.tell, note(number))))
    node.runtime.start()

    node.runtime.stop(order=["first", "later"])

    assert node.messages() == [note(number) for number in range(100)]


@pytest.mark.parametrize("name", ["first", "apart", "bus"])
def test_a_stop_during_traffic_ends(node: Node, name: str) -> None:
    """Four threads tell, ask and set timers until they are told to leave; the node ends under them."""
    start_everybody(node)
    ref = pykka.ActorRegistry.get_all()[list(ARRANGEMENT).index(name)]
    node.runtime.start()
    leave, told = threading.Event(), Probe[str]()

    def tell_on() -> None:
        for number in itertools.count():
            if leave.is_set():
                return
            node.runtime.address(name).tell(note(number))
            if number == 200:
                told.tell("enough")

    def ask_on() -> None:
        told.tell("asking")
        while not leave.is_set():
            try:
                ref.ask(note(0), timeout=10)
            except pykka.ActorDeadError:
                return

    threads = [threading.Thread(target=target) for target in (tell_on, tell_on, ask_on, ask_on)]
    for thread in threads:
        thread.start()
    told.wait(4)

    node.runtime.stop(timeout_seconds=20)

    leave.set()
    for thread in threads:
        thread.join(15)
    assert [thread for thread in threads if thread.is_alive()] == []


def test_stopping_twice_is_stopping_once(node: Node) -> None:
    Worker.start(name="first", runtime=node.runtime, log=node.log)
    node.runtime.start()
    node.runtime.stop()
    node.runtime.stop()

    assert [event.what for event in node.log.take_all()] == ["start", "stop"]


def test_an_actor_may_be_stopped_alone(node: Node) -> None:
    ref = Worker.start(name="first", runtime=node.runtime, log=node.log)
    node.runtime.start()

    stopped = ref.stop(timeout=10)

    assert stopped
    assert not ref.is_alive()
    assert [event.what for event in node.log.take_all()] == ["start", "stop"]


def test_tasks_of_the_event_loop_are_cancelled_at_the_end(node: Node) -> None:
    cancelled = Probe[str]()

    async def linger() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.tell("cancelled")
            raise

    tasks: list[asyncio.Task[None]] = []
    Worker.start(name="bus", runtime=node.runtime, log=node.log)
    node.runtime.address("bus").tell(Do(action=lambda: tasks.append(asyncio.get_running_loop().create_task(linger()))))
    node.runtime.start()
    node.log.wait()

    node.runtime.stop()

    assert cancelled.count == 1
    assert node.runtime.loop.is_closed()


def test_a_dispatcher_may_not_stop_its_own_node() -> None:
    threads_before = threading.enumerate()
    failures, log = Probe[FatalReason](), Probe[Event]()
    runtime = ThreadedRuntime("n", arrangement={"first": "core"}, on_failure=failures.tell)
    Worker.start(name="first", runtime=runtime, log=log)
    runtime.start()

    runtime.address("first").tell(Do(action=runtime.stop))
    failures.wait()
    runtime.stop()

    assert "may not run in one of them" in failures.take().reason
    assert threading.enumerate() == threads_before


def test_a_stopped_runtime_is_garbage(node: Node) -> None:
    """Nothing process-wide holds an actor after the end."""
    start_everybody(node)
    node.runtime.start()
    node.runtime.stop()
    gc.collect()

    assert [ref for ref in pykka.ActorRegistry.get_all() if ref.actor_class is Batcher] == []


def test_the_faster_event_loop_is_used_when_it_is_there_and_missed_when_not() -> None:
    """The extra `speed` is optional: asking for uvloop gives a node that works either way."""
    log = Probe[Event]()
    runtime = ThreadedRuntime("n", arrangement={"bus": "io"}, on_failure=lambda _reason: None, use_uvloop=True)
    Worker.start(name="bus", runtime=runtime, log=log)
    runtime.address("bus").tell(note(1))
    runtime.start()
    runtime.stop()

    assert [event.what for event in log.take_all()] == ["start", "message", "stop"]
