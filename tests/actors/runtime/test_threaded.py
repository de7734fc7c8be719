"""The threaded runtime: addresses, hooks, timers, offloaded work, and an end that leaves nothing behind."""

import asyncio
import itertools
import threading
from functools import partial

import pykka
import pytest

from levrier.actors.runtime import BATCH_MAX, FatalReason, Probe, Recipient, ThreadedRuntime, WorkFailed
from tests.actors.runtime.actors import Batcher, Do, Event, Note, Worker, raise_error
from tests.actors.runtime.threaded_node import EVERY_KIND, Node, note

# Addresses.


def test_an_address_exists_before_its_actor_and_leads_to_it_afterwards(node: Node) -> None:
    address = node.runtime.address("first")
    Worker.start(name="first", runtime=node.runtime, log=node.log)
    node.runtime.start()

    address.tell(note(1))
    node.runtime.stop()

    assert node.messages() == [note(1)]
    assert node.runtime.address("first") is address


def test_telling_an_address_without_an_actor_is_our_bug(node: Node) -> None:
    with pytest.raises(AssertionError, match=r"<Address n/first> was told Note but no actor"):
        node.runtime.address("first").tell(note(1))


def test_an_address_outside_the_arrangement_is_our_bug(node: Node) -> None:
    with pytest.raises(AssertionError, match="has no actor fisrt"):
        node.runtime.address("fisrt")


def test_a_second_actor_of_one_name_is_our_bug(node: Node) -> None:
    first = Worker.start(name="first", runtime=node.runtime, log=node.log)

    with pytest.raises(AssertionError, match="a second actor named first"):
        Worker.start(name="first", runtime=node.runtime, log=node.log)

    assert pykka.ActorRegistry.get_all() == [first]


def test_an_actor_that_starts_late_may_tell_itself_in_on_start(node: Node) -> None:
    class Eager(Worker):
        def on_start(self) -> None:
            self.address.tell(note(1))

    node.runtime.start()
    for name in ("first", "bus"):
        Eager.start(name=name, runtime=node.runtime, log=node.log)
    node.log.wait(2)

    assert node.messages() == [note(1), note(1)]


@pytest.mark.usefixtures("hasty_switching")
@pytest.mark.parametrize("name", EVERY_KIND)
def test_an_address_is_bound_before_on_start_whenever_the_threads_switch(node: Node, name: str) -> None:
    class Eager(Worker):
        def on_start(self) -> None:
            self.address.tell(note(1))

    node.runtime.start()
    for _ in range(200):
        ref = Eager.start(name=name, runtime=node.runtime, log=node.log)
        node.log.wait()
        ref.stop(timeout=10)
        assert node.messages() == [note(1)]


@pytest.mark.parametrize("name", EVERY_KIND)
def test_on_start_runs_in_the_dispatcher_before_any_message(node: Node, name: str) -> None:
    Worker.start(name=name, runtime=node.runtime, log=node.log)
    node.runtime.address(name).tell(note(1))
    node.runtime.start()
    node.runtime.stop()

    assert [event.what for event in node.log.take_all()] == ["start", "message", "stop"]


def test_pykka_asks_and_tells_keep_the_order_of_the_mailbox(node: Node) -> None:
    ref = Worker.start(name="first", runtime=node.runtime, log=node.log)
    node.runtime.start()
    address = node.runtime.address("first")

    address.tell(note(1))
    ref.tell(note(2))
    address.tell(note(3))
    answer = ref.ask(note(4), timeout=10)

    assert answer is None
    assert node.messages() == [note(1), note(2), note(3), note(4)]


def test_actors_run_in_the_thread_of_their_dispatcher(node: Node) -> None:
    threads = Probe[str]()
    for name in ("first", "second", "apart", "bus"):
        Worker.start(name=name, runtime=node.runtime, log=node.log)
        node.runtime.address(name).tell(Do(action=lambda: threads.tell(threading.current_thread().name)))
    node.runtime.start()
    threads.wait(4)

    assert sorted(threads.take_all()) == ["levrier-n-apart", "levrier-n-core", "levrier-n-core", "levrier-n-io"]


def test_the_bus_runs_in_its_event_loop(node: Node) -> None:
    loops = Probe[asyncio.AbstractEventLoop]()
    Worker.start(name="bus", runtime=node.runtime, log=node.log)
    node.runtime.address("bus").tell(Do(action=lambda: loops.tell(asyncio.get_running_loop())))
    node.runtime.start()
    loops.wait()

    assert loops.take() is node.runtime.loop


def test_a_callback_of_the_loop_may_tell(node: Node) -> None:
    Worker.start(name="bus", runtime=node.runtime, log=node.log)
    node.runtime.start()

    node.runtime.loop.call_soon_threadsafe(node.runtime.address("bus").tell, note(1))
    node.log.wait(2)

    assert node.messages() == [note(1)]


def test_depths_count_what_waits(node: Node) -> None:
    Worker.start(name="first", runtime=node.runtime, log=node.log)
    before = node.runtime.inbox_depths()
    for number in range(5):
        node.runtime.address("first").tell(note(number))

    after = node.runtime.inbox_depths()

    assert after["core"] - before["core"] == 5
    assert after["apart"] == 0


