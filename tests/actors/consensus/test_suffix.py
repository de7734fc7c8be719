"""What a replica reports of its uncommitted log (section 8.3)."""

from collections.abc import Sequence

from levrier.actors.consensus.suffix import DVC_HEADERS_MAX, Suffix, build_suffix
from levrier.wire.headers import PrepareHeader
from tests.actors.consensus.builders import sealed_headers

HEADERS = {header.op: header for header in sealed_headers(from_op=1, to_op=300)}


def suffix_of(*, op: int, commit: int, journal: Sequence[int] = (), adopted: Sequence[PrepareHeader] = ()) -> Suffix:
    held = {number: HEADERS[number] for number in journal}
    return build_suffix(
        op=op, commit=commit, journal_header=held.get, adopted={header.op: header for header in adopted}
    )


def named(*ops: int) -> list[PrepareHeader]:
    return [HEADERS[op] for op in ops]


def nacked(suffix: Suffix) -> list[int]:
    return [header.op for header in suffix.headers if suffix.nacks(header.op)]


def offered(suffix: Suffix) -> list[int]:
    return [header.op for header in suffix.headers if suffix.offers(header.op)]


def test_adopted_headers_are_reported_without_bodies() -> None:
    """C-107."""
    suffix = suffix_of(op=5, commit=2, adopted=named(3, 4, 5))
    assert [header.op for header in suffix.headers] == [5, 4, 3, 2]
    assert [suffix.header(op) is not None for op in (5, 4, 3, 2)] == [True, True, True, False]
    assert (nacked(suffix), offered(suffix)) == ([], [])


def test_what_was_never_held_is_nacked_above_the_commit_point() -> None:
    """C-108."""
    suffix = suffix_of(op=5, commit=2)
    assert nacked(suffix) == [5, 4, 3]
    assert len(suffix.headers) == 4


def test_only_what_the_journal_holds_is_offered() -> None:
    """C-109: and a deeper journal keeps its own head."""
    suffix = suffix_of(op=5, commit=2, journal=[5], adopted=named(3, 4, 5))
    assert (nacked(suffix), offered(suffix)) == ([], [5])
    assert suffix_of(op=7, commit=2, journal=[6, 7], adopted=named(3, 4, 5)).head == 7


def test_a_blank_in_the_adopted_run_is_nacked() -> None:
    """C-110."""
    adopted = [HEADERS[5], PrepareHeader.blank(4), HEADERS[3]]
    assert nacked(suffix_of(op=5, commit=2, adopted=adopted)) == [4]


def test_a_missing_commit_point_is_neither_nacked_nor_offered() -> None:
    """C-111."""
    suffix = suffix_of(op=2, commit=2)
    assert suffix.headers == (PrepareHeader.blank(2),)
    assert (nacked(suffix), offered(suffix)) == ([], [])


def test_the_widest_suffix_reaches_the_commit_point() -> None:
    """C-112."""
    suffix = suffix_of(op=127 + 50, commit=50)
    assert (len(suffix.headers), suffix.floor) == (DVC_HEADERS_MAX, 50)


def test_a_wider_one_loses_its_lowest_ops() -> None:
    """C-113: and commit 0 floors at op 1."""
    suffix = suffix_of(op=128 + 50, commit=50)
    assert (len(suffix.headers), suffix.floor) == (DVC_HEADERS_MAX, 51)
    assert suffix_of(op=3, commit=0).floor == 1


def test_the_commit_point_of_a_compacted_log_is_held() -> None:
    """C-114."""
    suffix = suffix_of(op=12, commit=10, journal=[10, 11, 12])
    assert offered(suffix) == [12, 11, 10]
    assert nacked(suffix) == []


def test_a_blank_replica_says_nothing() -> None:
    """Section 8.3."""
    assert suffix_of(op=0, commit=0) == Suffix()
    assert not Suffix().covers(0)
