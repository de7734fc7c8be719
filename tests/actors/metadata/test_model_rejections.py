"""Every pair of operation and code that the tables allow, produced, in the order of checks that decides the code.

State-machine 3.1, 5 to 7, 10.3; wire 14.1; D-02 to D-04. A request can be wrong in several ways at once. The table says for each
operation in which order its checks come; a request that fails a check and all that come after it gets the code of the first.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from levrier.actors.metadata.machine import Applied, MetadataMachine
from levrier.actors.metadata.options import NO_OPTIONS, OptionPool
from levrier.actors.metadata.records import Stream
from levrier.actors.metadata.streams import STREAMS_MAX, TOPICS_MAX, StreamsMachine
from levrier.cluster.simulate.checkers.model.machine import Step
from levrier.wire.codes import COMMITTED_CODES, REPLICATED_FORM, Operation
from levrier.wire.replies import result_rejection
from tests.actors.metadata.model_steps import entry, first_step
from tests.actors.metadata.support import encoded, sections

Faults = frozenset[int]
"""The codes of the checks that a request fails."""

BAD_BLOCK = (("message_expiry", 12, b"\x01"),)
ROOT, ALICE, GONE = 0, 1, 9
MEMBER, OTHER = 5, 6

ORDER: Final[dict[int, tuple[int, ...]]] = {
    64: (1009, 41, 2013, 2021, 3013, 4042),
    65: (1009, 2010, 41, 3013),
    66: (),
    67: (),
    68: (1009, 2010, 41, 3007),
    69: (),
    128: (41, 1012, 4042),
    129: (1009, 41, 1012, 4042),
    130: (1009, 41),
    131: (1009, 41),
    133: (1009, 2010, 41, 2013, 4042),
    134: (1009, 2010, 41),
    135: (1009, 2010, 41),
    137: (1009, 2010, 41, 2019),
    139: (1009, 2010, 41, 5004),
    140: (1009, 2010, 41, 5000),
    141: (41, 43, 46, 4042),
    142: (41, 20, 48, 4042, 43, 46),
    143: (41, 20, 48),
    144: (20, 41, 42),
    145: (41, 20, 49),
    146: (20, 51, 56),
    147: (20,),
    148: (1009, 2010, 41, 5000),
    149: (1009, 2010, 41, 5000, 5006),
}
"""A missing stream or topic is told to anybody, a missing group or user only to whoever may look (10.3)."""

PARTITION_IDS: Final = {64: 2019, 65: 2019}
"""Operations where an id that comes twice (2019) and one out of range (3013) are one check: what is met first decides."""

FULL_OF_STREAMS: Final = (128, 1020)
NEVER: Final = {(3, 41): "the gate lets every Logout pass (10.3)"}


def place(faults: Faults) -> dict[str, object]:
    return {"stream": "absent" if 1009 in faults else "s", "topic": "absent" if 2010 in faults else "t"}


def assigned(faults: Faults) -> tuple[tuple[int, int], ...]:
    """2019 alone is an id that comes twice; with 3013 it comes after the id that is out of range."""
    ids = ([1_000_000] if 3013 in faults else []) + ([0, 0] if 2019 in faults else [0])
    return tuple((number, 1) for number in ids)


def block(faults: Faults) -> object:
    return BAD_BLOCK if 4042 in faults else ()


def target(faults: Faults) -> str:
    if 20 in faults:
        return "absent"
    return "iggy" if faults & {48, 49} else "alice"


def username(faults: Faults) -> str:
    if 43 in faults:
        return "xx"
    return "bob" if 46 in faults else "fresh"


def token_owner(faults: Faults) -> int:
    return GONE if 20 in faults else ALICE


ARGUMENTS: Final[dict[int, Callable[[Faults], dict[str, object]]]] = {
    64: lambda faults: {
        "stream": place(faults)["stream"],
        "name": "t" if 2013 in faults else "fresh",
        "options": block(faults),
        "derived": (),
        "assignments": assigned(faults),
    },
    65: lambda faults: {**place(faults), "assignments": assigned(faults)},
    66: lambda _: {"client": MEMBER},
    67: lambda _: {"stream": "s", "topic": "t", "group_id": 0, "source": MEMBER, "partition": 0},
    68: lambda faults: {**place(faults), "partition": 9 if 3007 in faults else 0, "offset": 4},
    69: lambda _: {"name": "other", "hash": "hash"},
    128: lambda faults: {"name": "s" if 1012 in faults else "fresh", "options": block(faults)},
    129: lambda faults: {
        "stream": place(faults)["stream"],
        "name": "other" if 1012 in faults else "fresh",
        "options": block(faults),
    },
    130: lambda faults: {"stream": place(faults)["stream"]},
    131: lambda faults: {"stream": place(faults)["stream"]},
    133: lambda faults: {**place(faults), "name": "u" if 2013 in faults else "fresh", "options": block(faults)},
    134: place,
    135: place,
    137: lambda faults: {**place(faults), "count": 3 if 2019 in faults else 1},
    139: lambda faults: {**place(faults), "name": "g" if 5004 in faults else "fresh"},
    140: lambda faults: {**place(faults), "group": "absent" if 5000 in faults else "g"},
    141: lambda faults: {
        "name": username(faults),
        "hash": "hash",
        "status": 1,
        "rights": None,
        "options": block(faults),
    },
    142: lambda faults: {
        "target": target(faults),
        "name": username(faults),
        "status": 2 if 48 in faults else 1,
        "options": block(faults),
    },
    143: lambda faults: {"target": target(faults)},
    144: lambda faults: {
        "target": "absent" if 20 in faults else "bob",
        "hash": "" if 42 in faults else "another hash",
    },
    145: lambda faults: {"target": target(faults), "rights": None},
    146: lambda faults: {
        "owner": token_owner(faults),
        "name": "taken" if 51 in faults else "fresh",
        "hash": f"{2:064x}",
        "expiry": 2**64 - 2 if 56 in faults else 60,
    },
    147: lambda faults: {
        "owner": token_owner(faults),
        "name": "absent" if 20 in faults else "taken",
        "only_if_expired": False,
    },
    148: lambda faults: {
        **place(faults),
        "group": "absent" if 5000 in faults else "g",
        "client": OTHER,
        "in_flight": (),
    },
    149: lambda faults: {
        **place(faults),
        "group": "absent" if 5000 in faults else "g",
        "client": OTHER if 5006 in faults else MEMBER,
    },
}
"""A request that fails the given checks and no others, in the catalogue below. Alice has no rights."""

SETTING: Final[list[tuple[int, dict[str, object]]]] = [
    (141, {"name": "alice", "hash": "hash", "status": 1, "rights": None, "options": ()}),
    (141, {"name": "bob", "hash": "hash", "status": 1, "rights": None, "options": ()}),
    (146, {"owner": ALICE, "name": "taken", "hash": f"{1:064x}", "expiry": 0}),
    (128, {"name": "s", "options": ()}),
    (128, {"name": "other", "options": ()}),
    (64, {"stream": "s", "name": "t", "options": (), "derived": (), "assignments": ((0, 1), (1, 2))}),
    (64, {"stream": "s", "name": "u", "options": (), "derived": (), "assignments": ()}),
    (139, {"stream": "s", "topic": "t", "name": "g"}),
    (148, {"stream": "s", "topic": "t", "group": "g", "client": MEMBER, "in_flight": ()}),
]


def commit(machine: MetadataMachine, operation: int, args: dict[str, object], *, user: int = ROOT) -> Applied:
    return machine.apply(*entry(Step(operation, user, 77, 5_000, args), 50))


def catalogue(faults: Faults = frozenset()) -> MetadataMachine:
    """Streams `s` (topics `t` and `u`) and `other`; with fault 2021 the table of `s` is full."""
    machine = MetadataMachine()
    machine.apply(*entry(first_step(), 1))
    for operation, args in SETTING:
        assert commit(machine, operation, args).code == 0
    return full_of_topics(machine) if 2021 in faults else machine


def full_of_topics(machine: MetadataMachine) -> MetadataMachine:
    users, streams = sections(machine)
    topics = streams[0][0][1][4]
    topics += [[index, [index, f"filler{index}", *topics[1][1][2:]]] for index in range(2, TOPICS_MAX)]
    return MetadataMachine.restore(users=users, streams=streams, consensus_group_high=9, next_user_id=3)


def attempt(machine: MetadataMachine, operation: int, faults: Faults) -> Applied:
    """The request, by alice where she may not and by root elsewhere; a rejection must leave nothing behind."""
    before = encoded(machine)
    applied = commit(machine, operation, ARGUMENTS[operation](faults), user=ALICE if 41 in faults else ROOT)
    if applied.code:
        users, streams, group_high, next_user = encoded(machine)
        assert (users, streams, next_user) == (before[0], before[1], before[3])
        assert group_high >= before[2]  # D-07: a rejected create raises it too.
        assert applied == Applied(applied.code, result_rejection(applied.code))
    return applied


CHECKS: Final = [(operation, code) for operation, codes in ORDER.items() for code in codes]
"""Every operation with every check in its order."""


@pytest.mark.parametrize("operation", sorted(ORDER))
def test_a_request_without_a_fault_succeeds(operation: int) -> None:
    """What the rows below make fail does succeed otherwise."""
    assert attempt(catalogue(), operation, frozenset()).code == 0


@pytest.mark.parametrize(("operation", "code"), CHECKS)
def test_s_174_each_check_alone_has_its_code_and_changes_nothing(operation: int, code: int) -> None:
    """S-174."""
    faults = frozenset({code})
    assert attempt(catalogue(faults), operation, faults).code == code


@pytest.mark.parametrize(("operation", "code"), CHECKS)
def test_the_first_check_that_fails_names_the_code(operation: int, code: int) -> None:
    """Everything behind that check is wrong too."""
    order = ORDER[operation]
    faults = frozenset(order[order.index(code) :])
    if 3013 in faults:
        faults |= {PARTITION_IDS[operation]}
    assert attempt(catalogue(faults), operation, faults).code == code


@pytest.mark.parametrize("operation", sorted(PARTITION_IDS))
def test_s_072_s_073_a_partition_id_that_comes_twice(operation: int) -> None:
    """S-072, S-073: alone, and before anything of the options is looked at."""
    faults = frozenset({2019, 4042})
    assert attempt(catalogue(), operation, faults).code == 2019


def test_an_id_that_comes_twice_before_one_that_is_out_of_range() -> None:
    """State-machine 6: whichever is met first; and a relative id beyond 32 bits is 2019."""
    machine = catalogue()
    for ids, code in (([0, 0, 1_000_000], 2019), ([1_000_000, 0, 0], 3013), ([2**32 - 1], 2019)):
        args: dict[str, object] = {"stream": "s", "topic": "t", "assignments": tuple((number, 1) for number in ids)}
        assert commit(machine, 65, args).code == code


@pytest.mark.parametrize("operation", [1, *sorted(ORDER)])
def test_a_deleted_user_is_unauthorised_before_anything_else(operation: int) -> None:
    """D-02: 41 on every operation that is gated or not, whatever else is wrong with it."""
    faults = frozenset(ORDER.get(operation, ())) | {2019}
    args = ARGUMENTS[operation](faults) if operation in ARGUMENTS else {}
    applied = commit(catalogue(), operation, args, user=GONE)
    assert (applied.code, applied.body) == (41, result_rejection(41))


@pytest.mark.parametrize("user", [ROOT, ALICE, GONE])
def test_a_logout_is_never_refused(user: int) -> None:
    """State-machine 10.3, 12: the only operation whose 41 cannot come up."""
    assert commit(catalogue(), 3, {}, user=user) == Applied(0, b"")


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """A million records are made at once, and none of them is garbage."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_the_table_of_streams_is_full() -> None:
    """Section 6, CreateStream: rights, name, options, and then the room (1020)."""
    machine = catalogue()
    with collector_at_rest():
        machine.streams = StreamsMachine.restore(
            (Stream(index, "s" if index == 5 else f"s{index}", 1, NO_OPTIONS) for index in range(STREAMS_MAX)),
            revision=0,
            consensus_group_high=0,
            pool=OptionPool(),
        )
    for faults, code in (((41, 1012, 4042), 41), ((1012, 4042), 1012), ((4042,), 4042), ((), FULL_OF_STREAMS[1])):
        made = frozenset(faults)
        applied = commit(machine, 128, ARGUMENTS[128](made), user=ALICE if 41 in made else ROOT)
        assert applied == Applied(code, result_rejection(code))
    assert machine.streams.count == STREAMS_MAX


def test_every_pair_of_operation_and_code_is_produced_above() -> None:
    """Wire 14.1: a code that is added to a row of the table fails here until a request produces it, and the reverse."""
    produced = set(CHECKS) | {FULL_OF_STREAMS} | {(operation, code) for operation, code in PARTITION_IDS.items()}
    produced |= {(operation, 41) for operation in (1, *ORDER)}
    produced |= {(operation, 0) for operation in (1, 3, *ORDER)}
    for client_form, logged_form in REPLICATED_FORM.items():
        assert COMMITTED_CODES[client_form] == COMMITTED_CODES[logged_form]
    declared = {
        (operation, code)
        for operation, codes in COMMITTED_CODES.items()
        for code in codes
        if operation not in REPLICATED_FORM
    }
    assert produced | NEVER.keys() == declared
    assert not produced & NEVER.keys()
    assert set(ORDER) | {Operation.REGISTER, Operation.LOGOUT} == COMMITTED_CODES.keys() - REPLICATED_FORM.keys()
