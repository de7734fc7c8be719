"""The stepped runtime: FIFO per pair, virtual time, crashes, batches, and nothing that the seed does not decide."""

import gc
import itertools
from functools import partial

import pykka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levrier.actors.runtime import ExitStatus, FatalReason, Probe, Runtime, SteppedRuntime, ThreadedRuntime, WorkFailed
from tests.actors.runtime.actors import Batcher, Do, Event, Note, Worker, raise_error


def note(number: int, sender: str = "outside") -> Note:
    return Note(sender=sender, number=number)


def messages(log: Probe[Event]) -> list[object]:
    """The messages that were logged and not taken yet."""
    return [event.message for event in log.take_all() if event.what == "message"]


# Order.


@given(seed=st.integers(), tells=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), max_size=60))
def test_each_pair_is_first_in_first_out(seed: int, tells: list[tuple[str, str]]) -> None:
    """Any senders tell any receivers any number of messages: every pair's order is kept, under every seed."""
    runtime = SteppedRuntime(seed)
    heard = {receiver: Probe[Event](receiver) for receiver in "xy"}
    for sender in "abc":
        Worker.start(name=sender, runtime=runtime, log=Probe[Event]())
    for receiver in "xy":
        Worker.start(name=receiver, runtime=runtime, log=heard[receiver])
    for number, (sender, receiver) in enumerate(tells):
        tell = partial(runtime.address(receiver).tell, note(number, sender))
        runtime.address(sender).tell(Do(action=tell))

    runtime.run()

    for receiver in "xy":
        arrived = [message for message in messages(heard[receiver]) if isinstance(message, Note)]
        for sender in "abc":
            assert [message.number for message in arrived if message.sender == sender] == [
                number for number, pair in enumerate(tells) if pair == (sender, receiver)
            ]


def test_senders_are_interleaved_differently_by_different_seeds() -> None:
    orders = set()
    for seed in range(10):
        runtime, log = SteppedRuntime(seed), Probe[Event]()
        Worker.start(name="x", runtime=runtime, log=log)
        for sender in "ab":
            Worker.start(name=sender, runtime=runtime, log=Probe[Event]())
            for number in range(4):
                tell = partial(runtime.address("x").tell, note(number, sender))
                runtime.address(sender).tell(Do(action=tell))
        runtime.run()
        orders.add(tuple(message.sender for message in messages(log) if isinstance(message, Note)))

    assert len(orders) > 3


def test_a_message_is_never_handled_inside_the_handler_that_tells_it() -> None:
    runtime, log = SteppedRuntime(1), Probe[Event]()
    ref = Worker.start(name="x", runtime=runtime, log=log)

    def tell_itself() -> None:
        runtime.address("x").tell(note(1))
        log.tell(Event(what="told"))

    ref.tell(Do(action=tell_itself))
    runtime.run()

    assert [event.what for event in log.take_all()] == ["start", "told", "message"]


def test_pykka_tells_and_addresses_share_one_order() -> None:
    runtime, log = SteppedRuntime(1), Probe[Event]()
    ref = Worker.start(name="x", runtime=runtime, log=log)
    for number in range(0, 6, 2):
        ref.tell(note(number))
        runtime.address("x").tell(note(number + 1))

    runtime.run()

    assert messages(log) == [note(number) for number in range(6)]


@pytest.mark.parametrize("seed", range(10))
def test_on_start_runs_before_any_message(seed: int) -> None:
    runtime, log = SteppedRuntime(seed), Probe[Event]()
    Worker.start(name="x", runtime=runtime, log=log)
    runtime.address("x").tell(note(1))
    runtime.run()

    assert [event.what for event in log.take_all()] == ["start", "message"]


def test_telling_an_address_without_an_actor_is_our_bug() -> None:
    runtime = SteppedRuntime(1)
    with pytest.raises(AssertionError, match="<Address node/x> was told Note"):
        runtime.address("x").tell(note(1))


def test_an_endless_conversation_is_noticed() -> None:
    runtime = SteppedRuntime(7)
    Worker.start(name="x", runtime=runtime, log=Probe[Event]())

    def again() -> None:
        runtime.address("x").tell(Do(action=again))

    again()
    with pytest.raises(AssertionError, match=r"still busy after 1000 steps \(seed 7\)"):
        runtime.run(max_steps=1000)


