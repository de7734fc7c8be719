"""From request to prepare: stamps, chain, acting user, replicated forms (section 5.2)."""

import pytest

from levrier.actors.consensus.effects import Append
from levrier.actors.consensus.messages import LogPosition, Outcome
from levrier.actors.consensus.projection import chain_target, observe_timestamp, stamp
from levrier.actors.consensus.state import RecoveredState
from levrier.wire.codes import Operation
from levrier.wire.headers import U64_MAX
from levrier.wire.identifiers import Identifier
from levrier.wire.options import decode_block
from levrier.wire.prepare import METADATA_GROUP, verify_integrity
from levrier.wire.requests.partitions import CreatePartitions
from levrier.wire.requests.replicated import CreatePartitionsWithAssignments, CreateTopicWithAssignments
from levrier.wire.requests.topics import CreateTopic
from tests.actors.consensus.builders import (
    NOW,
    SettableClock,
    admit,
    append_and_apply,
    config_of,
    denials,
    evictions,
    of_type,
    replica_of,
    request_of,
    sealed_headers,
    verdict_on,
)

STREAM = Identifier(1)


def create_topic(partitions: int = 1) -> bytes:
    return CreateTopic(stream=STREAM, partitions_count=partitions, name="topic").encode()


def create_partitions(count: int) -> bytes:
    return CreatePartitions(stream=STREAM, topic=Identifier(2), partitions_count=count).encode()


def test_every_field_of_the_prepare() -> None:
    """Section 5.2: what the primary sets, and what it copies from the request."""
    replica = replica_of(clock=SettableClock(5000))
    request = request_of(3, number=4, body=b"abc")
    [append] = of_type(replica.on_verdict(verdict_on(request, user_id=12)), Append)
    header = append.prepare.header
    assert (header.op, header.commit, header.view, header.replica, header.cluster) == (1, 0, 0, 0, 77)
    assert (header.client, header.request, header.request_checksum, header.operation) == (3, 4, 904, 129)
    assert (header.timestamp, header.user_id, header.group, header.parent) == (5000, 12, METADATA_GROUP, 0)
    assert append.prepare.body == b"abc"
    assert verify_integrity(append.prepare.frame) == header
    assert append.view == 0


def test_prepares_chain_and_name_the_commit_point_of_the_moment() -> None:
    """Sections 5.2, 5.3; rule 9: two projections never share an op or a parent."""
    replica = replica_of()
    first = admit(replica, 1)
    second = admit(replica, 2)
    append_and_apply(replica, first, second)
    third = admit(replica, 3)
    assert [p.header.op for p in (first, second, third)] == [1, 2, 3]
    assert second.header.parent == first.header.checksum
    assert third.header.parent == second.header.checksum
    assert [p.header.commit for p in (first, second, third)] == [0, 0, 2]


def test_parking_a_request_does_not_consume_a_stamp() -> None:
    """C-060: the arrival is the clock, the next stamp is the previous one plus 1."""
    clock = SettableClock(4242)
    replica = replica_of(config_of(depth=1), clock=clock)
    first = admit(replica, 1)
    replica.on_verdict(verdict_on(request_of(2)))
    assert replica.state.pipeline.requests[0].arrived == 4242
    assert first.header.timestamp == 4242
    assert stamp(replica.state) == 4243


def test_stamps_rise_above_what_was_observed() -> None:
    """C-061."""
    state = replica_of(clock=SettableClock(1000)).state
    observe_timestamp(state, 50_000)
    first, second = stamp(state), stamp(state)
    assert first > 50_000
    assert second > first
    observe_timestamp(state, 10)
    assert stamp(state) > second


def test_the_clock_counts_when_it_is_ahead() -> None:
    """C-062."""
    state = replica_of(clock=SettableClock(100_000)).state
    observe_timestamp(state, 50_000)
    assert stamp(state) == 100_000


def test_the_stamp_saturates() -> None:
    """Section 5.2: saturating add."""
    state = replica_of().state
    observe_timestamp(state, U64_MAX)
    assert stamp(state) == U64_MAX


def test_a_committed_prepare_has_no_chain_target() -> None:
    """C-069: refused, naming both numbers."""
    headers = sealed_headers(from_op=1, to_op=2)
    state = replica_of(recovered=RecoveredState(commit=2, headers=headers)).state
    with pytest.raises(AssertionError, match="op 2 is committed: 2 is applied"):
        chain_target(state, headers[1])


