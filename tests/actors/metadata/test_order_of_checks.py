"""The first check that fails names the code, and a rejection leaves nothing behind (state-machine 5, 6; S-174)."""

import gc
from collections.abc import Callable, Iterator

import pytest

from levrier.actors.metadata.machine import Applied, MetadataMachine
from levrier.actors.metadata.options import NO_OPTIONS, OptionPool
from levrier.actors.metadata.records import Stream
from levrier.actors.metadata.streams import STREAMS_MAX, TOPICS_MAX, StreamsMachine
from levrier.wire.codes import Operation
from levrier.wire.requests.users import CreateUser
from tests.actors.metadata.support import BAD_OPTIONS, Log, Step, encoded, grant, sections, with_users

BEYOND = 1_000_000


def catalogue(users: MetadataMachine | None = None) -> Log:
    """Stream `s` with topics `t` (two partitions) and `u`, stream `other`."""
    log = Log(users)
    log.create_stream("s")
    log.create_stream("other")
    log.create_topic("s", "t", [0, 1])
    log.create_topic("s", "u")
    return log


def full_of_topics() -> Log:
    """Stream `s` whose table is full: one more topic has no room."""
    log = catalogue()
    users, streams = sections(log.machine)
    topic = streams[0][0][1][4][1][1]
    streams[0][0][1][4] = [[index, [index, f"t{index}", *topic[2:]]] for index in range(TOPICS_MAX)]
    return Log(MetadataMachine.restore(users=users, streams=streams, consensus_group_high=9, next_user_id=0), op=log.op)


# Each row breaks the check that its code names and every check behind it.
ROWS: list[tuple[str, Callable[[], Log], int, Step]] = [
    ("create_stream", catalogue, 1012, lambda log: log.create_stream("s", BAD_OPTIONS)),
    ("create_stream", catalogue, 4042, lambda log: log.create_stream("new", BAD_OPTIONS)),
    ("update_stream", catalogue, 1009, lambda log: log.update_stream("absent", "s", BAD_OPTIONS)),
    ("update_stream", catalogue, 1012, lambda log: log.update_stream("s", "other", BAD_OPTIONS)),
    ("update_stream", catalogue, 4042, lambda log: log.update_stream("s", "new", BAD_OPTIONS)),
    ("delete_stream", catalogue, 1009, lambda log: log.delete_stream(99)),
    ("purge_stream", catalogue, 1009, lambda log: log.purge_stream(99)),
    (
        "create_topic",
        catalogue,
        1009,
        lambda log: log.create_topic("absent", "t", [0, 0, BEYOND], options=BAD_OPTIONS),
    ),
    ("create_topic", full_of_topics, 2013, lambda log: log.create_topic("s", "t1", [0, 0], options=BAD_OPTIONS)),
    ("create_topic", full_of_topics, 2021, lambda log: log.create_topic("s", "new", [0, 0], options=BAD_OPTIONS)),
    ("create_topic", catalogue, 2013, lambda log: log.create_topic("s", "t", [0, 0, BEYOND], options=BAD_OPTIONS)),
    ("create_topic", catalogue, 2019, lambda log: log.create_topic("s", "new", [0, 0], options=BAD_OPTIONS)),
    ("create_topic", catalogue, 3013, lambda log: log.create_topic("s", "new", [BEYOND], options=BAD_OPTIONS)),
    ("create_topic", catalogue, 4042, lambda log: log.create_topic("s", "new", [0], options=BAD_OPTIONS)),
    ("create_topic", catalogue, 4042, lambda log: log.create_topic("s", "new", [0], derived=BAD_OPTIONS)),
    ("update_topic", catalogue, 1009, lambda log: log.update_topic("absent", "absent", "u", BAD_OPTIONS)),
    ("update_topic", catalogue, 2010, lambda log: log.update_topic("s", "absent", "u", BAD_OPTIONS)),
    ("update_topic", catalogue, 2013, lambda log: log.update_topic("s", "t", "u", BAD_OPTIONS)),
    ("update_topic", catalogue, 4042, lambda log: log.update_topic("s", "t", "new", BAD_OPTIONS)),
    ("delete_topic", catalogue, 1009, lambda log: log.delete_topic("absent", "absent")),
    ("delete_topic", catalogue, 2010, lambda log: log.delete_topic("s", "absent")),
    ("delete_topic of another stream", catalogue, 2010, lambda log: log.delete_topic("other", "t")),
    ("purge_topic", catalogue, 1009, lambda log: log.purge_topic("absent", "absent")),
    ("purge_topic", catalogue, 2010, lambda log: log.purge_topic("s", "absent")),
    ("create_partitions", catalogue, 1009, lambda log: log.create_partitions("absent", "absent", [0, 0])),
    ("create_partitions", catalogue, 2010, lambda log: log.create_partitions("s", "absent", [0, 0])),
    ("create_partitions", catalogue, 2019, lambda log: log.create_partitions("s", "t", [0, 0, BEYOND])),
    ("create_partitions", catalogue, 3013, lambda log: log.create_partitions("s", "t", [0, BEYOND, 0])),
    ("delete_partitions", catalogue, 1009, lambda log: log.delete_partitions("absent", "absent", 9)),
    ("delete_partitions", catalogue, 2010, lambda log: log.delete_partitions("s", "absent", 9)),
    ("delete_partitions", catalogue, 2019, lambda log: log.delete_partitions("s", "t", 3)),
    ("truncate", catalogue, 1009, lambda log: log.truncate("absent", "absent", 9, 1)),
    ("truncate", catalogue, 2010, lambda log: log.truncate("s", "absent", 9, 1)),
    ("truncate", catalogue, 3007, lambda log: log.truncate("s", "t", 2, 1)),
]


