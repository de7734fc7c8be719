"""Durable, acknowledged, committed, applied (sections 5.6 to 5.10; rules 1 to 3, 9, 11)."""

import pytest

from levrier.actors.consensus.acks import acknowledge_durable, advance_commit, count_acknowledgement
from levrier.actors.consensus.effects import Append, Apply, Note
from levrier.actors.consensus.messages import LogPosition
from levrier.actors.consensus.state import RecoveredState, Status
from tests.actors.consensus.builders import (
    admit,
    admit_many,
    append_and_apply,
    config_of,
    of_type,
    position,
    replica_of,
    request_of,
    sealed_headers,
    verdict_on,
    without_notes,
)


def applied_ops(effects: list[object]) -> list[int]:
    return [effect.prepare.header.op for effect in effects if isinstance(effect, Apply)]


def test_one_append_on_one_replica_commits() -> None:
    """Section 15: the own durable append and the self-acknowledgement are the quorum, in one handler (rule 9)."""
    replica = replica_of()
    prepare = admit(replica, 1)
    [apply] = without_notes(replica.on_appended([position(prepare)]))
    assert isinstance(apply, Apply)
    assert apply.prepare is prepare
    assert apply.reply_to == request_of(1).ticket
    state = replica.state
    assert (state.commit_max, state.apply_sent, state.commit_min) == (1, 1, 0)


def test_nothing_is_applied_before_it_is_durable() -> None:
    """Rule 11, section 5.4: durable before acknowledged."""
    replica = replica_of()
    effects = replica.on_verdict(verdict_on(request_of(1)))
    assert of_type(effects, Append)
    assert not of_type(effects, Apply)
    assert replica.state.commit_max == 0


def test_a_batch_is_applied_in_op_order() -> None:
    """Rule 2: one commit stream."""
    replica = replica_of()
    prepares = admit_many(replica, 3)
    assert applied_ops(list(replica.on_appended([position(prepare) for prepare in prepares]))) == [1, 2, 3]


def test_an_op_stays_in_the_pipeline_until_it_is_applied() -> None:
    """Rule 3, C-050: 5 and 6 leave, 7 is the head."""
    replica = replica_of(recovered=RecoveredState(commit=4, headers=sealed_headers(from_op=1, to_op=4)))
    fifth, sixth, seventh = admit_many(replica, 3)
    replica.on_appended([position(fifth), position(sixth)])
    assert [entry.op for entry in replica.state.pipeline.prepares] == [5, 6, 7]
    replica.on_applied(5)
    replica.on_applied(6)
    assert [entry.prepare for entry in replica.state.pipeline.prepares] == [seventh]
    assert (replica.state.commit_min, replica.state.commit_max) == (6, 6)


@pytest.mark.parametrize("op", [0, 2, 3])
def test_applied_comes_back_in_order_and_only_for_what_was_sent(op: int) -> None:
    """Rule 2: commit_min moves by one, never beyond apply_sent."""
    replica = replica_of()
    replica.on_appended([position(prepare) for prepare in admit_many(replica, 2)])
    with pytest.raises(AssertionError):
        replica.on_applied(op)


def test_applied_for_what_was_never_sent_is_our_bug() -> None:
    """Rule 2."""
    replica = replica_of()
    admit(replica, 1)
    with pytest.raises(AssertionError):
        replica.on_applied(1)


def test_walks_go_on_from_what_was_sent() -> None:
    """Rule 2: nothing is sent to the state machine twice."""
    replica = replica_of()
    first, second = admit_many(replica, 2)
    assert applied_ops(list(replica.on_appended([position(first)]))) == [1]
    assert applied_ops(list(replica.on_appended([position(second)]))) == [2]
    assert applied_ops(list(replica.on_tick())) == []