def test_a_probe_stands_in_for_a_neighbour() -> None:
    runtime = SteppedRuntime(1)
    probe = runtime.probe("journal")
    runtime.address("journal").tell(note(1))
    probe.assert_silent()

    runtime.run()

    assert probe.take() == note(1)
    probe.assert_silent()


# Batches.


def batch_sizes(seed: int, count: int) -> tuple[int, ...]:
    runtime, log = SteppedRuntime(seed), Probe[Event]()
    ref = Batcher.start(name="x", runtime=runtime, log=log)
    for number in range(count):
        ref.tell(note(number))
    runtime.run()
    kinds = [event.what for event in log.take_all()]
    assert kinds[-1] == "batch end"
    return tuple(len(list(group)) for what, group in itertools.groupby(kinds) if what == "message")


def test_batch_boundaries_vary_by_seed_and_cover_every_message() -> None:
    sizes = [batch_sizes(seed, 8) for seed in range(20)]

    assert [sum(each) for each in sizes] == [8] * 20
    assert len(set(sizes)) > 5


def test_a_single_message_is_a_batch() -> None:
    assert batch_sizes(3, 1) == (1,)


# Time.


def test_time_stands_still_unless_it_is_advanced() -> None:
    runtime, log = SteppedRuntime(1), Probe[Event]()
    Worker.start(name="x", runtime=runtime, log=log)
    runtime.after(1, runtime.address("x"), note(1))
    before = runtime.clock.now_micros()

    runtime.run()

    assert messages(log) == []
    assert runtime.clock.now_micros() == before


def test_due_timers_fire_in_order_and_what_they_cause_comes_first() -> None:
    runtime, log = SteppedRuntime(1), Probe[Event]()
    address = runtime.address("x")
    Worker.start(name="x", runtime=runtime, log=log)
    runtime.after(30, address, note(3))
    runtime.after(10, address, Do(action=lambda: address.tell(note(1))))
    runtime.after(20, address, note(2))
    before = runtime.clock.monotonic_nanos()

    runtime.advance(25)

    assert messages(log) == [note(1), note(2)]
    assert runtime.clock.monotonic_nanos() - before == 25_000_000
    runtime.advance(5)
    assert messages(log) == [note(3)]


def test_a_repeated_timer_fires_each_interval_until_it_is_cancelled() -> None:
    runtime, log = SteppedRuntime(1), Probe[Event]()
    Worker.start(name="x", runtime=runtime, log=log)
    timer = runtime.every(10, runtime.address("x"), note(1))

    runtime.advance(35)
    timer.cancel()
    runtime.advance(100)

    assert messages(log) == [note(1)] * 3


@pytest.mark.parametrize("seed", range(10))
def test_a_cancelled_timer_is_not_delivered_from_the_mailbox(seed: int) -> None:
    """Two timers are due at once: whichever comes first cancels the other."""
    runtime, log = SteppedRuntime(seed), Probe[Event]()
    Worker.start(name="x", runtime=runtime, log=log)

    def cancel_both() -> None:
        log.tell(Event(what="message", message="came"))
        for timer in timers:
            timer.cancel()

    timers = [runtime.after(10, runtime.address("x"), Do(action=cancel_both)) for _ in range(2)]
    runtime.advance(20)

    assert messages(log) == ["came"]


def test_a_handler_sees_the_time_its_timer_was_due() -> None:
    runtime = SteppedRuntime(1)
    seen: list[int] = []
    Worker.start(name="x", runtime=runtime, log=Probe[Event]())
    began = runtime.clock.now_micros()
    runtime.every(10, runtime.address("x"), Do(action=lambda: seen.append(runtime.clock.now_micros() - began)))

    runtime.advance(30)

    assert seen == [10_000, 20_000, 30_000]


def test_run_until_lets_just_enough_time_pass() -> None:
    runtime, log = SteppedRuntime(1), Probe[Event]()
    Worker.start(name="x", runtime=runtime, log=log)
    runtime.every(10, runtime.address("x"), note(1))

    assert runtime.run_until(lambda: log.count == 4, max_milliseconds=1000)

    assert runtime.clock.monotonic_nanos() == 30_000_000


