"""`levrier history`: what may be reclaimed, and who holds it back."""

import pytest

from levrier.cluster.cli.history import kept, summary
from tests.cluster.cli.running import CommandLine


def test_history_in_json(levrier: CommandLine) -> None:
    found = levrier.read("history")
    assert found["evidence"] in ("blocked", "safe_through")
    (replica,) = found["replicas"]
    assert list(replica) == ["replica_id", "node", "acknowledged", "applied", "produced_at_ms", "blocks_from"]
    assert replica["node"] in ("iggy-node", "")


def test_history_as_a_table(levrier: CommandLine) -> None:
    ran = levrier.ask("history")
    assert ran.status == 0
    assert ran.err.startswith(("safe to reclaim through op ", "nothing may be reclaimed: blocked by "))
    heading, row = ran.lines
    assert heading.split() == ["replica", "node", "applied", "said", "at", "blocks", "from"]
    assert row.split()[0].endswith("-00")


def test_status_shows_it_too(levrier: CommandLine) -> None:
    details = levrier.read("status")["details"]
    assert details["history"]["applied"] <= details["applied"]


A, B = {"node": "a", "replica_id": "x-00", "from_op": 1}, {"node": "", "replica_id": "x-01", "from_op": 7}
SAID = [
    (
        {"evidence": "blocked", "safe_op": None, "applied": 9, "blocking": [A]},
        "nothing may be reclaimed: blocked by a from op 1",
    ),
    (
        {"evidence": "blocked", "safe_op": None, "applied": 0, "blocking": []},
        "nothing may be reclaimed: no replica is known",
    ),
    (
        {"evidence": "safe_through", "safe_op": 6, "applied": 9, "blocking": [B]},
        "safe to reclaim through op 6; behind op 9: x-01 from op 7",
    ),
    ({"evidence": "safe_through", "safe_op": 9, "applied": 9, "blocking": []}, "safe to reclaim through op 9"),
]


@pytest.mark.parametrize(("found", "said"), SAID, ids=["silent", "nobody", "lagging", "even"])
def test_the_evidence_in_one_sentence(found: dict[str, object], said: str) -> None:
    assert summary(found) == said


ARCHIVE = {"first_op": 1, "last_op": 500, "segments": 3, "bytes": 3 << 19, "limit": 1 << 20, "over_limit": True}


def test_what_is_kept_in_one_sentence() -> None:
    above = "ops 1 to 500 are kept beside the log, 1.5MiB, above the limit of 1.0MiB"
    assert kept(ARCHIVE) == above
    assert kept({**ARCHIVE, "over_limit": False}) == above.partition(", above")[0]
    assert kept({**ARCHIVE, "segments": 0}) == "nothing is kept beside the log"
