"""Who gets in, who waits, and what the others are told (section 6; rules 4, 5, 6, 10)."""

from dataclasses import replace

import pytest

from levrier.actors.client_table.messages import ClientRequest
from levrier.actors.consensus.effects import Append, Send
from levrier.actors.consensus.messages import Outcome
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.state import RecoveredState, Status, TransferStage
from levrier.wire.codes import EvictionReason, Operation
from tests.actors.consensus.builders import (
    admit,
    admit_many,
    append_and_apply,
    config_of,
    denials,
    evictions,
    of_type,
    rechecks,
    replica_of,
    request_of,
    sealed_headers,
    verdict_on,
    without_notes,
)


def full_replica() -> Replica:
    """Four prepares in flight, which is all it takes."""
    replica = replica_of(config_of(depth=4))
    admit_many(replica, 4)
    return replica


def barred_replica() -> Replica:
    """A primary of three that recovered a suffix which is not committed yet."""
    return replica_of(
        config_of(replica_count=3),
        recovered=RecoveredState(commit=3, headers=sealed_headers(from_op=1, to_op=5), timestamp_floor=100),
    )


def test_a_new_request_is_dispatched() -> None:
    """C-080."""
    replica = replica_of()
    prepare = admit(replica, 1, number=9)
    assert (prepare.header.op, prepare.header.request, prepare.header.user_id) == (1, 9, 7)


def test_a_client_in_the_prepare_queue_gets_57() -> None:
    """Section 6.1 row 1, rule 3: a retransmit finds its client in the pipeline until the op is applied."""
    replica = replica_of()
    prepare = admit(replica, 1)
    retransmit = verdict_on(request_of(1, connection=50))
    assert denials(replica.on_verdict(retransmit)) == [(50, 57)]
    replica.on_appended([])
    append_and_apply(replica, prepare)
    assert of_type(replica.on_verdict(retransmit), Append)


def test_a_client_in_the_request_queue_gets_57() -> None:
    """Section 6.1 row 1."""
    replica = full_replica()
    assert without_notes(replica.on_verdict(verdict_on(request_of(9)))) == []
    assert denials(replica.on_verdict(verdict_on(request_of(9, connection=50)))) == [(50, 57)]


@pytest.mark.parametrize("outcome", [Outcome.NO_SESSION, Outcome.FENCED, Outcome.NEW, Outcome.ALREADY_APPLIED])
def test_an_in_flight_client_is_told_57_whatever_the_table_says(outcome: Outcome) -> None:
    """Section 6.1: row 1 comes first."""
    replica = replica_of()
    admit(replica, 1)
    assert denials(replica.on_verdict(verdict_on(request_of(1), outcome))) == [(1, 57)]


def test_nobody_registers_before_what_was_inherited_is_applied() -> None:
    """C-081, C-082: rule 4, the admission barrier stands at the recovered head; the answer is 57, never silence."""
    replica = barred_replica()
    assert not replica.state.is_past_barrier
    register = request_of(1, operation=int(Operation.REGISTER))
    assert denials(replica.on_verdict(verdict_on(register))) == [(1, 57)]


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.REPLAYED])
def test_nobody_is_evicted_or_refused_before_the_barrier(outcome: Outcome) -> None:
    """Rule 4: until what was inherited is applied, the table's word does not count."""
    effects = barred_replica().on_verdict(verdict_on(request_of(1), outcome))
    assert denials(effects) == [(1, 57)]
    assert evictions(effects) == []


def test_the_gate_needs_a_primary_that_is_not_transferring() -> None:
    """C-082."""
    state = replica_of().state
    assert state.is_acting_primary
    state.set_transfer_stage(TransferStage.AWAITING_TARGET)
    assert not state.is_acting_primary
    state.set_transfer_stage(TransferStage.IDLE)
    assert state.is_acting_primary
    assert not replica_of(config_of(replica_count=3, replica=1)).state.is_acting_primary


def test_a_backup_accepts_nothing_and_says_58() -> None:
    """Section 6.1: not primary. Rule 6: 58 means never started."""
    replica = replica_of(config_of(replica_count=3, replica=1))
    assert denials(replica.on_verdict(verdict_on(request_of(1)))) == [(1, 58)]


