"""The body of frame 64 and its vector clock (acknowledgements 1 and 4, D-34)."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levrier.wire.acknowledgement import (
    BODY_SIZE_MAX,
    COMMAND,
    ORIGINS_MAX,
    TEXT_SIZE_MAX,
    VIEW_MAX,
    Acknowledgement,
    Frontier,
    least,
    replica_id,
    replica_of,
)
from levrier.wire.codes import Command
from levrier.wire.errors import WireError

SAID = Acknowledgement(
    replica_id="rb",
    node_id="node-b",
    applied_frontier=Frontier(((0, 5), (2, 9))),
    origin_sequence_high_water=Frontier(((0, 31),)),
    membership_view=("ra", "rb"),
    produced_at_ms=1_700_000_000_123,
)

clocks = st.dictionaries(st.integers(0, 255), st.integers(0, 2**64 - 1), max_size=8).map(Frontier.of)


def test_the_body_has_the_six_fields_in_their_order() -> None:
    assert msgpack.unpackb(SAID.encode()) == [
        *("rb", "node-b", [[0, 5], [2, 9]], [[0, 31]], ["ra", "rb"], 1_700_000_000_123)
    ]
    assert Acknowledgement.decode(SAID.encode()) == SAID
    assert int(Command.ACKNOWLEDGEMENT) == COMMAND


@given(
    frontier=clocks,
    high=clocks,
    view=st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), max_size=4),
)
def test_what_is_encoded_is_decoded(frontier: Frontier, high: Frontier, view: list[str]) -> None:
    said = Acknowledgement(
        replica_id="a",
        node_id="b",
        applied_frontier=frontier,
        origin_sequence_high_water=high,
        membership_view=tuple(view),
        produced_at_ms=0,
    )
    assert Acknowledgement.decode(said.encode()) == said


BAD: list[tuple[str, int, object]] = [
    ("no text", 0, 7),
    ("empty", 0, ""),
    ("too long", 1, "n" * (TEXT_SIZE_MAX + 1)),
    ("no array", 2, 7),
    ("no pair", 2, [[1, 2, 3]]),
    ("no numbers", 2, [["a", 1]]),
    ("a truth value", 2, [[True, 1]]),
    ("position 0", 2, [[1, 0]]),
    ("out of order", 2, [[2, 1], [1, 1]]),
    ("an origin twice", 3, [[1, 1], [1, 2]]),
    ("too many origins", 2, [[each, 1] for each in range(ORIGINS_MAX + 1)]),
    ("beyond 64 bits", 2, [[1, -1]]),
    ("a view that is none", 4, "ra"),
    ("a view of numbers", 4, [1]),
    ("a view too long", 4, ["r"] * (VIEW_MAX + 1)),
    ("time below zero", 5, -1),
]


@pytest.mark.parametrize(("name", "index", "value"), BAD, ids=[row[0] for row in BAD])
def test_a_field_that_is_none_is_refused(name: str, index: int, value: object) -> None:
    values = msgpack.unpackb(SAID.encode())
    values[index] = value
    with pytest.raises(WireError):
        Acknowledgement.decode(msgpack.packb(values))


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x96", msgpack.packb([1]), msgpack.packb({}), b"\x00" * 9])
def test_other_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        Acknowledgement.decode(body)


def test_a_body_beyond_the_limit_is_not_looked_at() -> None:
    with pytest.raises(WireError, match=str(BODY_SIZE_MAX)):
        Acknowledgement.decode(bytes(BODY_SIZE_MAX + 1))


def test_a_frontier_dominates_what_it_reaches_for_every_origin() -> None:
    """Acknowledgements 1: a missing origin counts as 0, and equal frontiers dominate each other."""
    low, high, other = Frontier(((0, 5),)), Frontier(((0, 5), (1, 1))), Frontier(((0, 4), (1, 9)))
    assert low.dominates(low)
    assert high.dominates(low)
    assert not low.dominates(high)
    assert not high.dominates(other)
    assert not other.dominates(high)
    assert low.dominates(Frontier())
    assert (high.at(1), high.at(7), high.highest, Frontier().highest) == (1, 0, 5, 0)


@given(st.lists(clocks, max_size=4))
def test_the_least_of_frontiers_is_dominated_by_each_and_no_more(frontiers: list[Frontier]) -> None:
    common = least(frontiers)
    assert all(each.dominates(common) for each in frontiers)
    for origin, position in common.positions:
        assert position in [each.at(origin) for each in frontiers]


def test_an_identity_names_cluster_and_index_and_nothing_else() -> None:
    assert replica_id(0xAB, 3) == f"{0xAB:032x}-03"
    assert replica_of(replica_id(0xAB, 11), 0xAB) == 11
    assert [replica_of(text, 0xAB) for text in (replica_id(0xAC, 3), "ra", f"{0xAB:032x}-3", "")] == [None] * 4
    assert sorted(replica_id(1, each) for each in range(32)) == [replica_id(1, each) for each in range(32)]
