"""A capture is what stood there when it was taken, whatever is applied meanwhile, and it costs next to nothing."""

import time
from collections.abc import Iterator

import pytest

from levrier.actors.metadata.options import NO_OPTIONS, OptionPool
from levrier.actors.metadata.records import Stream
from levrier.actors.metadata.streams import StreamsMachine
from levrier.wire.options import encode_block
from tests.actors.metadata.support import Log, Step, encoded, grant, uint64, with_users


def catalogue() -> Log:
    log = Log(with_users(grant(stream=(0, ("manage_stream",))), grant(topic=(1, 0, ("read_topic",)))))
    for stream in "abc":
        log.create_stream(stream)
    for stream in "ab":
        for topic in "xyz":
            log.create_topic(stream, topic, [0, 1])
    return log


STEPS: list[tuple[str, Step]] = [
    ("create stream", lambda log: log.create_stream("new")),
    ("update stream", lambda log: log.update_stream("a", "new", encode_block([uint64("k", 1)]))),
    ("update stream without topics", lambda log: log.update_stream("c", "new")),
    ("delete stream", lambda log: log.delete_stream("a")),
    ("purge stream", lambda log: log.purge_stream("a")),
    ("first topic", lambda log: log.create_topic("c", "new", [0])),
    ("create topic", lambda log: log.create_topic("a", "new", [0])),
    ("update topic", lambda log: log.update_topic("a", "x", "new", encode_block([uint64("message_expiry", 1)]))),
    ("delete topic", lambda log: log.delete_topic("b", "x")),
    ("purge topic", lambda log: log.purge_topic("b", "x")),
    ("create partitions", lambda log: log.create_partitions("a", "x", [0])),
    ("delete partitions", lambda log: log.delete_partitions("a", "x", 1)),
    ("truncate", lambda log: log.truncate("a", "x", 0, 9)),
]


@pytest.mark.parametrize(("name", "step"), STEPS, ids=[row[0] for row in STEPS])
def test_br_21_a_capture_does_not_move(name: str, step: Step) -> None:
    """BR-21: taken at k, it encodes k, never a mix; the live machine has moved on."""
    log = catalogue()
    before = encoded(log.machine)
    captured = log.machine.capture(log.op, 55)
    assert step(log).code == 0
    assert (b"".join(captured.users()), b"".join(captured.streams())) == before[:2]
    assert (captured.consensus_group_high, captured.next_user_id) == before[2:]
    assert (captured.op, captured.timestamp) == (log.op - 1, 55)
    assert encoded(log.machine) != before


ORDER = [
    "create topic",
    "purge topic",
    "create partitions",
    "delete partitions",
    "truncate",
    "delete topic",
    "first topic",
    "update stream without topics",
    "purge stream",
    "delete stream",
]
"""Operations that all succeed one after the other, each leaving other bytes."""


def test_br_21_captures_of_several_ops_do_not_mix() -> None:
    """BR-21: all mutations, one after the other, with a capture before each; nothing is encoded until the end."""
    log = catalogue()
    expected, captures = [], []
    steps = dict(STEPS)
    for name in ORDER:
        captures.append(log.machine.capture(log.op, 0))
        expected.append(encoded(log.machine)[:2])
        assert steps[name](log).code == 0
    assert [(b"".join(captured.users()), b"".join(captured.streams())) for captured in captures] == expected
    assert len(set(expected)) == len(expected)


def test_br_21_mutations_between_two_chunks_do_not_show() -> None:
    """BR-21: the encoder is half through when everything changes."""
    log = Log()
    for index in range(800):
        log.create_stream(f"stream-{index}")
        log.create_topic(index, "topic", [0])
    before = encoded(log.machine)[1]
    chunks: Iterator[bytes] = log.machine.capture(log.op, 0).streams()
    written = [next(chunks)]
    for index in range(800):
        log.update_stream(index, f"renamed-{index}")
        log.create_topic(index, "other", [0, 1])
        log.delete_topic(index, "topic")
    log.delete_stream(799)
    written.extend(chunks)
    assert b"".join(written) == before


def test_a_capture_changes_nothing() -> None:
    """The bytes and the further replies of a captured machine are those of one that was not."""
    captured, plain = catalogue(), catalogue()
    for _, step in STEPS[4:]:
        captured.machine.capture(captured.op, 0)
        assert step(captured) == step(plain)
    assert encoded(captured.machine) == encoded(plain.machine)


def test_a_capture_costs_a_copy_of_pointers() -> None:
    """Design section 3, "The path of a checkpoint": below 1 ms at 10,000 streams (the best of several, for a busy host)."""
    machine = Log().machine
    machine.streams = StreamsMachine.restore(
        (Stream(index, f"s{index}", 1, NO_OPTIONS) for index in range(10_000)),
        revision=0,
        consensus_group_high=0,
        pool=OptionPool(),
    )
    seconds = []
    for _ in range(10):
        started = time.perf_counter()
        machine.capture(1, 1)
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.001