@pytest.mark.parametrize("status", [Status.NORMAL, Status.VIEW_CHANGE, Status.RECOVERING])
@pytest.mark.parametrize("outcome", [Outcome.NO_SESSION, Outcome.FENCED, Outcome.EPOCH_AHEAD])
def test_a_backup_that_has_not_applied_the_session_does_not_know_what_it_did(status: Status, outcome: Outcome) -> None:
    """Rule 6: the login was forwarded, and the request may have been executed under the session before. Not 58."""
    replica = replica_of(config_of(replica_count=3, replica=1))
    replica.state.status = status
    verdict = verdict_on(request_of(1), outcome)
    assert verdict.request.header.session > replica.state.commit_min
    assert denials(replica.on_verdict(verdict)) == [(1, 57)]


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [(Outcome.NO_SESSION, EvictionReason.NO_SESSION), (Outcome.FENCED, EvictionReason.SESSION_TOO_LOW)],
)
def test_a_backup_ends_a_session_that_came_and_went_in_what_it_has_applied(
    outcome: Outcome, reason: EvictionReason
) -> None:
    """Its end is committed, so it is told at once instead of a code that keeps the client waiting here."""
    replica = replica_of(
        config_of(replica_count=3, replica=1),
        recovered=RecoveredState(commit=5, headers=sealed_headers(from_op=1, to_op=5), timestamp_floor=100),
    )
    assert evictions(replica.on_verdict(verdict_on(request_of(1), outcome))) == [(1, reason)]


def test_a_backup_does_not_know_a_session_of_a_later_epoch_than_it_has() -> None:
    """D-30: a table that is behind itself is no reason to end a session, and none for 58."""
    replica = replica_of(
        config_of(replica_count=3, replica=1),
        recovered=RecoveredState(commit=5, headers=sealed_headers(from_op=1, to_op=5), timestamp_floor=100),
    )
    assert denials(replica.on_verdict(verdict_on(request_of(1), Outcome.EPOCH_AHEAD))) == [(1, 57)]


@pytest.mark.parametrize("status", [Status.VIEW_CHANGE, Status.RECOVERING])
def test_a_replica_that_is_not_normal_says_58(status: Status) -> None:
    """Section 8.11."""
    replica = replica_of()
    replica.state.status = status
    assert denials(replica.on_verdict(verdict_on(request_of(1)))) == [(1, 58)]


def test_another_users_registration_is_refused_for_good_only_by_a_caught_up_primary() -> None:
    """BR-27, C-228: a backup asks its primary, whoever is not ready says so."""
    register = verdict_on(request_of(1, operation=int(Operation.REGISTER)), Outcome.OWNED_BY_ANOTHER_USER)
    assert evictions(replica_of().on_verdict(register)) == [(1, EvictionReason.SESSION_ERROR)]
    forwarded = replica_of(config_of(replica_count=3, replica=1)).on_verdict(register)
    assert (evictions(forwarded), denials(forwarded), len(of_type(forwarded, Send))) == ([], [], 1)
    assert denials(barred_replica().on_verdict(register)) == [(1, 57)]


def refused_request(client: int = 1, *, connection: int = 1) -> ClientRequest:
    """One that admission refuses by what it saw of the replicated state."""
    return replace(request_of(client, connection=connection), refusal=52)


def test_what_admission_refuses_is_an_answer_to_a_new_request() -> None:
    replica = replica_of()
    effects = replica.on_verdict(verdict_on(refused_request()))
    assert (denials(effects), len(without_notes(effects))) == ([(1, 52)], 1)
    assert replica.state.sequencer == 0


def test_what_admission_refuses_while_its_first_try_is_under_way_is_not_known() -> None:
    """Rule 3: applied and not cached yet is still in the pipeline."""
    replica = replica_of()
    admit(replica, 1)
    assert denials(replica.on_verdict(verdict_on(refused_request(connection=50)))) == [(50, 57)]
    assert denials(barred_replica().on_verdict(verdict_on(refused_request()))) == [(1, 57)]


def test_what_admission_refuses_was_executed_before() -> None:
    """Rule 4: the table's word comes first."""
    verdict = verdict_on(refused_request(), Outcome.TOKEN_EXISTS)
    assert denials(replica_of().on_verdict(verdict)) == [(1, 51)]


def test_a_backup_refuses_nothing_for_what_it_may_not_have_applied() -> None:
    replica = replica_of(config_of(replica_count=3, replica=1))
    assert denials(replica.on_verdict(verdict_on(refused_request()))) == [(1, 58)]


