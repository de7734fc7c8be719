"""Named records under small ids."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levrier.actors.metadata.slab import Slab


class Record(NamedTuple):
    id: int
    name: str


def slab_of(count: int) -> Slab[Record]:
    slab: Slab[Record] = Slab()
    for index in range(count):
        slab.insert(Record(index, f"n{index}"))
    return slab


def insert(slab: Slab[Record], name: str) -> int:
    record = Record(slab.vacant(), name)
    slab.insert(record)
    return record.id


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_s_001_the_next_id_survives_a_rebuild(order: tuple[int, int]) -> None:
    """S-001."""
    slab = slab_of(3)
    for record_id in order:
        slab.remove(record_id)
    assert Slab.restore(slab).vacant() == slab.vacant() == 0


def test_s_002_freed_ids_are_taken_lowest_first() -> None:
    """S-002."""
    slab = slab_of(3)
    slab.remove(2)
    slab.remove(0)
    assert [insert(slab, name) for name in "abc"] == [0, 2, 3]
    assert len(slab) == 4


def test_s_003_removing_the_last_id_makes_it_the_next_one() -> None:
    """S-003."""
    slab = slab_of(2)
    slab.remove(1)
    assert insert(slab, "again") == 1


def test_s_004_a_removed_record_is_gone() -> None:
    """S-004."""
    slab = slab_of(1)
    assert slab.remove(0) == Record(0, "n0")
    assert slab.get(0) is None
    assert 0 not in slab
    assert slab.id_of("n0") is None
    assert slab.remove(0) is None
    assert len(slab) == 0


def test_s_005_records_come_out_in_ascending_order_of_id() -> None:
    """S-005."""
    slab = slab_of(4)
    slab.remove(2)
    slab.remove(0)
    assert [record.id for record in slab] == [1, 3]


def test_an_id_outside_the_slab_is_absent() -> None:
    slab = slab_of(1)
    assert slab.get(1) is None
    assert slab.get(2**32 - 1) is None


def test_a_name_that_looks_like_an_id_is_a_name() -> None:
    slab: Slab[Record] = Slab()
    slab.insert(Record(0, "1"))
    slab.insert(Record(1, "0"))
    assert slab.find("1") == Record(0, "1")
    assert slab.find(1) == Record(1, "0")


def test_renaming_frees_the_old_name_and_takes_the_new_one() -> None:
    slab = slab_of(1)
    slab.replace(Record(0, "new"))
    assert slab.find("new") == Record(0, "new")
    assert slab.find("n0") is None


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        ([Record(1, "a"), Record(1, "b")], "does not follow"),
        ([Record(1, "a"), Record(0, "b")], "does not follow"),
        ([Record(0, "a"), Record(1, "a")], "stands twice"),
    ],
)
def test_a_state_that_no_slab_was_ever_in_is_refused(records: list[Record], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Slab.restore(records)


@given(steps=st.lists(st.one_of(st.none(), st.integers(0, 12)), max_size=60), later=st.integers(1, 5))
def test_br_40_a_rebuilt_slab_hands_out_the_same_ids(steps: list[int | None], later: int) -> None:
    """BR-40: whatever was created and deleted, a restored slab and the live one number alike, from the lowest free."""
    slab: Slab[Record] = Slab()
    occupied: set[int] = set()
    for number, step in enumerate(steps):
        if step is None:
            lowest = next(i for i in range(len(occupied) + 1) if i not in occupied)
            assert insert(slab, f"r{number}") == lowest
            occupied.add(lowest)
        else:
            assert (slab.remove(step) is not None) == (step in occupied)
            occupied.discard(step)
    rebuilt = Slab.restore(slab)
    assert [record.id for record in rebuilt] == sorted(occupied)
    for number in range(later):
        assert insert(rebuilt, f"later{number}") == insert(slab, f"later{number}")
