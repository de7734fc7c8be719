"""A failed append (section 7): what is taken back, what ends the node, and who is told what."""

import pytest

from levrier.actors.consensus.effects import Append, Apply, Effect, Fatal, Truncate
from levrier.actors.consensus.messages import LogPosition
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.rollback import RETRY_TICKS, Rollback, judge
from levrier.actors.consensus.state import RecoveredState, Status
from levrier.actors.runtime import ExitStatus
from levrier.wire.prepare import Prepare
from tests.actors.consensus.builders import (
    admit,
    admit_many,
    append_and_apply,
    config_of,
    denials,
    frontier,
    of_type,
    position,
    rechecks,
    replica_of,
    request_of,
    sealed_chain,
    sealed_headers,
    verdict_on,
    without_notes,
)
from tests.actors.consensus.peers import heartbeat, member, settle_disk


def at_head_7(replica_count: int = 1, depth: int = 4) -> Replica:
    headers = sealed_headers(from_op=1, to_op=7)
    return replica_of(
        config_of(replica_count=replica_count, depth=depth), recovered=RecoveredState(commit=7, headers=headers)
    )


def fail(replica: Replica, *prepares: Prepare) -> list[Effect]:
    return replica.on_append_failed([position(prepare) for prepare in prepares], "no space left")


def fatal_of(effects: list[Effect]) -> Fatal:
    [fatal] = of_type(effects, Fatal)
    return fatal


def test_a_failed_append_is_unwound() -> None:
    """C-083, C-143: head and parent restored, pipeline empty, nothing at that op."""
    replica = at_head_7()
    before = frontier(replica.state)
    prepare = admit(replica, 1)
    assert judge(replica.state, [position(prepare)]) is Rollback.UNWOUND
    fail(replica, prepare)
    assert frontier(replica.state) == before
    assert replica.state.mirror.header(8) is None
    assert replica.state.pipeline.clients == {}


def test_the_submitter_is_told_at_once_that_the_outcome_is_unknown() -> None:
    """C-089: 57; the bytes may be on the disk until the log is cut (D-25). C-051: nobody waits for what will not come."""
    replica = at_head_7()
    assert denials(fail(replica, admit(replica, 1))) == [(1, 57)]


def test_the_log_is_cut_before_the_number_is_used_again() -> None:
    """D-25, BR-05: no append is told while the cut is outstanding; then the next request is op 8 again."""
    replica = at_head_7()
    first = admit(replica, 1)
    assert of_type(fail(replica, first), Truncate) == [Truncate(8)]
    assert without_notes(replica.on_verdict(verdict_on(request_of(2)))) == []
    [recheck] = rechecks(replica.on_truncated(8))
    [append] = of_type(replica.on_verdict(verdict_on(recheck.request, token=recheck.token)), Append)
    assert append.prepare.header.op == 8
    assert append.prepare.header.parent == first.header.parent


def test_the_stamp_of_a_failed_prepare_is_not_used_again() -> None:
    """Section 5.2: the floor is not rolled back, so the same op is never the same entry twice."""
    replica = at_head_7()
    first = admit(replica, 1)
    fail(replica, first)
    replica.on_truncated(8)
    again = admit(replica, 1)
    assert again.header.timestamp == first.header.timestamp + 1
    assert again.header.checksum != first.header.checksum


def test_a_whole_tail_that_failed_together_is_unwound_together() -> None:
    """C-084, BR-05: ops 8 and 9 in one batch; nothing outside knows of either."""
    replica = at_head_7()
    before = frontier(replica.state)
    effects = fail(replica, *admit_many(replica, 2))
    assert denials(effects) == [(2, 57), (1, 57)]
    assert of_type(effects, Truncate) == [Truncate(8)]
    assert frontier(replica.state) == before


def test_what_was_submitted_behind_a_failed_batch_goes_with_it() -> None:
    """BR-05: the journal refuses it until the cut, so it is not durable and never will be."""
    replica = at_head_7()
    eighth, ninth, tenth = admit_many(replica, 3)
    effects = fail(replica, eighth)
    assert denials(effects) == [(3, 57), (2, 57), (1, 57)]
    assert replica.state.sequencer == 7
    assert without_notes(fail(replica, ninth, tenth)) == []


