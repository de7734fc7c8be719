"""What a node waits for, in words for an operator."""

import pytest

from levrier.cluster.standing import FIELDS, awaited, rows
from levrier.cluster.watch import NodeStanding

QUORUM_LOST = "waiting for quorum: 2 of 5"


@pytest.mark.parametrize(
    ("waiting", "names", "said"),
    [
        ("", [], ""),
        ("waiting for a primary", [], "waiting for a primary"),
        (QUORUM_LOST, ["a"], f"{QUORUM_LOST}, a does not answer"),
        (QUORUM_LOST, ["a", "b"], f"{QUORUM_LOST}, a and b do not answer"),
        (QUORUM_LOST, ["a", "b", "c"], f"{QUORUM_LOST}, a, b and c do not answer"),
    ],
)
def test_who_is_waited_for_is_named(waiting: str, names: list[str], said: str) -> None:
    facts = {"commit": 0, "applied": 0, "waiting": waiting, "waiting_for": names}
    node = NodeStanding(address="127.0.0.1:8090", reachable=True, facts=facts)
    (row,) = rows([node], [{"replica": 0, "tcp": node.address}])
    assert list(row) == list(FIELDS)
    assert (row["waiting"], row["waiting_for"]) == (waiting or None, names or None)
    assert awaited(row) == said


def test_a_node_that_does_not_tell_for_whom_still_says_for_what() -> None:
    facts = {"commit": 0, "applied": 0, "waiting": QUORUM_LOST}
    node = NodeStanding(address="127.0.0.1:8090", reachable=True, facts=facts)
    (row,) = rows([node], [{"replica": 0, "tcp": node.address}])
    assert awaited(row) == QUORUM_LOST