def test_the_chain_ends_before_the_primary_of_the_headers_view() -> None:
    """Section 5.5."""
    [header] = sealed_headers(from_op=1, to_op=1)
    targets = [chain_target(replica_of(config_of(replica_count=3, replica=r)).state, header) for r in range(3)]
    assert targets == [1, 2, None]
    assert chain_target(replica_of().state, header) is None


def test_the_restored_head_lifts_the_floor_of_the_stamps_and_is_the_parent() -> None:
    """Section 12 step 6, D-14."""
    headers = sealed_headers(from_op=1, to_op=3)
    recovered = RecoveredState(commit=3, headers=headers, timestamp_floor=NOW + 5)
    prepare = admit(replica_of(recovered=recovered), 1)
    assert (prepare.header.op, prepare.header.parent) == (4, headers[-1].checksum)
    assert prepare.header.timestamp == NOW + 6


def test_a_forged_user_id_never_gets_into_the_log() -> None:
    """C-230, C-231, C-233: the acting user is the table's, in the rewritten form as well."""
    replica = replica_of()
    plain = request_of(1, forged_user=1)
    topic = request_of(2, operation=int(Operation.CREATE_TOPIC), body=create_topic(), forged_user=1)
    prepares = [
        of_type(replica.on_verdict(verdict_on(request, user_id=42)), Append)[0].prepare for request in (plain, topic)
    ]
    assert [prepare.header.user_id for prepare in prepares] == [42, 42]


def test_an_unknown_session_gets_nothing_into_the_log() -> None:
    """C-232: the table says so, the session ends."""
    replica = replica_of()
    assert len(evictions(replica.on_verdict(verdict_on(request_of(1), Outcome.NO_SESSION)))) == 1
    assert replica.state.sequencer == 0


def test_a_topic_without_options_is_enriched() -> None:
    """C-234, D-33: empty explicit block, every default in the derived one, one partition, the admitting view."""
    replica = replica_of()
    request = request_of(1, operation=int(Operation.CREATE_TOPIC), body=create_topic())
    [append] = of_type(replica.on_verdict(verdict_on(request)), Append)
    assert append.prepare.header.operation == Operation.CREATE_TOPIC_WITH_ASSIGNMENTS
    assert append.prepare.header.size == 256 + len(append.prepare.body)
    form = CreateTopicWithAssignments.decode(append.prepare.body)
    assert form.request == CreateTopic(stream=STREAM, partitions_count=1, name="topic", options=b"")
    assert "message_expiry" in [entry.key for entry in decode_block(form.derived_options)]
    assert (form.assignments, form.created_view) == (((0, 1),), 0)


def test_consensus_groups_are_handed_out_once() -> None:
    """D-07: above everything recovered, in one row over topics and partitions."""
    replica = replica_of(recovered=RecoveredState(consensus_group_high=40))
    topic = request_of(1, operation=int(Operation.CREATE_TOPIC), body=create_topic(2))
    more = request_of(2, operation=int(Operation.CREATE_PARTITIONS), body=create_partitions(2))
    [first] = of_type(replica.on_verdict(verdict_on(topic)), Append)
    [second] = of_type(replica.on_verdict(verdict_on(more)), Append)
    assert CreateTopicWithAssignments.decode(first.prepare.body).assignments == ((0, 41), (1, 42))
    assert second.prepare.header.operation == Operation.CREATE_PARTITIONS_WITH_ASSIGNMENTS
    assert CreatePartitionsWithAssignments.decode(second.prepare.body).assignments == ((0, 43), (1, 44))
    assert replica.state.consensus_group_high == 44


def test_consensus_groups_are_not_given_back_with_a_failed_append() -> None:
    """D-07: the allocator never goes back."""
    replica = replica_of()
    topic = request_of(1, operation=int(Operation.CREATE_TOPIC), body=create_topic(3))
    [append] = of_type(replica.on_verdict(verdict_on(topic)), Append)
    header = append.prepare.header
    effects = replica.on_append_failed([LogPosition(op=1, checksum=header.checksum, view=0)], "full")
    assert denials(effects) == [(1, 57)]
    assert replica.state.consensus_group_high == 3


def test_a_refused_creation_allocates_nothing() -> None:
    """Section 5.2 step 4: no partitions, or too many."""
    replica = replica_of()
    for client, count in ((1, 0), (2, 1001)):
        request = request_of(client, operation=int(Operation.CREATE_PARTITIONS), body=create_partitions(count))
        assert len(evictions(replica.on_verdict(verdict_on(request)))) == 1
    assert replica.state.consensus_group_high == 0