def test_a_sibling_that_got_further_ends_the_node() -> None:
    """C-084: Overtaken, nothing changes; op numbers are never handed out twice (BR-05)."""
    replica = at_head_7()
    eighth, ninth = admit_many(replica, 2)
    replica.state.pipeline.prepares[1].durable = True
    before = frontier(replica.state)
    assert judge(replica.state, [position(eighth)]) is Rollback.OVERTAKEN
    effects = fail(replica, eighth)
    assert fatal_of(effects).status is ExitStatus.LOG_UNRECONCILABLE
    assert denials(effects) == []
    assert frontier(replica.state) == before
    assert replica.state.last_prepare_checksum == ninth.header.checksum


def test_a_sibling_that_another_replica_acknowledged_ends_the_node() -> None:
    """C-084: it left this node."""
    replica = at_head_7(replica_count=3)
    eighth, _ninth = admit_many(replica, 2)
    replica.state.pipeline.prepares[1].acknowledged = 0b010
    assert judge(replica.state, [position(eighth)]) is Rollback.OVERTAKEN


def test_a_head_below_the_failed_op_ends_the_node() -> None:
    """Section 7: rewound beneath."""
    replica = at_head_7()
    stranger = LogPosition(op=9, checksum=5, view=0)
    assert judge(replica.state, [stranger]) is Rollback.OVERTAKEN
    assert fatal_of(replica.on_append_failed([stranger], "io")).status is ExitStatus.LOG_UNRECONCILABLE


def test_a_failure_from_before_a_view_change_ends_the_node() -> None:
    """C-085: Superseded, sequencer and parent unchanged."""
    replica = at_head_7()
    prepare = admit(replica, 1)
    before = frontier(replica.state)
    replica.state.view = 1
    assert judge(replica.state, [position(prepare)]) is Rollback.SUPERSEDED
    fatal = fatal_of(fail(replica, prepare))
    assert fatal.status is ExitStatus.LOG_UNRECONCILABLE
    assert "view 1" in fatal.reason
    assert frontier(replica.state) == before


@pytest.mark.parametrize("status", [Status.VIEW_CHANGE, Status.RECOVERING])
def test_a_failure_outside_the_normal_status_ends_the_node(status: Status) -> None:
    """C-085, section 7."""
    replica = at_head_7()
    prepare = admit(replica, 1)
    replica.state.status = status
    assert judge(replica.state, [position(prepare)]) is Rollback.SUPERSEDED


def test_another_prepare_at_that_op_stays() -> None:
    """C-086: TailMismatch."""
    replica = at_head_7()
    live = admit(replica, 1)
    stranger = LogPosition(op=8, checksum=live.header.checksum + 1, view=0)
    assert judge(replica.state, [stranger]) is Rollback.TAIL_MISMATCH
    assert fatal_of(replica.on_append_failed([stranger], "io")).status is ExitStatus.LOG_UNRECONCILABLE
    assert replica.state.pipeline.prepares[-1].prepare is live


def test_unwinding_the_only_prepare_stops_the_prepare_timer() -> None:
    """C-087."""
    replica = at_head_7()
    prepare = admit(replica, 1)
    assert replica.state.timeouts.prepare.ticking
    fail(replica, prepare)
    assert not replica.state.timeouts.prepare.ticking


def test_unwinding_beside_a_queued_request_keeps_the_prepare_timer() -> None:
    """Invariant I5: the pipeline is not empty."""
    replica = at_head_7(depth=1)
    prepare = admit(replica, 1)
    replica.on_verdict(verdict_on(request_of(2)))
    fail(replica, prepare)
    assert replica.state.timeouts.prepare.ticking


def test_a_backup_takes_nothing_back() -> None:
    """C-088: its head moves only after the append; the log is cut all the same, since the journal refuses."""
    replica = replica_of(config_of(replica_count=3, replica=1))
    [header] = sealed_headers(from_op=1, to_op=1)
    replica.state.mirror.submit(header)
    failed = [LogPosition(op=1, checksum=header.checksum, view=0)]
    assert judge(replica.state, failed) is Rollback.NOT_PRE_ADVANCED
    assert of_type(replica.on_append_failed(failed, "io"), Truncate) == [Truncate(1)]
    assert replica.state.sequencer == 0


def test_ops_below_the_failed_one_go_on() -> None:
    """Section 7: only the tail is taken back."""
    replica = at_head_7()
    eighth, ninth = admit_many(replica, 2)
    replica.on_appended([position(eighth)])
    fail(replica, ninth)
    assert replica.state.sequencer == 8
    replica.on_applied(8)
    assert replica.state.commit_min == 8