def test_run_until_gives_up_at_its_limit() -> None:
    runtime = SteppedRuntime(1)

    assert not runtime.run_until(lambda: False, max_milliseconds=50)

    assert runtime.clock.monotonic_nanos() == 50_000_000


def test_a_wall_clock_may_be_wrong_without_moving_the_timers() -> None:
    runtime = SteppedRuntime(1)
    right, wrong = runtime.node("right").clock, runtime.node("wrong").clock
    wrong.offset_micros = -5_000_000

    assert wrong.now_micros() == right.now_micros() - 5_000_000
    assert wrong.monotonic_nanos() == right.monotonic_nanos()


# Offloaded work.


def test_work_is_a_step_of_its_own_and_its_result_a_message() -> None:
    runtime, log = SteppedRuntime(1), Probe[Event]()
    Worker.start(name="x", runtime=runtime, log=log)
    worked: list[int] = []

    runtime.offload(lambda: worked.append(1), lambda _result: note(9), runtime.address("x"))
    assert worked == []
    runtime.run()

    assert worked == [1]
    assert messages(log) == [note(9)]


def test_jobs_finish_in_an_order_the_seed_decides() -> None:
    orders = set()
    for seed in range(10):
        runtime = SteppedRuntime(seed)
        done = Probe[object]()
        for number in range(4):
            runtime.offload(partial(int, number), lambda result: result, done)
        runtime.run()
        orders.add(tuple(done.take_all()))

    assert {tuple(sorted(order, key=str)) for order in orders} == {(0, 1, 2, 3)}
    assert len(orders) > 3


def test_work_that_raises_is_told_as_failed() -> None:
    runtime, results = SteppedRuntime(1), Probe[object]()
    runtime.offload(lambda: raise_error(ValueError("bad salt")), lambda result: result, results)

    runtime.run()

    result = results.take()
    assert isinstance(result, WorkFailed)
    assert "ValueError: bad salt" in result.reason
    assert runtime.failures == []


def test_an_assertion_in_work_brings_the_node_down() -> None:
    runtime, results = SteppedRuntime(1), Probe[object]()
    runtime.offload(lambda: raise_error(AssertionError("no salt")), lambda result: result, results)

    runtime.run()

    results.assert_silent()
    assert [reason.status for reason in runtime.failures] == [ExitStatus.ACTOR_FAILED]


# Nodes.


def test_a_crash_drops_queues_timers_work_and_actors() -> None:
    world, log = SteppedRuntime(1), Probe[Event]()
    node = world.node("n0")
    ref = Worker.start(name="x", runtime=node, log=log)
    world.run()
    log.take_all()
    node.every(10, node.address("x"), note(1))
    node.offload(lambda: 1, lambda _result: note(2), node.address("x"))
    node.address("x").tell(note(3))

    world.crash_node("n0")
    idle_at_once = world.idle
    node.address("x").tell(note(4))
    world.advance(100)

    log.assert_silent()
    assert idle_at_once
    assert not ref.is_alive()
    assert world.trace[-1].endswith("crash n0")


def test_a_new_incarnation_starts_under_the_old_name() -> None:
    world, log = SteppedRuntime(1), Probe[Event]()
    old = world.node("n0")
    Worker.start(name="x", runtime=old, log=log)
    old.address("x").tell(note(1))
    world.crash_node("n0")
    new = world.node("n0")
    Worker.start(name="x", runtime=new, log=log)

    old.address("x").tell(note(2))
    new.address("x").tell(note(3))
    world.run()

    assert [event.what for event in log.take_all()] == ["start", "message"]
    assert new.entropy(8) != old.entropy(8)


def test_a_crash_of_one_node_leaves_the_others_alone() -> None:
    world, log = SteppedRuntime(1), Probe[Event]()
    for name in ("n0", "n1"):
        Worker.start(name="x", runtime=world.node(name), log=log)
        world.node(name).every(10, world.node(name).address("x"), note(1, name))
    world.run()

    world.crash_node("n0")
    world.advance(20)

    assert messages(log) == [note(1, "n1")] * 2


