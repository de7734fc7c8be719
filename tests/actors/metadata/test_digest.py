"""The digest of the replicated state (D-17): kept while it changes, the same as counted from a snapshot."""

import random
import timeit

import pytest

from levrier.actors.metadata.digest import Digest
from levrier.actors.metadata.machine import MetadataMachine
from levrier.actors.metadata.records import Stream
from tests.actors.metadata.support import Log, encoded, restored
from tests.actors.metadata.test_histories import random_step


def counted(machine: MetadataMachine) -> tuple[int, ...]:
    """The digests of the records, and the numbers beside them that a restored machine of these tests has too."""
    streams, users = machine.streams, machine.users
    numbers = (streams.revision, streams.consensus_group_high, users.next_user_id)
    return users.digest.value, streams.digest.value, *numbers


@pytest.mark.parametrize("seed", range(3))
def test_kept_and_counted_anew_are_the_same_after_every_op(seed: int) -> None:
    """A restored machine counts everything; and equal bytes have equal digests, others do not."""
    rng = random.Random(seed)
    log = Log()
    by_state: dict[object, tuple[int, ...]] = {}
    for _ in range(150):
        random_step(rng)(log)
        digest = counted(log.machine)
        assert counted(restored(log.machine)) == digest
        assert by_state.setdefault(encoded(log.machine), digest) == digest
    assert len(set(by_state.values())) == len(by_state)


def test_the_numbers_beside_the_records_count_too() -> None:
    """Users, streams and the frontier: an op that was rejected everywhere moves the frontier alone."""
    log = Log()
    log.bootstrap()
    before = log.machine.digest()
    log.update_stream("missing", "name")
    assert log.machine.digest() != before


def test_a_record_that_changed_behind_the_back_of_the_machine_is_found_when_it_is_encoded() -> None:
    """The kept digest does not follow memory that flips, the encoding does."""
    log = Log()
    log.bootstrap()
    log.create_stream("orders")
    log.create_topic("orders", "lines", [0, 1])
    stream = log.machine.streams._streams.get(0)
    assert stream is not None
    log.machine.streams._streams._items[0] = Stream(0, "0rders", *stream[2:])
    with pytest.raises(AssertionError, match=r"streams at op .* memory is corrupt"):
        encoded(log.machine)


def test_it_costs_little_beside_an_op() -> None:
    """One stream created: one hash. The bound is far above what it takes, for machines that are busy with other things."""
    digest = Digest()
    log = Log()
    log.create_stream("orders")
    stream = log.machine.streams._streams.get(0)
    assert stream is not None
    seconds = min(timeit.repeat(lambda: digest.toggle_stream(stream), number=1000, repeat=20)) / 1000
    assert seconds < 20e-6