def test_what_is_durable_above_a_hole_is_not_cut_for_a_repair_that_fails() -> None:
    """D-06: it was acknowledged, and a member that denied it later could bring about its loss. The node ends instead."""
    chain = sealed_chain(from_op=1, to_op=7)
    backup = member(1, chain=[*chain[:3], *chain[4:6]], commit=3)
    settle_disk(backup, backup.on_prepare(chain[6], 0))
    backup.on_frame(heartbeat(0, 0, commit=6), b"")
    assert of_type(backup.on_repair_prepare(chain[3]), Append)
    effects = fail(backup, chain[3])
    assert of_type(effects, Truncate) == []
    [fatal] = of_type(effects, Fatal)
    assert fatal.status is ExitStatus.LOG_UNRECONCILABLE
    assert backup.state.mirror.is_durable(7)


def test_a_retransmit_of_what_was_unwound_gets_57_until_the_log_is_cut() -> None:
    """Rule 6: a crash before the cut could bring it back to life, so 58 would be a lie."""
    replica = at_head_7()
    fail(replica, admit(replica, 1))
    assert denials(replica.on_verdict(verdict_on(request_of(1)))) == [(1, 57)]
    replica.on_truncated(8)
    assert of_type(replica.on_verdict(verdict_on(request_of(1))), Append)


def test_a_failed_cut_is_tried_again_with_back_off() -> None:
    """D-25, BR-48: freeing the disk is enough."""
    replica = at_head_7()
    fail(replica, admit(replica, 1))
    assert of_type(replica.on_truncate_failed(8, "full"), Truncate) == []
    waits = [tick for tick in range(1, 40) if of_type(replica.on_tick(), Truncate)]
    assert waits == [RETRY_TICKS]
    replica.on_truncate_failed(8, "full")
    waits = [tick for tick in range(1, 40) if of_type(replica.on_tick(), Truncate)]
    assert waits == [2 * RETRY_TICKS]
    replica.on_truncated(8)
    assert admit(replica, 5).header.op == 8


def test_a_failed_cut_tells_the_queued_that_nothing_was_started() -> None:
    """Rule 6: 58; waiting would be for an unknown time. Those whose prepare was unwound still get 57."""
    replica = at_head_7()
    fail(replica, admit(replica, 1))
    replica.on_verdict(verdict_on(request_of(2)))
    assert denials(replica.on_truncate_failed(8, "full")) == [(2, 58)]
    assert denials(replica.on_verdict(verdict_on(request_of(3)))) == [(3, 58)]
    assert denials(replica.on_verdict(verdict_on(request_of(1)))) == [(1, 57)]


def test_the_second_look_under_way_is_void_after_a_failure() -> None:
    """Rule 5: the request keeps its place and is looked at again after the cut."""
    replica = at_head_7(depth=2)
    eighth, ninth = admit_many(replica, 2)
    replica.on_verdict(verdict_on(request_of(3)))
    [recheck] = rechecks(append_and_apply(replica, eighth))
    fail(replica, ninth)
    assert without_notes(replica.on_verdict(verdict_on(recheck.request, token=recheck.token))) == []
    [again] = rechecks(replica.on_truncated(9))
    assert again.request is recheck.request
    assert again.token != recheck.token


def test_a_late_completion_of_what_was_unwound_counts_for_nothing() -> None:
    """Rule 8."""
    replica = at_head_7()
    prepare = admit(replica, 1)
    fail(replica, prepare)
    assert of_type(replica.on_appended([position(prepare)]), Apply) == []
    assert replica.state.commit_max == 7


def test_a_cut_that_nobody_waits_for_changes_nothing() -> None:
    replica = at_head_7()
    fail(replica, admit(replica, 1))
    assert without_notes(replica.on_truncated(9)) == []
    assert without_notes(replica.on_truncate_failed(9, "io")) == []
    assert replica.state.truncation is not None


def test_a_disconnect_logout_that_fails_is_told_to_nobody() -> None:
    """Client-table 7."""
    replica = at_head_7()
    logout = request_of(1, number=2**64 - 1, operation=3, ticketed=False)
    [append] = of_type(replica.on_verdict(verdict_on(logout)), Append)
    assert denials(fail(replica, append.prepare)) == []
