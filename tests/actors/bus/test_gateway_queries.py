"""NonReplicated requests: who may ask what, before and after login (wire 9, 10.2, 11, 12)."""

import json
from dataclasses import replace

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.bus import queries, system
from levrier.actors.consensus.messages import StatusQuery
from levrier.actors.metadata.messages import Query
from levrier.wire.codes import LEVRIER_STATUS, OPERATION_OF_COMMAND, CommandCode, EvictionReason
from levrier.wire.responses.system import ClusterMetadata
from tests.actors.bus.rig import CLIENT, CLUSTER, EPOCH, SETTINGS, Rig, query

OLD_LOGINS = {CommandCode.LOGIN_USER, CommandCode.LOGIN_WITH_PERSONAL_ACCESS_TOKEN}


@pytest.fixture
def rig() -> Rig:
    logged_in = Rig()
    logged_in.log_in()
    return logged_in


def test_ping_is_answered_before_login() -> None:
    answer = Rig().ask(query(CommandCode.PING, session=0))
    assert (answer.status, answer.body, answer.header.op, answer.header.commit) == (0, b"", 0, 0)
    assert (answer.header.client, answer.header.request, answer.header.timestamp) == (CLIENT, 1, 99)


def test_ping_is_answered_after_login_with_the_session(rig: Rig) -> None:
    answer = rig.ask(query(CommandCode.PING))
    assert (answer.status, answer.header.op) == (0, EPOCH)


@pytest.mark.parametrize("code", [*sorted(set(CommandCode) - OLD_LOGINS - {CommandCode.PING}), LEVRIER_STATUS, 9999])
def test_everything_else_before_login_is_unauthenticated_and_keeps_the_connection(code: int) -> None:
    rig = Rig()
    assert rig.ask(query(code, session=0)).status == 40
    assert rig.ask(query(CommandCode.PING, session=0)).status == 0


@pytest.mark.parametrize("code", sorted(queries.FROM_METADATA))
def test_reads_of_replicated_state_go_to_metadata(rig: Rig, code: int) -> None:
    rig.send(query(code, b"body"))
    asked = rig.take(Query)
    assert (asked.code, asked.body, asked.client, asked.user_id) == (code, b"body", CLIENT, 0)
    rig.tell(bus.QueryAnswer(ticket=asked.ticket, status=0, body=b"found", commit=33))
    answer = rig.answer()
    assert (answer.status, answer.body) == (0, b"found")
    assert (answer.header.op, answer.header.commit) == (EPOCH, 33)


def test_a_refused_read_is_a_status(rig: Rig) -> None:
    rig.send(query(CommandCode.GET_STREAMS))
    rig.tell(bus.QueryAnswer(ticket=rig.take(Query).ticket, status=41, body=b"", commit=33))
    answer = rig.answer()
    assert (answer.status, answer.body, answer.header.commit) == (41, b"", 33)


def test_the_cluster_metadata_are_answered_by_the_gateway(rig: Rig) -> None:
    answer = rig.ask(query(CommandCode.GET_CLUSTER_METADATA))
    assert answer.status == 0
    assert ClusterMetadata.decode(answer.body) == CLUSTER


def test_a_body_where_none_belongs_is_an_invalid_command(rig: Rig) -> None:
    assert rig.ask(query(CommandCode.GET_CLUSTER_METADATA, b"x")).status == 3


@pytest.mark.parametrize("code", sorted(OLD_LOGINS))
def test_old_logins_are_evicted_after_login_too(rig: Rig, code: int) -> None:
    assert rig.ask(query(code)).reason is EvictionReason.MALFORMED_LOGIN


@pytest.mark.parametrize("code", sorted(OPERATION_OF_COMMAND.keys() - OLD_LOGINS))
def test_a_replicated_code_that_comes_as_a_query_is_unavailable(rig: Rig, code: int) -> None:
    assert rig.ask(query(code)).status == 5


@pytest.mark.parametrize(
    "code",
    sorted(
        set(CommandCode)
        - OPERATION_OF_COMMAND.keys()
        - OLD_LOGINS
        - queries.FROM_METADATA
        - queries.LOCAL.keys()
        - system.SURVEYED.keys()
        - {CommandCode.PING}
    ),
)
def test_what_is_not_served_yet_is_unavailable(rig: Rig, code: int) -> None:
    answer = rig.ask(query(code))
    assert (answer.status, answer.body) == (5, b"")


@pytest.mark.parametrize("code", [0, 2, 14, 9999, LEVRIER_STATUS + 1, 2**32 - 1])
def test_an_unknown_code_is_an_invalid_command_and_keeps_the_connection(rig: Rig, code: int) -> None:
    assert rig.ask(query(code)).status == 3
    assert rig.ask(query(CommandCode.PING)).status == 0


def test_a_query_under_another_client_id_is_evicted(rig: Rig) -> None:
    assert rig.ask(query(CommandCode.GET_STREAMS, client=CLIENT + 1)).reason is EvictionReason.NO_SESSION


def test_the_status_is_what_consensus_says_and_what_the_node_adds(rig: Rig) -> None:
    rig.send(query(LEVRIER_STATUS))
    ticket = rig.take(StatusQuery).ticket
    rig.tell(
        bus.NodeStatus(
            ticket=ticket,
            replica=0,
            replica_count=1,
            is_primary=True,
            state="normal",
            view=2,
            log_view=2,
            op=21,
            commit=20,
            applied=18,
            checkpoint=10,
            checkpoints=1,
            log_bytes=4096,
            pipeline=1,
            queued=0,
        )
    )
    status = json.loads(rig.answer().body)
    assert status["role"] == "primary"
    assert (status["op"], status["commit"], status["applied"], status["lag"]) == (21, 20, 18, 2)
    assert (status["tcp"], status["pid"]) == ("127.0.0.1:8090", 42)
    assert (status["connections"], status["sessions"]) == (1, 1)


def test_the_cluster_is_looked_at_when_it_is_asked_for() -> None:
    seen = [CLUSTER, replace(CLUSTER, name="renamed")]
    rig = Rig(settings=replace(SETTINGS, cluster=lambda: seen.pop(0)))
    rig.log_in()
    first = ClusterMetadata.decode(rig.ask(query(CommandCode.GET_CLUSTER_METADATA)).body)
    second = ClusterMetadata.decode(rig.ask(query(CommandCode.GET_CLUSTER_METADATA)).body)
    assert (first.name, second.name) == ("single-node", "renamed")