@pytest.mark.parametrize(("name", "state", "code", "step"), ROWS, ids=[f"{row[0]}-{row[2]}" for row in ROWS])
def test_s_174_the_first_failing_check_decides_and_nothing_changes(
    name: str, state: Callable[[], Log], code: int, step: Step
) -> None:
    """S-174, and the order of the checks of each operation. The high water of groups is the one exception (D-07)."""
    log = state()
    users, streams, _, next_user_id = encoded(log.machine)
    assert step(log).code == code
    after = encoded(log.machine)
    assert (after[0], after[1], after[3]) == (users, streams, next_user_id)


@pytest.fixture
def no_collections() -> Iterator[None]:
    """A million records without a full collection every few thousand of them."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
def test_the_stream_ceiling_is_the_last_check_of_create_stream() -> None:
    """S-071: 1020 behind 1012 and 4042; a freed id makes room again."""
    log = Log()
    log.machine.streams = StreamsMachine.restore(
        (Stream(index, f"s{index}", 1, NO_OPTIONS) for index in range(STREAMS_MAX)),
        revision=0,
        consensus_group_high=0,
        pool=OptionPool(),
    )
    assert log.create_stream("s5").code == 1012
    assert log.create_stream("new", BAD_OPTIONS).code == 4042
    assert log.create_stream("new").code == 1020
    log.delete_stream(4)
    assert log.create_stream("new").code == 0
    found = log.stream(4)
    assert found is not None
    assert found.stream.name == "new"


DENIED: list[tuple[str, Step]] = [
    ("create_stream", lambda log: log.create_stream("s", BAD_OPTIONS, user=1)),
    ("update_stream", lambda log: log.update_stream("s", "other", BAD_OPTIONS, user=1)),
    ("delete_stream", lambda log: log.delete_stream("s", user=1)),
    ("purge_stream", lambda log: log.purge_stream("s", user=1)),
    ("create_topic", lambda log: log.create_topic("s", "t", [0, 0], user=1)),
    ("update_topic", lambda log: log.update_topic("s", "t", "u", user=1)),
    ("delete_topic", lambda log: log.delete_topic("s", "t", user=1)),
    ("purge_topic", lambda log: log.purge_topic("s", "t", user=1)),
    ("create_partitions", lambda log: log.create_partitions("s", "t", [0, 0], user=1)),
    ("delete_partitions", lambda log: log.delete_partitions("s", "t", 9, user=1)),
    ("truncate", lambda log: log.truncate("s", "t", 9, 1, user=1)),
]


@pytest.mark.parametrize(("name", "step"), DENIED, ids=[row[0] for row in DENIED])
def test_s_174_a_denied_op_of_every_kind_changes_nothing(name: str, step: Step) -> None:
    """S-174: the gate comes before every other check of a target that exists."""
    log = catalogue(with_users(grant("read_streams", "read_topics", "poll_messages", "send_messages")))
    users, streams, _, next_user_id = encoded(log.machine)
    assert step(log).code == 41
    after = encoded(log.machine)
    assert (after[0], after[1], after[3]) == (users, streams, next_user_id)


MISSING: list[tuple[str, int, Step]] = [
    ("update_stream", 1009, lambda log: log.update_stream("absent", "new", user=1)),
    ("delete_stream", 1009, lambda log: log.delete_stream("absent", user=1)),
    ("create_topic", 1009, lambda log: log.create_topic("absent", "new", user=1)),
    ("update_topic", 1009, lambda log: log.update_topic("absent", "t", "new", user=1)),
    ("delete_topic", 2010, lambda log: log.delete_topic("s", "absent", user=1)),
    ("create_partitions", 2010, lambda log: log.create_partitions("s", "absent", [0], user=1)),
    ("truncate", 1009, lambda log: log.truncate("absent", "absent", 0, 1, user=1)),
]


@pytest.mark.parametrize(("name", "code", "step"), MISSING, ids=[f"{row[0]}-{row[1]}" for row in MISSING])
def test_a_missing_target_is_reported_even_to_a_user_without_rights(name: str, code: int, step: Step) -> None:
    assert step(catalogue(with_users(None))).code == code


@pytest.mark.parametrize("operation", [Operation.CREATE_STREAM, Operation.DELETE_TOPIC, Operation.CREATE_USER])
def test_a_deleted_user_is_refused_before_anything_is_looked_at(operation: Operation) -> None:
    """D-02: an operation stamped with a user who is gone, on targets that do not exist."""
    log = catalogue(with_users(None))
    bodies: dict[int, Callable[[], Applied]] = {
        Operation.CREATE_STREAM: lambda: log.create_stream("new", user=2),
        Operation.DELETE_TOPIC: lambda: log.delete_topic("absent", "absent", user=2),
        Operation.CREATE_USER: lambda: log.apply(Operation.CREATE_USER, CreateUser(username="x", password=""), user=2),
    }
    assert bodies[operation]().code == 41
