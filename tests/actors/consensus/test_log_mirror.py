"""What Consensus knows of the log without asking the journal (rule 8)."""

import pytest

from levrier.actors.consensus.log_mirror import LogMirror
from tests.actors.consensus.builders import sealed_chain, sealed_headers


def test_a_submitted_header_is_there_but_not_durable() -> None:
    """Rule 8: submitted answers the gap check, durable answers for acknowledgements."""
    [header] = sealed_headers(from_op=1, to_op=1)
    mirror = LogMirror()
    mirror.submit(header)
    assert mirror.header(1) is header
    assert mirror.last_op == 1
    assert mirror.outstanding_count == 1
    assert not mirror.is_durable(1)
    assert not mirror.holds(1, header.checksum)


def test_the_completion_of_the_very_entry_makes_it_durable() -> None:
    """Rule 8: by identity."""
    [header] = sealed_headers(from_op=1, to_op=1)
    mirror = LogMirror()
    mirror.submit(header)
    assert not mirror.mark_durable(1, header.checksum + 1)
    assert not mirror.is_durable(1)
    assert mirror.mark_durable(1, header.checksum)
    assert mirror.holds(1, header.checksum)
    assert not mirror.holds(1, header.checksum + 1)
    assert mirror.outstanding_count == 0


def test_the_completion_of_an_unknown_entry_is_refused() -> None:
    """Rule 8: completions are judged against the state of the moment."""
    assert not LogMirror().mark_durable(1, 5)


def test_recovered_headers_are_durable() -> None:
    headers = sealed_headers(from_op=3, to_op=6)
    mirror = LogMirror(headers=headers, snapshot_op=3)
    assert [mirror.is_durable(op) for op in range(2, 8)] == [False, True, True, True, True, False]
    assert mirror.last_op == 6


def test_truncation_forgets_the_suffix() -> None:
    """Rule 8: a number is free again once it was truncated."""
    first, second, third = sealed_headers(from_op=1, to_op=3)
    mirror = LogMirror(headers=(first,))
    mirror.submit(second)
    mirror.submit(third)
    mirror.truncate_from(2)
    assert (mirror.last_op, len(mirror), mirror.outstanding_count) == (1, 1, 0)
    [other] = sealed_chain(from_op=2, to_op=2, parent=first.checksum, timestamp=99)
    mirror.submit(other.header)
    assert mirror.header(2) is other.header


def test_draining_keeps_the_checkpoint_op() -> None:
    """Section 9: the checkpoint op is the commit point, its header must be reportable."""
    mirror = LogMirror(headers=sealed_headers(from_op=1, to_op=6))
    mirror.drain(4)
    assert [mirror.header(op) is not None for op in range(1, 7)] == [False, False, False, True, True, True]
    assert (mirror.snapshot_op, mirror.last_op) == (4, 6)


def test_one_op_is_not_submitted_twice() -> None:
    [header] = sealed_headers(from_op=1, to_op=1)
    mirror = LogMirror(headers=(header,))
    with pytest.raises(AssertionError):
        mirror.submit(header)


def test_what_a_crash_left_undrained_below_the_snapshot_does_not_count() -> None:
    """Persistence 5: a crash between the superblock write and the drain leaves the whole log."""
    mirror = LogMirror(headers=sealed_headers(from_op=1, to_op=6), snapshot_op=4)
    assert [mirror.header(op) is not None for op in range(1, 7)] == [False, False, False, True, True, True]