@pytest.mark.parametrize(
    ("outcome", "code"),
    [(Outcome.TOKEN_EXISTS, 51), (Outcome.CHECKSUM_MISMATCH, 4), (Outcome.ALREADY_APPLIED, 59)],
)
def test_refusals_with_a_code(outcome: Outcome, code: int) -> None:
    """Section 6.1 rows 7 and 8, D-30, C-229: a token's secret cannot be shown again."""
    assert denials(replica_of().on_verdict(verdict_on(request_of(1), outcome))) == [(1, code)]


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome.NO_SESSION, EvictionReason.NO_SESSION),
        (Outcome.FENCED, EvictionReason.SESSION_TOO_LOW),
        (Outcome.EPOCH_AHEAD, EvictionReason.SESSION_TOO_LOW),
    ],
)
def test_refusals_that_end_the_session(outcome: Outcome, reason: EvictionReason) -> None:
    """Section 6.1 rows 4 to 6, D-30; C-073, C-074."""
    assert evictions(replica_of().on_verdict(verdict_on(request_of(1), outcome))) == [(1, reason)]


@pytest.mark.parametrize(("outcome", "code"), [(Outcome.TOKEN_EXISTS, 51), (Outcome.ALREADY_APPLIED, 59)])
def test_what_follows_from_a_committed_request_is_said_anywhere(outcome: Outcome, code: int) -> None:
    """Rule 4: what is cached is committed."""
    backup = replica_of(config_of(replica_count=3, replica=1))
    assert denials(backup.on_verdict(verdict_on(request_of(1), outcome))) == [(1, code)]


def test_a_full_pipeline_queues_and_a_full_queue_refuses() -> None:
    """Rule 10, C-040: 58, since nothing was started."""
    replica = full_replica()
    for client in range(11, 19):
        assert without_notes(replica.on_verdict(verdict_on(request_of(client)))) == []
    assert denials(replica.on_verdict(verdict_on(request_of(19)))) == [(19, 58)]
    assert len(replica.state.pipeline.requests) == 8


def test_an_applied_op_lets_the_oldest_queued_request_be_looked_at_again() -> None:
    """Rule 5, section 5.9: a second look, then the freed slot."""
    replica = replica_of(config_of(depth=1))
    first = admit(replica, 1)
    replica.on_verdict(verdict_on(request_of(2)))
    replica.on_verdict(verdict_on(request_of(3)))
    [recheck] = rechecks(append_and_apply(replica, first))
    assert recheck.request.header.client == 2
    [append] = of_type(replica.on_verdict(verdict_on(recheck.request, token=recheck.token, user_id=8)), Append)
    assert (append.prepare.header.client, append.prepare.header.op, append.prepare.header.user_id) == (2, 2, 8)


def test_a_fresh_request_does_not_overtake_a_queued_one() -> None:
    """Rule 5: the freed slot is reserved while the table is asked."""
    replica = replica_of(config_of(depth=1))
    first = admit(replica, 1)
    replica.on_verdict(verdict_on(request_of(2)))
    [recheck] = rechecks(append_and_apply(replica, first))
    assert without_notes(replica.on_verdict(verdict_on(request_of(3)))) == []
    assert of_type(replica.on_verdict(verdict_on(recheck.request, token=recheck.token)), Append)


@pytest.mark.parametrize("outcome", [Outcome.REPLAYED, Outcome.NO_SESSION, Outcome.ALREADY_APPLIED])
def test_a_queued_request_that_is_refused_frees_its_slot_for_the_next(outcome: Outcome) -> None:
    """Rule 5, section 5.9."""
    replica = replica_of(config_of(depth=1))
    first = admit(replica, 1)
    replica.on_verdict(verdict_on(request_of(2)))
    replica.on_verdict(verdict_on(request_of(3)))
    [recheck] = rechecks(append_and_apply(replica, first))
    effects = replica.on_verdict(verdict_on(recheck.request, outcome, token=recheck.token))
    assert [again.request.header.client for again in rechecks(effects)] == [3]
    assert len(denials(effects)) + len(evictions(effects)) == (0 if outcome is Outcome.REPLAYED else 1)
    replica.state.pipeline.verify()


def test_a_request_that_is_looked_at_again_is_in_flight() -> None:
    """Rules 3 and 5: between the two looks its retransmit gets 57."""
    replica = replica_of(config_of(depth=1))
    first = admit(replica, 1)
    replica.on_verdict(verdict_on(request_of(2)))
    append_and_apply(replica, first)
    assert denials(replica.on_verdict(verdict_on(request_of(2, connection=60)))) == [(60, 57)]


