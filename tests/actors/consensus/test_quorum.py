"""Quorums of every cluster size."""

import pytest

from levrier.actors.consensus.quorum import REPLICAS_MAX, Quorums, quorums_of


@pytest.mark.parametrize("count", range(1, REPLICAS_MAX + 1))
def test_quorums_of_every_size_intersect(count: int) -> None:
    """C-020."""
    quorums = quorums_of(count)
    assert quorums.replication + quorums.view_change > count
    assert quorums.replication + quorums.nack > count
    assert max(quorums.replication, quorums.view_change, quorums.nack) <= count


@pytest.mark.parametrize(
    ("count", "replication", "view_change", "nack", "faulty_max"),
    [
        (1, 1, 1, 1, 0),
        (2, 2, 2, 1, 0),
        (3, 2, 2, 2, 1),
        (4, 2, 3, 3, 1),
        (5, 3, 3, 3, 2),
        (6, 3, 4, 4, 2),
        (7, 3, 5, 5, 3),
        (8, 3, 6, 6, 3),
        (32, 3, 30, 30, 15),
    ],
)
def test_the_table_of_section_2_1(count: int, replication: int, view_change: int, nack: int, faulty_max: int) -> None:
    """C-020: the values themselves."""
    assert quorums_of(count) == Quorums(
        replication=replication, view_change=view_change, nack=nack, faulty_max=faulty_max
    )


@pytest.mark.parametrize("count", [0, 33])
def test_no_other_size_has_quorums(count: int) -> None:
    with pytest.raises(AssertionError):
        quorums_of(count)
