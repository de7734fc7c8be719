"""Who is wrong when states differ (D-17): more than half of all members have to agree against one."""

import pytest

from levrier.actors.consensus.digest_book import OPS_KEPT_MAX, DigestBook, Standing


def judged(count: int, own: int, **others: int) -> Standing | None:
    """The standing of replica 0 at op 10; `r2=7` is what replica 2 told."""
    book = DigestBook(replica=0, replica_count=count)
    book.note(0, 10, own)
    for name, digest in others.items():
        book.note(int(name[1:]), 10, digest)
    return book.judge(10)


@pytest.mark.parametrize(
    ("count", "own", "others", "standing"),
    [
        (3, 1, {}, Standing.EQUAL),
        (3, 1, {"r1": 1, "r2": 1}, Standing.EQUAL),
        (3, 1, {"r1": 2}, Standing.UNDECIDED),
        (3, 1, {"r1": 2, "r2": 1}, Standing.MAJORITY),
        (3, 1, {"r1": 2, "r2": 2}, Standing.MINORITY),
        (3, 1, {"r1": 2, "r2": 3}, Standing.SPLIT),
        (2, 1, {"r1": 2}, Standing.SPLIT),
        (4, 1, {"r1": 1, "r2": 2, "r3": 2}, Standing.SPLIT),
        (4, 1, {"r1": 2, "r2": 2}, Standing.UNDECIDED),
        (4, 1, {"r1": 2, "r2": 2, "r3": 2}, Standing.MINORITY),
        (5, 1, {"r1": 2, "r2": 2}, Standing.UNDECIDED),
        (5, 1, {"r1": 3, "r2": 2, "r3": 2, "r4": 2}, Standing.MINORITY),
        (5, 1, {"r1": 1, "r2": 2, "r3": 2, "r4": 3}, Standing.SPLIT),
    ],
)
def test_a_majority_is_more_than_half_of_all_members(
    count: int, own: int, others: dict[str, int], standing: Standing
) -> None:
    """Silent members count, so half of four is no majority."""
    assert judged(count, own, **others) is standing


def test_an_op_that_was_not_noted_here_is_not_judged() -> None:
    """A member that lags behind is compared when it gets there."""
    book = DigestBook(replica=0, replica_count=3)
    book.note(1, 10, 5)
    assert book.judge(10) is None
    book.note(0, 10, 6)
    assert book.judge(10) is Standing.UNDECIDED
    assert book.differing(10) == (1,)


def test_the_newest_ops_are_kept() -> None:
    """However many a peer tells."""
    book = DigestBook(replica=0, replica_count=3)
    for op in range(1, OPS_KEPT_MAX + 2):
        book.note(0, op, 1)
    assert book.judge(1) is None
    assert book.judge(2) is Standing.EQUAL
    assert book.own() == (OPS_KEPT_MAX + 1, 1)
    book.forget_own()
    assert book.own() is None