def test_the_completion_of_another_prepare_at_that_op_counts_for_nothing() -> None:
    """Rule 8: judged by (op, checksum)."""
    replica = replica_of()
    prepare = admit(replica, 1)
    effects = replica.on_appended([LogPosition(op=1, checksum=prepare.header.checksum + 1, view=0)])
    assert without_notes(effects) == []
    assert of_type(effects, Note)
    assert replica.state.commit_max == 0


def test_a_second_completion_does_not_commit_twice() -> None:
    """Section 5.7: a duplicate acknowledgement never counts."""
    replica = replica_of()
    prepare = admit(replica, 1)
    replica.on_appended([position(prepare)])
    assert without_notes(replica.on_appended([position(prepare)])) == []


def test_quorum_on_a_later_op_commits_nothing_until_the_earlier_has_it() -> None:
    """C-224: acks 2 and then 1, all in one walk."""
    replica = replica_of(config_of(replica_count=3))
    prepares = admit_many(replica, 3)
    replica.on_appended([position(prepare) for prepare in prepares])
    state = replica.state
    assert state.commit_max == 0
    entries = list(state.pipeline.prepares)
    assert count_acknowledgement(state, entries[1], 1)
    advance_commit(state)
    assert state.commit_max == 0
    assert count_acknowledgement(state, entries[0], 2)
    advance_commit(state)
    assert state.commit_max == 2
    assert applied_ops(list(state.effects)) == [1, 2]


def test_the_quorum_is_reached_once() -> None:
    """Section 5.7: the flag is set on the transition only."""
    replica = replica_of(config_of(replica_count=3))
    admit(replica, 1)
    [entry] = replica.state.pipeline.prepares
    assert not count_acknowledgement(replica.state, entry, 1)
    assert not count_acknowledgement(replica.state, entry, 1)
    assert count_acknowledgement(replica.state, entry, 2)
    assert not count_acknowledgement(replica.state, entry, 0)


def test_an_entry_that_others_acknowledged_is_not_applied_before_it_is_durable_here() -> None:
    """Rule 11, invariant I10."""
    replica = replica_of(config_of(replica_count=3))
    prepare = admit(replica, 1)
    state = replica.state
    [entry] = state.pipeline.prepares
    count_acknowledgement(state, entry, 1)
    count_acknowledgement(state, entry, 2)
    advance_commit(state)
    assert (state.commit_max, state.apply_sent) == (1, 0)
    state.effects.clear()
    assert applied_ops(list(replica.on_appended([position(prepare)]))) == [1]


def test_a_replica_that_does_not_lead_counts_nothing() -> None:
    """Section 5.6: status Normal only."""
    replica = replica_of()
    prepare = admit(replica, 1)
    replica.state.status = Status.VIEW_CHANGE
    assert without_notes(replica.on_appended([position(prepare)])) == []
    assert replica.state.mirror.is_durable(1)


def test_the_tick_acknowledges_what_a_handler_left_behind() -> None:
    """Section 5.10, 1: only what is durable."""
    replica = replica_of()
    first, _second = admit_many(replica, 2)
    replica.state.status = Status.RECOVERING
    replica.on_appended([position(first)])
    replica.state.status = Status.NORMAL
    assert applied_ops(list(replica.on_tick())) == [1]
    assert applied_ops(list(replica.on_tick())) == []


def test_the_tick_promotes_what_a_handler_left_behind() -> None:
    """Section 5.10, 2, C-227: a free slot and a waiting request."""
    replica = replica_of(config_of(depth=1))
    prepare = admit(replica, 1)
    replica.on_verdict(verdict_on(request_of(2)))
    append_and_apply(replica, prepare)
    replica.state.pipeline.void_tokens()
    assert len(of_type(replica.on_tick(), Append)) == 0
    assert replica.state.pipeline.reserved == 1


def test_acknowledging_with_nothing_in_the_pipeline_does_nothing() -> None:
    """BR-07: nothing missing is not impossible."""
    state = replica_of().state
    acknowledge_durable(state)
    assert state.effects == []