def test_the_answer_to_a_stale_token_changes_nothing() -> None:
    """Rule 5."""
    replica = replica_of(config_of(depth=1))
    admit(replica, 1)
    replica.on_verdict(verdict_on(request_of(2)))
    assert without_notes(replica.on_verdict(verdict_on(request_of(2), token=99))) == []
    assert len(replica.state.pipeline.requests) == 1


def test_a_register_waits_and_is_promoted_like_any_other() -> None:
    """C-226, C-227: no catch-up gate starves it under load; rule 4."""
    replica = replica_of(config_of(depth=1))
    first = admit(replica, 1)
    register = request_of(2, operation=int(Operation.REGISTER))
    assert without_notes(replica.on_verdict(verdict_on(register))) == []
    [recheck] = rechecks(append_and_apply(replica, first))
    [append] = of_type(replica.on_verdict(verdict_on(recheck.request, token=recheck.token)), Append)
    assert append.prepare.header.operation == Operation.REGISTER


def test_a_register_is_admitted_while_others_are_not_committed_yet() -> None:
    """Rule 4: the barrier replaces the gate on commit_min == commit_max."""
    replica = replica_of()
    admit(replica, 1)
    assert of_type(replica.on_verdict(verdict_on(request_of(2, operation=int(Operation.REGISTER)))), Append)


def test_a_disconnect_logout_is_admitted_and_its_refusal_is_told_to_nobody() -> None:
    """Client-table 7: the Bus tries it again by itself."""
    replica = replica_of(config_of(depth=1))
    logout = request_of(1, number=2**64 - 1, operation=int(Operation.LOGOUT), ticketed=False)
    [append] = of_type(replica.on_verdict(verdict_on(logout)), Append)
    assert append.prepare.header.request == 2**64 - 1
    assert without_notes(replica.on_verdict(verdict_on(logout))) == []
    assert len(replica.state.pipeline.prepares) == 1


def test_a_logout_commits_behind_other_clients_operations() -> None:
    """C-225: another client's op between quorum and apply does not hold it up."""
    replica = replica_of()
    first = admit(replica, 1)
    replica.on_appended([])
    logout = request_of(2, operation=int(Operation.LOGOUT))
    [append] = of_type(replica.on_verdict(verdict_on(logout)), Append)
    append_and_apply(replica, first, append.prepare)
    assert replica.state.commit_min == 2


def test_the_eviction_reason_of_what_cannot_be_projected() -> None:
    """C-235: a malformed body of a client's operation, and an operation that is none of a client's."""
    replica = replica_of()
    malformed = request_of(1, operation=int(Operation.CREATE_TOPIC), body=b"\xff")
    internal = request_of(2, operation=int(Operation.REMOVE_CONSUMER_GROUP_MEMBER))
    assert evictions(replica.on_verdict(verdict_on(malformed))) == [(1, EvictionReason.INVALID_REQUEST_BODY)]
    assert evictions(replica.on_verdict(verdict_on(internal))) == [(2, EvictionReason.INVALID_REQUEST_OPERATION)]
    assert replica.state.sequencer == 0


def test_a_queued_request_that_cannot_be_projected_frees_its_slot() -> None:
    """Section 5.9: on an error of the projection the request is discarded and the next one follows."""
    replica = replica_of(config_of(depth=1))
    first = admit(replica, 1)
    replica.on_verdict(verdict_on(request_of(2, operation=int(Operation.CREATE_TOPIC), body=b"\xff")))
    replica.on_verdict(verdict_on(request_of(3)))
    [recheck] = rechecks(append_and_apply(replica, first))
    effects = replica.on_verdict(verdict_on(recheck.request, token=recheck.token))
    assert evictions(effects) == [(2, EvictionReason.INVALID_REQUEST_BODY)]
    assert [again.request.header.client for again in rechecks(effects)] == [3]


def test_a_create_before_the_registration_is_committed_is_refused() -> None:
    """BR-28: with the log paused, the pipelined create finds its client in flight."""
    replica = replica_of()
    replica.on_verdict(verdict_on(request_of(1, operation=int(Operation.REGISTER))))
    create = request_of(1, number=2, operation=int(Operation.CREATE_STREAM))
    effects = replica.on_verdict(verdict_on(create, Outcome.NO_SESSION))
    assert denials(effects) == [(1, 57)]
    assert replica.state.sequencer == 1