def test_a_failed_node_has_no_timers_any_more() -> None:
    world, log = SteppedRuntime(1), Probe[Event]()
    node = world.node("n0")
    Worker.start(name="x", runtime=node, log=log)
    node.every(10, node.address("x"), note(1))
    wedged = FatalReason(status=ExitStatus.SUPERBLOCK_WEDGED, reason="no copy writable", actor="x")

    node.fail(wedged)
    world.advance(100)

    assert messages(log) == []
    assert world.failures == [wedged]
    assert node.failure == wedged


def test_an_ordered_stop_empties_each_mailbox_first() -> None:
    runtime, log = SteppedRuntime(1), Probe[Event]()
    for name in ("x", "y"):
        Worker.start(name=name, runtime=runtime, log=log)
    for number in range(5):
        runtime.address("x").tell(Do(action=partial(runtime.address("y").tell, note(number))))

    runtime.stop(order=["x", "y"])

    events = log.take_all()
    assert [event.message for event in events if event.what == "message"] == [note(number) for number in range(5)]
    assert [event.what for event in events][-1] == "stop"


def test_a_simulated_actor_is_out_of_reach_of_pykkas_registry() -> None:
    """`ActorRegistry.stop_all` of one test or one node must not end the actors of another."""
    log = Probe[Event]()
    runtime = SteppedRuntime(1)
    ref = Worker.start(name="x", runtime=runtime, log=log)
    assert pykka.ActorRegistry.get_all() == []

    pykka.ActorRegistry.stop_all(block=False)
    runtime.run()

    assert ref.is_alive()


def test_a_runtime_that_is_dropped_is_garbage_with_its_actors() -> None:
    class Marked(Worker):
        pass

    def simulate() -> None:
        runtime = SteppedRuntime(1)
        Marked.start(name="x", runtime=runtime, log=Probe[Event]())
        runtime.run()

    simulate()
    gc.collect()

    assert [each for each in gc.get_objects() if type(each) is Marked] == []


def test_both_runtimes_are_a_runtime() -> None:
    """The type checker's proof that actors see one protocol; and the stepped one gives seeded entropy."""
    threaded = ThreadedRuntime("n", arrangement={"x": "core"}, on_failure=lambda _reason: None)
    runtimes: list[Runtime] = [SteppedRuntime(1), SteppedRuntime(1), SteppedRuntime(1).node("n0"), threaded]

    assert [len(runtime.entropy(16)) for runtime in runtimes] == [16] * 4
    assert runtimes[0].entropy(16) == runtimes[1].entropy(16)
    assert runtimes[0].random.random() == runtimes[1].random.random()
    threaded.stop()


# Handlers that take time, and nodes whose time is long.


def test_a_handler_knows_how_long_it_takes_already() -> None:
    """What waits for the end of a hang waits once for it, however many calls of one handler hang."""
    runtime, taken, done = SteppedRuntime(1), list[int](), list[int]()
    Worker.start(name="a", runtime=runtime, log=Probe[Event]())

    def work() -> None:
        for _ in range(3):
            runtime.take_time(5_000 - runtime.taken_micros)
            taken.append(runtime.taken_micros)

    runtime.address("a").tell(Do(action=work))
    runtime.address("a").tell(Do(action=lambda: done.append(runtime.now_nanos)))
    runtime.advance(20)
    assert taken == [5_000] * 3
    assert done == [5_000_000]
    assert runtime.taken_micros == 0


def test_the_timers_of_a_stretched_node_take_longer_and_those_of_others_do_not() -> None:
    runtime = SteppedRuntime(1)
    slow = runtime.node("slow")
    slow.stretch = 10
    probes = {name: runtime.node(name).probe("p") for name in ("slow", "quick")}
    for name, probe in probes.items():
        runtime.node(name).every(10, probe, name)
        runtime.node(name).after(5, probe, f"{name} once")
    runtime.advance(100)
    assert probes["slow"].take_all() == ["slow once", "slow"]
    assert probes["quick"].take_all() == ["quick once"] + ["quick"] * 10
