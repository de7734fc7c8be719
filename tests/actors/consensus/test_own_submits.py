"""Operations that a part of the node wants in the log, and what the plugins are told of the role (D-10, D-23, D-28)."""

import pytest

from levrier.actors.bus.messages import Ticket
from levrier.actors.consensus.effects import Append, Apply, Effect, TellPlugins
from levrier.actors.consensus.messages import LogPosition, SubmitOwn
from levrier.actors.consensus.state import RecoveredState, Status
from levrier.actors.plugins.messages import PLUGIN_CONNECTION, RoleChanged
from levrier.wire.codes import EvictionReason, Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.replicated import CreateTopicWithAssignments
from levrier.wire.requests.streams import CreateStream
from levrier.wire.requests.topics import CreateTopic
from tests.actors.consensus.builders import (
    admit,
    admit_many,
    append_and_apply,
    config_of,
    denials,
    evictions,
    of_type,
    replica_of,
    sealed_headers,
)

TARGET = (2**64 - 1) << 64 | 7


def own(
    number: int = 1, *, client: int = 0, operation: Operation = Operation.CREATE_STREAM, body: bytes = b""
) -> SubmitOwn:
    """What a plugin wants."""
    return SubmitOwn(
        ticket=Ticket(connection=PLUGIN_CONNECTION, number=number),
        operation=int(operation),
        client=client,
        request=2**64 - 1,
        body=body or CreateStream(name="s").encode(),
    )


def roles(effects: list[Effect]) -> list[RoleChanged]:
    """What the plugins are told."""
    return [effect.role for effect in of_type(effects, TellPlugins)]


def test_a_leader_prepares_it_as_root_and_whoever_asked_gets_the_reply() -> None:
    replica = replica_of()
    [append] = of_type(replica.on_submit_own(own()), Append)
    header = append.prepare.header
    assert (header.client, header.user_id, header.request) == (0, 0, 2**64 - 1)
    append_and_apply(replica, append.prepare)
    assert replica.state.commit_min == 1


def test_the_apply_names_the_ticket() -> None:
    replica = replica_of()
    [append] = of_type(replica.on_submit_own(own(5)), Append)
    header = append.prepare.header
    position = LogPosition(op=header.op, checksum=header.checksum, view=replica.state.view)
    applied = of_type(replica.on_appended([position]), Apply)
    assert [apply.reply_to for apply in applied] == [Ticket(connection=PLUGIN_CONNECTION, number=5)]


@pytest.mark.parametrize("status", [Status.VIEW_CHANGE, Status.RECOVERING])
def test_whoever_does_not_lead_starts_nothing(status: Status) -> None:
    replica = replica_of()
    replica.state.status = status
    assert denials(replica.on_submit_own(own())) == [(PLUGIN_CONNECTION, 58)]
    backup = replica_of(config_of(replica_count=3, replica=1))
    assert denials(backup.on_submit_own(own())) == [(PLUGIN_CONNECTION, 58)]


def test_nothing_is_started_before_what_was_inherited_is_applied() -> None:
    """D-28: a primary that is not past its barrier is no leader, to plugins either."""
    replica = replica_of(
        config_of(replica_count=3),
        recovered=RecoveredState(commit=3, headers=sealed_headers(from_op=1, to_op=5), timestamp_floor=100),
    )
    assert denials(replica.on_submit_own(own())) == [(PLUGIN_CONNECTION, 58)]
    assert [role.is_leader for role in roles(replica.tell_role())] == [False]


def test_it_is_never_queued() -> None:
    """Maintenance 1: a full pipeline bounces it, whoever wants it tries again."""
    replica = replica_of(config_of(depth=4))
    admit_many(replica, 4)
    assert denials(replica.on_submit_own(own())) == [(PLUGIN_CONNECTION, 58)]
    assert not replica.state.pipeline.requests


def test_of_one_target_one_is_in_flight_and_client_0_knows_no_such_limit() -> None:
    """Maintenance 3: a wide rebalance pipelines, its targets are apart; the cleaner's client is 0."""
    replica = replica_of()
    assert of_type(replica.on_submit_own(own(1, client=TARGET)), Append)
    assert denials(replica.on_submit_own(own(2, client=TARGET))) == [(PLUGIN_CONNECTION, 58)]
    assert of_type(replica.on_submit_own(own(3, client=TARGET + 1)), Append)
    for number in (4, 5):
        assert of_type(replica.on_submit_own(own(number)), Append)


def test_a_creation_gets_its_assignments_as_a_clients_does() -> None:
    replica = replica_of()
    request = CreateTopic(stream=Identifier(0), partitions_count=2, name="t")
    [append] = of_type(replica.on_submit_own(own(operation=Operation.CREATE_TOPIC, body=request.encode())), Append)
    assert append.prepare.header.operation == Operation.CREATE_TOPIC_WITH_ASSIGNMENTS
    assert len(CreateTopicWithAssignments.decode(append.prepare.body).assignments) == 2


def test_a_body_that_cannot_be_projected_is_refused_and_nothing_is_pushed() -> None:
    replica = replica_of()
    effects = replica.on_submit_own(own(operation=Operation.CREATE_TOPIC, body=b"\xff"))
    assert evictions(effects) == [(PLUGIN_CONNECTION, EvictionReason.INVALID_REQUEST_BODY)]
    assert of_type(effects, Append) == []
    assert replica.state.sequencer == 0


def test_the_bootstrap_of_a_blank_group_goes_first() -> None:
    """D-01: nothing is committed before root exists."""
    replica = replica_of(config_of(bootstrap=b"\x04iggy\x01\x00h"))
    operations = [append.prepare.header.operation for append in of_type(replica.on_submit_own(own()), Append)]
    assert operations == [Operation.BOOTSTRAP_ROOT, Operation.CREATE_STREAM]


def test_a_node_of_its_own_leads_and_is_settled_and_says_so_once() -> None:
    replica = replica_of()
    assert roles(replica.tell_role()) == [RoleChanged(is_leader=True, is_settled=True, view=0)]
    admit(replica, 1)
    assert roles(replica.tell_role()) == []


def test_a_backup_of_a_new_view_is_settled_once_it_has_applied_what_the_view_was_announced_with() -> None:
    """Maintenance 2: a state that is behind may not decide what is deleted."""
    replica = replica_of(config_of(replica_count=3, replica=1))
    assert roles(replica.tell_role()) == [RoleChanged(is_leader=False, is_settled=True, view=0)]
    replica.state.view_commit = 3
    assert roles(replica.tell_role()) == [RoleChanged(is_leader=False, is_settled=False, view=0)]
    replica.state.view_commit = 0
    replica.state.voter = False
    assert roles(replica.tell_role()) == []


def test_a_restarted_member_is_not_settled_until_it_is_back_in_a_view() -> None:
    replica = replica_of(
        config_of(replica_count=3, replica=1),
        recovered=RecoveredState(commit=3, headers=sealed_headers(from_op=1, to_op=5), timestamp_floor=100),
    )
    assert roles(replica.tell_role()) == [RoleChanged(is_leader=False, is_settled=False, view=0)]