# Order.


@pytest.mark.parametrize("name", ["first", "apart", "bus"])
def test_each_sender_is_heard_in_order(node: Node, name: str) -> None:
    """FIFO per pair with four threads that tell at once."""
    count = 2000
    Worker.start(name=name, runtime=node.runtime, log=node.log)
    node.runtime.start()
    address: Recipient[Note] = node.runtime.address(name)

    def tell_all(sender: str) -> None:
        for number in range(count):
            address.tell(Note(sender=sender, number=number))

    senders = [threading.Thread(target=tell_all, args=(f"s{index}",)) for index in range(4)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    node.runtime.stop()

    heard = [message for message in node.messages() if isinstance(message, Note)]
    for index in range(4):
        assert [message.number for message in heard if message.sender == f"s{index}"] == list(range(count))


def test_no_wake_up_is_lost_between_two_threads(node: Node) -> None:
    """Two idle dispatchers play one ball back and forth: each hop needs its wake-up."""
    done = threading.Event()
    left = itertools.count(3000, -1)
    first, bus = node.runtime.address("first"), node.runtime.address("bus")

    def play(to: Recipient[Do], back: Recipient[Do]) -> None:
        if next(left) == 0:
            done.set()
        else:
            to.tell(Do(action=lambda: play(back, to)))

    for name in ("first", "bus"):
        Worker.start(name=name, runtime=node.runtime, log=node.log)
    node.runtime.start()
    first.tell(Do(action=lambda: play(bus, first)))

    assert done.wait(20)


# Batches.


@pytest.mark.parametrize("name", EVERY_KIND)
def test_a_batch_ends_once_after_all_that_was_queued(node: Node, name: str) -> None:
    Batcher.start(name=name, runtime=node.runtime, log=node.log)
    for number in range(3):
        node.runtime.address(name).tell(note(number))
    node.runtime.start()
    node.runtime.stop()

    assert [event.what for event in node.log.take_all()] == ["start", *["message"] * 3, "batch end", "stop"]


@pytest.mark.parametrize("name", EVERY_KIND)
def test_a_batch_is_bounded(node: Node, name: str) -> None:
    Batcher.start(name=name, runtime=node.runtime, log=node.log)
    for number in range(3 * BATCH_MAX):
        node.runtime.address(name).tell(note(number))
    node.runtime.start()
    node.runtime.stop()

    kinds = [event.what for event in node.log.take_all() if event.what in ("message", "batch end")]
    sizes = [len(list(group)) for what, group in itertools.groupby(kinds) if what == "message"]
    assert max(sizes) <= BATCH_MAX
    assert sum(sizes) == 3 * BATCH_MAX


def test_the_batch_end_that_waits_for_a_disk_comes_last() -> None:
    """What the others of the thread have to send is on its way meanwhile."""

    class Writer(Batcher):
        batch_end_waits = True

        def on_batch_end(self) -> None:
            self._log.tell(Event(what="synced"))

    log = Probe[Event]()
    runtime = ThreadedRuntime("n", arrangement={"disk": "io", "bus": "io"}, on_failure=lambda _reason: None)
    Writer.start(name="disk", runtime=runtime, log=log)
    Batcher.start(name="bus", runtime=runtime, log=log)
    runtime.address("disk").tell(note(1))
    runtime.address("bus").tell(note(2))
    runtime.start()
    runtime.stop()

    seen = [event.what for event in log.take_all() if event.what in ("synced", "batch end")]
    assert seen == ["batch end", "synced"]


def test_whoever_is_told_at_such_a_batch_end_is_woken_before_it_is_over(node: Node) -> None:
    """What a log says of one batch must not wait for the disk work behind it."""
    handled: list[bool] = []

    class Writer(Batcher):
        batch_end_waits = True

        def on_batch_end(self) -> None:
            other = threading.Event()
            node.runtime.address("first").tell(Do(action=other.set))
            handled.append(other.wait(10))

    Worker.start(name="first", runtime=node.runtime, log=node.log)
    Writer.start(name="apart", runtime=node.runtime, log=node.log)
    node.runtime.start()
    node.runtime.address("apart").tell(note(1))
    node.log.wait(3)
    node.runtime.stop()

    assert handled == [True]


def test_an_actor_that_got_nothing_has_no_batch_end(node: Node) -> None:
    Batcher.start(name="first", runtime=node.runtime, log=node.log)
    Worker.start(name="second", runtime=node.runtime, log=node.log)
    node.runtime.address("second").tell(note(1))
    node.runtime.start()
    node.runtime.stop()

    assert "batch end" not in [event.what for event in node.log.take_all()]


def test_a_batch_is_closed_before_on_stop(node: Node) -> None:
    ref = Batcher.start(name="first", runtime=node.runtime, log=node.log)
    ref.tell(note(1))
    ref.stop(block=False)
    node.runtime.start()
    node.runtime.stop()

    assert [event.what for event in node.log.take_all()] == ["start", "message", "batch end", "stop"]


# Timers.


@pytest.mark.parametrize("name", EVERY_KIND)
def test_a_timer_tells_its_message_once(node: Node, name: str) -> None:
    Worker.start(name=name, runtime=node.runtime, log=node.log)
    node.runtime.start()
    address = node.runtime.address(name)
    began = node.runtime.clock.monotonic_nanos()

    node.runtime.after(20, address, note(1))
    node.runtime.after(5, address, note(0))
    node.log.wait(3)

    assert node.runtime.clock.monotonic_nanos() - began >= 20_000_000
    assert node.messages() == [note(0), note(1)]


@pytest.mark.parametrize("name", EVERY_KIND)
def test_a_repeated_timer_goes_on_until_it_is_cancelled(node: Node, name: str) -> None:
    """Cancelled by its own actor, nothing of it arrives any more, although a later timer does."""
    seen: list[int] = []
    address = node.runtime.address(name)
    Worker.start(name=name, runtime=node.runtime, log=node.log)

    def tick() -> None:
        seen.append(len(seen))
        if len(seen) == 3:
            timer.cancel()
            node.runtime.after(10, address, note(1))

    timer = node.runtime.every(2, address, Do(action=tick))
    node.runtime.start()
    node.log.wait(2)

    assert seen == [0, 1, 2]


@pytest.mark.parametrize("name", EVERY_KIND)
def test_a_late_timer_coalesces(node: Node, name: str) -> None:
    """An actor that was busy for many intervals gets one tick for them, not a flood."""
    address = node.runtime.address(name)
    busy, release = threading.Event(), threading.Event()
    Worker.start(name=name, runtime=node.runtime, log=node.log)

    def be_busy() -> None:
        busy.set()
        release.wait(10)

    node.runtime.start()
    address.tell(Do(action=be_busy))
    timer = node.runtime.every(20, address, note(7))
    assert busy.wait(10)
    # Some fifteen intervals pass: the timers of another dispatcher measure them.
    other: Probe[str] = Probe()
    Worker.start(name="apart", runtime=node.runtime, log=node.log)
    node.runtime.after(300, node.runtime.address("apart"), Do(action=lambda: other.tell("now")))
    other.wait()
    timer_stopped: Probe[str] = Probe()
    address.tell(Do(action=timer.cancel))
    address.tell(Do(action=lambda: timer_stopped.tell("now")))
    release.set()
    timer_stopped.wait()
    node.runtime.stop()

    assert len(node.messages()) <= 2


def test_a_timer_of_an_actor_that_ended_tells_nobody(node: Node) -> None:
    ref = Worker.start(name="first", runtime=node.runtime, log=node.log)
    Worker.start(name="second", runtime=node.runtime, log=node.log)
    node.runtime.start()
    node.runtime.every(1, node.runtime.address("first"), note(1))
    ref.stop(timeout=10)
    node.log.take_all()
    node.runtime.after(10, node.runtime.address("second"), note(2))
    node.log.wait()

    assert node.messages() == [note(2)]


def test_a_timer_may_tell_a_recipient_that_is_no_actor(node: Node) -> None:
    probe = Probe[Note]()
    node.runtime.start()

    node.runtime.after(1, probe, note(1))
    probe.wait()

    assert probe.take() == note(1)


# Offloaded work.


def test_work_runs_in_a_worker_and_its_result_is_told(node: Node) -> None:
    Worker.start(name="first", runtime=node.runtime, log=node.log)
    node.runtime.start()

    node.runtime.offload(
        lambda: threading.current_thread().name,
        lambda result: Note(sender=str(result), number=1),
        node.runtime.address("first"),
    )
    node.log.wait(2)

    (heard,) = node.messages()
    assert isinstance(heard, Note)
    assert heard.sender.startswith("levrier-n-worker-")


def test_work_that_raises_is_told_as_failed(node: Node) -> None:
    results = Probe[object]()
    node.runtime.start()

    node.runtime.offload(lambda: raise_error(ValueError("bad salt")), lambda result: result, results)
    results.wait()

    result = results.take()
    assert isinstance(result, WorkFailed)
    assert "ValueError: bad salt" in result.reason


def test_work_is_bounded_by_the_workers(node: Node) -> None:
    """Two workers: the third job starts only when one of the first two is done."""
    running, gate = Probe[int](), threading.Event()
    node.runtime.start()

    def work(number: int) -> int:
        running.tell(number)
        gate.wait(10)
        return number

    done = Probe[object]()
    for number in range(3):
        node.runtime.offload(partial(work, number), lambda result: result, done)
    running.wait(2)
    started = running.count
    gate.set()
    done.wait(3)

    assert started == 2
    assert done.count == 3


def test_an_assertion_in_work_brings_the_node_down() -> None:
    failures = Probe[FatalReason]()
    runtime = ThreadedRuntime("n", arrangement={"first": "core"}, on_failure=failures.tell)
    runtime.start()

    runtime.offload(lambda: raise_error(AssertionError("no salt")), lambda result: result, Probe[object]())
    failures.wait()
    runtime.stop()

    assert "no salt" in failures.take().reason
