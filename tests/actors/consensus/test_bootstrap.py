"""The first operation of a blank group (D-01)."""

from levrier.actors.consensus.effects import Append
from levrier.actors.consensus.state import RecoveredState
from levrier.wire.codes import Operation
from tests.actors.consensus.builders import (
    append_and_apply,
    config_of,
    denials,
    of_type,
    position,
    rechecks,
    replica_of,
    request_of,
    sealed_headers,
    verdict_on,
)

BODY = b"root and a hash"


def test_a_blank_group_commits_its_bootstrap_first() -> None:
    """D-01: operation 69, client 0, user 0; nobody waits for the reply."""
    replica = replica_of(config_of(bootstrap=BODY))
    [append] = of_type(replica.on_tick(), Append)
    header = append.prepare.header
    assert (header.op, header.operation, header.client, header.request, header.user_id) == (
        1,
        Operation.BOOTSTRAP_ROOT,
        0,
        0,
        0,
    )
    assert append.prepare.body == BODY
    assert replica.state.pipeline.prepares[0].reply_to is None
    assert replica.state.pipeline.clients == {}


def test_it_is_committed_once() -> None:
    """D-01."""
    replica = replica_of(config_of(bootstrap=BODY))
    [append] = of_type(replica.on_tick(), Append)
    append_and_apply(replica, append.prepare)
    assert of_type(replica.on_tick(), Append) == []
    assert replica.state.commit_min == 1


def test_no_request_overtakes_it() -> None:
    """D-01: a request that comes before the first tick stands behind it."""
    replica = replica_of(config_of(bootstrap=BODY))
    appends = of_type(replica.on_verdict(verdict_on(request_of(1))), Append)
    assert [append.prepare.header.operation for append in appends] == [Operation.BOOTSTRAP_ROOT, 129]


def test_a_restarted_group_is_not_bootstrapped_again() -> None:
    """D-01: blank means without an op."""
    recovered = RecoveredState(commit=3, headers=sealed_headers(from_op=1, to_op=3))
    assert of_type(replica_of(config_of(bootstrap=BODY), recovered=recovered).on_tick(), Append) == []


def test_a_group_without_a_bootstrap_begins_empty() -> None:
    replica = replica_of()
    assert of_type(replica.on_tick(), Append) == []


def test_a_backup_does_not_bootstrap() -> None:
    """D-01: the first primary does."""
    replica = replica_of(config_of(replica_count=3, replica=2, bootstrap=BODY))
    assert of_type(replica.on_tick(), Append) == []


def test_a_failed_bootstrap_is_tried_again_before_anything_else() -> None:
    """D-01, BR-05: after the cut it is op 1 again, and the queued request comes behind it."""
    replica = replica_of(config_of(bootstrap=BODY))
    [append] = of_type(replica.on_tick(), Append)
    assert denials(replica.on_append_failed([position(append.prepare)], "io")) == []
    replica.on_verdict(verdict_on(request_of(1)))
    effects = replica.on_truncated(1)
    [again] = of_type(effects, Append)
    assert (again.prepare.header.op, again.prepare.header.operation) == (1, Operation.BOOTSTRAP_ROOT)
    [recheck] = rechecks(effects)
    [request] = of_type(replica.on_verdict(verdict_on(recheck.request, token=recheck.token)), Append)
    assert request.prepare.header.op == 2
